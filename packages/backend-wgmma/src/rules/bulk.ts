/** What tensor maps and clusters take of copies, stores and tiles. */
import { type Problem, sizeOf, stepBuffer } from "@tilewright/core";
import { boxedRun, hasOneMap, nearestMultiple, stepAccessFault, tensorAccessFault } from "@tilewright/ir";
import { chunkK, isKMajor, needsKMajor } from "../instructions.ts";
import { hasProducer, type WgmmaSchedule } from "../schedule.ts";
import { boxedLines, sourceOperands } from "../sharedMemory.ts";
import { copiesAsync, transposeHint } from "./producers.ts";
import { type Found, mostBlocks, type Rule, rule } from "./rule.ts";

/** Bytes that boxes begin at multiples of, along the axis in which memory is contiguous (PTX ISA, tensor copies). */
const BOX_BYTES = 16;

/** Matrices of an epilogue whose boxes cannot begin where tiles do. */
export const narrowBoxes = (
  problem: Problem,
  s: WgmmaSchedule,
): readonly (Found & { readonly way: "epi" | "epilogueLoad" })[] =>
  boxedLines(problem, s)
    .filter(({ bytes }) => bytes % BOX_BYTES !== 0)
    .map(({ name, way, bytes }) => ({
      way,
      message: `a tile has ${bytes} bytes of a line of ${name}, and boxes begin at whole ${BOX_BYTES}`,
      hint: `nearest legal: ${way}=direct`,
    }));

/** Most elements of a tensor map's box along one axis; larger tiles take several boxes, but a box is no larger. */
const MAX_BLOCK_TILE = 512;

export const bulkRules: readonly Rule[] = [
  rule("TW2308", "copy", ({ s, problem }) => {
    if (s.copy !== "tma") return null;
    const reasons = (["A", "B"] as const).flatMap((name) => tensorAccessFault(problem, name) ?? []);
    const found: Found[] = reasons.map(({ message, hint }) => ({
      message,
      hint: `nearest legal: copy=${copiesAsync(problem) ? "cp.async" : "direct"} (or ${hint})`,
    }));
    if (needsKMajor(problem) && !isKMajor(problem))
      found.push({
        message: `${problem.a.dtype} is multiplied along k only, and bulk copies keep the order of memory: A has to be row-major and B column-major`,
        hint: transposeHint(problem, s),
      });
    return found;
  }),
  rule("TW2309", "epi", ({ s, problem }) => {
    if (s.epi !== "tma") return null;
    const found: Found[] = [];
    const fault = tensorAccessFault(problem, "D");
    if (fault) found.push({ message: fault.message, hint: `nearest legal: epi=direct (or ${fault.hint})` });
    found.push(...narrowBoxes(problem, s).filter(({ way }) => way === "epi"));
    if (problem.batch.kind === "grouped" && !s.persistent)
      found.push({
        message:
          "a group's map of D is made where CTAs go through the list of groups, and with sched=tiles none do",
        hint: "nearest legal: epi=direct",
      });
    if (!hasProducer(s))
      found.push({
        message: "epi=tma goes with a producer, and copy=direct has none",
        hint: "nearest legal: epi=direct, or copy=tma",
      });
    return found;
  }),
  rule("TW2321", "epilogueLoad", ({ s, problem }) => {
    if (s.epilogueLoad !== "tma") return [];
    const found: Found[] = narrowBoxes(problem, s).filter(({ way }) => way === "epilogueLoad");
    const refuse = (message: string, more = ""): void => {
      found.push({ message, hint: `nearest legal: epilogueLoad=direct${more}` });
    };
    const brought = sourceOperands(problem, s);
    if (brought.length === 0)
      refuse("epilogueLoad=tma, and the problem has no C and no steps that read matrices or vectors");
    if (s.copy !== "tma")
      refuse(`epilogueLoad=tma has the producer of bulk copies bring them, and copy=${s.copy} has none`);
    // C may then be anything, and is not to be read where beta turns out to be 0.
    if (problem.beta === "runtime") refuse("epilogueLoad=tma reads C before the launch's beta is looked at");
    if (s.split > 1 || s.streamk > 0)
      refuse("one of the blocks that share a tile adds C, and which it is shows only when they meet");
    for (const { step, dtype, extent } of brought) {
      if (
        !hasOneMap(problem, step === null ? "C" : stepBuffer(step)) ||
        (extent.includes(1) && problem.batch.kind === "grouped")
      )
        refuse("maps of groups are made for A, B and D; others show matrices that each expert has all of");
      const fault = step === null ? tensorAccessFault(problem, "C") : stepAccessFault(problem, step);
      if (fault !== null) refuse(fault.message, ` (or ${fault.hint})`);
      const along = Math.max(...extent);
      if (extent.includes(1) && boxedRun(along, sizeOf(dtype)) === null)
        refuse(
          `${along} elements of ${dtype} of a vector make no boxes of whole 16 bytes, 256 elements at most`,
        );
    }
    return found;
  }),
  rule("TW2310", "cluster", ({ s, target }) => {
    const size = s.clusterM * s.clusterN;
    const most = mostBlocks(s, target);
    const found: Found[] = [];
    if (size > most)
      found.push({
        message: `a cluster of ${size} blocks; ${target.arch} launches ${most} ${s.nonPortableCluster ? "at most" : "without opt-in"}`,
        hint: `nearest legal: cluster=${Math.min(most, s.clusterM)}x${Math.max(1, Math.floor(most / Math.min(most, s.clusterM)))}${!s.nonPortableCluster && size <= target.limits.maxWideClusterSize ? ", or nonPortableCluster=on, which not every GPU launches" : ""}`,
      });
    if (size > 1 && s.copy !== "tma")
      found.push({
        message: "blocks of a cluster share bulk copies only",
        hint: "nearest legal: cluster=1x1",
      });
    return found;
  }),
  rule("TW2311", "cluster", ({ s, problem }) => {
    if (s.copy !== "tma" || s.multicast === "off") return null;
    const found: Found[] = [];
    const k = chunkK(problem, s.tileK);
    // Shares are whole patterns of eight rows: along m or n of a tile that is contiguous along k, along k of others.
    for (const [name, blocks, rows, major] of [
      ["A", s.clusterN, s.tileM, problem.a.layout === "row"],
      ["B", s.clusterM, s.tileN, problem.b.layout === "col"],
    ] as const) {
      const across = major ? rows : k;
      if (blocks === 1 || !s.multicast.includes(name.toLowerCase()) || across % (8 * blocks) === 0) continue;
      found.push({
        message: `${blocks} blocks cannot share ${across} rows of ${name}'s tile in groups of 8`,
        hint: `nearest legal: multicast=off, or a tile with ${nearestMultiple(across, 8 * blocks)} of them`,
      });
    }
    return found;
  }),
  rule("TW2312", "tile", ({ s }) =>
    s.tileM <= MAX_BLOCK_TILE && s.tileN <= MAX_BLOCK_TILE
      ? null
      : {
          message: `a tile of ${s.tileM} x ${s.tileN}; no side may exceed ${MAX_BLOCK_TILE}`,
          hint: `nearest legal: ${Math.min(s.tileM, MAX_BLOCK_TILE)}x${Math.min(s.tileN, MAX_BLOCK_TILE)}`,
        },
  ),
];
