/** Right kernels that exchange data through global memory, and faults to plant in them: an edit of the text and the rules that should find it. */
import type { LaunchConfig, RuleId } from "../../src/index.ts";
import { kernel } from "../support.ts";

interface GlobalFault {
  readonly fault: string;
  /** The text to replace, which the kernel has once, and what takes its place. */
  readonly from: string;
  readonly to: string;
  readonly finds: readonly RuleId[];
}

export interface GlobalSubject {
  readonly name: string;
  readonly text: string;
  readonly launch: (out: bigint) => Omit<LaunchConfig, "params" | "order" | "seed">;
  readonly faults: readonly GlobalFault[];
}

/** Bytes of the buffer that a subject works on. */
export const globalBytes = 8192;

// %d0 is the buffer, %d1 the thread's word in it, %r0 the block's number; %p0 holds in thread 0.
const head = `ld.param.u64 %d0, [out]; mad.wide.u32 %d1, %t, 4, %d0; mov.u32 %r0, %ctaid.x; setp.eq.u32 %p0, %t, 0;`;
const shared = ".shared .align 4 .b32 word; .shared .align 128 .b8 tile[512]; .shared .align 8 .b64 bar;";

const dropped = (fault: string, from: string, ...finds: readonly RuleId[]): GlobalFault => ({
  fault: `${fault} dropped`,
  from,
  to: "",
  finds,
});
const changed = (fault: string, from: string, to: string, ...finds: readonly RuleId[]): GlobalFault => ({
  fault,
  from,
  to,
  finds,
});

/** Four blocks hand in partial sums, and the last to come adds them up. */
const lastBlock: GlobalSubject = {
  name: "last block",
  launch: () => ({ grid: [4, 1, 1], block: [64, 1, 1], residentClusters: 4 }),
  text: kernel(
    `${head}
    mad.lo.u32 %r1, %r0, 64, %t; mad.wide.u32 %d2, %r1, 4, %d0;
    mad.lo.u32 %r2, %r0, 1000, %t;
    st.global.u32 [%d2+1024], %r2;
    fence.acq_rel.gpu; // release
    bar.sync 0; // handed in
    @!%p0 bra COUNTED;
    atom.relaxed.gpu.global.add.u32 %r3, [%d0+4096], 1;
    st.shared.u32 [word], %r3;
    COUNTED: bar.sync 1;
    ld.shared.u32 %r3, [word];
    setp.ne.u32 %p1, %r3, 3;
    @%p1 bra DONE;
    fence.acq_rel.gpu; // acquire
    ld.global.u32 %r4, [%d1+1024]; ld.global.u32 %r5, [%d1+1280]; ld.global.u32 %r6, [%d1+1536]; ld.global.u32 %r7, [%d1+1792];
    add.u32 %r4, %r4, %r5; add.u32 %r4, %r4, %r6; add.u32 %r4, %r4, %r7;
    st.global.u32 [%d1], %r4;
    DONE:`,
    { module: shared },
  ),
  faults: [
    dropped("fence before the count", "fence.acq_rel.gpu; // release", "H092"),
    changed(
      "fence before the count of scope .cta",
      "fence.acq_rel.gpu; // release",
      "fence.acq_rel.cta;",
      "H092",
    ),
    changed(
      "fence before the stores",
      "st.global.u32 [%d2+1024], %r2;\n    fence.acq_rel.gpu; // release",
      "fence.acq_rel.gpu; st.global.u32 [%d2+1024], %r2;",
      "H092",
    ),
    dropped("barrier before the count", "bar.sync 0; // handed in", "H092"),
    dropped("fence behind the count", "fence.acq_rel.gpu; // acquire", "H092"),
    changed("fence behind the count of scope .cta", "fence.acq_rel.gpu; // acquire", "membar.cta;", "H092"),
    changed("count of scope .cta", "atom.relaxed.gpu", "atom.relaxed.cta", "H096", "H092"),
    changed("count of scope .cluster", "atom.relaxed.gpu", "atom.relaxed.cluster", "H096", "H092"),
    changed(
      "count by a load and a store",
      "atom.relaxed.gpu.global.add.u32 %r3, [%d0+4096], 1;",
      "ld.global.u32 %r3, [%d0+4096]; add.u32 %r4, %r3, 1; st.global.u32 [%d0+4096], %r4;",
      ...(["H092", "H093", "H094"] as const),
    ),
    changed("last but one goes on", "%r3, 3;", "%r3, 2;", "H092", "H093"),
    changed("first goes on", "%r3, 3;", "%r3, 0;", "H092", "H093"),
    changed("all go on", "@%p1 bra DONE;", "", "H092", "H093"),
    changed("partial sums in one place", "%r0, 64, %t;", "%r0, 0, %t;", "H094", "H092"),
    changed("partial sums that overlap", "%r0, 64, %t;", "%r0, 63, %t;", "H094", "H092"),
    changed("partial sums by the non-coherent path", "ld.global.u32 %r5", "ld.global.nc.u32 %r5", "H100"),
    changed(
      "sum written by every block",
      "st.global.u32 [%d2+1024], %r2;",
      "st.global.u32 [%d2+1024], %r2; st.global.u32 [%d1], %r2;",
      "H094",
    ),
  ],
};

/** Block 0 hands rounds of data to block 1 through a ring of two slots. */
const ring: GlobalSubject = {
  name: "ring of flags",
  launch: () => ({ grid: [2, 1, 1], block: [64, 1, 1], residentClusters: 2 }),
  text: kernel(
    `${head} setp.ne.u32 %p1, %r0, 0; mov.u32 %r1, 0;
    @%p1 bra TAKE;
    PUT: setp.lt.u32 %p2, %r1, 2; @%p2 bra FREE;
    sub.u32 %r2, %r1, 1;
    EMPTY: ld.acquire.gpu.global.u32 %r3, [%d0+4100]; setp.lt.u32 %p3, %r3, %r2; @%p3 bra EMPTY;
    FREE: bar.sync 1; // free
    and.b32 %r4, %r1, 1; mad.wide.u32 %d2, %r4, 256, %d1;
    mad.lo.u32 %r5, %r1, 1000, %t; st.global.u32 [%d2], %r5;
    bar.sync 2; // written
    add.u32 %r1, %r1, 1;
    @%p0 st.release.gpu.global.u32 [%d0+4096], %r1;
    setp.lt.u32 %p2, %r1, 6; @%p2 bra PUT;
    bra.uni DONE;
    TAKE: add.u32 %r2, %r1, 1; @!%p0 bra SEEN;
    FULL: ld.acquire.gpu.global.u32 %r3, [%d0+4096]; setp.lt.u32 %p3, %r3, %r2; @%p3 bra FULL;
    SEEN: bar.sync 3; // seen
    and.b32 %r4, %r1, 1; mad.wide.u32 %d2, %r4, 256, %d1;
    ld.global.u32 %r5, [%d2];
    bar.sync 4; // taken
    add.u32 %r1, %r1, 1;
    @%p0 st.release.gpu.global.u32 [%d0+4100], %r1;
    setp.lt.u32 %p2, %r1, 6; @%p2 bra TAKE;
    DONE:`,
    { module: shared },
  ),
  faults: [
    changed(
      "relaxed flag of a full slot",
      "st.release.gpu.global.u32 [%d0+4096]",
      "st.relaxed.gpu.global.u32 [%d0+4096]",
      "H092",
    ),
    changed(
      "flag of a full slot released to the block",
      "st.release.gpu.global.u32 [%d0+4096]",
      "st.release.cta.global.u32 [%d0+4096]",
      "H092",
      "H096",
    ),
    changed(
      "plain flag of a full slot",
      "st.release.gpu.global.u32 [%d0+4096]",
      "st.global.u32 [%d0+4096]",
      "H092",
      "H093",
      "H094",
    ),
    changed(
      "volatile flag of a full slot",
      "st.release.gpu.global.u32 [%d0+4096]",
      "st.volatile.global.u32 [%d0+4096]",
      "H092",
    ),
    changed(
      "relaxed wait for a full slot",
      "ld.acquire.gpu.global.u32 %r3, [%d0+4096]",
      "ld.relaxed.gpu.global.u32 %r3, [%d0+4096]",
      "H092",
    ),
    changed(
      "wait for a full slot acquired in the block",
      "ld.acquire.gpu.global.u32 %r3, [%d0+4096]",
      "ld.acquire.cta.global.u32 %r3, [%d0+4096]",
      "H092",
      "H096",
    ),
    changed(
      "volatile wait for a full slot",
      "ld.acquire.gpu.global.u32 %r3, [%d0+4096]",
      "ld.volatile.global.u32 %r3, [%d0+4096]",
      "H092",
    ),
    changed(
      "relaxed flag of a free slot",
      "st.release.gpu.global.u32 [%d0+4100]",
      "st.relaxed.gpu.global.u32 [%d0+4100]",
      "H093",
    ),
    changed(
      "relaxed wait for a free slot",
      "ld.acquire.gpu.global.u32 %r3, [%d0+4100]",
      "ld.relaxed.gpu.global.u32 %r3, [%d0+4100]",
      "H093",
    ),
    dropped("barrier before the flag of a full slot", "bar.sync 2; // written", "H092", "H093"),
    dropped("barrier behind the wait for a full slot", "bar.sync 3; // seen", "H092", "H093"),
    dropped("barrier before the flag of a free slot", "bar.sync 4; // taken", "H093", "H092"),
    changed(
      "no wait for a free slot",
      "setp.lt.u32 %p2, %r1, 2; @%p2 bra FREE;",
      "bra.uni FREE;",
      "H093",
      "H092",
    ),
    changed(
      "a slot too many in flight",
      "setp.lt.u32 %p2, %r1, 2; @%p2 bra FREE;\n    sub.u32 %r2, %r1, 1;",
      "setp.lt.u32 %p2, %r1, 3; @%p2 bra FREE;\n    sub.u32 %r2, %r1, 2;",
      "H093",
      "H092",
    ),
    changed(
      "full slot taken a round early",
      "TAKE: add.u32 %r2, %r1, 1;",
      "TAKE: add.u32 %r2, %r1, 0;",
      "H092",
      "H093",
    ),
    changed(
      "the other slot read",
      "and.b32 %r4, %r1, 1; mad.wide.u32 %d2, %r4, 256, %d1;\n    ld.global",
      "not.b32 %r4, %r1; and.b32 %r4, %r4, 1; mad.wide.u32 %d2, %r4, 256, %d1;\n    ld.global",
      "H092",
      "H093",
    ),
  ],
};

/** Threads write a row, a bulk copy loads it, and a bulk store puts it elsewhere, where threads read it. */
const proxies: GlobalSubject = {
  name: "bulk copies",
  launch: () => ({ grid: [1, 1, 1], block: [64, 1, 1] }),
  text: kernel(
    `${head} mov.u32 %r4, tile; mov.u32 %r5, bar; mad.lo.u32 %r6, %t, 4, %r4;
    @%p0 mbarrier.init.shared.b64 [%r5], 1; fence.mbarrier_init.release.cluster;
    add.u32 %r2, %t, 5;
    st.global.u32 [%d1], %r2;
    fence.proxy.async.global; // row
    bar.sync 0; // row
    @!%p0 bra LOADED;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r5], 256;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%d0], 256, [%r5];
    LOADED: mbarrier.try_wait.parity.shared.b64 %p2, [%r5], 0; @!%p2 bra LOADED;
    st.global.u32 [%d1], %t;
    ld.shared.u32 %r3, [%r6]; add.u32 %r3, %r3, 1; st.shared.u32 [%r6], %r3;
    fence.proxy.async.shared::cta; bar.sync 1;
    @!%p0 bra STORED;
    cp.async.bulk.global.shared::cta.bulk_group [%d0+1024], [%r4], 256;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0; // store
    STORED: bar.sync 2; // stored
    ld.global.u32 %r3, [%d1+1024]; st.global.u32 [%d1+2048], %r3;
    @%p0 cp.async.bulk.wait_group 0;`,
    { module: shared },
  ),
  faults: [
    dropped("proxy fence before the load", "fence.proxy.async.global; // row", "H098"),
    changed(
      "proxy fence for shared memory",
      "fence.proxy.async.global; // row",
      "fence.proxy.async.shared::cta;",
      "H098",
    ),
    changed(
      "memory fence in place of the proxy fence",
      "fence.proxy.async.global; // row",
      "fence.acq_rel.gpu;",
      "H098",
    ),
    changed(
      "proxy fence before the stores",
      "st.global.u32 [%d1], %r2;\n    fence.proxy.async.global; // row",
      "fence.proxy.async.global; st.global.u32 [%d1], %r2;",
      "H098",
    ),
    dropped("barrier before the load", "bar.sync 0; // row", "H092", "H093"),
    changed(
      "row overwritten before the load is complete",
      "LOADED: mbarrier",
      "LOADED: st.global.u32 [%d1], %t; mbarrier",
      "H093",
    ),
    changed(
      "store waited for with .read",
      "cp.async.bulk.wait_group 0; // store",
      "cp.async.bulk.wait_group.read 0;",
      "H097",
    ),
    changed(
      "store waited for but one",
      "cp.async.bulk.wait_group 0; // store",
      "cp.async.bulk.wait_group 1;",
      "H097",
    ),
    dropped("wait for the store", "cp.async.bulk.wait_group 0; // store", "H097"),
    dropped("barrier behind the wait for the store", "bar.sync 2; // stored", "H097", "H093"),
    changed(
      "commit behind the wait",
      "cp.async.bulk.commit_group;\n    cp.async.bulk.wait_group 0; // store",
      "cp.async.bulk.wait_group 0; cp.async.bulk.commit_group;",
      "H097",
    ),
    changed(
      "two stores in flight to one place",
      "cp.async.bulk.commit_group;",
      "cp.async.bulk.commit_group; cp.async.bulk.global.shared::cta.bulk_group [%d0+1024], [%r4], 256; cp.async.bulk.commit_group;",
      "H097",
    ),
    changed(
      "what the store wrote read by the non-coherent path",
      "ld.global.u32 %r3, [%d1+1024]",
      "ld.global.nc.u32 %r3, [%d1+1024]",
      "H100",
    ),
    changed(
      "a store over what the thread has written, without a proxy fence",
      "fence.proxy.async.shared::cta; bar.sync 1;",
      "st.global.u32 [%d1+1024], 1; fence.proxy.async.shared::cta; bar.sync 1;",
      "H098",
    ),
  ],
};

/** A dependent launch: what the grid before writes is read, and what it reads is written, behind the wait. */
const dependent: GlobalSubject = {
  name: "dependent launch",
  launch: (pointer) => ({
    grid: [2, 1, 1],
    block: [64, 1, 1],
    before: { writes: [{ pointer, bytes: 1024 }], reads: [{ pointer: pointer + 1024n, bytes: 1024 }] },
  }),
  text: kernel(
    `${head} mov.u32 %r4, tile; mov.u32 %r5, bar; mad.wide.u32 %d2, %r0, 256, %d1;
    ld.global.u32 %r1, [%d2+2048]; ld.global.u32 %r6, [%d2+1024];
    setp.lt.u32 %p1, %t, 32;
    @%p1 griddepcontrol.wait;
    griddepcontrol.launch_dependents;
    bar.sync 0; // behind the wait
    ld.global.u32 %r2, [%d2]; add.u32 %r2, %r2, %r1;
    st.global.u32 [%d2+1024], %r2;`,
    { module: shared },
  ),
  faults: [
    dropped("wait for the grid before", "@%p1 griddepcontrol.wait;", "H099"),
    changed(
      "launch of dependents in place of the wait",
      "@%p1 griddepcontrol.wait;",
      "griddepcontrol.launch_dependents;",
      "H099",
    ),
    dropped("barrier behind one warp's wait", "bar.sync 0; // behind the wait", "H099"),
    changed("load before the wait", "ld.global.u32 %r1, [%d2+2048];", "ld.global.u32 %r1, [%d2];", "H099"),
    changed(
      "store before the wait to what is read",
      "setp.lt.u32 %p1, %t, 32;",
      "st.global.u32 [%d2+1024], 1; setp.lt.u32 %p1, %t, 32;",
      "H099",
    ),
    changed(
      "store before the wait to what is written",
      "setp.lt.u32 %p1, %t, 32;",
      "st.global.u32 [%d2], 1; setp.lt.u32 %p1, %t, 32;",
      "H099",
    ),
    changed(
      "wait behind the barrier",
      "@%p1 griddepcontrol.wait;\n    griddepcontrol.launch_dependents;\n    bar.sync 0;",
      "bar.sync 0; @%p1 griddepcontrol.wait;",
      "H099",
    ),
    changed("wait of no warp", "setp.lt.u32 %p1, %t, 32;", "setp.gt.u32 %p1, %t, 64;", "H099"),
  ],
};

/** A barrier of the whole grid between two phases, with sums by atomics and an exchange within warps. */
const phases: GlobalSubject = {
  name: "grid barrier",
  launch: () => ({ grid: [3, 1, 1], block: [64, 1, 1], residentClusters: 3 }),
  text: kernel(
    `${head} mad.lo.u32 %r1, %r0, 64, %t; mad.wide.u32 %d2, %r1, 4, %d0;
    st.global.u32 [%d2], %r1;
    red.relaxed.gpu.global.add.u32 [%d1+1024], %r1;
    bar.sync 0; // before
    @!%p0 bra OPEN;
    fence.acq_rel.gpu; // leaving
    red.relaxed.gpu.global.add.u32 [%d0+4096], 1;
    SPIN: ld.relaxed.gpu.global.u32 %r2, [%d0+4096]; setp.lt.u32 %p1, %r2, 3; @%p1 bra SPIN;
    fence.acq_rel.gpu; // entering
    OPEN: bar.sync 1; // behind
    ld.global.u32 %r3, [%d1]; ld.global.u32 %r4, [%d1+256]; ld.global.u32 %r5, [%d1+512]; ld.global.u32 %r6, [%d1+1024];
    st.global.u32 [%d2+2048], %r3;
    bar.warp.sync -1; // first
    xor.b32 %r7, %r1, 1; mad.wide.u32 %d3, %r7, 4, %d0; ld.global.u32 %r8, [%d3+2048];
    bar.warp.sync -1; // second
    st.global.u32 [%d2+2048], %r8;`,
    { module: shared },
  ),
  faults: [
    dropped("barrier before the count", "bar.sync 0; // before", "H092"),
    dropped("fence before the count", "fence.acq_rel.gpu; // leaving", "H092"),
    dropped("fence behind the wait", "fence.acq_rel.gpu; // entering", "H092"),
    dropped("barrier behind the wait", "bar.sync 1; // behind", "H092", "H093"),
    changed("one block fewer waited for", "%r2, 3;", "%r2, 2;", "H092", "H093"),
    changed("fence before the count of scope .cta", "fence.acq_rel.gpu; // leaving", "membar.cta;", "H092"),
    changed(
      "sum of scope .cta",
      "red.relaxed.gpu.global.add.u32 [%d1+1024]",
      "red.relaxed.cta.global.add.u32 [%d1+1024]",
      "H096",
    ),
    changed(
      "sum by a load and a store",
      "red.relaxed.gpu.global.add.u32 [%d1+1024], %r1;",
      "ld.global.u32 %r9, [%d1+1024]; add.u32 %r9, %r9, %r1; st.global.u32 [%d1+1024], %r9;",
      "H092",
      "H093",
      "H094",
    ),
    dropped("first bar.warp.sync", "bar.warp.sync -1; // first", "H095"),
    dropped("second bar.warp.sync", "bar.warp.sync -1; // second", "H095"),
  ],
};

export const globalSubjects: readonly GlobalSubject[] = [lastBlock, ring, proxies, dependent, phases];

/** The kernel with a fault. Throws where the text to replace is not there just once. */
export function planted({ name, text }: GlobalSubject, { fault, from, to }: GlobalFault): string {
  const parts = text.split(from);
  if (parts.length !== 2) throw new Error(`${name}, ${fault}: the text is there ${parts.length - 1} times`);
  return parts.join(to);
}
