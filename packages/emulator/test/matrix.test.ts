/** Matrix instructions as kernels use them: products of integers, ldmatrix, stmatrix and movmatrix, and what they refuse. */
import { encode, type FloatFormat } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { createEmulator } from "../src/index.ts";
import { type Fragment, fragmentsOf } from "../src/isa/fragments.ts";
import { casesPerClass, forms, kernelOf, type MmaForm } from "./mma-forms.ts";
import { clean, generator, kernel, machine } from "./support.ts";

const widths: Readonly<Record<string, number>> = {
  f16: 16,
  bf16: 16,
  tf32: 32,
  f32: 32,
  e4m3: 8,
  e5m2: 8,
  f64: 64,
  s32: 32,
};
const widthOf = (type: string): number => widths[type] ?? Number(type.slice(1));

/** The code of a small integer. */
function codeOf(type: string, x: number): bigint {
  if (type === "f64") return new BigUint64Array(new Float64Array([x]).buffer)[0] ?? 0n;
  if (widths[type] === undefined || type === "s32") return BigInt.asUintN(widthOf(type), BigInt(x));
  return BigInt(encode(type as FloatFormat, x));
}

/** Registers of one case that hold the matrix `at` describes. */
function pack(
  type: string,
  fragment: Fragment,
  value: (c: ReturnType<Fragment["at"]>) => number,
): Uint32Array {
  const width = widthOf(type);
  const words = width === 64 ? 2 : 1;
  const out = new Uint32Array(fragment.registers * 32 * words);
  for (let r = 0; r < fragment.registers; r++)
    for (let lane = 0; lane < 32; lane++) {
      let bits = 0n;
      for (let p = 0; p < fragment.parts; p++)
        bits |= codeOf(type, value(fragment.at(lane, r, p))) << BigInt(p * width);
      const at = (r * 32 + lane) * words;
      out[at] = Number(bits & 0xffffffffn);
      if (words === 2) out[at + 1] = Number(bits >> 32n);
    }
  return out;
}

const repeat = (words: Uint32Array): Uint32Array => {
  const out = new Uint32Array(words.length * casesPerClass);
  for (let k = 0; k < casesPerClass; k++) out.set(words, k * words.length);
  return out;
};

describe("mma multiplies integers exactly", () => {
  test.each(forms)("$name", (form: MmaForm) => {
    const [, shape, aOrder, bOrder] = /(m\d+n\d+k\d+)\.(row|col)\.(row|col)/.exec(form.name) ?? [];
    const order = (x: string | undefined): "row" | "col" => (x === "col" ? "col" : "row");
    const fragments = fragmentsOf({
      shape: shape ?? "",
      bits: widthOf(form.a),
      cBits: widthOf(form.c),
      dBits: widthOf(form.d),
      aOrder: order(aOrder),
      bOrder: order(bOrder),
    });
    if (fragments === null) throw new Error("no layout");
    const { m, n, k, tiles } = fragments;
    const next = generator(form.name.length);
    const small = (type: string): number => {
      if (type === "b1") return Math.floor(next() * 2);
      const x = Math.floor(next() * 8);
      return type.startsWith("u") ? x : x - 4;
    };
    const a = Float64Array.from({ length: tiles * m * k }, () => small(form.a));
    const b = Float64Array.from({ length: tiles * n * k }, () => small(form.b));
    const c = Float64Array.from({ length: tiles * m * n }, () => small("s8"));
    const combine = form.name.includes(".xor.")
      ? (x: number, y: number) => x ^ y
      : (x: number, y: number) => x * y;
    const want = (t: number, row: number, column: number): number => {
      let sum = c[(t * m + row) * n + column] ?? 0;
      for (let q = 0; q < k; q++)
        sum += combine(a[(t * m + row) * k + q] ?? 0, b[(t * n + column) * k + q] ?? 0);
      return sum;
    };
    const device = machine(kernelOf(form));
    const out = device.blank(casesPerClass * form.counts[0] * 32 * (form.a === "f64" ? 8 : 4));
    const params = [
      device.put(repeat(pack(form.a, fragments.a, (x) => a[(x.t * m + x.m) * k + x.k] ?? 0))),
      device.put(repeat(pack(form.b, fragments.b, (x) => b[(x.t * n + x.n) * k + x.k] ?? 0))),
      device.put(repeat(pack(form.c, fragments.c, (x) => c[(x.t * m + x.m) * n + x.n] ?? 0))),
      out,
    ];
    const expected = repeat(pack(form.d, fragments.d, (x) => want(x.t, x.m, x.n)));
    for (const arithmetic of ["sm_70", "sm_75", "sm_80", "sm_89", "sm_90", "sm_100a", "sm_120a"]) {
      clean(device.launch("k", casesPerClass, 32, params, { arithmetic }));
      expect(device.u32(out, expected.length), arithmetic).toEqual(expected);
    }
  });

  test("overflow wraps, or stops at the ends with .satfinite", () => {
    for (const [saturate, top] of [
      [true, 2 ** 31 - 1],
      [false, -(2 ** 31) + 10 * 20 * 32 - 1 - 3],
    ] as const) {
      const form = forms.find(
        (f) => f.name === `mma.sync.aligned.m16n8k32.row.col${saturate ? ".satfinite" : ""}.s32.s8.s8.s32`,
      );
      if (form === undefined) throw new Error("the form is gone");
      const device = machine(kernelOf(form));
      const out = device.blank(casesPerClass * 4 * 128);
      const fill = (count: number, word: number): bigint =>
        device.put(new Uint32Array(casesPerClass * count * 32).fill(word));
      const params = [fill(4, 0x0a0a0a0a), fill(2, 0x14141414), fill(4, 2 ** 31 - 4), out];
      clean(device.launch("k", casesPerClass, 32, params));
      expect(new Set(device.i32(out, 512))).toEqual(new Set([top]));
    }
  });
});

// ---------------------------------------------------------------- moves of matrices

const rowsOfLane = "and.b32 %r1, %t, 31; shl.b32 %r1, %r1, 4;";
const shared = ".shared .align 16 .b8 sm[2048];";
const element = (matrix: number, row: number, column: number): number => matrix * 64 + row * 8 + column;

describe("ldmatrix", () => {
  const run = (count: 1 | 2 | 4, trans: boolean, address = "[%r2]") => {
    const list = ["{%r4}", "{%r4, %r5}", "", "{%r4, %r5, %r6, %r7}"][count - 1];
    const text = kernel(
      `${rowsOfLane}
mov.u32 %r2, sm; add.u32 %r2, %r2, %r1;
ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out];
mad.wide.u32 %d3, %t, 16, %d1;
ld.global.v4.b32 {%r8, %r9, %r10, %r11}, [%d3];
st.shared.v4.b32 [%r2], {%r8, %r9, %r10, %r11};
bar.warp.sync 0xffffffff;
cvt.u64.u32 %d4, %r2; cvta.shared.u64 %d4, %d4;
mov.u32 %r5, 0; mov.u32 %r6, 0; mov.u32 %r7, 0;
ldmatrix.sync.aligned.m8n8.x${count}${trans ? ".trans" : ""}${address.includes("%d") ? "" : ".shared"}.b16 ${list}, ${address};
mad.wide.u32 %d3, %t, 16, %d2;
st.global.v4.b32 [%d3], {%r4, %r5, %r6, %r7};`,
      { params: ["in", "out"], module: shared },
    );
    const device = machine(text);
    const out = device.blank(512);
    const report = device.launch("k", 1, 32, [
      device.put(Uint16Array.from({ length: 256 }, (_, k) => k)),
      out,
    ]);
    return { report, words: device.u16(out, 256) };
  };
  test.each([
    [1, false],
    [2, false],
    [4, false],
    [1, true],
    [2, true],
    [4, true],
  ] as const)("x%i, transposed %s: row g, elements 2t and 2t+1 of each matrix", (count, trans) => {
    for (const address of ["[%r2]", "[%d4]"]) {
      const { report, words } = run(count, trans, address);
      clean(report);
      for (let lane = 0; lane < 32; lane++)
        for (let j = 0; j < count; j++)
          for (let h = 0; h < 2; h++) {
            const [g, t] = [lane >> 2, lane & 3];
            const want = trans ? element(j, 2 * t + h, g) : element(j, g, 2 * t + h);
            expect(words[lane * 8 + j * 2 + h], `lane ${lane} matrix ${j} half ${h}`).toBe(want);
          }
      expect(report.counters.sharedBytesRead).toBe(count * 128);
    }
  });
  test("a row that does not start at 16 bytes is misaligned", () => {
    const { report } = run(4, false, "[%r2+8]");
    expect(report.findings.map((f) => f.rule)).toEqual(["H004"]);
    expect(report.completed).toBe(false);
  });
  test("only the lanes of the rows give addresses: x1 takes 8, whatever the others hold", () => {
    const text = kernel(
      `mov.u32 %r2, sm; st.shared.b32 [%r2], %t; shl.b32 %r1, %t, 4; add.u32 %r2, %r2, %r1;
setp.gt.u32 %p1, %t, 7; @%p1 mov.u32 %r2, 0x7ffffff1;
mov.u32 %r9, 0; mov.u32 %r3, sm; mad.lo.u32 %r3, %t, 4, %r3; bar.warp.sync 0xffffffff; st.shared.b32 [%r3], %r9; bar.warp.sync 0xffffffff;
ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r4}, [%r2];`,
      { params: [], module: shared },
    );
    clean(machine(text).launch("k", 1, 32, []));
  });
  test("conflicts are counted by phases of eight rows", () => {
    const phases = (stride: number) => {
      const device = machine(
        kernel(
          `mov.u32 %r2, sm; and.b32 %r3, %t, 7; mad.lo.u32 %r2, %r3, ${stride}, %r2;
mov.u32 %r4, 0; st.shared.v4.b32 [%r2], {%r4, %r4, %r4, %r4};
bar.warp.sync 0xffffffff;
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r2];`,
          { params: [], module: shared },
        ),
      );
      const { counters } = device.launch("k", 1, 32, []);
      return [counters.sharedWavefronts, counters.sharedConflicts];
    };
    // The store beforehand: four quarter-warps; conflicts are the same as the load's.
    expect(phases(16)).toEqual([8, 0]);
    expect(phases(64)).toEqual([32, 24]);
    expect(phases(128)).toEqual([64, 56]);
  });
});

describe("what hazards matrix moves meet", () => {
  const rules = (body: string, block = 32): readonly string[] =>
    machine(kernel(body, { params: [], module: shared }))
      .launch("k", 1, block, [])
      .findings.map((f) => f.rule);
  const address = `mov.u32 %r2, sm; ${rowsOfLane} add.u32 %r2, %r2, %r1; mov.u32 %r4, 0; mov.u32 %r5, 0; mov.u32 %r6, 0; mov.u32 %r7, 0;`;
  const load = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r2];";
  const store = "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r2], {%r4, %r5, %r6, %r7};";
  test.each([
    ["reading what nobody wrote", `${address} ${load}`, 32, ["H006"]],
    [
      "reading another warp's matrices without a barrier",
      `${address} setp.lt.u32 %p1, %t, 32; @%p1 ${store} bar.warp.sync 0xffffffff; ${load}`,
      64,
      ["H009"],
    ],
    [
      "storing over what another warp still reads",
      `${address} setp.lt.u32 %p1, %t, 32; @%p1 ${store} bar.sync 0; ${load} @%p1 ${store}`,
      64,
      ["H010"],
    ],
    ["rows beyond shared memory", `${address} add.u32 %r2, %r2, 2000; ${load}`, 32, ["H001"]],
    [
      "storing and loading one warp's own rows",
      `${address} ${store} bar.warp.sync 0xffffffff; ${load}`,
      32,
      [],
    ],
    ["a part of the warp", `${address} ${store} setp.lt.u32 %p1, %t, 16; @%p1 ${load}`, 32, ["H023"]],
    ["a block without whole warps", `${address} ${store}`, 16, ["H023"]],
    [
      "lanes that never come",
      `${address} setp.lt.u32 %p1, %t, 16; @%p1 bra A; bar.sync 0; bra B; A: ${store} B: `,
      32,
      ["H017", "H023"],
    ],
    [
      "lanes that went another way and came back",
      `${address} setp.lt.u32 %p1, %t, 16; @%p1 bra A; mov.u32 %r8, 1; A: ${store}`,
      32,
      [],
    ],
  ] as const)("%s", (_name, body, block, want) => {
    const got = rules(body, block);
    for (const rule of want) expect(got).toContain(rule);
    if (want.length === 0) expect(got).toEqual([]);
  });
  test("a fragment register that was never written", () => {
    const text = kernel(
      `setp.lt.u32 %p1, %t, 40; @!%p1 mov.u32 %r4, 0;
mov.u32 %r5, 0; mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r4, %r5}, {%r5}, {%f0, %f1, %f2, %f3};`,
      { params: [] },
    );
    const { findings } = machine(text).launch("k", 1, 32, []);
    expect(findings.map((f) => f.rule)).toEqual(["H008"]);
    expect(findings[0]?.message).toMatch(/lane 0 reads %r4/);
  });
});

describe("stmatrix and movmatrix", () => {
  test.each([false, true])("stmatrix is the inverse of ldmatrix, transposed %s", (trans) => {
    const suffix = trans ? ".trans" : "";
    const text = kernel(
      `mov.u32 %r2, sm; ${rowsOfLane} add.u32 %r2, %r2, %r1;
ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out];
mad.wide.u32 %d3, %t, 16, %d1;
ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%d3];
stmatrix.sync.aligned.m8n8.x4${suffix}.shared.b16 [%r2], {%r4, %r5, %r6, %r7};
bar.warp.sync 0xffffffff;
ld.shared.v4.b32 {%r8, %r9, %r10, %r11}, [%r2];
mad.wide.u32 %d3, %t, 16, %d2;
st.global.v4.b32 [%d3], {%r8, %r9, %r10, %r11};
bar.warp.sync 0xffffffff;
ldmatrix.sync.aligned.m8n8.x4${suffix}.shared.b16 {%r8, %r9, %r10, %r11}, [%r2];
st.global.v4.b32 [%d3+512], {%r8, %r9, %r10, %r11};`,
      { params: ["in", "out"], module: shared },
    );
    const device = machine(text);
    const words = Uint16Array.from({ length: 256 }, (_, k) => k);
    const out = device.blank(1024);
    clean(device.launch("k", 1, 32, [device.put(words), out]));
    const got = device.u16(out, 512);
    expect(got.subarray(256)).toEqual(words);
    for (let j = 0; j < 4; j++)
      for (let row = 0; row < 8; row++)
        for (let column = 0; column < 8; column++) {
          const [g, t, h] = trans ? [column, row >> 1, row & 1] : [row, column >> 1, column & 1];
          expect(got[element(j, row, column)]).toBe((4 * g + t) * 8 + 2 * j + h);
        }
  });
  test("movmatrix transposes in registers", () => {
    const text = kernel(
      `ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out]; mul.wide.u32 %d3, %t, 4; add.u64 %d1, %d1, %d3; add.u64 %d2, %d2, %d3;
ld.global.b32 %r4, [%d1]; movmatrix.sync.aligned.m8n8.trans.b16 %r5, %r4; st.global.b32 [%d2], %r5;`,
      { params: ["in", "out"] },
    );
    const device = machine(text);
    const out = device.blank(128);
    clean(device.launch("k", 1, 32, [device.put(Uint16Array.from({ length: 64 }, (_, k) => k)), out]));
    expect(device.u16(out, 64)).toEqual(Uint16Array.from({ length: 64 }, (_, k) => (k % 8) * 8 + (k >> 3)));
  });
});

describe("refused", () => {
  test("an arithmetic that is none, before the launch", () => {
    const device = machine(kernel("", { params: [] }));
    const launched = device.emulator.launch(device.module, "k", {
      grid: [1, 1, 1],
      block: [32, 1, 1],
      params: [],
      arithmetic: "hopper",
    });
    expect(launched.ok).toBe(false);
    expect(launched.ok ? "" : launched.error[0]?.code).toBe("TW5026");
  });
  test("forms that do not exist, by name: a block-scaled sparse product without ordered metadata", () => {
    const text = kernel(
      "mma.sp.sync.aligned.m16n8k128.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5, %r6, %r7}, {%f0, %f1, %f2, %f3}, %r8, 0, %r9, {0, 0}, %r10, {0, 0};",
      { params: [], target: "sm_120a" },
    ).replace(".version 8.6", ".version 8.7");
    const loaded = createEmulator().load(text);
    expect(loaded.ok).toBe(false);
    expect(loaded.ok ? "" : loaded.error[0]?.message).toMatch(/mma\.sp/);
  });
});
