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

/** Code, number, what holds for every program that passes, and what is left to others. */
const texts = {
  arrivals:
    "TW3141 | 1 | every phase of every barrier gets exactly the arrivals of its initial count, from all blocks that arrive there | that the code of a backend arrives as often as the statements say: the emulator's hazard checks",
  bytes:
    "TW3142 | 2 | the bytes of all copies that count at a barrier in a phase, of all blocks, are those that were expected there | boxes of tensor maps: full boxes count, as tensorCut makes them",
  expected:
    "TW3143 | 3 | bytes are expected in the phase in which they come, in every block that waits for them, and before the phase can end |",
  freed:
    "TW3144 | 4 | every ring that is read is given back, and no slot, and no column that two accumulators share, is written while a read of its last chunk, in any block, may still run | accesses to shared tiles outside rings by several roles",
  phases:
    "TW3145 | 5 | for every number of K chunks and sequence of tiles tried, no wait begins a phase early or ends a phase late, nothing deadlocks, and chunks are read as they were written | numbers of chunks beyond slots + 2 and sequences beyond five tiles: a ring's state repeats after its slots",
  proxies:
    "TW3146 | 6 | an async-proxy fence stands between writes of threads and the bulk store that reads them, between what they compute for products of another role and their arrival, and between reading an answer and giving its slot back; staging tiles are rewritten after their stores have read them | scope of the fence",
  tensorFences:
    "TW3147 | 7 | tensor memory is used after a fence behind each wait, and handed over behind a fence and with all loads done |",
  exits:
    "TW3149 | 9 | no block ends before every arrival, copy and matrix instruction that reaches into it has happened |",
  tensorMemory:
    "TW3150 | 10 | one allocation of a power of two of 32 to 512 columns that holds all tiles, the permit given back, freed as allocated after the last use | kernels that share an SM",
  swizzles:
    "TW3151 | 11 | bulk copies take matrices whose pitches are whole 16 bytes, and interleave whole runs of their rows (`bulkTiles` checks the boxes) | that map, descriptor and epilogue use the layout: each is computed from the one layout of the tile",
  registers:
    "TW3152 | 12 | register budgets are legal, for whole warpgroups, in every role or none, and fit the register file | that the entry names its threads: each backend's ptxas test",
  convergence:
    "TW3153 | 13 | what warps execute together is in no role of a single thread, and threads meet between writing a staging tile and storing it | divergence inside a role: the emulator's hazard checks",
  namedBarriers:
    "TW3154 | 14 | named barriers are below 16, and no two roles use the same | thread counts: whole roles, so whole warps",
  splits: "TW3155 | 15 | the parts of a tile meet before bias, beta and everything else of the epilogue |",
  roles: "TW3156 | 16 | roles cover all warps of the block once and do not nest |",
  order:
    "TW3157 | 17 | a chunk's slot is acquired, filled and committed, waited for, read and released in this order in every role | that ptxas keeps the order: text of volatile and async instructions, one function, no inlining",
  reductions:
    "TW3162 | 18 | a CTA's partial tile is stored, or each of its registers added once by bulk copies that are complete, fenced at the scope of the GPU and met over before it is counted, by as much as completes the count; who goes on fences before it reads, reads every partial tile once, and leaves counters and sums at 0; slices of a cluster are sent when all CTAs run, told of by their bytes and waited for | CTAs that add up slices, and their looks at the counter: the emulator's races between blocks",
} as const satisfies Record<string, `${Rule["code"]} | ${number} | ${string} |${string}`>;

export type RuleName = keyof typeof texts;

function ruleOf([name, text]: readonly [string, string]): readonly [string, Rule] {
  const [code = "", number = "", checked = "", left = ""] = text.split(/ \|(?: |$)/);
  return [name, { number: Number(number), code: code as Rule["code"], name, checked, left }];
}

export const proofRules = Object.fromEntries(Object.entries(texts).map(ruleOf)) as Readonly<
  Record<RuleName, Rule>
>;

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
