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

/** Name, check (with `note` where it is no error and `omission` where compilers leave out what it asks for), and what is wrong. */
const texts = {
  H001: "out-of-bounds | bounds | An access reaches bytes that belong to no allocation.",
  H002: "use-after-free | bounds | An access reaches an allocation that has been freed.",
  H003: "wrong-window | bounds | An address does not lie in the state space that the instruction names.",
  H004: "misaligned | alignment | An address is not a multiple of the size of the access.",
  H005: "uninitialised-global | uninitialised | Global memory is read that neither the host nor a kernel has written.",
  H006: "uninitialised-shared | uninitialised | Shared memory is read that no thread of the block has written.",
  H007: "uninitialised-local | uninitialised | Local memory is read that the thread has not written.",
  H008: "uninitialised-register | uninitialised | A register is read on a path on which nothing was written to it.",
  H009: "race-read-after-write | race | Shared memory is read without synchronisation after another warp wrote it.",
  H010: "race-write-after-read | race | Shared memory is overwritten without synchronisation after another warp read it.",
  H011: "race-write-after-write | race | Shared memory is overwritten without synchronisation after another warp wrote it.",
  H012: "race-within-warp | race | Lanes of one warp exchange data through shared memory without bar.warp.sync or a barrier between them.",
  H013: "async-not-waited | async | Data of an asynchronous copy is read before the copy has been waited for.",
  H014: "async-overwritten | async | The destination of an asynchronous copy is written while the copy is in flight.",
  H015: "async-not-published | async | A thread uses data of another thread's asynchronous copy with no barrier after that thread's wait.",
  H016: "async-never-waited | async note | A thread exits with asynchronous copies that nothing has waited for.",
  H017: "divergent-barrier | barrier | An aligned barrier is executed by a part of a warp while other lanes of it wait elsewhere.",
  H018: "barrier-count-mismatch | barrier | Threads that meet at one barrier name different thread counts.",
  H019: "barrier-operands | barrier | A barrier's number is above 15, or its thread count is zero or no multiple of the warp size.",
  H020: "member-mask | barrier | The member mask of a warp-level instruction does not name the lanes that execute it.",
  H021: "shuffle-inactive | barrier | A shuffle reads a lane that does not take part, so the value is undefined.",
  H022: "barrier-underfilled | barrier | A barrier still holds arrivals when the block ends, or waits for threads that have exited.",
  H023: "divergent-collective | barrier | An aligned warp-level instruction is executed by a part of the warp.",
  H030: "deadlock | deadlock | No thread can go on and nothing is in flight that could wake one.",
  H031: "out-of-fuel | fuel | The launch executed more instructions than it was given.",
  H032: "trap | trap | The kernel executed trap.",
  H033: "missing-proxy-fence | async | The async proxy uses shared memory that was written, or a response that was read, in the generic proxy with no proxy fence between.",
  H034: "async-result-not-observed | async | Data of an asynchronous operation is read by somebody who has not seen it complete.",
  H035: "async-source-overwritten | async | Shared memory is overwritten while an asynchronous operation may still read it.",
  H040: "mbarrier-not-initialised | barrier | An mbarrier instruction names shared memory that holds no valid mbarrier.",
  H041: "mbarrier-arrive-underflow | barrier | More threads arrive on an mbarrier than its phase still expects.",
  H042: "mbarrier-plain-access | barrier | An ordinary access touches the bytes of a valid mbarrier.",
  H043: "exited-block | barrier | Shared memory of a block of the cluster is accessed when the block has exited, or may have.",
  H044: "mbarrier-limits | barrier | A count of an mbarrier instruction is outside its range.",
  H045: "mbarrier-reinitialised | barrier | An mbarrier is initialised where a valid one already is.",
  H046: "mbarrier-init-not-visible | barrier omission | An mbarrier is used with nothing that makes its initialisation visible to the user.",
  H047: "mbarrier-remote | barrier | An mbarrier of another block is used in a way that only its own block may.",
  H048: "setmaxnreg | barrier | setmaxnreg is executed against its rules.",
  H049: "cluster-barrier | barrier | A thread executes barrier.cluster.arrive and wait out of turn.",
  H050: "tensor-map | bounds | A bulk tensor instruction is given something that is no tensor map, or a map that breaks the driver's rules.",
  H051: "tensor-copy | bounds | A bulk tensor instruction does not fit its tensor map, or its coordinates are ones that TMA traps on.",
  H052: "tensor-map-fence | async | A tensor map that the kernel has changed is used without a release and an acquire of the tensormap proxy.",
  H053: "bulk-operands | bounds | A bulk copy or commit has a size, barrier or multicast mask that it cannot have.",
  H054: "bulk-never-waited | async omission | A thread exits with bulk stores whose reading of shared memory nothing has waited for.",
  H055: "bulk-into-exited | async | A bulk copy lands in the shared memory of a block that has exited.",
  H060: "wgmma-registers-in-flight | async | A register is touched while a wgmma in flight writes or reads it.",
  H061: "wgmma-missing-fence | async omission | A warp issues wgmma on registers that no wgmma.fence has ordered.",
  H062: "wgmma-operand-out-of-window | bounds | An operand of wgmma reaches beyond the block's shared memory.",
  H063: "wgmma-warps-disagree | barrier | Warps of a warpgroup do not execute the same wgmma with the same descriptors.",
  H064: "wgmma-not-committed | async | A wgmma is waited for that belongs to no group.",
  H065: "wgmma-never-waited | async | A warp exits with wgmma that it has not waited for.",
  H066: "wgmma-accumulator-shape | async | Two wgmma in flight write the same registers in different shapes.",
  H067: "wgmma-descriptor | bounds | A matrix descriptor of wgmma has bits set that mean nothing.",
  H068: "sparse-metadata | bounds | Metadata of a sparse product names elements that it cannot name.",
  H070: "tcgen05-instruction-descriptor | async | An instruction descriptor of tcgen05.mma has reserved bits set, or codes that mean nothing.",
  H071: "tcgen05-shared-descriptor | async | A shared-memory descriptor of tcgen05 has wrong fixed bits, or a swizzle that the operand cannot have.",
  H072: "tcgen05-shape | async | A tcgen05.mma asks for types, extents or majors that its kind does not have.",
  H073: "tcgen05-operand-window | bounds | An operand that a shared-memory descriptor describes reaches beyond the block's shared memory.",
  H074: "tcgen05-tensor-place | async | A matrix of tcgen05.mma starts in a lane that its layout does not allow, or overlaps another one.",
  H075: "tcgen05-group | async | A tcgen05.mma uses tensor memory that was allocated for the other cta_group.",
  H076: "tcgen05-issuer | async | A tcgen05.mma for a pair of blocks is issued by the odd one.",
  H077: "tcgen05-scale-copies | async | Scale factors in tensor memory differ between the quarters of the lanes.",
  H078: "tcgen05-collector | async | A collector buffer is used that has not been filled with the same operand.",
  H080: "tensor-not-allocated | bounds | An instruction names columns of tensor memory that are not allocated.",
  H081: "tensor-uninitialised | uninitialised | Tensor memory is read that nothing has written since its allocation.",
  H082: "tensor-lanes | bounds | A warp reaches for lanes of tensor memory other than its own quarter, or for rows that do not exist.",
  H083: "tensor-race | race | Tensor memory is used while an operation on the same columns may still be in flight.",
  H084: "tensor-fence-after | race omission | Tensor memory is used after synchronising with another thread, but without tcgen05.fence::after_thread_sync.",
  H085: "tensor-fence-before | race note omission | A thread hands tensor memory over without tcgen05.fence::before_thread_sync.",
  H086: "tensor-registers | async | A register that tcgen05.ld fills is touched before tcgen05.wait::ld.",
  H087: "tensor-allocation | async | Tensor memory is allocated or given back against the allocator's rules.",
  H088: "tensor-leak | async | A block ends with tensor memory allocated or still in use.",
  H089: "cluster-launch-control | async | A cluster launch control request or its response is used against its rules.",
  H090: "load-overtaken | async | A bulk copy overwrites shared memory from which a thread's load may still be under way.",
  H091: "tensor-map-in-use | async | A tensor map is changed while a bulk copy that uses it may still be under way.",
  H092: "global-race-read-after-write | race | Global memory is read without synchronisation after another warp or block wrote it.",
  H093: "global-race-write-after-read | race | Global memory is overwritten without synchronisation after another warp or block read it.",
  H094: "global-race-write-after-write | race | Global memory is overwritten with another value without synchronisation after another warp or block wrote it.",
  H095: "global-race-within-warp | race | Lanes of one warp exchange data through global memory without bar.warp.sync or a barrier between them.",
  H096: "scope-too-narrow | race | Atomic or volatile accesses of one address have a scope that does not reach the other's thread.",
  H097: "global-store-not-complete | async | Global memory that an asynchronous store writes is used by somebody who does not know that the store is complete.",
  H098: "global-missing-proxy-fence | async | The async proxy uses global memory that was written in the generic proxy with no proxy fence between.",
  H099: "grid-dependency | race | Memory that the grid before still uses is accessed before griddepcontrol.wait.",
  H100: "non-coherent-read | race | Global memory is read through the non-coherent path after the same launch has written it.",
  H110: "device-assertion | trap | An assertion of the kernel does not hold.",
} as const satisfies Record<
  string,
  `${string} | ${Rule["check"]}${"" | " note"}${"" | " omission"} | ${string}`
>;

export type RuleId = keyof typeof texts;

function ruleOf(text: string): Rule {
  const [name = "", kind = "", sentence = ""] = text.split(" | ");
  const [check, ...marks] = kind.split(" ");
  return {
    name,
    check: check as Rule["check"],
    severity: marks.includes("note") ? "note" : "error",
    sentence,
    ...(marks.includes("omission") ? { omission: true } : {}),
  };
}

export const rules = Object.fromEntries(
  Object.entries(texts).map(([id, text]) => [id, ruleOf(text)]),
) as Readonly<Record<RuleId, Rule>>;

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
