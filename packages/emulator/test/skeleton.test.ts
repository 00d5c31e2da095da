/**
 * A complete GEMM of the corpus for pairs of blocks: TMA into a ring of six stages, tcgen05.mma of a pair with two accumulators in
 * tensor memory, an epilogue that stores through TMA, and persistence by cluster launch control. Right numbers and no findings in
 * all orders; then faults planted in its text.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import type { LaunchConfig, LaunchReport } from "../src/index.ts";
import { clean, generator, machine, orders, value } from "./support.ts";

const text = readFileSync(
  fileURLToPath(new URL("../../ptx/test/corpus/hand/skel_sm100_2cta_clc.ptx", import.meta.url)),
  "utf8",
);

/** Dynamic shared memory: six stages of 32 KiB, two staging tiles of 16 KiB, barriers and responses. */
const dynamicSmem = 229584;

const word = new Float32Array(1);
const wordBits = new Uint32Array(word.buffer);
/** Upper half of the f32: exact for the small integers here. */
function bf16(x: number): number {
  word[0] = x;
  return (wordBits[0] ?? 0) >>> 16;
}

interface Problem {
  readonly m: number;
  readonly n: number;
  readonly k: number;
}

/** A and B of small integers: every order of summation gives the same bits, and the result is exact in bf16. */
function run(
  source: string,
  { m, n, k }: Problem,
  config: Partial<LaunchConfig> = {},
): { readonly report: LaunchReport; readonly wrong: number } {
  const device = machine(source);
  const random = generator(7);
  const integers = (count: number): Float32Array =>
    Float32Array.from({ length: count }, () => (random() < 0.75 ? 0 : Math.floor(random() * 3) - 1));
  const a = integers(m * k);
  const b = integers(n * k);
  const halves = (values: Float32Array): Uint16Array => Uint16Array.from(values, bf16);
  const out = device.blank(2 * m * n);
  const map = (address: bigint, columns: number, rows: number): Uint8Array =>
    value(
      device.emulator.encodeTensorMap({
        dtype: "bf16",
        address,
        dims: [columns, rows],
        strides: [2 * columns],
        box: [64, 128],
        elementStrides: [1, 1],
        interleave: "none",
        swizzle: "128B",
        l2: "none",
        fill: "zero",
      }),
    );
  const tiles = (m / 256) * (n / 256);
  const report = device.launch(
    "gemm",
    2 * tiles,
    224,
    [map(device.put(halves(a)), k, m), map(device.put(halves(b)), k, n), map(out, n, m), m / 256, k / 64],
    { cluster: [2, 1, 1], dynamicSmem, fuel: 2e6, ...config },
  );
  const got = device.u16(out, m * n);
  let wrong = 0;
  for (let row = 0; row < m; row++)
    for (let column = 0; column < n; column++) {
      let sum = 0;
      for (let i = 0; i < k; i++) sum += (a[row * k + i] ?? 0) * (b[column * k + i] ?? 0);
      if (got[row * n + column] !== bf16(sum)) wrong += 1;
    }
  return { report, wrong };
}

test.each(orders)("right numbers without findings: %s", (order) => {
  const { report, wrong } = run(text, { m: 512, n: 512, k: 448 }, { order });
  clean(report);
  expect(wrong).toBe(0);
});

/** Twenty under TILEWRIGHT_SLOW=1; the first five have every number of K tiles. */
const seeds = process.env.TILEWRIGHT_SLOW === "1" ? 20 : 5;

test(`right numbers without findings: ${seeds} seeds, from one K tile to more than there are stages`, () => {
  for (let seed = 1; seed <= seeds; seed++) {
    const { report, wrong } = run(
      text,
      { m: 512, n: 256, k: 64 * (seed % 5 === 0 ? 7 : 1 + (seed % 3)) },
      { order: "random", seed },
    );
    clean(report);
    expect(wrong).toBe(0);
  }
});

test.each([1, 2, 6])("%i clusters at once", (residentClusters) => {
  const { report, wrong } = run(text, { m: 768, n: 512, k: 64 }, { order: "random", residentClusters });
  clean(report);
  expect(wrong).toBe(0);
});

/** Replace what has to be there. */
const edit = (from: string | RegExp, to: string): string => {
  const edited = text.replace(from, to);
  expect(edited).not.toBe(text);
  return edited;
};
const instruction = (name: string): RegExp => new RegExp(`^.*${name.replaceAll(".", "\\.")}.*$`, "m");

const single = { m: 256, n: 256, k: 64 };
/** A cluster that works on three tiles uses an accumulator twice. */
const reused = { m: 768, n: 256, k: 64 };

describe("faults in its text are found, in every order", () => {
  test.each([
    ["no wait::ld", instruction("tcgen05.wait::ld.sync.aligned"), "", ["H086"]],
    [
      "no fence after the accumulator's barrier",
      /(EW: .*\n)tcgen05.fence::after_thread_sync;/,
      "$1",
      ["H084"],
    ],
    [
      "no fence before the accumulator is released",
      /(tcgen05.wait::ld.sync.aligned;\n)tcgen05.fence::before_thread_sync;\n(@%p13 mbarrier)/,
      "$1$2",
      ["H085"],
    ],
    ["no dealloc", instruction("tcgen05.dealloc.cta_group::2"), "", ["H088"]],
    ["half of the columns allocated", "[%r13], 512;", "[%r13], 256;", ["H080", "H087"]],
    ["fewer columns given back", "%r17, 512;", "%r17, 256;", ["H087", "H088"]],
    ["dealloc by one group", "tcgen05.dealloc.cta_group::2", "tcgen05.dealloc.cta_group::1", ["H087"]],
    [
      "the accumulator is never cleared",
      "setp.ne.u32 %p7, %r27, 0;",
      "setp.eq.u32 %p7, %r27, %r27;",
      ["H081"],
    ],
    ["lanes of another warp", "shl.b32 %r70, %r3, 21;", "shl.b32 %r70, %r3, 20;", ["H082"]],
    [
      "the accumulator released before it is read",
      /(EW: .*\n)/,
      "$1@%p13 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r72];\n",
      ["H083"],
      "@%p13 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r72];  // accumulator free",
      "// accumulator free",
    ],
    [
      "the commit reaches one block",
      /(multicast::cluster.b64 \[%r57\], %h0;)/,
      "multicast::cluster.b64 [%r57], %h1;",
      ["H030"],
      "mov.b16 %h0, 3;",
      "mov.b16 %h0, 3; mov.b16 %h1, 1;",
    ],
    [
      "the response is not armed in the peer",
      instruction("mbarrier.arrive.expect_tx.release.cluster"),
      "",
      ["H030"],
    ],
    [
      "requests go on after a failure",
      "@!%p9 bra FIN;\nshr.u32 %r16, %r46, 1;\nbra ST0;",
      "bra ST0;",
      ["H089", "H030"],
    ],
    [
      "the index is taken without asking whether there is one",
      "@%p9 clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r46, %q0;",
      "clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r46, %q0;",
      ["H089"],
    ],
    [
      "no cluster barrier before the end",
      "barrier.cluster.arrive.release; barrier.cluster.wait.acquire;",
      "",
      ["H083", "H043"],
    ],
    [
      "B without the descriptor's version",
      "mov.u32 %r53, 1073758272;",
      "mov.u32 %r53, 1073741888;",
      ["H071"],
    ],
  ] as const)("%s", (_name, from, to, rules, also?: string, instead?: string) => {
    const first = edit(from, to);
    const source = also === undefined ? first : first.replace(also, instead ?? "");
    for (const order of orders) {
      const { report } = run(source, rules[0] === "H085" || rules[0] === "H083" ? reused : single, {
        order,
        seed: 5,
        residentClusters: 1,
      });
      const met = report.findings.map((f) => f.rule);
      expect(
        met.filter((rule) => (rules as readonly string[]).includes(rule)),
        `${order}: ${report.findings.map((f) => `${f.rule} ${f.message}`).join("\n")}`,
      ).not.toEqual([]);
    }
  });
});
