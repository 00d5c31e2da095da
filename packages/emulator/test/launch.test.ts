/** The API: what loads and what is refused, launches that cannot start, memory, reproducibility, counters. */
import { type Checked, formatDiagnostic } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { createEmulator, type LaunchConfig } from "../src/index.ts";
import { clean, corpus, fixture, kernel, machine, value } from "./support.ts";

const messages = (checked: Checked<unknown>): string[] =>
  checked.ok ? [] : checked.error.map(formatDiagnostic);

describe("load", () => {
  const load = (body: string, target = "sm_90a") => createEmulator().load(kernel(body, { target }));

  test("an instruction the emulator does not have is refused by name and line", () => {
    const got = load(
      "tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%d0, {%f4, %f5}];\nwgmma.fence.sync.aligned;\nbad.op %r0;",
    );
    expect(got.ok).toBe(false);
    expect(messages(got).join("\n")).toMatch(/line 15.*tex/);
    expect(messages(load("alloca.u64 %d0, 16;\nmov.u32 %r0, %envreg3;"))).toEqual([
      "<text>:15:1: TW5010 (unsupported) at alloca.u64: the instruction alloca.u64 is not emulated",
      "<text>:16:1: TW5014 (unsupported) at mov.u32: the special register %envreg3 is not emulated",
    ]);
  });

  test("no modifier is dropped: a known opcode with one that nobody reads is refused", () => {
    expect(messages(load("cvt.rs.f16x2.f32 %r0, %f0, %f1, %r1;"))[0]).toMatch(/TW5011 .*\.rs/);
  });

  test("what the table of instructions has not is refused, whatever a decoder would make of it", () => {
    const lines = [
      "mul.wide.s64 %d0, %d1, %d2;",
      "add.sat.u32 %r0, %r1, %r2;",
      "ld.release.gpu.global.u32 %r0, [%d1];",
      "atom.global.inc.s32 %r0, [%d1], %r2;",
      "setp.lo.f32 %p0, %f0, %f1;",
      "rcp.f32 %f0, %f1;",
      "cvt.rzi.u32.s32 %r0, %r1;",
    ];
    for (const line of lines) expect(messages(load(line))[0], line).toMatch(/TW4003 \(invalid\)/);
  });

  test("calls: recursion and functions without a body are refused", () => {
    const module = `.func f() { call f; ret; }\n.extern .func g();`;
    const got = createEmulator().load(kernel("call f;\ncall g;", { module }));
    expect(messages(got)).toEqual([
      "<text>:4:13: TW5013 (unsupported) at call: f calls itself: calls are inlined",
      expect.stringContaining("TW5013 (unsupported) at call: the function g has no body in this module"),
    ]);
  });

  test("functions with register parameters and results", () => {
    const module = `.func (.reg .u32 r) twice(.reg .u32 a) { .reg .pred p; setp.gt.u32 p, a, 100; add.u32 r, a, a; @p ret; add.u32 r, r, 1; ret; }`;
    const device = machine(
      kernel(
        `.reg .u32 x; ld.param.u64 %d0, [out]; mad.wide.u32 %d0, %t, 4, %d0; mul.lo.u32 %r0, %t, 10; call (x), twice, (%r0); st.global.u32 [%d0], x;`,
        { module },
      ),
    );
    const out = device.put(new Uint8Array(128));
    clean(device.launch("k", 1, 32, [out]));
    expect(Array.from(device.u32(out, 32))).toEqual(
      Array.from({ length: 32 }, (_, t) => 20 * t + (t > 10 ? 0 : 1)),
    );
  });

  test("runs of arithmetic on registers that only guarded instructions write", () => {
    const device = machine(
      kernel(`ld.param.u64 %d0, [out]; mad.wide.u32 %d0, %t, 4, %d0; setp.lt.u32 %p0, %t, 40; mov.f32 %f0, 0f00000000;
${"@%p0 mov.f32 %f1, 0f3F800000;\n"}${"fma.rn.f32 %f0, %f1, %f1, %f0;\n".repeat(16)}
st.global.f32 [%d0], %f0;`),
    );
    const out = device.put(new Uint8Array(128));
    clean(device.launch("k", 1, 32, [out]));
    expect(Array.from(new Float32Array(device.u32(out, 32).buffer))).toEqual(Array(32).fill(16));
  });

  test("a syntax error comes from the parser with its place", () => {
    expect(messages(createEmulator().load("hello"))[0]).toMatch(/TW4001/);
  });

  test("kernel information", () => {
    const device = machine(fixture("cuda/reduce.ptx"));
    const info = device.module.kernels.find((k) => k.entry === "matmul");
    expect(info?.staticSmem).toBe(2048);
    expect(info?.params.map((p) => [p.type, p.size, p.offset])).toEqual([
      ["u64", 8, 0],
      ["u64", 8, 8],
      ["u64", 8, 16],
      ["u32", 4, 24],
      ["u32", 4, 28],
      ["u32", 4, 32],
    ]);
    expect(machine(corpus("golden/simt_f32")).module.kernels[0]?.maxThreads).toBe(256);
  });
});

describe("launches that cannot start", () => {
  const device = machine(corpus("golden/simt_f32"));
  const reducer = machine(fixture("cuda/reduce.ptx"));
  const p = device.put(new Uint8Array(64));
  const config: LaunchConfig = { grid: [1, 1, 1], block: [256, 1, 1], params: [p, p, p, 128, 128, 8] };
  const errors = (entry: string, change: Partial<LaunchConfig>): string[] =>
    messages(device.emulator.launch(device.module, entry, { ...config, ...change }));

  test("unknown kernel: the nearest name", () => {
    expect(errors("simt_f23", {})).toEqual([
      "TW5020 (invalid) at entry: the module has no kernel simt_f23\n  hint: the nearest name is simt_f32; the module has simt_f32",
    ]);
  });
  test("several reasons at once", () => {
    expect(
      errors("simt_f32", { grid: [0, 1, 70000], block: [64, 32, 1], params: [p], dynamicSmem: -4 }),
    ).toEqual([
      "TW5021 (invalid) at grid.x: 0 is no positive number of blocks",
      "TW5021 (invalid) at grid.z: 70000 exceeds the limit of 65535",
      "TW5021 (invalid) at block: a block of 64x32x1 has 2048 threads, at most 1024 are possible",
      "TW5025 (invalid) at block: simt_f32 has .maxntid 256, the block has 2048 threads\n  hint: launch with at most 256 threads",
      "TW5023 (invalid) at params: simt_f32 takes 6 parameters, 1 are given\n  hint: it takes (pA: u64, pB: u64, pC: u64, pM: u32, pN: u32, pK: u32)",
      "TW5024 (invalid) at dynamicSmem: -4 is no number of bytes",
    ]);
  });
  test("parameters of the wrong kind", () => {
    expect(errors("simt_f32", { params: [p, 5, p, 1n, 2 ** 32, new Uint8Array(3)] })).toEqual([
      "TW5023 (invalid) at params[1]: pB is u64 of 8 bytes, 64-bit integers and pointers are given as bigint",
      "TW5023 (invalid) at params[3]: pM is u32 of 4 bytes, a bigint is given",
      "TW5023 (invalid) at params[4]: pN is u32 of 4 bytes, 4294967296 does not fit",
      "TW5023 (invalid) at params[5]: pK is u32 of 4 bytes, 3 bytes are given",
    ]);
  });
  test("shared memory, clusters, options", () => {
    expect(errors("simt_f32", { dynamicSmem: 230000, cluster: [2, 1, 1], fuel: 0, seed: 1.5 })).toEqual([
      "TW5022 (invalid) at cluster.x: 2 does not divide the grid's 1",
      "TW5024 (invalid) at dynamicSmem: 8192 bytes of static and 230000 of dynamic shared memory exceed 232448",
      "TW5026 (invalid) at fuel: 0 is no number of instructions",
      "TW5026 (invalid) at seed: 1.5 is no integer",
    ]);
    expect(errors("simt_f32", { grid: [32, 1, 1], cluster: [32, 1, 1] })).toEqual([
      "TW5022 (invalid) at cluster: a cluster of 32 blocks exceeds the limit of 16",
    ]);
  });
  test(".reqntid, and a module of another device", () => {
    const required = machine(kernel("").replace("(.param .u64 out)", "(.param .u64 out) .reqntid 64"));
    expect(messages(required.emulator.launch(required.module, "k", { ...config, params: [p] }))).toEqual([
      "TW5025 (invalid) at block: k has .reqntid 64, 1, 1, the block is 256x1x1\n  hint: launch with a block of 64x1x1",
    ]);
    expect(messages(reducer.emulator.launch(device.module, "simt_f32", config))[0]).toMatch(/TW5027/);
  });
});

describe("memory", () => {
  test("limits and misuse", () => {
    const emulator = createEmulator({ memoryLimit: 2 ** 22 });
    expect(messages(emulator.alloc(2 ** 23))[0]).toMatch(
      /TW5030 \(unsupported\) at memory: the emulated device would need \d+ bytes, its limit is 4194304/,
    );
    expect(messages(emulator.alloc(0))[0]).toMatch(/TW5031/);
    const p = value(emulator.alloc(100));
    expect(p % 256n).toBe(0n);
    expect(() => emulator.read(p, 101)).toThrow(RangeError);
    expect(() => emulator.write(p + 99n, new Uint8Array(2))).toThrow(/does not lie in one live allocation/);
    emulator.free(p);
    expect(() => emulator.free(p)).toThrow(/not the start of a live allocation/);
    // Freed addresses come back only when fresh ones have run out.
    const blocks = Array.from({ length: 12 }, () => value(emulator.alloc(2 ** 18)));
    expect(emulator.alloc(2 ** 20).ok).toBe(false);
    for (const block of blocks) emulator.free(block);
    expect(emulator.alloc(2 ** 18).ok).toBe(true);
  });
  test("contents survive growth, and code compiled before it still works", () => {
    const device = machine(fixture("cuda/reduce.ptx"));
    const input = device.put(Float32Array.of(1, 2, 3));
    const out = device.put(new Float32Array(1));
    clean(device.launch("reduce_sum", 1, 32, [input, out, 3]));
    device.put(new Uint8Array(5e6));
    clean(device.launch("reduce_sum", 1, 32, [input, out, 3]));
    expect(device.f32(out, 1)[0]).toBe(12);
  });
});

describe("orders", () => {
  // Threads append their number to a list through an atomic counter: the list shows the order in which they ran.
  const device = machine(
    kernel(
      `ld.param.u64 %d0, [out]; mov.u32 %r1, %ctaid.x; mad.lo.u32 %r1, %r1, 128, %t; atom.global.add.u32 %r2, [%d0], 1; mad.wide.u32 %d1, %r2, 4, %d0; st.global.u32 [%d1+4], %r1;`,
    ),
  );
  const trace = (order: "eager" | "lazy" | "random", seed: number): string => {
    const out = device.put(new Uint8Array(4 * 1025));
    clean(device.launch("k", 8, 128, [out], { order, seed }));
    return device.u32(out, 1025).join();
  };
  test("random is reproduced by its seed, and differs between seeds and from the others", () => {
    expect(trace("random", 7)).toBe(trace("random", 7));
    expect(trace("random", 7)).not.toBe(trace("random", 8));
    expect(new Set([trace("eager", 1), trace("lazy", 1), trace("random", 1)]).size).toBe(3);
    expect(trace("eager", 1)).toBe(trace("eager", 2));
  });
});

describe("special registers and partial warps", () => {
  test("three-dimensional blocks and grids", () => {
    const device = machine(
      kernel(`ld.param.u64 %d0, [out];
        mov.u32 %r1, %tid.y; mov.u32 %r2, %tid.z; mad.lo.u32 %r3, %r2, 3, %r1; mad.lo.u32 %r3, %r3, 5, %t;
        mov.u32 %r4, %ctaid.z; mov.u32 %r5, %nctaid.y; mov.u32 %r9, %ctaid.y; mad.lo.u32 %r4, %r4, %r5, %r9; mov.u32 %r5, %nctaid.x; mov.u32 %r9, %ctaid.x; mad.lo.u32 %r4, %r4, %r5, %r9;
        mad.lo.u32 %r6, %r4, 30, %r3; mad.wide.u32 %d1, %r6, 4, %d0;
        mov.u32 %r7, %laneid; mov.u32 %r8, %warpid; mad.lo.u32 %r8, %r8, 32, %r7; mad.lo.u32 %r8, %r4, 1000, %r8; st.global.u32 [%d1], %r8;`),
    );
    const out = device.put(new Uint8Array(4 * 30 * 12));
    clean(device.launch("k", [2, 3, 2], [5, 3, 2], [out]));
    expect(Array.from(device.u32(out, 360))).toEqual(
      Array.from({ length: 360 }, (_, k) => 1000 * Math.floor(k / 30) + (k % 30)),
    );
  });
  test("clusters: ranks, and the rank in the shared address", () => {
    const device = machine(
      kernel(`.shared .align 4 .b8 s[64]; ld.param.u64 %d0, [out]; mov.u32 %r1, %ctaid.x; mad.wide.u32 %d0, %r1, 16, %d0;
        mov.u32 %r2, %cluster_ctarank; mov.u32 %r3, %clusterid.x; mov.u32 %r4, s; st.shared.u32 [s], %r1; ld.shared.u32 %r5, [%r4]; st.global.v4.u32 [%d0], {%r2, %r3, %r4, %r5};`),
    );
    const out = device.put(new Uint8Array(64));
    clean(device.launch("k", 4, 1, [out], { cluster: [2, 1, 1] }));
    expect(Array.from(device.u32(out, 16))).toEqual([
      0,
      0,
      0,
      0,
      1,
      0,
      1 << 24,
      1,
      0,
      1,
      0,
      2,
      1,
      1,
      1 << 24,
      3,
    ]);
  });
});

test("counters", () => {
  const device = machine(
    kernel(`.shared .align 16 .b8 s[8192]; ld.param.u64 %d0, [out]; mad.wide.u32 %d1, %t, 4, %d0; mov.u32 %r1, s;
      ld.global.u32 %r2, [%d1]; setp.lt.u32 %p0, %t, 8; @%p0 st.global.u32 [%d1], %r2;
      mad.lo.u32 %r3, %t, 8, %r1; st.shared.u32 [%r3], %r2; bar.sync 0; ld.shared.u32 %r4, [%r3];`),
  );
  const out = device.put(new Uint8Array(512));
  const { counters } = device.launch("k", 1, 64, [out]);
  expect(counters.instructions["ld.global.u32"]).toBe(2);
  expect(counters.instructions["bar.sync"]).toBe(2);
  expect(counters.warpInstructions).toBe(24);
  expect(counters.globalBytesRead).toBe(256);
  expect(counters.globalBytesWritten).toBe(32);
  expect(counters.sharedBytesRead).toBe(256);
  expect(counters.sharedBytesWritten).toBe(256);
  // A stride of two words: two-way conflicts, two wavefronts where one would do.
  expect(counters.sharedWavefronts).toBe(8);
  expect(counters.sharedConflicts).toBe(4);
});
