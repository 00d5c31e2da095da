/** mbarriers, clusters, asynchronous stores and setmaxnreg: right kernels are clean in every order, each fault is found. */
import { describe, expect, test } from "vitest";
import type { LaunchConfig, LaunchReport } from "../src/index.ts";
import { clean, kernel, machine, orders } from "./support.ts";

/** Shared memory of the kernels here: a ring of slots, and mbarriers behind it. */
const module = ".shared .align 16 .b8 s[1024];\n.shared .align 8 .b64 bars[8];";
const head = `ld.param.u64 %d0, [out]; mad.wide.u32 %d1, %t, 4, %d0;
  mov.u32 %r0, s; mov.u32 %r1, bars; mad.lo.u32 %r2, %t, 4, %r0;
  mov.u32 %r3, %cluster_ctarank; xor.b32 %r4, %r3, 1; shr.u32 %r15, %t, 5;`;

type Rest = Partial<LaunchConfig> & { readonly grid?: readonly [number, number, number] };

function launch(body: string, threads: number, rest: Rest = {}) {
  const device = machine(kernel(`${head}\n${body}`, { module, target: "sm_90a" }));
  const out = device.put(new Uint8Array(8192));
  const { grid = [1, 1, 1], ...config } = rest;
  const report = device.launch("k", grid, threads, [out], { fuel: 2e6, ...config });
  return { report, out: device.u32(out, 2048) };
}

/** The three orders and twenty seeds. */
const runs: readonly Partial<LaunchConfig>[] = [
  ...orders.map((order) => ({ order })),
  ...Array.from({ length: 20 }, (_, seed) => ({ order: "random" as const, seed: seed + 2 })),
];

/** Runs in every order: no finding, and the same words. */
function right(body: string, threads: number, want: readonly number[], rest: Rest = {}): void {
  for (const order of runs) {
    const { report, out } = launch(body, threads, { ...rest, ...order });
    clean(report);
    expect([...out.slice(0, want.length)]).toEqual(want);
  }
}

const rulesOf = (report: LaunchReport): string[] => [...new Set(report.findings.map((f) => f.rule))].sort();

/** Every order shows `rule`, or the orders given do. */
function found(rule: string, body: string, threads: number, rest: Rest = {}, only = orders): LaunchReport {
  let last: LaunchReport | null = null;
  for (const order of only) {
    const { report } = launch(body, threads, { ...rest, order });
    expect(rulesOf(report), `${order}: ${report.findings.map((f) => f.message).join("\n")}`).toContain(rule);
    last = report;
  }
  if (last === null) throw new Error("no order given");
  return last;
}

const cluster: Rest = { grid: [2, 1, 1], cluster: [2, 1, 1] };
const range = (n: number, f: (k: number) => number): number[] => Array.from({ length: n }, (_, k) => f(k));

const init = (at: number, count: number): string =>
  `setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared::cta.b64 [bars+${at}], ${count};`;
const visible = "@%p0 fence.mbarrier_init.release.cluster;";

/** Warp 0 fills slots of a ring of two, warp 1 adds them up; `edit` breaks it. */
function ring(edit: (text: string) => string = (x) => x): string {
  return edit(`
  ${init(0, 32)} ${init(8, 32)} ${init(16, 32)} ${init(24, 32)} ${visible}
  bar.sync 0;
  and.b32 %r5, %t, 31; mov.u32 %r6, 0; mov.u32 %r7, 0; mov.u32 %r8, 0;
  setp.eq.u32 %p1, %r15, 1;
  @%p1 bra CONSUME;
PRODUCE:
  and.b32 %r9, %r6, 1; shr.u32 %r10, %r6, 1; and.b32 %r10, %r10, 1; xor.b32 %r11, %r10, 1;
  mad.lo.u32 %r12, %r9, 8, %r1;
PW: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r12+16], %r11;
  @!%p2 bra PW;
  mad.lo.u32 %r13, %r9, 128, %r0; mad.lo.u32 %r13, %r5, 4, %r13;
  mad.lo.u32 %r14, %r6, 100, %r5;
  st.shared.u32 [%r13], %r14;
  mbarrier.arrive.shared::cta.b64 _, [%r12];
  add.u32 %r6, %r6, 1; setp.lt.u32 %p3, %r6, 7; @%p3 bra PRODUCE;
  bra DONE;
CONSUME:
  and.b32 %r9, %r6, 1; shr.u32 %r10, %r6, 1; and.b32 %r10, %r10, 1;
  mad.lo.u32 %r12, %r9, 8, %r1;
CW: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r12], %r10;
  @!%p2 bra CW;
  mad.lo.u32 %r13, %r9, 128, %r0; xor.b32 %r14, %r5, 1; mad.lo.u32 %r13, %r14, 4, %r13;
  ld.shared.u32 %r14, [%r13]; add.u32 %r7, %r7, %r14;
  mbarrier.arrive.shared::cta.b64 _, [%r12+16];
  add.u32 %r6, %r6, 1; setp.lt.u32 %p3, %r6, 7; @%p3 bra CONSUME;
  mad.wide.u32 %d2, %r5, 4, %d0; st.global.u32 [%d2], %r7;
DONE:`);
}
const without = (line: string) => (text: string) => {
  if (!text.includes(line)) throw new Error(`no ${line}`);
  return text.replace(line, "");
};
const swapped = (from: string, to: string) => (text: string) => {
  if (!text.includes(from)) throw new Error(`no ${from}`);
  return text.replace(from, to);
};
const sums = range(32, (l) => 2100 + 7 * (l ^ 1));

describe("rings through mbarriers", () => {
  test("a producer and a consumer warp agree in every order", () => right(ring(), 64, sums));
  test("polled with test_wait", () =>
    right(ring().replaceAll("try_wait.parity", "test_wait.parity"), 64, sums));
  test("with states instead of parities", () => {
    // Both warps arrive once a round at one barrier and wait for the phase of their own arrival.
    right(
      `${init(0, 64)} bar.sync 0; mov.u32 %r6, 0; mov.u32 %r7, 0;
  L: st.shared.u32 [%r2], %r6; mbarrier.arrive.shared.b64 %d3, [bars];
  mbarrier.pending_count.b64 %r9, %d3;
  W: mbarrier.test_wait.shared.b64 %p1, [bars], %d3; @!%p1 bra W;
  xor.b32 %r8, %t, 32; mad.lo.u32 %r8, %r8, 4, %r0; ld.shared.u32 %r8, [%r8]; add.u32 %r7, %r7, %r8;
  mbarrier.arrive.b64 %d3, [%d4];
  V: mbarrier.try_wait.shared.b64 %p1, [bars], %d3, 100; @!%p1 bra V;
  add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 4; @%p2 bra L;
  st.global.u32 [%d1], %r7;`.replace(
        "bar.sync 0;",
        "cvt.u64.u32 %d4, %r1; cvta.shared.u64 %d4, %d4; bar.sync 0;",
      ),
      64,
      range(64, () => 6),
    );
  });
  test.each([
    ["H009", "the consumer does not wait", (text: string) => text.replace(/CW:[^;]*;\s*@!%p2 bra CW;/, "")],
    [
      "H030",
      "the producer does not wait: it overruns the phase that the consumer asks for",
      (text: string) => text.replace(/PW:[^;]*;\s*@!%p2 bra PW;/, ""),
    ],
    ["H006", "the consumer waits for the wrong parity", swapped("[%r12], %r10;", "[%r12], 1;")],
    ["H009", "the consumer waits for the other stage", swapped("[%r12], %r10;", "[bars], %r10;")],
    [
      "H009",
      "relaxed arrivals hand on no data",
      swapped("arrive.shared::cta.b64 _, [%r12];", "arrive.relaxed.cta.shared::cta.b64 _, [%r12];"),
    ],
    ["H040", "an arrival at bytes that are no barrier", swapped("_, [%r12];", "_, [%r12+32];")],
    ["H046", "no barrier after the initialisation", without("bar.sync 0;")],
    ["H041", "arrivals that are too many at once", swapped("_, [%r12];", "_, [%r12], 33;")],
  ] as const)("%s: %s", (rule, _, edit) => {
    // A warp that runs ahead may meet memory nobody has written, or hang, before it meets the race: some order shows it.
    const shown = runs.map((order) => rulesOf(launch(ring(edit), 64, order).report));
    for (const rules of shown) expect(rules).not.toEqual([]);
    expect(shown.flat()).toContain(rule);
  });
  test("a dropped arrival is a deadlock that names every barrier", () => {
    const report = found("H030", ring(without("mbarrier.arrive.shared::cta.b64 _, [%r12+16];")), 64);
    const message = report.findings.find((f) => f.rule === "H030")?.message ?? "";
    expect(message).toMatch(
      /the end of a phase with parity 0 of mbarrier 0x410 in phase 0, 32 of 32 arrivals pending, tx-count 0/,
    );
    expect(
      message.match(/mbarrier 0x4[0-9a-f]{2} in phase \d+, \d+ of 32 arrivals pending, tx-count 0/g)?.length,
    ).toBeGreaterThan(4);
  });
});

/** Every block fills its window, all meet, each reads its neighbour's through `read`, and all meet before they exit. */
const meet = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;";
const exchange = (read: string): string => `
  mad.lo.u32 %r5, %r3, 1000, %t; st.shared.u32 [%r2], %r5; ${meet}
  xor.b32 %r6, %t, 1; mad.lo.u32 %r6, %r6, 4, %r0;
  ${read}
  ${meet}
  mad.lo.u32 %r8, %r3, 32, %t; mad.wide.u32 %d2, %r8, 4, %d0; st.global.u32 [%d2], %r7;`;
const mapped = "mapa.shared::cluster.u32 %r6, %r6, %r4; ld.shared::cluster.u32 %r7, [%r6];";
const neighbours = range(64, (k) => (k < 32 ? 1000 : 0) + ((k % 32) ^ 1));

describe("clusters", () => {
  test.each([
    ["mapa and ld.shared::cluster", mapped],
    [
      "generic addresses",
      "cvt.u64.u32 %d5, %r6; cvta.shared::cluster.u64 %d5, %d5; mapa.u64 %d5, %d5, %r4; ld.u32 %r7, [%d5];",
    ],
    ["an atomic", "mapa.shared::cluster.u32 %r6, %r6, %r4; atom.shared::cluster.add.u32 %r7, [%r6], 0;"],
    [
      "the rank in the address's top byte",
      "and.b32 %r6, %r6, 16777215; shl.b32 %r7, %r4, 24; or.b32 %r6, %r6, %r7; ld.shared::cluster.u32 %r7, [%r6];",
    ],
  ])("neighbours' windows through %s", (_, read) => right(exchange(read), 32, neighbours, cluster));
  test("stores into another block's window", () => {
    right(
      `mapa.shared::cluster.u32 %r5, %r2, %r4; mad.lo.u32 %r6, %r3, 1000, %t; ${meet}
      st.shared::cluster.u32 [%r5], %r6; ${meet} ld.shared.u32 %r7, [%r2];
      mad.lo.u32 %r8, %r3, 32, %t; mad.wide.u32 %d2, %r8, 4, %d0; st.global.u32 [%d2], %r7;`,
      32,
      range(64, (k) => (k < 32 ? 1000 : 0) + (k % 32)),
      cluster,
    );
  });
  test("ranks, queries and special registers", () => {
    const body = `mapa.shared::cluster.u32 %r5, %r0, %r4; getctarank.shared::cluster.u32 %r6, %r5;
      cvt.u64.u32 %d5, %r0; cvta.shared.u64 %d5, %d5; mapa.u64 %d6, %d5, %r4; getctarank.u64 %r7, %d6;
      isspacep.shared::cta %p1, %d6; isspacep.shared::cluster %p2, %d6; isspacep.shared %p3, %d5; isspacep.global %p4, %d5;
      selp.u32 %r8, 1, 0, %p1; selp.u32 %r9, 2, 0, %p2; selp.u32 %r10, 4, 0, %p3; selp.u32 %r11, 8, 0, %p4;
      add.u32 %r8, %r8, %r9; add.u32 %r8, %r8, %r10; add.u32 %r8, %r8, %r11;
      mov.u32 %r9, %cluster_nctarank; mov.u32 %r10, %clusterid.y; mov.u32 %r11, %cluster_ctaid.x; mov.u32 %r12, %nclusterid.y;
      mov.pred %p5, %is_explicit_cluster; selp.u32 %r13, 1, 0, %p5;
      mov.u32 %r14, %ctaid.y; mad.lo.u32 %r14, %r14, 2, %r3; mad.wide.u32 %d2, %r14, 32, %d0;
      st.global.v4.u32 [%d2], {%r6, %r7, %r8, %r9}; st.global.v4.u32 [%d2+16], {%r10, %r11, %r12, %r13};`;
    const want = range(32, (k) => {
      const [y, rank] = [k >> 4, (k >> 3) & 1];
      return [1 - rank, 1 - rank, 6, 2, y, rank, 2, 1][k & 7] ?? 0;
    });
    right(body, 1, want, { grid: [2, 2, 1], cluster: [2, 1, 1] });
  });
  test.each([
    ["H009", "no cluster barrier before the read", exchange(mapped).replace(meet, "")],
    ["H009", "a relaxed arrival", exchange(mapped).replace("arrive.aligned", "arrive.relaxed.aligned")],
    ["H043", "no cluster barrier at the end", exchange(mapped).replace(`${mapped}\n  ${meet}`, mapped)],
    ["H001", "a rank that the cluster does not have", exchange(mapped.replace("%r6, %r4", "%r6, 5"))],
    ["H001", "past the end of the window", exchange(mapped.replace("[%r6]", "[%r6+2048]"))],
    ["H004", "misaligned", exchange(mapped.replace("[%r6]", "[%r6+2]"))],
    ["H003", "as the block's own", exchange(mapped.replace("ld.shared::cluster", "ld.shared"))],
    ["H006", "bytes nobody has written", exchange(mapped.replace("[%r6]", "[%r6+512]"))],
    ["H049", "a wait without an arrival", "barrier.cluster.wait;"],
    ["H049", "two arrivals", "barrier.cluster.arrive; barrier.cluster.arrive; barrier.cluster.wait;"],
    [
      "H030",
      "one warp stays away",
      `setp.eq.u32 %p1, %r15, 0; @%p1 bra A; bar.sync 1, 64; A: ${meet}`.replaceAll(".aligned", ""),
    ],
  ] as const)("%s: %s", (rule, _, body) => {
    found(rule, body, rule === "H030" ? 64 : 32, cluster);
  });
  test("a fence makes a relaxed arrival hand data on", () =>
    right(
      exchange(mapped).replace(
        "barrier.cluster.arrive.aligned",
        "fence.acq_rel.cluster; barrier.cluster.arrive.relaxed.aligned",
      ),
      32,
      neighbours,
      cluster,
    ));
  test("warps that have exited do not hold the cluster barrier up", () =>
    right(
      `setp.eq.u32 %p1, %r15, 1; @%p1 ret; ${meet} mov.u32 %r5, 7; st.global.u32 [%d1], %r5;`,
      64,
      [7, 7],
      cluster,
    ));
  test(".reqnctapercluster fixes the cluster; another one is refused", () => {
    const text = kernel(
      "mov.u32 %r1, %cluster_nctarank; ld.param.u64 %d0, [out]; st.global.u32 [%d0], %r1;",
    ).replace(")\n{", ")\n.reqnctapercluster 2, 1, 1\n{");
    const device = machine(text);
    const out = device.put(new Uint8Array(4));
    clean(device.launch("k", 2, 1, [out]));
    expect(device.u32(out, 1)[0]).toBe(2);
    const refused = device.emulator.launch(device.module, "k", {
      grid: [4, 1, 1],
      block: [1, 1, 1],
      cluster: [4, 1, 1],
      params: [out],
    });
    expect(refused.ok ? "" : refused.error[0]?.message).toBe(
      "k has .reqnctapercluster 2, 1, 1, the launch a cluster of 4x1x1",
    );
  });
});

/** Block 1 sends its threads' words to block 0 with `send`, which waits for them with `wait` and copies them out. */
const remote = (send: string, wait: string): string => `
  ${init(0, 32)} ${visible} ${meet}
  mapa.shared::cluster.u32 %r5, %r2, 0; mapa.shared::cluster.u32 %r6, %r1, 0; mad.lo.u32 %r7, %t, 3, 5;
  setp.eq.u32 %p1, %r3, 0; @%p1 bra WAIT;
  ${send} bra END;
WAIT: ${wait}
  ld.shared.u32 %r8, [%r2]; st.global.u32 [%d1], %r8;
END: barrier.cluster.arrive; barrier.cluster.wait;`;
const waiting = (semantics = ".acquire.cluster"): string =>
  `W: mbarrier.try_wait.parity${semantics}.shared::cta.b64 %p2, [bars], 0; @!%p2 bra W;`;
const arrival =
  "st.shared::cluster.u32 [%r5], %r7; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];";
const sent = range(32, (t) => 3 * t + 5);
const bytes = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bars], 4;";
const store = "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r5], %r7, [%r6];";

describe("across blocks through mbarriers", () => {
  test("stores and remote arrivals", () => right(remote(arrival, waiting()), 32, sent, cluster));
  test("generic addresses", () =>
    right(
      remote(
        "cvt.u64.u32 %d5, %r1; cvta.shared.u64 %d5, %d5; mapa.u64 %d5, %d5, 0; st.shared::cluster.u32 [%r5], %r7; mbarrier.arrive.release.cluster.b64 _, [%d5];",
        waiting(),
      )
        .replace("arrive.release.cluster.b64 _", "arrive.release.cluster.shared::cluster.b64 _")
        .replace("_, [%d5]", "_, [%r6]"),
      32,
      sent,
      cluster,
    ));
  test("st.async", () => right(remote(store, bytes + waiting()), 32, sent, cluster));
  test("a block that has its bytes may exit: nothing else of the others is under way", () =>
    right(
      remote(store, bytes + waiting()).replace("END: barrier.cluster.arrive; barrier.cluster.wait;", "END:"),
      32,
      sent,
      cluster,
    ));
  test("bytes that come before they are expected", () =>
    right(remote(store, `nanosleep.u32 100; ${bytes}${waiting()}`), 32, sent, cluster));
  test("red.async adds up atomically", () =>
    right(
      remote(
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r9], %r7, [%r6];",
        `${bytes}${waiting()} ld.shared.u32 %r8, [%r0]; st.shared.u32 [%r2+256], %r8;`,
      )
        .replace(
          meet,
          `mov.u32 %r8, 0; @%p0 st.shared.u32 [%r0], %r8; mapa.shared::cluster.u32 %r9, %r0, 0; ${meet}`,
        )
        .replace("ld.shared.u32 %r8, [%r2];", ""),
      32,
      range(32, () => 3 * 496 + 5 * 32),
      cluster,
    ));
  test.each([
    ["H034", "st.async read before its barrier", remote(store, bytes)],
    ["H009", "the wait for arrivals left out", remote(arrival, "")],
    [
      "H046",
      "no fence for the other block, only an unordered meeting",
      remote(arrival, waiting()).replace(visible, "").replace("arrive.aligned", "arrive.relaxed.aligned"),
    ],
    [
      "H047",
      "a wait on another block's barrier",
      remote(waiting().replace("[bars]", "[%r6]").replace("shared::cta", "shared::cta"), waiting())
        .replace("shared::cta.b64 %p2, [%r6]", "b64 %p2, [%d6]")
        .replace(meet, `${meet} cvt.u64.u32 %d6, %r1; cvta.shared.u64 %d6, %d6; mapa.u64 %d6, %d6, 0;`),
    ],
    [
      "H003",
      "data and barrier of st.async in different blocks",
      remote(store.replace("[%r6]", "[%r1]"), bytes + waiting()),
    ],
    ["H030", "st.async of fewer bytes than expected", remote(store, bytes.replace("4;", "8;") + waiting())],
  ] as const)("%s: %s", (rule, _, body) => {
    found(rule, body, 32, cluster);
  });
});

describe("mbarrier objects", () => {
  test.each([
    ["H042", "a load", `${init(0, 1)} bar.sync 0; ld.shared.u32 %r5, [bars];`],
    ["H042", "a store over it", `${init(0, 1)} bar.sync 0; st.shared.u32 [bars+4], %t;`],
    ["H045", "initialised twice", "mbarrier.init.shared.b64 [bars], 1;"],
    ["H044", "a count of zero", "setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared.b64 [bars], 0;"],
    [
      "H044",
      "a count beyond the limit",
      "setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared.b64 [bars], 1048576;",
    ],
    [
      "H044",
      "bytes beyond the limit",
      `${init(0, 1)} @%p0 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bars], 1048576;`,
    ],
    [
      "H040",
      "used after inval",
      `${init(0, 1)} @%p0 mbarrier.inval.shared.b64 [bars]; @%p0 mbarrier.arrive.shared.b64 %d3, [bars];`,
    ],
    [
      "H041",
      ".noComplete takes the last arrival",
      `${init(0, 1)} @%p0 mbarrier.arrive.noComplete.shared.b64 %d3, [bars], 1;`,
    ],
    ["H004", "a misaligned object", "setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared.b64 [bars+4], 1;"],
  ] as const)("%s: %s", (rule, _, body) => {
    found(rule, body, 32);
  });
  test("inval gives the bytes back", () =>
    right(
      `${init(0, 1)} @%p0 mbarrier.inval.shared.b64 [bars]; @%p0 mbarrier.init.shared.b64 [bars], 2; @%p0 mbarrier.inval.shared.b64 [bars];
      @%p0 st.shared.u32 [bars], 9; @%p0 ld.shared.u32 %r5, [bars]; @%p0 st.global.u32 [%d0], %r5;`,
      32,
      [9],
    ));
  test("arrive_drop, counts, noComplete, expect_tx and complete_tx keep exact account", () => {
    // Pending before each arrival; the drop leaves 3 of 4 expected from the second phase on.
    const body = `${init(0, 4)} setp.ne.u32 %p1, %t, 0; @%p1 ret;
      mbarrier.arrive.noComplete.shared.b64 %d3, [bars], 2; mbarrier.pending_count.b64 %r5, %d3;
      mbarrier.arrive_drop.shared.b64 %d3, [bars]; mbarrier.pending_count.b64 %r6, %d3;
      mbarrier.arrive.expect_tx.shared.b64 %d3, [bars], 64; mbarrier.pending_count.b64 %r7, %d3;
      mbarrier.test_wait.shared.b64 %p2, [bars], %d3; selp.u32 %r8, 1, 0, %p2;
      mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bars], 64;
      mbarrier.test_wait.shared.b64 %p2, [bars], %d3; selp.u32 %r9, 1, 0, %p2;
      mbarrier.test_wait.parity.shared.b64 %p2, [bars], 1; selp.u32 %r10, 1, 0, %p2;
      mbarrier.arrive.shared.b64 %d3, [bars], 3; mbarrier.pending_count.b64 %r11, %d3;
      mbarrier.test_wait.parity.shared.b64 %p2, [bars], 1; selp.u32 %r12, 1, 0, %p2;
      st.global.v4.u32 [%d0], {%r5, %r6, %r7, %r8}; st.global.v4.u32 [%d0+16], {%r9, %r10, %r11, %r12};`;
    right(body, 32, [4, 2, 1, 0, 1, 0, 3, 1]);
  });
  test("cp.async signals an mbarrier", () => {
    const copy = (arrive: string, count: number, wait: string): string =>
      `${init(0, count)} bar.sync 0; st.global.u32 [%d1], %t; membar.gl;
      cp.async.ca.shared.global [%r2], [%d1], 4; ${arrive}
      ${wait} xor.b32 %r5, %t, 33; mad.lo.u32 %r5, %r5, 4, %r0; ld.shared.u32 %r5, [%r5]; st.global.u32 [%d1+4096], %r5;`;
    const read = (body: string): void => {
      for (const order of runs) {
        const { report, out } = launch(body, 64, order);
        clean(report);
        expect([...out.slice(1024, 1088)]).toEqual(range(64, (t) => t ^ 33));
      }
    };
    const both = "cp.async.mbarrier.arrive.shared.b64 [bars]; mbarrier.arrive.shared.b64 %d3, [bars];";
    read(copy("cp.async.mbarrier.arrive.noinc.shared.b64 [bars];", 64, waiting("")));
    read(copy(both, 64, waiting("")));
    found("H013", copy(both, 64, ""), 64);
  });
  test("a look at an mbarrier that nobody can complete yet gives up when nothing else can go on", () => {
    right(
      `${init(0, 32)} bar.sync 0; mbarrier.try_wait.parity.shared.b64 %p1, [bars], 0; selp.u32 %r5, 1, 0, %p1;
      mbarrier.arrive.shared.b64 %d3, [bars]; ${waiting("")} st.global.u32 [%d1], %r5;`,
      32,
      range(32, () => 0),
    );
  });
});

describe("setmaxnreg", () => {
  const at = (text: string): string => `setp.ge.u32 %p1, %t, 128; @%p1 bra B; ${text}`;
  const handOver = at(
    "setmaxnreg.dec.sync.aligned.u32 24; bra E; B: setmaxnreg.inc.sync.aligned.u32 232; E: st.global.u32 [%d1], %t;",
  );
  test("what one warpgroup gives back another takes, in every order", () =>
    right(
      handOver,
      256,
      range(256, (t) => t),
      { registersPerThread: 128 },
    ));
  test("warps of a warpgroup may execute copies of one setmaxnreg in several branches", () =>
    right(
      "setp.ge.u32 %p1, %t, 64; @%p1 bra B; setmaxnreg.dec.sync.aligned.u32 24; bra E; B: setmaxnreg.dec.sync.aligned.u32 24; E: st.global.u32 [%d1], %t;",
      128,
      range(128, (t) => t),
      { registersPerThread: 128 },
    ));
  test.each([
    ["H030", "more than the pool has", handOver.replace("232", "240")],
    ["H048", "an increase to fewer than it has", at("setmaxnreg.inc.sync.aligned.u32 64; B:")],
    ["H048", "a decrease to more", at("setmaxnreg.dec.sync.aligned.u32 136; B:")],
    [
      "H048",
      "half of the warpgroup",
      "setp.ge.u32 %p1, %t, 64; @%p1 bra B; setmaxnreg.dec.sync.aligned.u32 24; B:",
    ],
    [
      "H023",
      "part of a warp",
      "setp.ne.u32 %p2, %r15, 0; @%p2 ret; setp.ge.u32 %p1, %t, 8; @%p1 bra B; setmaxnreg.dec.sync.aligned.u32 24; bra E; B: bar.warp.sync 0xffffff00; barrier.sync 2, 32; E:",
    ],
  ] as const)("%s: %s", (rule, _, body) => {
    found(rule, body, 256, { registersPerThread: 128 });
  });
});
