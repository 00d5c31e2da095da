/** Cluster launch control: every block index is worked on once, by a launch or by a cluster that takes it over. */
import { describe, expect, test } from "vitest";
import type { LaunchConfig, LaunchReport } from "../src/index.ts";
import { clean, machine, orders } from "./support.ts";

interface Options {
  readonly pair?: boolean;
  /** Text in place of the request, the query, the fence after the read. */
  readonly query?: string;
  readonly failed?: string;
  readonly fence?: string;
  readonly before?: string;
  readonly generic?: boolean;
}

/** One thread per block takes clusters until none is left, and counts each block index that it works on. */
function persistent({
  pair = false,
  query = "@%p1 clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%x, %y, %z, _}, %q;",
  failed = "@!%p1 bra DONE;",
  fence = "fence.proxy.async.shared::cta;",
  before = "",
  generic = false,
}: Options = {}): string {
  const multicast = pair ? ".multicast::cluster::all" : "";
  const arm = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 16;";
  // Both blocks have read the last response before the next is asked for.
  const meet = pair ? "barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" : "";
  const [slot, bar, space] = generic ? ["%gslot", "%gbar", ""] : ["%slot", "%bar", ".shared::cta"];
  return `.version 8.7
.target sm_100a
.address_size 64
.shared .align 16 .b8 s[64];
.visible .entry k(.param .u64 pout, .param .u32 pwidth, .param .u32 pheight)
{
.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b32 %x; .reg .b32 %y; .reg .b32 %z; .reg .b32 %slot; .reg .b32 %bar; .reg .b32 %parity; .reg .b32 %rank; .reg .b64 %d<4>; .reg .b64 %gslot; .reg .b64 %gbar; .reg .b128 %q; .reg .b64 %lo; .reg .b64 %hi;
mov.u32 %slot, s; add.u32 %bar, %slot, 16; mov.u32 %parity, 0; mov.u32 %rank, %cluster_ctarank;
cvt.u64.u32 %gslot, %slot; cvta.shared.u64 %gslot, %gslot; add.u64 %gbar, %gslot, 16;
ld.param.u64 %d0, [pout]; ld.param.u32 %r0, [pwidth]; ld.param.u32 %r1, [pheight];
mbarrier.init.shared::cta.b64 [%bar], 1; fence.mbarrier_init.release.cluster;
mov.u32 %x, %ctaid.x; mov.u32 %y, %ctaid.y; mov.u32 %z, %ctaid.z; sub.u32 %x, %x, %rank;
${before}
WORK: ${meet}
${arm}
setp.ne.u32 %p0, %rank, 0;
@!%p0 clusterlaunchcontrol.try_cancel.async${space}.mbarrier::complete_tx::bytes${multicast}.b128 [${slot}], [${bar}];
mad.lo.u32 %r2, %z, %r1, %y; mad.lo.u32 %r2, %r2, %r0, %x; add.u32 %r2, %r2, %rank;
mul.wide.u32 %d1, %r2, 4; add.u64 %d1, %d0, %d1; atom.global.add.u32 %r3, [%d1], 1;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%bar], %parity; @!%p2 bra WAIT;
xor.b32 %parity, %parity, 1;
ld.shared.v2.b64 {%lo, %hi}, [%slot]; mov.b128 %q, {%lo, %hi};
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %q;
${failed}
${query}
${fence}
bra WORK;
DONE: ${meet}
ret;
}
`;
}

function run(
  text: string,
  grid: readonly [number, number, number],
  rest: Partial<LaunchConfig> = {},
): { readonly report: LaunchReport; readonly counts: readonly number[] } {
  const device = machine(text);
  const blocks = grid[0] * grid[1] * grid[2];
  const out = device.put(new Int32Array(blocks));
  const report = device.launch("k", grid, 1, [out, grid[0], grid[1]], { fuel: 1e6, ...rest });
  return { report, counts: [...device.i32(out, blocks)] };
}

const once = (blocks: number): number[] => new Array<number>(blocks).fill(1);
const cluster = [2, 1, 1] as const;

describe("all work is done once", () => {
  test.each(orders)("blocks without clusters: %s", (order) => {
    for (let seed = 1; seed <= 20; seed++) {
      const { report, counts } = run(persistent(), [5, 3, 2], { order, seed });
      clean(report);
      expect(counts).toEqual(once(30));
    }
  });
  test.each(orders)("pairs with multicast responses: %s", (order) => {
    for (let seed = 1; seed <= 20; seed++) {
      const { report, counts } = run(persistent({ pair: true }), [6, 2, 2], { order, seed, cluster });
      clean(report);
      expect(counts).toEqual(once(24));
    }
  });
  test("generic addresses; single axes of the index", () => {
    const query = ["x", "y", "z"]
      .map((axis) => `@%p1 clusterlaunchcontrol.query_cancel.get_first_ctaid::${axis}.b32.b128 %${axis}, %q;`)
      .join(" ");
    const { report, counts } = run(persistent({ generic: true, query }), [4, 2, 3]);
    clean(report);
    expect(counts).toEqual(once(24));
  });
  test.each([1, 3, 8, 64])("%i clusters resident at once", (residentClusters) => {
    const { report, counts } = run(persistent({ pair: true }), [16, 1, 1], {
      residentClusters,
      cluster,
      order: "random",
    });
    clean(report);
    expect(counts).toEqual(once(16));
  });
  test("few clusters start: most of the work is taken over", () => {
    const { report } = run(persistent(), [40, 1, 1], { order: "lazy" });
    // One request for each index, and the one that failed.
    const requests = Object.entries(report.counters.instructions).filter(([name]) =>
      name.includes("try_cancel"),
    );
    expect(requests.map(([, count]) => count)).toEqual([40]);
  });
});

describe("H089", () => {
  const messages = (report: LaunchReport): readonly string[] =>
    report.findings.map((f) => `${f.rule} ${f.message}`);
  test("another request after a failure has been read", () => {
    const again = `@%p1 bra OK; fence.proxy.async.shared::cta; ${"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 16;"}
      clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%slot], [%bar];
      AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%bar], %parity; @!%p2 bra AGAIN; bra DONE; OK:`;
    for (const order of orders)
      expect(messages(run(persistent({ failed: again }), [4, 1, 1], { order, seed: 3 }).report)).toEqual([
        "H089 block rank 0 asks again after it has read that a request failed",
      ]);
  });
  test("the index of a request that failed", () => {
    const query = "clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %x, %q;";
    const { report } = run(persistent({ failed: `${query} @!%p1 bra DONE;`, query: "" }), [4, 1, 1]);
    expect(messages(report)).toEqual(["H089 lane 0 takes the block index of a request that failed"]);
  });
  test("bytes that are no response", () => {
    const before =
      "mov.u64 %lo, 1; mov.b128 %q, {%lo, %lo}; clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %q;";
    expect(messages(run(persistent({ before }), [2, 1, 1]).report)).toEqual([
      "H089 lane 0 queries 16 bytes that are no response of clusterlaunchcontrol.try_cancel",
    ]);
  });
  test("a response or mbarrier in another block", () => {
    const text = persistent({ pair: true }).replace(".b128 [%slot], [%bar];", ".b128 [%r9], [%bar];");
    const remote = text.replace("WORK:", "mapa.shared::cluster.u32 %r9, %slot, 1; WORK:");
    const { report } = run(remote, [4, 1, 1], { cluster });
    expect(messages(report)[0]).toBe(
      "H089 response at 0x1000000, mbarrier at 0x10: both have to lie in the block that asks, rank 0",
    );
  });
});

describe("other rules that requests meet", () => {
  test("the response is read before the barrier's phase is over", () => {
    const { report } = run(
      persistent()
        .replace(/WAIT: .*\n/, "")
        .replace("xor.b32 %parity, %parity, 1;", ""),
      [4, 1, 1],
      { order: "eager" },
    );
    expect(report.findings.map((f) => f.rule)).toContain("H013");
  });
  test("H033: a response is overwritten with no proxy fence after it was read; a fence by the one who asks will do", () => {
    const unfenced = persistent({ fence: "" });
    const asked = unfenced.replace("WORK:", "WORK: fence.proxy.async.shared::cta;");
    for (const order of orders) {
      const config = { order, residentClusters: 1 };
      expect(run(unfenced, [4, 1, 1], config).report.findings.map((f) => f.rule)).toEqual(["H033"]);
      clean(run(asked, [4, 1, 1], config).report);
    }
  });
  test("a block that exits with a request in flight", () => {
    const early = persistent().replace("WAIT:", "bra DONE; WAIT:");
    const { report } = run(early, [4, 1, 1], { order: "lazy" });
    expect(report.findings.map((f) => f.rule)).toContain("H043");
  });
  test("TW5026: residentClusters", () => {
    const device = machine(persistent());
    const out = device.put(new Int32Array(4));
    const launched = device.emulator.launch(device.module, "k", {
      grid: [1, 1, 1],
      block: [1, 1, 1],
      params: [out, 1, 1],
      residentClusters: 0,
    });
    expect(launched.ok ? [] : launched.error.map((d) => d.code)).toEqual(["TW5026"]);
  });
});
