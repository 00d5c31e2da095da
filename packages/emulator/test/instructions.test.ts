/** Instructions one by one: that each of the parser's table loads, and what those that few kernels use give (PTX ISA 9.0). */
import { makeInstruction, printInstruction, rows } from "@tilewright/ptx";
import { expect, test } from "vitest";
import { declarations, generateInstruction, random } from "../../ptx/test/support/index.ts";
import { createEmulator } from "../src/index.ts";
import { clean, kernel, machine } from "./support.ts";

test("every instruction of the parser's table loads, but for what is named here", () => {
  const bodies = rows.flatMap((row, k) => {
    const target =
      row.only?.find((name) => name !== "sm_100a" && !row.only?.includes("sm_100a")) ?? "sm_100a";
    const generated = [0, 1, 2, 3, 4].map((seed) => generateInstruction(row, random(1000 * k + seed)));
    return generated.flatMap((one) =>
      one === null ? [] : [{ target, text: printInstruction(makeInstruction(one.mnemonic, one.operands)) }],
    );
  });
  const refused = new Set<string>();
  for (const target of new Set(bodies.map((body) => body.target))) {
    const texts = bodies.filter((body) => body.target === target).map((body) => body.text);
    const entries = texts.map(
      (text, k) =>
        `.visible .entry k${k}() {\n${declarations}\nTARGETS: .branchtargets LABEL;\nPROTO: .callprototype () _ ();\n${text}\nLABEL: ret;\n}`,
    );
    const module = `.version 9.0\n.target ${target}\n.address_size 64\n.shared .align 1024 .b8 smem[4096];\n.func callee() { ret; }\n${entries.join("\n")}`;
    const loaded = createEmulator({ memoryLimit: 2 ** 20 }).load(module);
    if (!loaded.ok) throw new Error(loaded.error.map((d) => d.message).join("\n"));
    for (const [k, { lacks }] of loaded.value.kernels.entries())
      if (lacks.length > 0)
        refused.add((texts[k] ?? "").replace(/^(\w+)(\.rs|\.weak)?(\.param)?.*$/s, "$1$2$3"));
  }
  // Stochastic rounding, memory on the stack, and stores to parameters, which a kernel may not change.
  expect([...refused].filter((name) => !/^st(\.weak)?(\.param)?$/.test(name)).sort()).toEqual([
    "alloca",
    "cvt.rs",
    "stackrestore",
    "stacksave",
  ]);
});

/** Bits of an f32. */
const f = (x: number): number => new Uint32Array(new Float32Array([x]).buffer)[0] ?? 0;

/** Name, target, body that leaves its results in %r0, %r1, …, and these. */
const cases: readonly (readonly [name: string, target: string, body: string, results: readonly number[]])[] =
  [
    [
      "f32 with operands of 16 bits",
      "sm_100",
      `mov.b16 %h1, 0x3c00; mov.b16 %h2, 0x4000; mov.b16 %h3, 0x3f80;
    add.f32.f16 %f0, %h1, 0f40400000; mov.b32 %r0, %f0;
    sub.rz.f32.f16 %f0, %h1, 0f33000000; mov.b32 %r1, %f0;
    fma.rn.sat.f32.f16 %f0, %h1, %h2, 0fbf000000; mov.b32 %r2, %f0;
    fma.rn.f32.bf16 %f0, %h3, %h3, 0f3f800000; mov.b32 %r3, %f0;`,
      [f(4), 0x3f7fffff, f(1), f(2)],
    ],
    [
      "fma.oob",
      "sm_90",
      `mov.b32 %r8, 0x7ff73c00; mov.b32 %r9, 0x3c003c00; fma.rn.oob.f16x2 %r0, %r8, %r9, %r9;
    mov.b32 %r8, 0x3f807ff7; mov.b32 %r9, 0xbf803f80; mov.b32 %r10, 0; fma.rn.oob.relu.bf16x2 %r1, %r8, %r9, %r10;`,
      [0x4000, 0],
    ],
    [
      "min and max by magnitude",
      "sm_100",
      `mov.b32 %r8, 0xc0003c00; mov.b32 %r9, 0x3c00c000; min.xorsign.abs.f16x2 %r0, %r8, %r9;
    max.abs.f32 %f0, 0f3f800000, 0fc0000000, 0f3f000000; mov.b32 %r1, %f0;
    min.xorsign.abs.f32 %f0, 0fc0000000, 0f3f800000; mov.b32 %r2, %f0;`,
      [0xbc00bc00, f(2), f(-1)],
    ],
    [
      "comparisons of halves, one predicate and two, with subnormals flushed and not",
      "sm_90",
      `mov.b32 %r8, 0x3c004000; mov.b32 %r9, 0x40003c00; setp.gt.f16x2 %p1, %r8, %r9; selp.b32 %r0, 1, 0, %p1;
    setp.gt.f16x2 %p1|%p2, %r8, %r9; selp.b32 %r1, 1, 0, %p2;
    mov.b32 %r8, 0x00013c00; mov.b32 %r9, 0; set.gt.ftz.f16x2.f16x2 %r2, %r8, %r9; set.gt.f16x2.f16x2 %r3, %r8, %r9;`,
      [1, 0, 0x3c00, 0x3c003c00],
    ],
    [
      "128 bits: numbers, exch and cas that fits and does not",
      "sm_90",
      `.shared .align 16 .b8 sm[32]; mov.b64 %d1, 1; mov.b64 %d2, 2; mov.b128 %q0, {%d1, %d2}; st.shared.b128 [sm], %q0;
    atom.shared.exch.b128 %q1, [sm], %q0; mov.b64 %d3, 9; mov.b128 %q3, {%d3, %d3};
    atom.shared.cas.b128 %q2, [sm], %q0, %q3; atom.shared.cas.b128 %q2, [sm], %q0, %q1;
    mov.b128 {%d4, %d5}, %q2; cvt.u32.u64 %r0, %d4; cvt.u32.u64 %r1, %d5;
    st.shared.b128 [sm+16], 3; ld.shared.v2.u32 {%r2, %r3}, [sm+16];`,
      [9, 9, 3, 0],
    ],
    [
      "cvt.pack",
      "sm_90",
      `cvt.pack.sat.u4.s32.b32 %r0, 20, 3, 0x12; cvt.pack.sat.s2.s32.b32 %r1, -9, 1, 0;
    cvt.pack.sat.s8.s32.b32 %r2, 300, -300, 0x1234; mad24.hi.sat.s32 %r3, 0x7fffff, 0x7fffff, 0x7fffffff;`,
      [0x12f3, 0b1001, 0x12347f80, 0x7fffffff],
    ],
    [
      "packed video instructions",
      "sm_90",
      `mov.b32 %r8, 0x01ff0580; mov.b32 %r9, 0x02010203; mov.b32 %r10, 0; vabsdiff4.u32.u32.u32 %r0, %r8, %r9, %r10;
    mov.b32 %r11, 7; vabsdiff4.u32.u32.u32.add %r1, %r8, %r9, %r11; vset4.u32.u32.ge %r2, %r8, %r9, %r10;
    mov.b32 %r8, 0x7fff8000; mov.b32 %r9, 0x0001ffff; vadd2.s32.s32.s32.sat %r3, %r8, %r9, %r10;
    vavrg2.s32.s32.s32 %r4, %r8, %r9, %r10;`,
      [0x01fe037d, 1 + 254 + 3 + 125 + 7, 0x00010101, 0x7fff8000, 0x4000bfff],
    ],
  ];

test.each(cases)("%s", (_, target, body, results) => {
  const stores = results.map((_, k) => `st.global.b32 [%d0+${4 * k}], %r${k};`).join("\n");
  const device = machine(
    kernel(`.reg .b128 %q<4>;\nld.param.u64 %d0, [out];\n${body}\n${stores}`, { target }).replace(
      "8.6",
      "9.0",
    ),
  );
  const out = device.blank(4 * results.length);
  clean(device.launch("k", 1, 1, [out]));
  expect([...device.u32(out, results.length)]).toEqual(results);
});
