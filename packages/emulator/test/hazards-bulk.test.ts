/** Bulk and tensor copies: right kernels are clean in every order, each fault is found and the kernel next to it is not blamed. */
import type { TensorMapSpec } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import type { LaunchConfig, LaunchReport } from "../src/index.ts";
import { clean, machine, orders, value } from "./support.ts";

const rows = 32;
const columns = 64;
const spec = (address: bigint): TensorMapSpec => ({
  dtype: "u16",
  address,
  dims: [columns, rows],
  strides: [columns * 2],
  box: [64, 8],
  elementStrides: [1, 1],
  interleave: "none",
  swizzle: "128B",
  l2: "none",
  fill: "zero",
});
const boxBytes = 1024;

/** A kernel with maps of `in` and `out`, their addresses, and a copy of a map in global memory at `%maps`. */
const text = (body: string): string => `.version 8.6
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 sm[];
.visible .entry k(.param .align 64 .b8 ma[128], .param .align 64 .b8 mb[128], .param .u64 in, .param .u64 out, .param .u64 maps)
{
.reg .pred %p<8>; .reg .b32 %r<16>; .reg .b16 %h<4>; .reg .b32 %t, %sm, %bar, %rank; .reg .b64 %ma, %mb, %in, %out, %maps, %d<8>;
mov.b64 %ma, ma; cvta.param.u64 %ma, %ma; mov.b64 %mb, mb; cvta.param.u64 %mb, %mb;
ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; ld.param.u64 %maps, [maps];
mov.u32 %t, %tid.x; mov.b32 %sm, sm; add.s32 %bar, %sm, 8192; mov.u32 %rank, %cluster_ctarank;
setp.eq.u32 %p0, %t, 0; setp.ne.u32 %p1, %t, 0;
${body}
ret;
}
`;

type Rest = Partial<LaunchConfig> & {
  readonly grid?: readonly [number, number, number];
  readonly threads?: number;
};

function launch(body: string, rest: Rest = {}, change: Partial<TensorMapSpec> = {}) {
  const device = machine(text(body));
  const data = Uint16Array.from({ length: rows * columns }, (_, k) => k + 1);
  const input = device.put(data);
  const output = device.put(new Uint16Array(rows * columns));
  const encode = (address: bigint): Uint8Array =>
    value(device.emulator.encodeTensorMap({ ...spec(address), ...change }));
  const maps = device.put(encode(input));
  const { grid = [1, 1, 1], threads = 32, ...config } = rest;
  const report = device.launch("k", grid, threads, [encode(input), encode(output), input, output, maps], {
    dynamicSmem: 8256,
    fuel: 1e6,
    ...config,
  });
  return { report, data, out: device.u16(output, rows * columns) };
}

const rulesOf = (report: LaunchReport): string[] => [...new Set(report.findings.map((f) => f.rule))].sort();
const runs: readonly Partial<LaunchConfig>[] = [
  ...orders.map((order) => ({ order })),
  ...Array.from({ length: 10 }, (_, seed) => ({ order: "random" as const, seed: seed + 2 })),
];

const ready = `@%p0 mbarrier.init.shared::cta.b64 [%bar], 1; @%p0 fence.mbarrier_init.release.cluster; bar.sync 0;`;
const expectTx = (bytes: number): string =>
  `@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], ${bytes};`;
const load = (coordinates = "{0, 8}", map = "%ma"): string =>
  `mov.b32 %r1, 8; mov.b32 %r2, 0; @%p0 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%sm], [${map}, ${coordinates}], [%bar];`;
const wait = `W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%bar], 0; @!%p2 bra W;`;
const store = (coordinates = "{0, 16}"): string =>
  `@%p0 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%mb, ${coordinates}], [%sm];`;
const done = `@%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group.read 0;`;
const whole = `${ready}${expectTx(boxBytes)}${load()}${wait}${store()}${done}`;

/** The rule is found in every order; `also` are others that may come with it. */
function found(
  rule: string,
  body: string,
  rest: Rest = {},
  change: Partial<TensorMapSpec> = {},
  also: string[] = [],
): string {
  let message = "";
  for (const order of orders) {
    const { report } = launch(body, { ...rest, order }, change);
    expect(
      rulesOf(report).filter((r) => !also.includes(r)),
      `${order}: ${report.findings.map((f) => f.message).join("\n")}`,
    ).toEqual([rule]);
    message = report.findings.find((f) => f.rule === rule)?.message ?? "";
  }
  return message;
}

test("of a box that reaches beyond the tensor, only what lies inside has to be written", () => {
  const rowsWritten = (count: number): string =>
    `shl.b32 %r5, %t, 5; add.u32 %r5, %r5, %sm; setp.lt.u32 %p3, %t, ${count * 4}; @%p3 st.shared.v4.b32 [%r5], {1, 2, 3, 4}; @%p3 st.shared.v4.b32 [%r5+16], {1, 2, 3, 4};
fence.proxy.async.shared::cta; bar.sync 0; ${store("{0, 27}")}${done}`;
  for (const order of orders) clean(launch(rowsWritten(5), { order }).report);
  found("H006", rowsWritten(4));
});

describe("right kernels", () => {
  test("a box to shared memory and on to another place, in every order", () => {
    for (const run of runs) {
      const { report, data, out } = launch(whole, run);
      clean(report);
      expect(out.slice(16 * columns, 24 * columns)).toEqual(data.slice(8 * columns, 16 * columns));
      expect(out.slice(0, 16 * columns).every((x) => x === 0)).toBe(true);
      expect(report.counters.globalBytesRead).toBe(boxBytes);
      expect(report.counters.globalBytesWritten).toBe(boxBytes);
    }
  });

  test("all swizzles, the atoms of sm_100 too: load and store are inverse", () => {
    for (const swizzle of [
      "none",
      "32B",
      "64B",
      "128B",
      "128B_ATOM_32B",
      "128B_ATOM_32B_FLIP_8B",
      "128B_ATOM_64B",
    ] as const)
      for (const inner of [8, 16, 32, 64]) {
        const span = { none: 128, "32B": 32, "64B": 64 }[swizzle as string] ?? 128;
        if (inner * 2 > span) continue;
        const { report, data, out } = launch(
          whole.replace(`${boxBytes};`, `${inner * 16};`),
          {},
          { swizzle, box: [inner, 8] },
        );
        clean(report);
        for (let y = 0; y < 8; y++)
          for (let x = 0; x < columns; x++)
            expect(out[(16 + y) * columns + x]).toBe(x < inner ? data[(8 + y) * columns + x] : 0);
      }
  });

  test("multicast: both blocks of a cluster get both boxes, each on its own barrier", () => {
    const body = `${ready}${expectTx(2 * boxBytes)} barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
mov.b16 %h0, 3; shl.b32 %r2, %rank, 10; add.s32 %r3, %sm, %r2; shl.b32 %r4, %rank, 3; mov.b32 %r5, 0;
@%p0 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%r3], [%ma, {%r5, %r4}], [%bar], %h0;
${wait}
setp.eq.u32 %p3, %rank, 1; mov.b32 %r6, 16; @!%p3 mov.b32 %r6, 0;
@%p0 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%mb, {%r5, %r6}], [%sm];
add.s32 %r7, %sm, 1024; add.s32 %r8, %r6, 8;
@%p0 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%mb, {%r5, %r8}], [%r7];
${done} barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;`;
    for (const run of runs) {
      const { report, data, out } = launch(body, { grid: [2, 1, 1], cluster: [2, 1, 1], ...run });
      clean(report);
      expect(out.slice(0, 16 * columns)).toEqual(data.slice(0, 16 * columns));
      expect(out.slice(16 * columns)).toEqual(data.slice(0, 16 * columns));
    }
  });

  test("gather4 takes rows in any order, and rows outside are zero; scatter4 puts them back", () => {
    const gather = `mov.b32 %r5, 0; @%p0 cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [%sm], [%ma, {%r5, 7, 3, 40, 7}], [%bar];`;
    const scatter = `@%p0 cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%mb, {%r5, 1, 5, 0, 9}], [%sm];`;
    const { report, data, out } = launch(
      `${ready}${expectTx(512)}${gather}${wait}${scatter}${done}`,
      {},
      { box: [64, 1] },
    );
    clean(report);
    const row = (k: number) => [...data.slice(k * columns, (k + 1) * columns)];
    const got = (k: number) => [...out.slice(k * columns, (k + 1) * columns)];
    expect([got(1), got(5), got(9)]).toEqual([row(7), row(3), row(7)]);
    expect(got(0)).toEqual(new Array(columns).fill(0));
  });

  test("a map changed in shared memory, copied with a fence and acquired", () => {
    const body = `${ready} cvta.to.global.u64 %d1, %maps;
shl.b32 %r5, %t, 2; cvt.u64.u32 %d2, %r5; add.s64 %d3, %d1, %d2; ld.global.b32 %r6, [%d3]; add.s32 %r7, %sm, 4096; add.s32 %r8, %r7, %r5; st.shared.b32 [%r8], %r6;
bar.warp.sync 0xffffffff;
@%p0 tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r7], 1, 4;
bar.warp.sync 0xffffffff;
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%maps], [%r7], 128;
fence.proxy.tensormap::generic.acquire.gpu [%maps], 128;
${expectTx(512)}${load("{%r2, %r1}", "%maps")}${wait}`;
    for (const run of runs) clean(launch(body, run).report);
    found("H052", body.replace("fence.proxy.tensormap::generic.acquire.gpu [%maps], 128;", ""));
  });
});

describe("findings", () => {
  test("H050: no map, a map that breaks a rule", () => {
    expect(found("H050", `${ready}${expectTx(boxBytes)}${load("{0, 8}", "%in")}${wait}`)).toMatch(
      /no tensor map/,
    );
    const replaced = (box: number): string =>
      `${ready} @%p0 tensormap.replace.tile.box_dim.global.b1024.b32 [%maps], 1, ${box}; fence.proxy.tensormap::generic.release.gpu; fence.proxy.tensormap::generic.acquire.gpu [%maps], 128; ${expectTx(512)}${load("{0, 8}", "%maps")}${wait}`;
    expect(found("H050", replaced(300))).toMatch(/300 elements \(tensorMap.box\[1\]\)/);
    clean(launch(replaced(4)).report);
  });

  test("H051: rank, coordinates, reductions that do not exist", () => {
    expect(
      found("H051", whole.replace("2d.shared::cluster", "1d.shared::cluster").replace("{0, 8}", "{0}")),
    ).toMatch(/1-dimensional copy .*rank 2/);
    expect(found("H051", whole.replace("{0, 8}", "{4, 8}"))).toMatch(/multiples of 16 bytes/);
    expect(found("H051", whole.replace("{0, 16}", "{0, -1}"))).toMatch(/none below 0/);
    clean(launch(whole.replace("{0, 8}", "{-8, -8}")).report);
    expect(
      found(
        "H051",
        whole.replace(
          "cp.async.bulk.tensor.2d.global.shared::cta.tile",
          "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile",
        ),
      ),
    ).toMatch(/no reduction add of u16/);
  });

  test("H053: sizes, barriers of other blocks, masks", () => {
    const bulk = (bytes: number): string =>
      `${ready}${expectTx(32)} @%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%sm], [%in], %r1, [%bar];`.replace(
        "@%p0 cp",
        `mov.b32 %r1, ${bytes}; @%p0 cp`,
      ) + wait;
    clean(launch(bulk(32)).report);
    found("H053", bulk(24), {}, {}, ["H030"]);
    const multicast = whole
      .replace(
        "complete_tx::bytes [%sm], [%ma, {0, 8}], [%bar];",
        "complete_tx::bytes.multicast::cluster [%sm], [%ma, {0, 8}], [%bar], %h0;",
      )
      .replace(load().slice(0, 10), `mov.b16 %h0, 4; ${load().slice(0, 10)}`);
    found("H053", multicast, {}, {}, ["H030"]);
  });

  test("H054: a block that exits while its stores may still read", () => {
    found("H054", whole.replace("@%p0 cp.async.bulk.wait_group.read 0;", ""));
    found("H054", whole.replace(done, ""));
    clean(launch(whole.replace("wait_group.read", "wait_group")).report);
  });

  test("H055: a load that nobody waits for lands in a block that is gone", () => {
    const body = `${ready}${expectTx(boxBytes)}${load()}`;
    expect(rulesOf(launch(body, { order: "lazy" }).report)).toContain("H055");
  });

  test("bytes that do not arrive hang, and the tx-count is named", () => {
    for (const order of orders) {
      const { report } = launch(whole.replace(`${boxBytes};`, `${boxBytes + 16};`), { order });
      expect(report.completed).toBe(false);
      expect(report.findings.map((f) => f.message).join()).toMatch(/tx-count 16/);
    }
  });

  test("shared memory: boxes beyond the window and off their alignment; a generic write without a proxy fence", () => {
    found(
      "H001",
      whole
        .replaceAll("add.s32 %bar, %sm, 8192;", "")
        .replace("[%sm], [%ma", "[%r1], [%ma")
        .replace("mov.b32 %r1, 8;", "add.s32 %r1, %sm, 7680;"),
    );
    found(
      "H004",
      whole.replace("[%sm], [%ma", "[%r1], [%ma").replace("mov.b32 %r1, 8;", "add.s32 %r1, %sm, 64;"),
    );
    const written = (fence: string): string =>
      `shl.b32 %r5, %t, 5; add.s32 %r5, %sm, %r5; st.shared.v4.b32 [%r5], {%t, %t, %t, %t}; st.shared.v4.b32 [%r5+16], {%t, %t, %t, %t}; ${fence} bar.sync 0; ${store()}${done}`;
    for (const run of runs) clean(launch(written("fence.proxy.async.shared::cta;"), run).report);
    found("H033", written(""));
  });

  test("data used before the barrier, and overwritten while a store reads", () => {
    expect(
      rulesOf(
        launch(`${ready}${expectTx(boxBytes)}${load()} ld.shared.b32 %r9, [%sm]; ${wait}`, { order: "eager" })
          .report,
      ),
    ).not.toEqual([]);
    const early = whole.replace(
      "@%p0 cp.async.bulk.wait_group.read 0;",
      "@%p0 st.shared.b32 [%sm], %t; @%p0 cp.async.bulk.wait_group.read 0;",
    );
    for (const order of orders) expect(rulesOf(launch(early, { order }).report)).not.toEqual([]);
  });
});

describe("loads under way", () => {
  /** A box is loaded, read, handed back on a second mbarrier, and its place filled again; `act` stands between the load and the arrival. */
  const refilled = (act: string): string => `add.s32 %r8, %bar, 8;
@%p0 mbarrier.init.shared::cta.b64 [%bar], 1; @%p0 mbarrier.init.shared::cta.b64 [%r8], 1; @%p0 fence.mbarrier_init.release.cluster; bar.sync 0;
${expectTx(boxBytes)}${load()}${wait}
shl.b32 %r5, %t, 2; add.s32 %r5, %r5, %sm; ld.shared.b32 %r6, [%r5]; ${act}
@%p0 mbarrier.arrive.shared::cta.b64 _, [%r8];
V: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r8], 0; @!%p2 bra V;
${expectTx(boxBytes)}${load("{0, 16}")}
X: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%bar], 1; @!%p2 bra X;
add.s32 %r7, %r6, 1;`;

  test("H090 a bulk copy into a place that is handed back by a bare arrive", () => {
    expect(found("H090", refilled(""))).toMatch(
      /is overwritten by a bulk copy of warp 0, and warp 0's load from it may still be under way/,
    );
    found("H090", refilled("bar.warp.sync 0xffffffff;"));
    found("H090", refilled("add.s32 %r9, %r5, 1;"));
  });

  test.each([
    "fence.proxy.async.shared::cta;",
    "membar.cta;",
    "fence.acq_rel.gpu;",
    "bar.sync 0;",
    "add.s32 %r9, %r6, 1;",
    "@%p1 mov.b32 %r6, 0;",
  ])("none behind %s", (act) => {
    for (const order of orders) clean(launch(refilled(act), { order }).report);
  });
});

describe("maps that change", () => {
  const replace = "@%p0 tensormap.replace.tile.box_dim.global.b1024.b32 [%maps], 1, 8;";
  const release = "@%p0 fence.proxy.tensormap::generic.release.gpu;";
  const acquire = "@%p0 fence.proxy.tensormap::generic.acquire.gpu [%maps], 128;";
  const storeBy = store().replace("%mb", "%maps");
  const again = `${replace}${release}${acquire}`;

  test("H091 a map replaced before its load has been waited for", () => {
    const body = (between: string): string =>
      `${ready}${expectTx(boxBytes)}${load("{0, 8}", "%maps")}${between}${again}`;
    expect(found("H091", `${body("")}${wait}`)).toMatch(/is changed while a copy of warp 0 that uses it/);
    for (const order of orders) clean(launch(body(wait), { order }).report);
  });

  test("H091 a map replaced before its store has been waited for; .read is enough", () => {
    const body = (between: string): string =>
      `${ready}${expectTx(boxBytes)}${load()}${wait}${storeBy} @%p0 cp.async.bulk.commit_group;${between}${again}`;
    const waitFor = "@%p0 cp.async.bulk.wait_group.read 0;";
    found("H091", `${body("")}${waitFor}`);
    for (const order of orders) clean(launch(body(waitFor), { order }).report);
  });

  test("H052 changes, releases, acquires and uses by warps that have not met", () => {
    // The first warp changes the map, the second uses it: what stands between is done by one or by the other.
    const meet = "bar.sync 0;";
    const body = (
      steps: string,
    ): string => `shr.u32 %r9, %t, 5; setp.eq.u32 %p4, %r9, 1; and.b32 %r10, %t, 31;
setp.eq.and.u32 %p5, %r10, 0, %p4; ${ready}${steps}
@%p5 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], ${boxBytes};
${load("{0, 8}", "%maps").replace("@%p0 cp", "@%p5 cp")}${wait}`;
    const second = (step: string): string => step.replace("@%p0", "@%p5");
    const two = { threads: 64 };
    for (const order of orders) {
      for (const right of [
        [replace, release, meet, second(acquire)],
        [replace, meet, second(release), second(acquire)],
        [replace, release, acquire, meet],
      ])
        clean(launch(body(right.join("\n")), { order, ...two }).report);
      // The copy may come before the change as well.
      for (const wrong of [
        [replace, release, second(acquire)],
        [replace, second(release), second(acquire)],
        [replace, release, acquire],
      ])
        expect(["H052", "H091"]).toContain(
          rulesOf(launch(body(wrong.join("\n")), { order, ...two }).report).join(),
        );
    }
  });
});
