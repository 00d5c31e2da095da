import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { InternalError } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import {
  addr,
  checkModule,
  f32imm,
  imm,
  moduleBuilder,
  not,
  param,
  parseModule,
  printModule,
  special,
  sym,
  vec,
} from "../src/index.ts";
import { neutral } from "./support/corpus.ts";
import { assemble, hasPtxas } from "./support/ptxas.ts";

/** A kernel that uses every part of the builder: y[i] = 1.5 * x[i] + y[i] with a counted loop. */
function sample() {
  const m = moduleBuilder({ version: [6, 3], target: "sm_70" });
  m.comment("sample");
  const smem = m.externShared("smem", { align: 1024 });
  const k = m.entry("axpy", {
    params: [
      { name: "p_x", type: "u64", pointer: { space: "global", align: 16 } },
      { name: "p_y", type: "u64" },
      { name: "p_n", type: "u32" },
    ],
    maxntid: [128, 1, 1],
    minnctapersm: 2,
  });
  const x = k.reg("u64");
  const y = k.reg("u64");
  const n = k.reg("u32", "n");
  const t = k.reg("u32");
  const s = k.reg("u32");
  const p = k.reg("pred");
  const [a, b, c, d] = k.regs("f32", 4, "acc") as [never, never, never, never];
  k.emit("ld.param.u64", x, param("p_x"));
  k.emit("ld.param.u64", y, param("p_y"));
  k.emit("ld.param.u32", n, param("p_n"));
  k.emit("mov.u32", t, special("%tid.x"));
  k.emit("mov.u32", s, smem);
  k.emit("cvta.to.global.u64", x, x);
  const loop = k.label("loop");
  const end = k.label("end");
  k.place(loop);
  k.comment("mainloop");
  k.emit("setp.ge.u32", p, t, n);
  k.emitIf(p, "bra", end);
  k.emit("ld.global.v4.f32", vec(a, b, c, d), addr(x, 16));
  k.emit("fma.rn.f32", a, b, f32imm(1.5), d);
  k.emit("st.shared.f32", addr(s, 4), a);
  k.emit("add.u32", t, t, imm(1));
  k.emitIf(not(p), "bra", loop);
  k.place(end);
  k.emit("ret");
  return m.build();
}

describe("the builder", () => {
  test("writes compact, deterministic text", () => {
    expect(printModule(sample())).toBe(`.version 6.3
.target sm_70
.address_size 64

// sample
.extern .shared .align 1024 .b8 smem[];
.visible .entry axpy(
  .param .u64 .ptr .global .align 16 p_x,
  .param .u64 p_y,
  .param .u32 p_n
)
.maxntid 128, 1, 1
.minnctapersm 2
{
  .reg .u64 %ud<2>;
  .reg .u32 %n<1>;
  .reg .u32 %u<2>;
  .reg .pred %p<1>;
  .reg .f32 %acc<4>;
  ld.param.u64 %ud0, [p_x];
  ld.param.u64 %ud1, [p_y];
  ld.param.u32 %n0, [p_n];
  mov.u32 %u0, %tid.x;
  mov.u32 %u1, smem;
  cvta.to.global.u64 %ud0, %ud0;
loop:
  // mainloop
  setp.ge.u32 %p0, %u0, %n0;
  @%p0 bra end;
  ld.global.v4.f32 {%acc0, %acc1, %acc2, %acc3}, [%ud0+16];
  fma.rn.f32 %acc0, %acc1, 0f3FC00000, %acc3;
  st.shared.f32 [%u1+4], %acc0;
  add.u32 %u0, %u0, 1;
  @!%p0 bra loop;
end:
  ret;
}

`);
    expect(printModule(sample())).toBe(printModule(sample()));
  });

  test("builds what the parser reads from the text", () => {
    const module = sample();
    expect(checkModule(module)).toEqual([]);
    const result = parseModule(printModule(module));
    if (!result.ok) throw new Error(JSON.stringify(result.error));
    const withoutComments = (items: readonly { readonly kind: string }[]) =>
      items.filter((i) => i.kind !== "comment");
    const built = neutral(module);
    const [variable, entry] = withoutComments(built.items);
    const fn = entry as Extract<(typeof built.items)[number], { kind: "function" }>;
    expect(neutral(result.value).items).toEqual([variable, { ...fn, body: withoutComments(fn.body ?? []) }]);
  });

  test.skipIf(!hasPtxas)("builds what ptxas assembles", async () => {
    const { cubin, log } = await assemble(printModule(sample()));
    expect(log).not.toMatch(/error|fatal/);
    expect(cubin).not.toBeNull();
  });

  test("uses clusters and tensor maps as Hopper's kernels declare them", () => {
    const m = moduleBuilder({ version: [8, 0], target: "sm_90a" });
    const k = m.entry("k", {
      params: [{ name: "map", type: "b8", align: 64, length: 128 }],
      reqntid: [384],
      cluster: [2, 1, 1],
    });
    k.shared("bar", { type: "b64", align: 8, length: 4 });
    k.emit("ret");
    expect(printModule(m.build())).toContain(`.visible .entry k(
  .param .align 64 .b8 map[128]
)
.reqntid 384
.explicitcluster
.reqnctapercluster 2, 1, 1
{
  .shared .align 8 .b64 bar[4];
  ret;
}`);
    expect(checkModule(m.build())).toEqual([]);
  });
});

describe("a backend's bug is thrown", () => {
  const entry = () => moduleBuilder({ version: [8, 0], target: "sm_90a" }).entry("k");
  // Mnemonics known only at run time are checked at run time only.
  const dynamic = (text: string): string => text;

  test.each([
    [
      "an unknown instruction",
      () => entry().emit(dynamic("frobnicate.u32")),
      /unknown instruction frobnicate.u32/,
    ],
    [
      "an unknown modifier",
      () => entry().emit(dynamic("add.u33")),
      /add has no modifier .u33 \(did you mean .u32\?\)/,
    ],
    [
      "modifiers out of order",
      () => entry().emit(dynamic("fma.ftz.rn.f32")),
      /out of order \(write fma.rn.ftz.f32\)/,
    ],
    [
      "a wrong operand",
      () => entry().emit(dynamic("bar.sync"), f32imm(1)),
      /operand 1 is 0f3F800000, but a .u32/,
    ],
    ["a fraction as an integer", () => imm(1.5), /not an integer: 1.5/],
    ["an unknown special register", () => special("%tidx"), /unknown special register %tidx/],
    [
      "a prefix of two types",
      () => [entry()].map((k) => [k.reg("f32", "a"), k.reg("b32", "a")]),
      /prefix a is .f32, not .b32/,
    ],
    [
      "a prefix that ends in a digit",
      () => entry().reg("f32", "a1"),
      /must be a name that does not end in a digit/,
    ],
    [
      "a label placed twice",
      () => [entry()].map((k) => [k.label("l")].map((l) => [k.place(l), k.place(l)])),
      /placed twice/,
    ],
    ["a label of nobody", () => entry().place(sym("l")), /label l is not of entry k/],
  ])("%s", (_, act, message) => {
    expect(act).toThrow(InternalError);
    expect(act).toThrow(message);
  });

  test("a label that is used and not placed", () => {
    const m = moduleBuilder({ version: [8, 0], target: "sm_90a" });
    const k = m.entry("k");
    k.emit("bra", k.label("nowhere"));
    expect(() => m.build()).toThrow(/label nowhere of entry k is used but not placed/);
  });

  test("labels of one name get numbers", () => {
    const k = entry();
    expect([k.label("a").name, k.label("a").name, k.label("a").name]).toEqual(["a", "a_1", "a_2"]);
  });
});

test("operand types are checked at compile time", () => {
  const folder = fileURLToPath(new URL(".", import.meta.url));
  const root = fileURLToPath(new URL("../../..", import.meta.url));
  let output = "";
  try {
    execFileSync(process.execPath, [`${root}/node_modules/typescript-7/bin/tsc`, "-p", folder], {
      cwd: root,
      encoding: "utf8",
    });
  } catch (error) {
    output = String((error as { stdout?: unknown }).stdout);
  }
  // An unused @ts-expect-error is an error of the compiler too, so this fails when a type lets too much through.
  expect(output.split("\n").filter((line) => line.startsWith("packages/ptx/"))).toEqual([]);
});

test("a long kernel is printed whole, and parses back", () => {
  const m = moduleBuilder({ version: [6, 3], target: "sm_70" });
  const k = m.entry("k");
  const f = k.regs("f32", 200);
  const a = k.reg("u32");
  const at = (i: number) => f[i % 200] ?? k.reg("f32");
  for (let i = 0; i < 3000; i++) {
    if (i % 20 === 0)
      k.emit("ld.shared.v4.f32", vec(at(i), at(i + 1), at(i + 2), at(i + 3)), addr(a, 16 * i));
    else k.emit("fma.rn.f32", at(i), at(i + 1), at(i + 2), at(i));
  }
  const text = printModule(m.build());
  expect(text.match(/^ +(ld|fma)\./gm)).toHaveLength(3000);
  const parsed = parseModule(text);
  expect(parsed.ok && printModule(parsed.value)).toBe(text);
});
