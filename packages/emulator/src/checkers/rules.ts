/** Every rule the emulator checks: one row per rule. Numbers are stable and never reused; docs/hazards/README.md explains each. */
import type { CheckName, Finding } from "../api.ts";

export interface Rule {
  readonly name: string;
  /** The switch that turns the rule on; deadlock, fuel and trap cannot be turned off, since they end the launch. */
  readonly check: CheckName | "deadlock" | "fuel" | "trap";
  readonly severity: Finding["severity"];
  /** What is wrong, in one sentence. */
  readonly sentence: string;
  /** The PTX ISA asks for it and shipped compilers leave it out, since today's hardware works without. */
  readonly omission?: true;
}

export const rules = {
  H001: {
    name: "out-of-bounds",
    check: "bounds",
    severity: "error",
    sentence: "An access reaches bytes that belong to no allocation.",
  },
  H002: {
    name: "use-after-free",
    check: "bounds",
    severity: "error",
    sentence: "An access reaches an allocation that has been freed.",
  },
  H003: {
    name: "wrong-window",
    check: "bounds",
    severity: "error",
    sentence: "An address does not lie in the state space that the instruction names.",
  },
  H004: {
    name: "misaligned",
    check: "alignment",
    severity: "error",
    sentence: "An address is not a multiple of the size of the access.",
  },
  H005: {
    name: "uninitialised-global",
    check: "uninitialised",
    severity: "error",
    sentence: "Global memory is read that neither the host nor a kernel has written.",
  },
  H006: {
    name: "uninitialised-shared",
    check: "uninitialised",
    severity: "error",
    sentence: "Shared memory is read that no thread of the block has written.",
  },
  H007: {
    name: "uninitialised-local",
    check: "uninitialised",
    severity: "error",
    sentence: "Local memory is read that the thread has not written.",
  },
  H008: {
    name: "uninitialised-register",
    check: "uninitialised",
    severity: "error",
    sentence: "A register is read on a path on which nothing was written to it.",
  },
  H009: {
    name: "race-read-after-write",
    check: "race",
    severity: "error",
    sentence: "Shared memory is read without synchronisation after another warp wrote it.",
  },
  H010: {
    name: "race-write-after-read",
    check: "race",
    severity: "error",
    sentence: "Shared memory is overwritten without synchronisation after another warp read it.",
  },
  H011: {
    name: "race-write-after-write",
    check: "race",
    severity: "error",
    sentence: "Shared memory is overwritten without synchronisation after another warp wrote it.",
  },
  H012: {
    name: "race-within-warp",
    check: "race",
    severity: "error",
    sentence:
      "Lanes of one warp exchange data through shared memory without bar.warp.sync or a barrier between them.",
  },
  H013: {
    name: "async-not-waited",
    check: "async",
    severity: "error",
    sentence: "Data of an asynchronous copy is read before the copy has been waited for.",
  },
  H014: {
    name: "async-overwritten",
    check: "async",
    severity: "error",
    sentence: "The destination of an asynchronous copy is written while the copy is in flight.",
  },
  H015: {
    name: "async-not-published",
    check: "async",
    severity: "error",
    sentence:
      "A thread uses data of another thread's asynchronous copy with no barrier after that thread's wait.",
  },
  H016: {
    name: "async-never-waited",
    check: "async",
    severity: "note",
    sentence: "A thread exits with asynchronous copies that nothing has waited for.",
  },
  H017: {
    name: "divergent-barrier",
    check: "barrier",
    severity: "error",
    sentence: "An aligned barrier is executed by a part of a warp while other lanes of it wait elsewhere.",
  },
  H018: {
    name: "barrier-count-mismatch",
    check: "barrier",
    severity: "error",
    sentence: "Threads that meet at one barrier name different thread counts.",
  },
  H019: {
    name: "barrier-operands",
    check: "barrier",
    severity: "error",
    sentence: "A barrier's number is above 15, or its thread count is zero or no multiple of the warp size.",
  },
  H020: {
    name: "member-mask",
    check: "barrier",
    severity: "error",
    sentence: "The member mask of a warp-level instruction does not name the lanes that execute it.",
  },
  H021: {
    name: "shuffle-inactive",
    check: "barrier",
    severity: "error",
    sentence: "A shuffle reads a lane that does not take part, so the value is undefined.",
  },
  H022: {
    name: "barrier-underfilled",
    check: "barrier",
    severity: "error",
    sentence: "A barrier still holds arrivals when the block ends, or waits for threads that have exited.",
  },
  H023: {
    name: "divergent-collective",
    check: "barrier",
    severity: "error",
    sentence: "An aligned warp-level instruction is executed by a part of the warp.",
  },
  H030: {
    name: "deadlock",
    check: "deadlock",
    severity: "error",
    sentence: "No thread can go on and nothing is in flight that could wake one.",
  },
  H031: {
    name: "out-of-fuel",
    check: "fuel",
    severity: "error",
    sentence: "The launch executed more instructions than it was given.",
  },
  H032: { name: "trap", check: "trap", severity: "error", sentence: "The kernel executed trap." },
  H033: {
    name: "missing-proxy-fence",
    check: "async",
    severity: "error",
    sentence:
      "The async proxy uses shared memory that was written, or a response that was read, in the generic proxy with no proxy fence between.",
  },
  H034: {
    name: "async-result-not-observed",
    check: "async",
    severity: "error",
    sentence: "Data of an asynchronous operation is read by somebody who has not seen it complete.",
  },
  H035: {
    name: "async-source-overwritten",
    check: "async",
    severity: "error",
    sentence: "Shared memory is overwritten while an asynchronous operation may still read it.",
  },
  H040: {
    name: "mbarrier-not-initialised",
    check: "barrier",
    severity: "error",
    sentence: "An mbarrier instruction names shared memory that holds no valid mbarrier.",
  },
  H041: {
    name: "mbarrier-arrive-underflow",
    check: "barrier",
    severity: "error",
    sentence: "More threads arrive on an mbarrier than its phase still expects.",
  },
  H042: {
    name: "mbarrier-plain-access",
    check: "barrier",
    severity: "error",
    sentence: "An ordinary access touches the bytes of a valid mbarrier.",
  },
  H043: {
    name: "exited-block",
    check: "barrier",
    severity: "error",
    sentence: "Shared memory of a block of the cluster is accessed when the block has exited, or may have.",
  },
  H044: {
    name: "mbarrier-limits",
    check: "barrier",
    severity: "error",
    sentence: "A count of an mbarrier instruction is outside its range.",
  },
  H045: {
    name: "mbarrier-reinitialised",
    check: "barrier",
    severity: "error",
    sentence: "An mbarrier is initialised where a valid one already is.",
  },
  H046: {
    name: "mbarrier-init-not-visible",
    check: "barrier",
    severity: "error",
    sentence: "An mbarrier is used with nothing that makes its initialisation visible to the user.",
    omission: true,
  },
  H047: {
    name: "mbarrier-remote",
    check: "barrier",
    severity: "error",
    sentence: "An mbarrier of another block is used in a way that only its own block may.",
  },
  H048: {
    name: "setmaxnreg",
    check: "barrier",
    severity: "error",
    sentence: "setmaxnreg is executed against its rules.",
  },
  H049: {
    name: "cluster-barrier",
    check: "barrier",
    severity: "error",
    sentence: "A thread executes barrier.cluster.arrive and wait out of turn.",
  },
  H050: {
    name: "tensor-map",
    check: "bounds",
    severity: "error",
    sentence:
      "A bulk tensor instruction is given something that is no tensor map, or a map that breaks the driver's rules.",
  },
  H051: {
    name: "tensor-copy",
    check: "bounds",
    severity: "error",
    sentence:
      "A bulk tensor instruction does not fit its tensor map, or its coordinates are ones that TMA traps on.",
  },
  H052: {
    name: "tensor-map-fence",
    check: "async",
    severity: "error",
    sentence:
      "A tensor map that the kernel has changed is used without a release and an acquire of the tensormap proxy.",
  },
  H053: {
    name: "bulk-operands",
    check: "bounds",
    severity: "error",
    sentence: "A bulk copy or commit has a size, barrier or multicast mask that it cannot have.",
  },
  H054: {
    name: "bulk-never-waited",
    check: "async",
    severity: "error",
    sentence: "A thread exits with bulk stores whose reading of shared memory nothing has waited for.",
    omission: true,
  },
  H055: {
    name: "bulk-into-exited",
    check: "async",
    severity: "error",
    sentence: "A bulk copy lands in the shared memory of a block that has exited.",
  },
  H060: {
    name: "wgmma-registers-in-flight",
    check: "async",
    severity: "error",
    sentence: "A register is touched while a wgmma in flight writes or reads it.",
  },
  H061: {
    name: "wgmma-missing-fence",
    check: "async",
    severity: "error",
    sentence: "A warp issues wgmma on registers that no wgmma.fence has ordered.",
  },
  H062: {
    name: "wgmma-operand-out-of-window",
    check: "bounds",
    severity: "error",
    sentence: "An operand of wgmma reaches beyond the block's shared memory.",
  },
  H063: {
    name: "wgmma-warps-disagree",
    check: "barrier",
    severity: "error",
    sentence: "Warps of a warpgroup do not execute the same wgmma with the same descriptors.",
  },
  H064: {
    name: "wgmma-not-committed",
    check: "async",
    severity: "error",
    sentence: "A wgmma is waited for that belongs to no group.",
  },
  H065: {
    name: "wgmma-never-waited",
    check: "async",
    severity: "error",
    sentence: "A warp exits with wgmma that it has not waited for.",
  },
  H066: {
    name: "wgmma-accumulator-shape",
    check: "async",
    severity: "error",
    sentence: "Two wgmma in flight write the same registers in different shapes.",
  },
  H067: {
    name: "wgmma-descriptor",
    check: "bounds",
    severity: "error",
    sentence: "A matrix descriptor of wgmma has bits set that mean nothing.",
  },
  H068: {
    name: "sparse-metadata",
    check: "bounds",
    severity: "error",
    sentence: "Metadata of a sparse product names elements that it cannot name.",
  },
  H070: {
    name: "tcgen05-instruction-descriptor",
    check: "async",
    severity: "error",
    sentence: "An instruction descriptor of tcgen05.mma has reserved bits set, or codes that mean nothing.",
  },
  H071: {
    name: "tcgen05-shared-descriptor",
    check: "async",
    severity: "error",
    sentence:
      "A shared-memory descriptor of tcgen05 has wrong fixed bits, or a swizzle that the operand cannot have.",
  },
  H072: {
    name: "tcgen05-shape",
    check: "async",
    severity: "error",
    sentence: "A tcgen05.mma asks for types, extents or majors that its kind does not have.",
  },
  H073: {
    name: "tcgen05-operand-window",
    check: "bounds",
    severity: "error",
    sentence:
      "An operand that a shared-memory descriptor describes reaches beyond the block's shared memory.",
  },
  H074: {
    name: "tcgen05-tensor-place",
    check: "async",
    severity: "error",
    sentence:
      "A matrix of tcgen05.mma starts in a lane that its layout does not allow, or overlaps another one.",
  },
  H075: {
    name: "tcgen05-group",
    check: "async",
    severity: "error",
    sentence: "A tcgen05.mma uses tensor memory that was allocated for the other cta_group.",
  },
  H076: {
    name: "tcgen05-issuer",
    check: "async",
    severity: "error",
    sentence: "A tcgen05.mma for a pair of blocks is issued by the odd one.",
  },
  H077: {
    name: "tcgen05-scale-copies",
    check: "async",
    severity: "error",
    sentence: "Scale factors in tensor memory differ between the quarters of the lanes.",
  },
  H078: {
    name: "tcgen05-collector",
    check: "async",
    severity: "error",
    sentence: "A collector buffer is used that has not been filled with the same operand.",
  },
  H080: {
    name: "tensor-not-allocated",
    check: "bounds",
    severity: "error",
    sentence: "An instruction names columns of tensor memory that are not allocated.",
  },
  H081: {
    name: "tensor-uninitialised",
    check: "uninitialised",
    severity: "error",
    sentence: "Tensor memory is read that nothing has written since its allocation.",
  },
  H082: {
    name: "tensor-lanes",
    check: "bounds",
    severity: "error",
    sentence:
      "A warp reaches for lanes of tensor memory other than its own quarter, or for rows that do not exist.",
  },
  H083: {
    name: "tensor-race",
    check: "race",
    severity: "error",
    sentence: "Tensor memory is used while an operation on the same columns may still be in flight.",
  },
  H084: {
    name: "tensor-fence-after",
    check: "race",
    severity: "error",
    sentence:
      "Tensor memory is used after synchronising with another thread, but without tcgen05.fence::after_thread_sync.",
    omission: true,
  },
  H085: {
    name: "tensor-fence-before",
    check: "race",
    severity: "note",
    sentence: "A thread hands tensor memory over without tcgen05.fence::before_thread_sync.",
    omission: true,
  },
  H086: {
    name: "tensor-registers",
    check: "async",
    severity: "error",
    sentence: "A register that tcgen05.ld fills is touched before tcgen05.wait::ld.",
  },
  H087: {
    name: "tensor-allocation",
    check: "async",
    severity: "error",
    sentence: "Tensor memory is allocated or given back against the allocator's rules.",
  },
  H088: {
    name: "tensor-leak",
    check: "async",
    severity: "error",
    sentence: "A block ends with tensor memory allocated or still in use.",
  },
  H089: {
    name: "cluster-launch-control",
    check: "async",
    severity: "error",
    sentence: "A cluster launch control request or its response is used against its rules.",
  },
  H090: {
    name: "load-overtaken",
    check: "async",
    severity: "error",
    sentence: "A bulk copy overwrites shared memory from which a thread's load may still be under way.",
  },
  H091: {
    name: "tensor-map-in-use",
    check: "async",
    severity: "error",
    sentence: "A tensor map is changed while a bulk copy that uses it may still be under way.",
  },
  H092: {
    name: "global-race-read-after-write",
    check: "race",
    severity: "error",
    sentence: "Global memory is read without synchronisation after another warp or block wrote it.",
  },
  H093: {
    name: "global-race-write-after-read",
    check: "race",
    severity: "error",
    sentence: "Global memory is overwritten without synchronisation after another warp or block read it.",
  },
  H094: {
    name: "global-race-write-after-write",
    check: "race",
    severity: "error",
    sentence:
      "Global memory is overwritten with another value without synchronisation after another warp or block wrote it.",
  },
  H095: {
    name: "global-race-within-warp",
    check: "race",
    severity: "error",
    sentence:
      "Lanes of one warp exchange data through global memory without bar.warp.sync or a barrier between them.",
  },
  H096: {
    name: "scope-too-narrow",
    check: "race",
    severity: "error",
    sentence:
      "Atomic or volatile accesses of one address have a scope that does not reach the other's thread.",
  },
  H097: {
    name: "global-store-not-complete",
    check: "async",
    severity: "error",
    sentence:
      "Global memory that an asynchronous store writes is used by somebody who does not know that the store is complete.",
  },
  H098: {
    name: "global-missing-proxy-fence",
    check: "async",
    severity: "error",
    sentence:
      "The async proxy uses global memory that was written in the generic proxy with no proxy fence between.",
  },
  H099: {
    name: "grid-dependency",
    check: "race",
    severity: "error",
    sentence: "Memory that the grid before still uses is accessed before griddepcontrol.wait.",
  },
  H100: {
    name: "non-coherent-read",
    check: "race",
    severity: "error",
    sentence: "Global memory is read through the non-coherent path after the same launch has written it.",
  },
  H110: {
    name: "device-assertion",
    check: "trap",
    severity: "error",
    sentence: "An assertion of the kernel does not hold.",
  },
} as const satisfies Record<string, Rule>;

export type RuleId = keyof typeof rules;

/** Rules of races in global memory: what they need is followed only where one of them is on. */
export const globalRules: readonly RuleId[] = [
  "H092",
  "H093",
  "H094",
  "H095",
  "H096",
  "H097",
  "H098",
  "H099",
  "H100",
];
