/** What a producer has to be for what it is asked to do. */
import { expertRowsOf, type Problem, rowIndexOf, sizeOf } from "@tilewright/core";
import { asyncPolicyFault, asyncWidthFault, transposable } from "@tilewright/ir";
import { chunkK, isKMajor, needsKMajor, widensA, widensB } from "../instructions.ts";
import type { WgmmaSchedule } from "../schedule.ts";
import { SWIZZLE_BYTES, tailColumns } from "../sharedMemory.ts";
import { isTwoLevel } from "../twoLevel.ts";
import { type Found, type Rule, rule } from "./rule.ts";

/** Registers with which ptxas 13.0 spills no address of a producer that copies by threads, and what that leaves for two math warpgroups. */
const COPY_REGISTERS = 40;
const COPY_MATH_REGISTERS = 232;

/** The same where an index names the rows of A, each of which has an address of its own: of more than 192 a thread of the producer copies more rows than 40 registers hold (256: 128 bytes are spilled), and where it loads and stores (12 bytes). */
const NAMED_ROWS = 192;
const NAMED_REGISTERS = 56;
const NAMED_MATH_REGISTERS = 224;

/** Registers of a producer whose threads copy, and what they leave. */
const copyBudget = (
  problem: Problem,
  { tileM, copy }: WgmmaSchedule,
): readonly [producer: number, math: number] =>
  copy === "load" || (tileM > NAMED_ROWS && rowIndexOf(problem, "a") !== null)
    ? [NAMED_REGISTERS, NAMED_MATH_REGISTERS]
    : [COPY_REGISTERS, COPY_MATH_REGISTERS];

/** A budget with which ptxas 13.0 spills nothing of a producer of bulk copies: its registers, the nearest one, and what that leaves for two math warpgroups. */
interface Budget {
  readonly least: number;
  readonly producer: number;
  readonly math: number;
}

/** Of a producer that has more to keep than the least budget holds, and of one that goes through a list of groups with many boxes a chunk (40 to 64: up to 76 bytes are spilled). */
const BUSY: Budget = { least: 32, producer: 40, math: 232 };
const LISTED: Budget = { least: 72, producer: 72, math: 216 };

/** Boxes of a chunk up to which the least budget holds what leads to them; of a chunk of groups, up to which the busy one does (16 of a gated product, whose B has two panels, spill up to 32 bytes). */
const MOST_BOXES = 31;
const MOST_LISTED = 8;

/** Boxes of a chunk, side by side along the axis along which each operand lies. */
function boxesOf(s: WgmmaSchedule, problem: Problem): number {
  const { a, b } = problem;
  const boxes = (elements: number, { dtype }: Problem["a"]): number =>
    Math.ceil((elements * sizeOf(dtype)) / SWIZZLE_BYTES[s.swizzle]);
  const along = chunkK(problem, s.tileK);
  return boxes(a.layout === "col" ? s.tileM : along, a) + boxes(b.layout === "row" ? s.tileN : along, b);
}

/**
 * What a producer that hands out tiles to a cluster has to keep beside their numbers; null where the least budget holds it (ptxas 13.0: 8 to 12 bytes spilled with a policy of A or B, and by
 * clusters of four).
 */
function handsOut({ counted, clusterM, clusterN, epilogueLoad, cache }: WgmmaSchedule): string | null {
  const blocks = clusterM * clusterN;
  if (!counted || blocks === 1) return null;
  if (epilogueLoad === "tma") return "and brings what its epilogues read";
  if (/\b[ab]:/.test(cache)) return "and has cache policies of A or B";
  return blocks > 2 ? `of ${blocks} blocks` : null;
}

/** Whether threads of a producer can copy A and B by cp.async, whatever else the schedule says: 4 bytes at a time, in memory's order, by addresses that they can keep. */
export const copiesAsync = (problem: Problem): boolean =>
  !widensA(problem) &&
  !widensB(problem) &&
  asyncWidthFault(problem) === null &&
  (isKMajor(problem) || !needsKMajor(problem)) &&
  !launchGivesRows(problem) &&
  (problem.batch.kind !== "grouped" || expertRowsOf(problem) !== null);

/** What serves operands that do not lie along k where they have to. */
export function transposeHint(problem: Problem, { transpose }: WgmmaSchedule): string {
  const words = [transpose, transposable(problem, "k")].filter((word) => word !== "off");
  const before = words.length === 0 ? "" : `transpose=${words.sort().join("")}, or `;
  return `nearest legal: ${before}copy=direct, whose threads transpose`;
}

/** Whether lengths of rows come with the launch. */
const launchGivesRows = ({ symbolic }: Problem): boolean =>
  Object.keys(symbolic ?? {}).some((name) => name !== "m" && name !== "batch");

export const producerRules: readonly Rule[] = [
  rule("TW2322", "regs", ({ s, problem }) => {
    if (s.copy !== "tma" || s.regs === null) return null;
    const boxes = boxesOf(s, problem);
    const listed = problem.batch.kind === "grouped";
    const [needs, why] =
      listed && boxes > MOST_LISTED
        ? [LISTED, `goes through a list of groups and copies ${boxes} boxes a chunk`]
        : boxes > MOST_BOXES
          ? [BUSY, `copies ${boxes} boxes a chunk side by side`]
          : handsOut(s) !== null
            ? [BUSY, `hands out tiles to a cluster ${handsOut(s)}`]
            : [BUSY, listed ? "goes through a list of groups" : null];
    return why === null || s.regs.producer >= needs.least
      ? null
      : {
          message: `${s.regs.producer} registers for a producer that ${why}; it needs ${needs.least}`,
          hint: `nearest legal: regs=${needs.producer}/${Math.min(s.regs.math, needs.math)}`,
        };
  }),
  rule("TW2331", "copy", ({ s, problem }) => {
    if (widensB(problem) && s.copy !== "load" && s.copy !== "direct")
      return {
        message: `B of ${problem.b.dtype} is widened by threads on its way to shared memory, and copy=${s.copy} moves it as it is`,
        hint: "nearest legal: copy=load",
      };
    if (s.copy !== "cp.async" && s.copy !== "load") return null;
    const async = s.copy === "cp.async";
    if (widensA(problem))
      return {
        message: `${problem.a.dtype} is widened by threads that read it where bulk copies or their own have put it, not ${async ? "cp.async" : "a producer's"}`,
        hint: "nearest legal: copy=direct",
      };
    const narrow = async ? asyncWidthFault(problem) : null;
    const found: Found[] = narrow === null ? [] : [narrow];
    if (async && needsKMajor(problem) && !isKMajor(problem))
      found.push({
        message: `${problem.a.dtype} is multiplied along k only, and cp.async keeps the order of memory: A has to be row-major and B column-major`,
        hint: transposeHint(problem, s),
      });
    if (launchGivesRows(problem))
      found.push({
        message:
          "where the launch gives lengths of rows, threads that copy keep more addresses than they have registers",
        hint: "nearest legal: copy=direct",
      });
    const [least, most] = copyBudget(problem, s);
    if (s.regs !== null && s.regs.producer < least)
      found.push({
        message: `${s.regs.producer} registers for a producer whose threads copy; their addresses need ${least}`,
        hint: `nearest legal: regs=${least}/${Math.min(s.regs.math, most)}`,
      });
    if (problem.batch.kind === "grouped" && (expertRowsOf(problem) === null || s.persistent))
      found.push({
        message: `a producer goes through the list of groups with tensor maps, and copy=${s.copy} has none`,
        hint: expertRowsOf(problem) === null ? "nearest legal: copy=direct" : "nearest legal: sched=tiles",
      });
    if (s.counted)
      found.push({
        message: `one thread asks the counter for tiles, and with copy=${s.copy} all of the producer's copy`,
        hint: "nearest legal: sched=persistent",
      });
    return found;
  }),
  rule("TW2332", "cache", ({ s }) => (s.copy === "cp.async" ? asyncPolicyFault(s.cache) : null)),
  rule("TW2330", "l2Prefetch", ({ s }) =>
    s.l2Prefetch > 0 && s.copy !== "tma"
      ? {
          message: `L2 is asked for later chunks by the producer of bulk copies, and copy=${s.copy} has none`,
          hint: "nearest legal: l2Prefetch=0, or copy=tma",
        }
      : null,
  ),
  rule("TW2335", "reuseStages", ({ s }) =>
    s.reuseStages && s.copy === "direct"
      ? {
          message:
            "stages are kept from a producer until a later product has read them, and copy=direct has none",
          hint: "nearest legal: reuseStages=off, or copy=tma",
        }
      : null,
  ),
  rule("TW2333", "tail", ({ s, problem, target }) => {
    if (s.tail === 0) return [];
    const found: Found[] = [];
    const refuse = (message: string, more = ""): void => {
      found.push({ message, hint: `nearest legal: tail=0${more}` });
    };
    if (s.copy === "direct")
      refuse("slots are kept from a producer until both halves are multiplied, and copy=direct has none");
    // Of slots that are given back late the one before them is kept too.
    const most = s.stages - (s.delayedRelease ? 1 : 0);
    if (s.tail > most)
      found.push({
        message: `${s.tail} chunks are kept until both halves are multiplied, and the ring has ${s.stages}${s.delayedRelease ? ", which are given back late" : ""}`,
        hint: `nearest legal: tail=${most}`,
      });
    if (s.split > 1 || s.streamk > 0)
      refuse("what is stored are sums of several blocks, which meet behind their last products");
    if (problem.symbolic?.k !== undefined || problem.batch.kind === "grouped")
      refuse("the number of chunks is known to the launch only");
    if (s.swapAB)
      refuse(
        "instructions have the columns of operands that change places in their 64 rows",
        ", or swapAB=off",
      );
    if (isTwoLevel(problem)) refuse("sums that are promoted are added up behind each chunk");
    if (widensA(problem)) refuse(`fragments of ${problem.a.dtype} are widened once for all columns`);
    if (!s.swapAB && tailColumns(problem, s, target.limits.maxSmemPerBlock) === null)
      refuse(
        `no instruction and no part of D's tile end inside the ${s.tileN / s.groupsN} columns of a warpgroup`,
        ", or epi=direct",
      );
    return found;
  }),
  rule("TW2319", "delayedRelease", ({ s, problem }) => {
    if (!s.delayedRelease) return null;
    if (widensA(problem))
      return {
        message: `fragments of ${problem.a.dtype} are widened into registers that products of the chunk before still read`,
        hint: "nearest legal: delayedRelease=off",
      };
    if (s.copy === "direct")
      return {
        message: "slots are given back to a producer, and copy=direct has none",
        hint: "nearest legal: delayedRelease=off",
      };
    return s.stages < 2
      ? {
          message: "a slot that is given back late needs another for the next chunk",
          hint: "nearest legal: stages=2, or delayedRelease=off",
        }
      : null;
  }),
];
