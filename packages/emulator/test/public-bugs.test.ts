/**
 * Mistakes that were met in public code, written anew as small kernels, each beside its fix: the rule that describes the mistake reports it under at most twenty seeds, and
 * the fix is clean under all of them. The names are those of the public threads.
 */
import { describe, expect, test } from "vitest";
import type { LaunchConfig, RuleId } from "../src/index.ts";
import { kernel, machine } from "./support.ts";

interface Pair {
  readonly thread: string;
  readonly what: string;
  /** The kernel with `@` where the mistake is. */
  readonly body: string;
  readonly bug: string;
  readonly fix: string;
  readonly rules: readonly RuleId[];
  readonly grid?: number;
  readonly block?: number;
  readonly rest?: (out: bigint) => Partial<LaunchConfig>;
}

// %d0 is the buffer, %d1 the thread's word in it, %r0 the block's number; %p0 holds in thread 0.
const head = `ld.param.u64 %d0, [out]; mad.wide.u32 %d1, %t, 4, %d0; mov.u32 %r0, %ctaid.x; setp.eq.u32 %p0, %t, 0;
  mov.u32 %r14, tile; mov.u32 %r15, bar; mad.lo.u32 %r13, %t, 4, %r14;`;
const module =
  ".shared .align 128 .b8 tile[1024]; .shared .align 8 .b64 bar; .shared .align 128 .b8 map[128];";
const barrier = "@%p0 mbarrier.init.shared.b64 [%r15], 1; fence.mbarrier_init.release.cluster; bar.sync 0;";
const load = (to: string, from: string): string =>
  `mbarrier.arrive.expect_tx.shared.b64 _, [%r15], 256; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [${to}], [${from}], 256, [%r15];`;
const wait = (parity: number): string =>
  `W${parity}: mbarrier.try_wait.parity.shared.b64 %p2, [%r15], ${parity}; @!%p2 bra W${parity};`;
const bulkStore = (to: string, from: string): string =>
  `cp.async.bulk.global.shared::cta.bulk_group [${to}], [${from}], 256; cp.async.bulk.commit_group;`;

/** Blocks in turn add to a sum that lies in global memory; a semaphore says whose turn it is. */
const serial = `TURN: @!%p0 bra ON; ld.acquire.gpu.global.u32 %r1, [%d0+4096]; setp.ne.u32 %p1, %r1, %r0; @%p1 bra TURN;
  ON: bar.sync 0;
  ld.global.u32 %r2, [%d1]; add.u32 %r2, %r2, 1; st.global.u32 [%d1], %r2;
  @; add.u32 %r1, %r0, 1; @%p0 st.relaxed.gpu.global.u32 [%d0+4096], %r1;`;
/** A block's prefix is published for the next one behind a status word. */
const scan = `setp.ne.u32 %p3, %r0, 0; @%p3 bra LOOK; @!%p0 bra DONE;
  st.global.u32 [%d0], 5; @; st.volatile.global.u32 [%d0+4096], 1; bra.uni DONE;
  LOOK: ld.acquire.gpu.global.u32 %r1, [%d0+4096]; setp.eq.u32 %p1, %r1, 0; @%p1 bra LOOK; ld.global.u32 %r2, [%d0]; DONE:`;
/** A spin lock around an update by all threads of a block. */
const critical = `@!%p0 bra IN; LOCK: atom.acquire.gpu.global.cas.b32 %r1, [%d0+4096], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra LOCK;
  IN: bar.sync 0; ld.global.u32 %r2, [%d1]; add.u32 %r2, %r2, 1; st.global.u32 [%d1], %r2;
  @; @%p0 atom.release.gpu.global.exch.b32 %r1, [%d0+4096], 0;`;
/** Partial results by bulk stores, counted, and read by the block that finds the count full. */
const counted = `add.u32 %r1, %t, %r0; st.shared.u32 [%r13], %r1; fence.proxy.async.shared::cta; bar.sync 0; @!%p0 bra DONE;
  mad.wide.u32 %d2, %r0, 256, %d0; cp.async.bulk.global.shared::cta.bulk_group [%d2], [%r14], 256; cp.async.bulk.commit_group;
  @; atom.relaxed.gpu.global.add.u32 %r2, [%d0+4096], 1; setp.ne.u32 %p1, %r2, 1; @%p1 bra DONE;
  fence.acq_rel.gpu; ld.global.u32 %r3, [%d0]; ld.global.u32 %r4, [%d0+256]; DONE: @%p0 cp.async.bulk.wait_group 0;`;

const pairs: readonly Pair[] = [
  {
    thread: "NVIDIA/Fuser#2391",
    what: "serial split-K hands its turn on without a fence of the threads that wrote",
    body: serial,
    bug: "bar.sync 0",
    fix: "fence.acq_rel.gpu; bar.sync 0",
    rules: ["H092", "H093", "H094"],
    grid: 3,
  },
  {
    thread: "kokkos/kokkos#2681",
    what: "a scan publishes its status without a fence behind the value",
    body: scan,
    bug: "",
    fix: "membar.gl",
    rules: ["H092", "H093"],
    grid: 2,
  },
  {
    thread: "triton-lang/triton#4504",
    what: "a lock is given back while other warps are in the critical section",
    body: critical,
    bug: "",
    fix: "bar.sync 1",
    rules: ["H092", "H093", "H094"],
    grid: 2,
  },
  {
    thread: "flashinfer-ai/flashinfer#4742",
    what: "a counter rises behind a bulk store without a fence",
    body: counted,
    bug: "cp.async.bulk.wait_group 0",
    fix: "cp.async.bulk.wait_group 0; fence.acq_rel.gpu",
    rules: ["H097"],
    grid: 2,
  },
  {
    thread: "HazyResearch/ThunderKittens#194",
    what: "a signal behind a wait that covers the reading of shared memory only",
    body: counted,
    bug: "cp.async.bulk.wait_group.read 0; fence.acq_rel.gpu",
    fix: "cp.async.bulk.wait_group 0; fence.acq_rel.gpu",
    rules: ["H097"],
    grid: 2,
  },
  {
    thread: "NVIDIA/cccl#3131",
    what: "a dependent kernel writes what the kernel before may still read",
    body: "ld.global.u32 %r1, [%d1+1024]; @; st.global.u32 [%d1], %r1;",
    bug: "",
    fix: "griddepcontrol.wait",
    rules: ["H099"],
    rest: (pointer) => ({ before: { reads: [{ pointer, bytes: 1024 }] } }),
  },
  {
    thread: "MoonshotAI/FlashKDA#24",
    what: "shared memory is written and stored by TMA behind a barrier alone",
    body: `st.shared.u32 [%r13], %t; @; bar.sync 0; @!%p0 bra DONE; ${bulkStore("%d0", "%r14")} cp.async.bulk.wait_group 0; DONE:`,
    bug: "",
    fix: "fence.proxy.async.shared::cta",
    rules: ["H033"],
  },
  {
    thread: "sgl-project/sglang#39124",
    what: "a tile that threads have widened is read by the async proxy behind a barrier alone",
    body: "st.shared.u32 [%r13], %t; @; bar.sync 0; @!%p0 bra DONE; cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d0], [%r14], 256; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; DONE:",
    bug: "",
    fix: "fence.proxy.async.shared::cta",
    rules: ["H033"],
  },
  {
    thread: "facebookexperimental/triton#368",
    what: "the proxy fence stands behind the store that needs it",
    body: `st.shared.u32 [%r13], %t; @; cp.async.bulk.wait_group 0; DONE:`,
    bug: `bar.sync 0; @!%p0 bra DONE; ${bulkStore("%d0", "%r14")} fence.proxy.async.shared::cta`,
    fix: `fence.proxy.async.shared::cta; bar.sync 0; @!%p0 bra DONE; ${bulkStore("%d0", "%r14")}`,
    rules: ["H033"],
  },
  {
    thread: "deepseek-ai/DeepEP#621",
    what: "data that threads have written is loaded by TMA behind a flag without a proxy fence",
    body: `${barrier} st.global.u32 [%d1], %t; fence.acq_rel.gpu; bar.sync 0; @!%p0 bra SEEN; st.relaxed.gpu.global.u32 [%d0+4096], 1;
      FLAG: ld.acquire.gpu.global.u32 %r1, [%d0+4096]; setp.eq.u32 %p1, %r1, 0; @%p1 bra FLAG; @; ${load("%r14", "%d0")} SEEN: ${wait(0)}`,
    bug: "",
    fix: "fence.proxy.async.global",
    rules: ["H098"],
  },
  {
    thread: "deepseek-ai/DeepEP#657",
    what: "a slot is loaded again while the store from it is one of the groups that the wait leaves out",
    body: `${barrier} @!%p0 bra DONE; ${load("%r14", "%d0+1024")} ${wait(0)} ${bulkStore("%d0", "%r14")} @; ${load("%r14", "%d0+2048")} ${wait(1)} cp.async.bulk.wait_group 0; DONE:`,
    bug: "cp.async.bulk.wait_group.read 1",
    fix: "cp.async.bulk.wait_group.read 0",
    rules: ["H035"],
  },
  {
    thread: "NVIDIA/TransformerEngine#2695",
    what: "the next stage's TMA load may overtake the loads of this one",
    body: `${barrier} @!%p0 bra IN; ${load("%r14", "%d0")} IN: ${wait(0)} ld.shared.u32 %r1, [%r13]; @; bar.arrive 1, 96; @!%p0 bra OUT; bar.sync 1, 96; ${load("%r14", "%d0+1024")} ${wait(1)} OUT: st.global.u32 [%d1+2048], %r1;`
      .replaceAll(
        "bar.arrive 1, 96; @!%p0 bra OUT; bar.sync 1, 96;",
        "mbarrier.arrive.shared.b64 _, [%r12]; @!%p0 bra OUT; WR: mbarrier.try_wait.parity.shared.b64 %p3, [%r12], 0; @!%p3 bra WR;",
      )
      .replace(barrier, `add.u32 %r12, %r14, 512; @%p0 mbarrier.init.shared.b64 [%r12], 64; ${barrier}`),
    bug: "",
    fix: "fence.proxy.async.shared::cta",
    rules: ["H090"],
  },
  {
    thread: "ORNL/HeCBench#254",
    what: "one thread writes a sum and all read it with no barrier",
    body: "@%p0 st.shared.u32 [tile], 7; @; ld.shared.u32 %r1, [tile]; st.global.u32 [%d1], %r1;",
    bug: "bar.warp.sync -1",
    fix: "bar.sync 0",
    rules: ["H006", "H009"],
  },
  {
    thread: "ORNL/HeCBench#253",
    what: "the next tile overwrites shared memory that other warps still read",
    body: "mov.u32 %r1, 0; LOOP: st.shared.u32 [%r13], %r1; bar.sync 0; xor.b32 %r2, %r13, 128; ld.shared.u32 %r3, [%r2]; @; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 3; @%p1 bra LOOP; st.global.u32 [%d1], %r3;",
    bug: "",
    fix: "bar.sync 1",
    rules: ["H009", "H010", "H011"],
  },
  {
    thread: "supranational/sppark#85",
    what: "an exchange buffer is used again before every warp has taken its value",
    body: "setp.lt.u32 %p1, %t, 32; st.shared.u32 [%r13], %t; bar.sync 0; ld.shared.u32 %r1, [tile]; @; setp.eq.u32 %p2, %t, 63; @%p2 st.shared.u32 [tile], 9; bar.sync 1; ld.shared.u32 %r2, [tile]; add.u32 %r1, %r1, %r2; st.global.u32 [%d1], %r1;",
    bug: "",
    fix: "bar.sync 2",
    rules: ["H010"],
  },
  {
    thread: "NVIDIA/cuCollections#337",
    what: "a vote is taken for a barrier of the warp's shared memory",
    body: "st.shared.u32 [%r13], %t; @; xor.b32 %r1, %r13, 4; ld.shared.u32 %r2, [%r1]; st.global.u32 [%d1], %r2;",
    bug: "vote.sync.ballot.b32 %r3, %p0, -1",
    fix: "bar.warp.sync -1",
    rules: ["H012"],
  },
  {
    thread: "alicevision/popsift#82",
    what: "a counter in shared memory is cleared by one warp and raised by others",
    body: "@%p0 st.shared.u32 [tile], 0; @; atom.shared.add.u32 %r1, [tile], 1; st.global.u32 [%d1], %r1;",
    bug: "bar.warp.sync -1",
    fix: "bar.sync 0",
    rules: ["H006", "H009", "H010", "H011"],
  },
  ...(
    [
      [
        "flashinfer-ai/flashinfer#5081",
        "a constructor loads its rows before the wait",
        "ld.global.u32 %r1, [%d1]; griddepcontrol.wait",
        "griddepcontrol.wait; ld.global.u32 %r1, [%d1]",
      ],
      [
        "flashinfer-ai/flashinfer#2708",
        "the waits are compiled out",
        "ld.global.u32 %r1, [%d1]",
        "griddepcontrol.wait; ld.global.u32 %r1, [%d1]",
      ],
      [
        "flashinfer-ai/flashinfer#4685",
        "one warp waits, and another loads",
        "setp.lt.u32 %p1, %t, 32; @%p1 griddepcontrol.wait; ld.global.u32 %r1, [%d1]",
        "setp.lt.u32 %p1, %t, 32; @%p1 griddepcontrol.wait; bar.sync 0; ld.global.u32 %r1, [%d1]",
      ],
      [
        "Dao-AILab/flash-attention#2498",
        "the kernel lets its dependents start and takes that for a wait",
        "griddepcontrol.launch_dependents; ld.global.u32 %r1, [%d1]",
        "griddepcontrol.wait; griddepcontrol.launch_dependents; ld.global.u32 %r1, [%d1]",
      ],
    ] as const
  ).map(
    ([thread, what, bug, fix]): Pair => ({
      ...{ thread, what, bug, fix },
      body: "@; st.global.u32 [%d1+2048], %r1;",
      rules: ["H099"],
      rest: (pointer) => ({ before: { writes: [{ pointer, bytes: 1024 }] } }),
    }),
  ),
  {
    thread: "NVIDIA/cutlass#2760",
    what: "a grouped kernel's TMA loads do not wait for the grid before",
    body: `${barrier} @; @!%p0 bra IN; ${load("%r14", "%d0")} IN: ${wait(0)} ld.shared.u32 %r1, [%r13]; st.global.u32 [%d1+2048], %r1;`,
    bug: "",
    fix: "griddepcontrol.wait",
    rules: ["H099"],
    rest: (pointer) => ({ before: { writes: [{ pointer, bytes: 1024 }] } }),
  },
  {
    thread: "vllm-project/vllm#8404",
    what: "flags between peers are volatile and have no fence",
    body: `setp.ne.u32 %p3, %r0, 0; @%p3 bra PEER; st.global.u32 [%d1], %t; bar.sync 0; @!%p0 bra DONE; @; st.volatile.global.u32 [%d0+4096], 1; bra.uni DONE;
      PEER: ld.volatile.global.u32 %r1, [%d0+4096]; setp.eq.u32 %p1, %r1, 0; @%p1 bra PEER; fence.acq_rel.sys; ld.global.u32 %r2, [%d1]; DONE:`,
    bug: "",
    fix: "fence.acq_rel.sys",
    rules: ["H092", "H093"],
    grid: 2,
  },
  {
    thread: "vllm-project/vllm#57059",
    what: "a start barrier of relaxed flags on both sides",
    body: `setp.ne.u32 %p3, %r0, 0; @%p3 bra PEER; st.global.u32 [%d1], %t; bar.sync 0; @%p0 st.release.sys.global.u32 [%d0+4096], 1; bra.uni DONE;
      PEER: @; setp.eq.u32 %p1, %r1, 0; @%p1 bra PEER; ld.global.u32 %r2, [%d1]; DONE:`,
    bug: "ld.relaxed.sys.global.u32 %r1, [%d0+4096]",
    fix: "ld.acquire.sys.global.u32 %r1, [%d0+4096]",
    rules: ["H092", "H093"],
    grid: 2,
  },
  {
    thread: "vllm-project/vllm#55009",
    what: "a count is stored after its lock has been given back",
    body: `@!%p0 bra DONE; LOCK: atom.acquire.gpu.global.cas.b32 %r1, [%d0+4096], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra LOCK;
      ld.global.u32 %r2, [%d0]; add.u32 %r2, %r2, 1; @; DONE:`,
    bug: "atom.release.gpu.global.exch.b32 %r1, [%d0+4096], 0; st.global.u32 [%d0], %r2",
    fix: "st.global.u32 [%d0], %r2; atom.release.gpu.global.exch.b32 %r1, [%d0+4096], 0",
    rules: ["H092", "H093", "H094"],
    grid: 3,
  },
  {
    thread: "uccl-project/mKernel#18",
    what: "a tile that is input and output is loaded while its store drains",
    body: `${barrier} @!%p0 bra DONE; ${bulkStore("%d0", "%r14").replace("256;", "256;")} @; ${load("%r14", "%d0+1024")} ${wait(0)} cp.async.bulk.wait_group 0; DONE:`.replace(
      "bar.sync 0; @!%p0",
      "st.shared.u32 [%r13], %t; fence.proxy.async.shared::cta; bar.sync 0; @!%p0",
    ),
    bug: "",
    fix: "cp.async.bulk.wait_group.read 0",
    rules: ["H035"],
  },
  {
    thread: "deepseek-ai/DeepEP#642",
    what: "threads read a slot of a TMA load, and the next load comes behind their arrivals alone",
    body: `add.u32 %r12, %r14, 512; @%p0 mbarrier.init.shared.b64 [%r12], 64; ${barrier} @!%p0 bra IN; ${load("%r14", "%d0")} IN: ${wait(0)} ld.shared.v2.u32 {%r1, %r2}, [tile]; @;
      mbarrier.arrive.shared.b64 _, [%r12]; @!%p0 bra OUT; WR: mbarrier.try_wait.parity.shared.b64 %p3, [%r12], 0; @!%p3 bra WR; ${load("%r14", "%d0+1024")} ${wait(1)} OUT: st.global.u32 [%d1+2048], %r1;`,
    bug: "",
    fix: "fence.proxy.async.shared::cta",
    rules: ["H090"],
  },
  {
    thread: "NVIDIA/cutlass#3324",
    what: "an arrival of a block's scope hands what threads wrote to the async proxy of another block",
    body: `${barrier} barrier.cluster.arrive; barrier.cluster.wait; mapa.shared::cluster.u32 %r11, %r15, 0; setp.eq.u32 %p3, %r0, 0; @%p3 bra LEAD;
      st.shared.u32 [%r13], %t; fence.proxy.async.shared::cta; bar.sync 0; @!%p0 bra IN; @; IN: ${wait(0)} bra.uni DONE;
      LEAD: WL: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r15], 0; @!%p2 bra WL; @!%p0 bra DONE;
      mapa.shared::cluster.u32 %r10, %r15, 1; mapa.shared::cluster.u32 %r12, %r14, 1; mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r10], 256;
      cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r12], [%d0], 256, [%r10]; DONE: barrier.cluster.arrive; barrier.cluster.wait;`,
    bug: "mbarrier.arrive.shared::cluster.b64 _, [%r11]",
    fix: "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r11]",
    rules: ["H033"],
    grid: 2,
    rest: () => ({ cluster: [2, 1, 1] }),
  },
  {
    thread: "deepseek-ai/DeepGEMM#343",
    what: "a tensor map is published again over one that loads in flight still use",
    body: `${barrier} mov.u32 %r11, map; mad.lo.u32 %r12, %t, 2, %r11; mov.b16 %h0, 0; st.shared.b16 [%r12], %h0; bar.sync 0; setp.ge.u32 %p3, %t, 32; @%p3 bra DONE; add.u64 %d3, %d0, 4096; mov.u64 %d4, 256;
      ${[
        "global_address.shared::cta.b1024.b64 [%r11], %d0",
        "rank.shared::cta.b1024.b32 [%r11], 0",
        ...["box_dim", "global_dim"].map((field) => `${field}.shared::cta.b1024.b32 [%r11], 0, 64`),
        "element_stride.shared::cta.b1024.b32 [%r11], 0, 1",
        "elemtype.shared::cta.b1024.b32 [%r11], 2",
        ...["interleave_layout", "swizzle_mode", "fill_mode"].map(
          (field) => `${field}.shared::cta.b1024.b32 [%r11], 0`,
        ),
      ]
        .map((field) => `@%p0 tensormap.replace.tile.${field};`)
        .join(" ")} bar.warp.sync -1;
      tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d3], [%r11], 128;
      fence.proxy.tensormap::generic.acquire.gpu [%d3], 128; mov.u32 %r1, 0; @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r15], 256;
      @%p0 cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r14], [%d3, {%r1}], [%r15];
      @; @%p0 tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r11], %d3; bar.warp.sync -1;
      tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d3], [%r11], 128; DONE: ${wait(0)}`,
    bug: "",
    fix: wait(0).replaceAll("W0", "DRAIN").slice(0, -1),
    rules: ["H091"],
  },
  {
    thread: "MoonshotAI/FlashKDA#24 (mbarrier)",
    what: "an mbarrier is used by TMA with no fence behind its initialisation",
    body: `@%p0 mbarrier.init.shared.b64 [%r15], 1; @; bar.sync 0; @!%p0 bra IN; ${load("%r14", "%d0")} IN: ${wait(0)} ld.shared.u32 %r1, [%r13]; st.global.u32 [%d1+2048], %r1;`,
    bug: "",
    fix: "fence.mbarrier_init.release.cluster",
    rules: ["H046"],
  },
  {
    thread: "tile-ai/tilelang#3087",
    what: "a wait asks for the parity of a phase that is over",
    body: `${barrier} @!%p0 bra IN; ${load("%r14", "%d0")} IN: ${wait(0)} ld.shared.u32 %r1, [%r13]; fence.proxy.async.shared::cta; bar.sync 1; @!%p0 bra IN2; ${load("%r14", "%d0+1024")} IN2: @; ld.shared.u32 %r2, [%r13]; st.global.u32 [%d1+2048], %r2; ${wait(1)}`,
    bug: "NEXT: mbarrier.try_wait.parity.shared.b64 %p3, [%r15], 0; @!%p3 bra NEXT",
    fix: "NEXT: mbarrier.try_wait.parity.shared.b64 %p3, [%r15], 1; @!%p3 bra NEXT",
    rules: ["H034"],
  },
  {
    thread: "tile-ai/tilelang#2166",
    what: "a consumer reads what threads produced before it waits for the stage",
    body: `@%p0 mbarrier.init.shared.b64 [%r15], 32; bar.sync 0; setp.lt.u32 %p3, %t, 32; @!%p3 bra TAKE; st.shared.u32 [%r13], %t; mbarrier.arrive.shared.b64 _, [%r15]; bra.uni DONE;
      TAKE: xor.b32 %r2, %r13, 128; @; st.global.u32 [%d1], %r1; DONE:`,
    bug: `ld.shared.u32 %r1, [%r2]; ${wait(0).slice(0, -1)}`,
    fix: `${wait(0)} ld.shared.u32 %r1, [%r2]`,
    rules: ["H006", "H009", "H010"],
  },
  {
    thread: "triton-lang/triton#10035",
    what: "the first warp hands a stage back while another has not come through its wait",
    // The consumer is two warps; warp 2 produces as fast as slots come back.
    body: `add.u32 %r12, %r15, 0; mov.u32 %r11, tile; @%p0 mbarrier.init.shared.b64 [%r15], 1; @%p0 mbarrier.init.shared.b64 [%r11], 1; bar.sync 0;
      mov.u32 %r1, 0; setp.ge.u32 %p4, %t, 64; and.b32 %r2, %t, 31; setp.eq.u32 %p5, %r2, 0; @%p4 bra PUT;
      TAKE: and.b32 %r3, %r1, 1; FULL: mbarrier.try_wait.parity.shared.b64 %p2, [%r15], %r3; @!%p2 bra FULL; @;
      @%p0 mbarrier.arrive.shared.b64 _, [%r11]; add.u32 %r1, %r1, 1; setp.lt.u32 %p3, %r1, 6; @%p3 bra TAKE; bra.uni DONE;
      PUT: @%p5 mbarrier.arrive.shared.b64 _, [%r15]; and.b32 %r3, %r1, 1; FREE: mbarrier.try_wait.parity.shared.b64 %p2, [%r11], %r3; @!%p2 bra FREE;
      add.u32 %r1, %r1, 1; setp.lt.u32 %p3, %r1, 6; @%p3 bra PUT; DONE:`,
    bug: "",
    fix: "bar.sync 1, 64",
    rules: ["H030"],
    block: 96,
  },
  {
    thread: "ggml-org/llama.cpp#13469",
    what: "a barrier that some of the warps do not come to",
    body: "setp.lt.u32 %p3, %t, 32; @; st.shared.u32 [%r13], %t; bar.sync 0; xor.b32 %r1, %r13, 128; ld.shared.u32 %r2, [%r1]; st.global.u32 [%d1], %r2;",
    bug: "@%p3 bar.sync 0",
    fix: "bar.sync 0",
    rules: ["H009", "H010", "H006", "H022", "H030"],
  },
  ...(
    [
      [
        "NVIDIA/cuml#6578",
        "thread 0 sums up while others write the next round",
        "@%p0 ld.shared.u32 %r3, [tile+128]",
      ],
      [
        "csarofeen/pytorch#383",
        "a loop writes shared memory that the round before still reads",
        "xor.b32 %r2, %r13, 128; ld.shared.u32 %r3, [%r2]",
      ],
      [
        "NVIDIA/cutlass#386",
        "the next tile's prologue begins while the last one is read",
        "xor.b32 %r2, %r13, 132; ld.shared.u32 %r3, [%r2]",
      ],
      [
        "tile-ai/tilelang#2613",
        "an operand of two groups of warps is loaded again behind the wait of one",
        "ld.shared.u32 %r3, [tile]; ld.shared.u32 %r3, [tile+128]",
      ],
      [
        "KnowingNothing/MatmulTutorial#13",
        "the sum is stored over operands that other warps still read",
        "xor.b32 %r2, %r13, 136; ld.shared.u32 %r3, [%r2]",
      ],
      [
        "yelhousni/zprize-GPU-MSM-harness#1",
        "one barrier in a loop that writes and reads",
        "xor.b32 %r2, %r13, 192; ld.shared.u32 %r3, [%r2]",
      ],
    ] as const
  ).map(
    ([thread, what, use]): Pair => ({
      ...{ thread, what },
      body: `mov.u32 %r1, 0; mov.u32 %r3, 0; LOOP: add.u32 %r4, %r1, %t; st.shared.u32 [%r13], %r4; bar.sync 0; ${use}; @; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 3; @%p1 bra LOOP; st.global.u32 [%d1], %r3;`,
      bug: "",
      fix: "bar.sync 1",
      rules: ["H009", "H010"],
    }),
  ),
  {
    thread: "alpaka-group/mallocMC#190",
    what: "shared memory is used before its initialisation is known to all",
    body: "@%p0 st.shared.u32 [tile], 3; @; ld.shared.u32 %r1, [tile]; st.global.u32 [%d1], %r1;",
    bug: "",
    fix: "bar.sync 0",
    rules: ["H006", "H009"],
  },
  {
    thread: "proteneer/timemachine#1481",
    what: "lanes of a warp exchange data through shared memory in lockstep that is not promised",
    body: "st.shared.u32 [%r13], %t; @; xor.b32 %r1, %r13, 64; ld.shared.u32 %r2, [%r1]; st.global.u32 [%d1], %r2;",
    bug: "",
    fix: "bar.warp.sync -1",
    rules: ["H012"],
    block: 32,
  },
];

const seeds = Array.from({ length: 20 }, (_, k) => ({ order: "random", seed: k + 1 }) as const);

function* rulesOf({ body, grid = 1, block = 64, rest }: Pair, text: string): Generator<readonly string[]> {
  // The first `@;` is the place.
  const device = machine(kernel(head + body.replace("@;", text === "" ? "" : `${text};`), { module }));
  const out = device.put(new Uint8Array(8192));
  for (const seed of seeds) {
    device.emulator.write(out, new Uint8Array(8192));
    const config = { fuel: 200_000, residentClusters: grid, ...seed, ...rest?.(out) };
    yield device.launch("k", grid, block, [out], config).findings.map(({ rule }) => rule);
  }
}

test("there are forty", () =>
  expect(new Set(pairs.map(({ thread }) => thread)).size).toBeGreaterThanOrEqual(40));

describe.each(pairs)("$thread: $what", (pair) => {
  test("the bug is found", () => {
    const wanted: readonly string[] = pair.rules;
    expect([...rulesOf(pair, pair.bug)].some((rules) => rules.some((rule) => wanted.includes(rule)))).toBe(
      true,
    );
  });
  test("the fix is clean", () => {
    for (const rules of rulesOf(pair, pair.fix)) expect(rules).toEqual([]);
  });
});
