/** PTX as other compilers write it: what ptxas takes has to load, and what no launch can run has to be refused at once. */
import { describe, expect, test } from "vitest";
import { createEmulator } from "../src/index.ts";
import { clean, fixture, kernel, machine } from "./support.ts";

describe("accesses of a scalar in braces", () => {
  const device = machine(
    kernel(
      `ld.param.u64 %d0, [in]; ld.param.u64 %d1, [out];
      mul.wide.u32 %d2, %t, 4; add.u64 %d0, %d0, %d2; add.u64 %d1, %d1, %d2;
      ld.global.b32 {%r0}, [%d0];
      mov.b32 %r1, {%r0};
      mov.b32 {%r2}, %r1;
      st.global.b32 [%d1], {%r2};`,
      { params: ["in", "out"] },
    ),
  );
  test("copy it", () => {
    const input = device.put(Int32Array.from({ length: 32 }, (_, k) => k * 3));
    const out = device.blank(128);
    clean(device.launch("k", 1, 32, [input, out]));
    expect(device.i32(out, 32)).toEqual(device.i32(input, 32));
  });
});

test("vector registers, by their components", () => {
  const device = machine(
    kernel(
      ".reg .v4 .b32 v; ld.param.u64 %d0, [out]; mov.b32 v.x, 1; add.u32 v.w, v.x, %t; st.global.b32 [%d0], v.w;",
    ),
  );
  const out = device.blank(4);
  clean(device.launch("k", 1, 1, [out]));
  expect(device.i32(out, 1)[0]).toBe(1);
});

describe("a module of which the emulator knows a part", () => {
  const text = `.version 8.6
.target sm_90
.address_size 64
.extern .func elsewhere ();
.func broken () { frobnicate.b32; ret; }
.visible .entry good(.param .u64 out) {
.reg .b64 %d; .reg .b32 %r<4000000000>;
ld.param.u64 %d, [out];
mov.b32 %r3999999999, 7;
st.global.b32 [%d], %r3999999999;
ret; }
.visible .entry unknown() { frobnicate.b32; ret; }
.visible .entry calls() { call elsewhere; ret; }
.visible .entry nested() { call broken; ret; }
.visible .entry modifier() { .reg .b32 %r<2>; add.weird.u32 %r0, %r1, %r1; ret; }
`;
  const device = machine(text);

  test("runs the kernels that it knows", () => {
    const out = device.blank(4);
    clean(device.launch("good", 1, 1, [out]));
    expect(device.i32(out, 1)[0]).toBe(7);
  });

  test.each([
    ["unknown", "TW4002", 12],
    ["calls", "TW5013", 13],
    ["nested", "TW4002", 5],
    ["modifier", "TW4003", 15],
  ])("refuses the launch of %s by what it lacks", (entry, code, line) => {
    const refused = device.emulator.launch(device.module, entry, {
      grid: [1, 1, 1],
      block: [1, 1, 1],
      params: [],
    });
    expect(refused.ok ? [] : refused.error).toMatchObject([{ code, location: { line } }]);
    expect(device.module.kernels.find((info) => info.entry === entry)?.lacks).toHaveLength(1);
  });
});

describe("printf and assert, compiled by nvcc", () => {
  const device = machine(fixture("cuda/system.ptx"));

  test("printf prints what C prints, in the order of the threads, and returns the number of arguments", () => {
    const report = device.launch("say", 1, 2, [7, 1.5]);
    clean(report);
    const line = "n=7 x=1.500 hi    42|ff    |1.23e+04 q -123456789012 %\n";
    expect(report.printed).toBe(`${line}${line}8 arguments, thread 0\n8 arguments, thread 1\n`);
  });

  test("a failed assert is a finding with its file and line, and ends the launch", () => {
    const report = device.launch("check", 1, 4, [2]);
    expect(report.completed).toBe(false);
    expect(report.findings).toMatchObject([{ rule: "H110", count: 2, warp: 0 }]);
    expect(report.findings[0]?.message).toMatch(
      /system\.cu:11: void check\(int\): block \[0,0,0\], thread \[2,0,0\]: assertion `n > \(int\)threadIdx\.x && "n is small"` failed/,
    );
    clean(device.launch("check", 1, 4, [4]));
  });
});

describe("texts and launches that are too large", () => {
  const load = (body: string, most = 2000) => {
    const started = performance.now();
    const loaded = createEmulator().load(kernel(body));
    expect(performance.now() - started).toBeLessThan(most);
    return loaded.ok ? [] : loaded.error;
  };
  const deep = 200_000;

  test.each([
    ["scopes", "{".repeat(deep) + "}".repeat(deep)],
    ["scopes left open", "{".repeat(deep)],
    ["vectors", `mov.b32 %r1, ${"{".repeat(deep)}%r2${"}".repeat(deep)};`],
    ["constants in parentheses", `mov.b32 %r1, ${"(".repeat(deep)}1${")".repeat(deep)};`],
    ["signs", `mov.b32 %r1, ${"-".repeat(deep)}1;`],
  ])("nested %s", (_, body) => {
    expect(load(body).map(({ message }) => message)).toEqual(["nested deeper than 500 levels"]);
  });

  test("instructions by the thousand that write and read one register", () => {
    const started = process.cpuUsage();
    expect(load("mul.f32 %f1, %f1, %f2; add.f32 %f1, %f1, %f3;".repeat(20_000), 60_000)).toEqual([]);
    expect(process.cpuUsage(started).user / 1e6).toBeLessThan(8);
  });

  test("a number of many digits is named by its first ones", () => {
    expect(load(`mov.b32 %r1, 0x${"F".repeat(300_000)};`).map(({ message }) => message)).toEqual([
      `0x${"F".repeat(38)}... does not fit 64 bits`,
    ]);
  });

  test("a grid of the largest extents", () => {
    const device = machine(kernel(""));
    const refused = device.emulator.launch(device.module, "k", {
      grid: [2 ** 31 - 1, 65535, 65535],
      block: [32, 1, 1],
      params: [0n],
    });
    expect(refused.ok ? [] : refused.error).toMatchObject([{ code: "TW5021", at: "grid" }]);
  });
});

test("shared memory that the system reserves for groups of several warps", () => {
  const device = machine(
    kernel(
      `.reg .b32 %s, %x<6>;
      mov.u32 %s, %reserved_smem_offset_1; ld.param.u64 %d0, [out];
      shr.u32 %x0, %t, 5; mov.u32 %x1, -2; shf.l.wrap.b32 %x1, %x1, %x1, %x0; and.b32 %x2, %t, 31; setp.eq.u32 %p0, %x2, 0;
      @%p0 red.shared.and.release.cta.b32 [%s+12], %x1;
      mad.lo.u32 %x3, %x0, 8, %s; @%p0 st.shared.b32 [%x3+32], %t;
      bar.sync 0;
      ld.shared.b32 %x4, [%s+12]; and.b32 %x4, %x4, 3; ld.shared.b32 %x5, [%s+40]; add.u32 %x4, %x4, %x5;
      st.global.b32 [%d0], %x4;`,
    ),
  );
  const out = device.blank(4);
  clean(device.launch("k", 1, 64, [out]));
  expect(device.i32(out, 1)[0]).toBe(32);
});

test("registers of shared memory and its reserved part, as an H200 has them", () => {
  const registers = [
    ...["begin", "end", "cap", "0", "1"].map((name) => `%reserved_smem_offset_${name}`),
    ...["st", "%total_smem_size", "%dynamic_smem_size", "%aggr_smem_size"],
  ];
  const body = (names: readonly string[]): string =>
    `.shared .align 4 .b8 st[128]; .reg .b32 %v; ld.param.u64 %d0, [out];
    ${names.map((name, k) => `mov.b32 %v, ${name}; st.global.b32 [%d0+${4 * k}], %v;`).join("\n")}`;
  const run = (names: readonly string[], dynamicSmem: number): readonly number[] => {
    const device = machine(kernel(body(names)));
    const out = device.blank(4 * names.length);
    clean(device.launch("k", 1, 1, [out], { dynamicSmem }));
    return [...device.i32(out, names.length)];
  };
  expect(run(registers, 0)).toEqual([0, 0x120, 0x400, 0, 0, 0x400, 0x80, 0, 0x480]);
  expect(run(registers, 1000)).toEqual([0, 0x120, 0x400, 0, 0, 0x400, 0x480, 0x3e8, 0x868]);
  // The sizes are the same where the kernel names nothing that is reserved.
  expect(run(registers.slice(6), 1000)).toEqual([0x480, 0x3e8, 0x868]);
});

describe("registers that some lanes have not written", () => {
  const run = (body: string) => {
    const device = machine(
      kernel(
        `ld.param.u64 %d0, [in]; ld.param.u64 %d1, [out]; mul.wide.u32 %d2, %t, 4; add.u64 %d0, %d0, %d2; add.u64 %d1, %d1, %d2;
        setp.lt.u32 %p0, %t, 20;\n@%p0 ld.global.b32 %r0, [%d0];\n${body}`,
        { params: ["in", "out"] },
      ),
    );
    const input = device.put(Int32Array.from({ length: 20 }, (_, k) => k));
    const out = device.put(new Int32Array(32));
    const { findings } = device.launch("k", 1, 32, [input, out]);
    return {
      rules: findings.map(({ rule, instruction }) => `${rule} ${instruction}`),
      out: device.i32(out, 32),
    };
  };

  test.each([
    [
      "computed with, and stored under the mask of the load",
      "add.u32 %r1, %r0, 5; mul.lo.u32 %r2, %r1, %r1; @%p0 st.global.b32 [%d1], %r2;",
    ],
    [
      "handed to another lane, which does not choose it",
      "shfl.sync.idx.b32 %r1, %r0, 20, 31, -1; selp.b32 %r2, 7, %r1, %p0; @%p0 st.global.b32 [%d1], %r2;",
    ],
    ["replaced by selp", "selp.b32 %r1, %r0, 7, %p0; st.global.b32 [%d1], %r1;"],
    [
      "compared, and the predicate joined into nothing",
      "setp.gt.u32 %p1, %r0, 3; mov.pred %p2, %p1; @%p0 st.global.b32 [%d1], %r0;",
    ],
    [
      "packed beside a defined half, of which only that one is stored",
      "cvt.u16.u32 %h0, %r0; mov.b16 %h1, 9; mov.b32 %r1, {%h1, %h0}; st.global.b16 [%d1], %r1; mov.b32 {%h2, _}, %r1; st.global.b16 [%d1+2], %h2;",
    ],
    [
      "moved by prmt and shifts, and masked away",
      "prmt.b32 %r1, %r0, %t, 0x5140; shl.b32 %r2, %r1, 24; shr.u32 %r1, %r1, 24; and.b32 %r3, %r0, 0; or.b32 %r1, %r1, %r3; st.global.b32 [%d1], %r1;",
    ],
    [
      "packed into 64 bits and taken apart",
      "mov.b64 %d3, {%t, %r0}; cvt.u32.u64 %r1, %d3; shr.u64 %d4, %d3, 0; mov.b64 {%r2, _}, %d4; setp.eq.u32 %p1, %r2, %r1; @%p1 st.global.b32 [%d1], %r1;",
    ],
  ])("%s: nothing is wrong", (_, body) => {
    expect(run(body).rules).toEqual([]);
  });

  test.each([
    ["stored", "add.u32 %r1, %r0, 5; st.global.b32 [%d1], %r1;", "st.global.b32 [%d1], %r1;"],
    [
      "an address",
      "mul.wide.u32 %d3, %r0, 0; add.u64 %d4, %d1, %d3; st.global.b32 [%d4], %t;",
      "st.global.b32 [%d4], %t;",
    ],
    ["a guard", "setp.gt.u32 %p1, %r0, 3; @%p1 st.global.b32 [%d1], %t;", "@%p1 st.global.b32 [%d1], %t;"],
    ["a branch", "setp.gt.u32 %p1, %r0, 3; @%p1 bra L; st.global.b32 [%d1], %t; L:", "@%p1 bra L;"],
    [
      "stored with a defined half",
      "cvt.u16.u32 %h0, %r0; mov.b16 %h1, 9; mov.b32 %r1, {%h1, %h0}; st.global.b32 [%d1], %r1;",
      "st.global.b32 [%d1], %r1;",
    ],
    [
      "the byte of a packed word that prmt takes",
      "prmt.b32 %r1, %t, %r0, 0x4210; shr.u32 %r2, %r1, 24; st.global.b8 [%d1], %r2;",
      "st.global.b8 [%d1], %r2;",
    ],
    [
      "the upper half of a pair, deciding a branch",
      "mov.b64 %d3, {%t, %r0}; mov.b64 {_, %r1}, %d3; setp.ne.u32 %p1, %r1, 0; @%p1 bra L; st.global.b32 [%d1], %t; L:",
      "@%p1 bra L;",
    ],
    [
      "the sign that a conversion spreads",
      "prmt.b32 %r1, %r0, %t, 0x4404; cvt.s32.s16 %r2, %r1; shr.u32 %r2, %r2, 24; st.global.b8 [%d1], %r2;",
      "st.global.b8 [%d1], %r2;",
    ],
    ["chosen by selp", "selp.b32 %r1, 7, %r0, %p0; st.global.b32 [%d1], %r1;", "st.global.b32 [%d1], %r1;"],
    [
      "handed to another lane, which stores it",
      "shfl.sync.bfly.b32 %r1, %r0, 16, 31, -1; @%p0 st.global.b32 [%d1], %r1;",
      "@%p0 st.global.b32 [%d1], %r1;",
    ],
  ])("%s: that is an error", (_, body, instruction) => {
    expect(run(body).rules).toEqual([`H008 ${instruction}`]);
  });
});

test("findings name the line of the source that .loc gives, also of the other access", () => {
  const device = machine(`.version 8.6
.target sm_80
.address_size 64
.shared .align 4 .b8 s[4];
.visible .entry k() {
.reg .b32 %r<2>;
.loc 1 7 3
mov.u32 %r0, %tid.x;
st.shared.b32 [s], %r0;
.loc 2 41 1
ld.shared.b32 %r1, [s];
ret;
}
.file 1 "kernel.py"
.file 2 "library.py"
`);
  const { findings } = device.launch("k", 1, 64, []);
  const found = findings.find(({ rule }) => rule === "H010");
  expect(found).toMatchObject({ source: { file: "kernel.py", line: 7, column: 3 }, omission: false });
  expect(found?.message).toContain("(line 11, library.py:41)");
});

describe("what compilers leave out is told apart", () => {
  const run = (init: string) => {
    const device = machine(
      kernel(
        `setp.ne.u32 %p0, %t, 0; @%p0 bra J; mbarrier.init.shared::cta.b64 [b], 64; ${init} J: bar.warp.sync -1;
        mbarrier.arrive.shared::cta.b64 _, [b];`,
        { module: ".shared .align 8 .b64 b;", params: [] },
      ),
    );
    return device.launch("k", 1, 64, []).findings;
  };
  test("an mbarrier that is used without a fence or barrier behind its initialisation", () => {
    const found = run("").filter(({ rule }) => rule === "H046");
    expect(found.length).toBeGreaterThan(0);
    expect(found.every(({ omission, severity }) => omission && severity === "error")).toBe(true);
  });
});
