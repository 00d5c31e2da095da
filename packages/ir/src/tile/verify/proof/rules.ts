/** The rules of asynchronous kernels, each learnt from a kernel that broke it, with what the proof checks and what it leaves to others. */
import type { Diagnostic } from "@tilewright/core";
import type { Stmt } from "../../types.ts";

export interface Rule {
  readonly number: number;
  readonly code: Diagnostic["code"];
  readonly name: string;
  /** What holds for every program that passes. */
  readonly checked: string;
  /** What the rule would also want, and who sees to it. */
  readonly left: string;
}

const rule = (number: number, code: Rule["code"], name: string, checked: string, left: string): Rule => ({
  number,
  code,
  name,
  checked,
  left,
});

export const proofRules = {
  arrivals: rule(
    1,
    "TW3141",
    "arrivals",
    "every phase of every barrier gets exactly the arrivals of its initial count, from all blocks that arrive there",
    "that the code of a backend arrives as often as the plan says: the emulator's hazard checks",
  ),
  bytes: rule(
    2,
    "TW3142",
    "bytes",
    "the bytes of all copies that count at a barrier in a phase, of all blocks, are those that were expected there",
    "boxes of tensor maps: full boxes count, as tensorCut makes them",
  ),
  expected: rule(
    3,
    "TW3143",
    "expected",
    "bytes are expected in the phase in which they come, in every block that waits for them, and before the phase can end",
    "",
  ),
  freed: rule(
    4,
    "TW3144",
    "freed",
    "every ring that is read is given back, and no slot, and no column that two accumulators share, is written while a read of its last chunk, in any block, may still run",
    "accesses to shared tiles outside rings by several roles",
  ),
  phases: rule(
    5,
    "TW3145",
    "phases",
    "for every number of K chunks and sequence of tiles tried, no wait begins a phase early or ends a phase late, nothing deadlocks, and chunks are read as they were written",
    "numbers of chunks beyond slots + 2 and sequences beyond five tiles: a ring's state repeats after its slots",
  ),
  proxies: rule(
    6,
    "TW3146",
    "proxies",
    "an async-proxy fence stands between writes of threads and the bulk store that reads them, and between reading an answer and giving its slot back; staging tiles are rewritten after their stores have read them",
    "scope of the fence",
  ),
  tensorFences: rule(
    7,
    "TW3147",
    "tensorFences",
    "tensor memory is used after a fence behind each wait, and handed over behind a fence and with all loads done",
    "",
  ),
  groups: rule(
    8,
    "TW3148",
    "groups",
    "commits, allocations and matrix instructions have one cta_group: 2 in a pair, 1 elsewhere",
    "",
  ),
  exits: rule(
    9,
    "TW3149",
    "exits",
    "no block ends before every arrival, copy and matrix instruction that reaches into it has happened",
    "",
  ),
  tensorMemory: rule(
    10,
    "TW3150",
    "tensorMemory",
    "one allocation of a power of two of 32 to 512 columns that holds all tiles, the permit given back, freed as allocated after the last use",
    "kernels that share an SM",
  ),
  swizzles: rule(
    11,
    "TW3151",
    "swizzles",
    "bulk copies take matrices whose pitches are whole 16 bytes, and deal whole turns of their rows (`bulkTiles` checks the boxes)",
    "that map, descriptor and epilogue use the layout: each is computed from the one layout of the tile",
  ),
  registers: rule(
    12,
    "TW3152",
    "registers",
    "register budgets are legal, for whole warpgroups, in every role or none, and fit the register file",
    "that the entry names its threads: each backend's ptxas test",
  ),
  convergence: rule(
    13,
    "TW3153",
    "convergence",
    "what warps execute together is in no role of a single thread, and threads meet between writing a staging tile and storing it",
    "divergence inside a role: the emulator's hazard checks",
  ),
  namedBarriers: rule(
    14,
    "TW3154",
    "namedBarriers",
    "named barriers are below 16, and no two roles use the same",
    "thread counts: whole roles, so whole warps",
  ),
  splits: rule(
    15,
    "TW3155",
    "splits",
    "the parts of a tile meet before bias, beta and everything else of the epilogue",
    "",
  ),
  roles: rule(16, "TW3156", "roles", "roles cover all warps of the block once and do not nest", ""),
  order: rule(
    17,
    "TW3157",
    "order",
    "a chunk's slot is acquired, filled and committed, waited for, read and released in this order in every role",
    "that ptxas keeps the order: text of volatile and async instructions, one function, no inlining",
  ),
  reductions: rule(
    18,
    "TW3162",
    "reductions",
    "a CTA's partial tile is stored, or each of its registers added once by bulk copies that are complete, fenced at the scope of the GPU and met over before it is counted, by as much as completes the count; who goes on fences before it reads, reads every partial tile once, and leaves counters and sums at 0; slices of a cluster are sent when all CTAs run, told of by their bytes and waited for",
    "CTAs that add up slices, and their looks at the counter: the emulator's races between blocks",
  ),
} as const;

export type RuleName = keyof typeof proofRules;

/** Something that breaks a rule: where, and when. */
export interface Finding {
  readonly rule: RuleName;
  /** Role, ring or statement. */
  readonly at: string;
  readonly message: string;
  readonly hint: string;
  /** The statement at which it shows, where there is one. */
  readonly stmt?: Stmt | null;
}
