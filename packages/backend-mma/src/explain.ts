/** Why a schedule, in words: where its time is expected to go, and what the problem's layouts and alignments keep it from. */
import {
  type CopiedMatrix,
  copyBytes,
  copyPromises,
  type Problem,
  packedSize,
  type Schedule,
  sizeOf,
  type Target,
} from "@tilewright/core";
import {
  bankConflicts,
  byteOffset,
  elementBytes,
  type Pass,
  type Remark,
  runPasses,
  tileAccesses,
} from "@tilewright/ir";
import { acceptedAtom, interleaves } from "./atoms.ts";
import { claims } from "./claims.ts";
import { movedBytes } from "./cost.ts";
import { tileProblem } from "./nest.ts";
import { type MmaSchedule, readSchedule } from "./schedule.ts";

/** Remarks on a legal schedule, whose program `passes` bind. */
export function explainSchedule(
  problem: Problem,
  schedule: Schedule,
  target: Target,
  passes: readonly Pass[],
): readonly Remark[] {
  const s = readSchedule(schedule);
  const claim = claims(problem, target);
  return [
    ...(claim === null ? [] : [{ topic: "backend", text: claim }]),
    { topic: "instruction", text: acceptedAtom(problem, target, s).name },
    ...(["a", "b"] as const).flatMap((which) =>
      narrowRemark(problem, which, movedBytes(problem, s, which), [s.copyBytes, `copyBytes=${s.copyBytes}`]),
    ),
    ...storeRemark(problem, s),
    ...conflictRemarks(problem, schedule, target, passes),
    ...interleaveRemark(problem, s),
  ];
}

/** Accesses of shared memory that take more wavefronts than their bytes need, and why no swizzle helps. */
function conflictRemarks(
  problem: Problem,
  schedule: Schedule,
  target: Target,
  passes: readonly Pass[],
): readonly Remark[] {
  const bound = runPasses(tileProblem(problem, schedule, target), target, passes, { verify: "none" });
  if (!bound.ok) return [];
  const s = readSchedule(schedule);
  const program = bound.value;
  return program.buffers.flatMap((buffer) => {
    const { layout } = buffer;
    if (buffer.space !== "shared" || layout === null) return [];
    const size = elementBytes(buffer);
    return tileAccesses(program, buffer.name, size).flatMap(({ name, width, lanes }): readonly Remark[] => {
      const addresses = lanes.map((lane) => (lane === null ? null : byteOffset(layout, lane, size)));
      const { wavefronts, ideal } = bankConflicts({ width, addresses });
      if (wavefronts <= ideal) return [];
      return [
        {
          topic: "bank conflicts",
          text: `${name} takes ${wavefronts} wavefronts, not ${ideal}: ${conflictReason(s)}`,
        },
      ];
    });
  });
}

function conflictReason(s: MmaSchedule): string {
  if (s.sharedLayout === "plain") return "sharedLayout=plain leaves rows where they fall";
  if (s.copy === "tma")
    return "bulk copies have swizzles of 16-byte units along whole rows only, and these fragments want another; copy=cp.async takes one that the bank oracle finds";
  if (s.sharedLayout === "pad") return "no padding that fits separates its lanes";
  return "a tile of these sizes has no swizzle that separates its lanes";
}

/** Why stores of D that could be 16 bytes wide are narrower: those of long rows, and those of columns that are interleaved. */
function storeRemark(problem: Problem, s: MmaSchedule): readonly Remark[] {
  if (!s.staged && !interleaves(problem, s)) return [];
  const asked = s.storeElements * sizeOf(problem.d.dtype);
  const bytes = Math.min(asked, copyBytes(problem, "d"));
  return narrowRemark(problem, "d", bytes, [asked, `storeElements=${s.storeElements}`]);
}

/** Why copies or stores are narrower than 16 bytes: what does not divide, and the field of the schedule that asks for no more. */
function narrowRemark(
  problem: Problem,
  which: CopiedMatrix,
  bytes: number,
  asked: readonly [bytes: number, field: string],
): readonly Remark[] {
  if (bytes >= 16) return [];
  const { dtype, align } = problem[which];
  const size = packedSize(dtype);
  const { along, ld, length, between } = copyPromises(problem, which);
  const wide = bytes * 2;
  const reasons = [
    ...(asked[0] <= bytes ? [asked[1]] : []),
    ...(align % wide !== 0 ? [`its base is aligned to ${align} B`] : []),
    ...((ld * size) % wide !== 0 ? [`its leading dimension is ${ld * size} B`] : []),
    ...((length * size) % wide !== 0 ? [`${along} is ${length * size} B long`] : []),
    ...((between * size) % wide !== 0 ? [`the matrices of the batch are ${between * size} B apart`] : []),
  ];
  const name = which.toUpperCase();
  const topic = which === "d" ? "stores of D" : `copies of ${name}`;
  return [{ topic, text: `${bytes} B at a time, not 16: ${reasons.join(", ")}` }];
}

/** Why a lane's columns of D are no neighbours, where they were asked to be. */
function interleaveRemark(problem: Problem, s: MmaSchedule): readonly Remark[] {
  if (!s.interleave || s.staged || interleaves(problem, s)) return [];
  const why =
    sizeOf(problem.d.dtype) > 2
      ? `stores of two neighbours fill whole sectors in ${problem.d.dtype}`
      : problem.d.layout === "col"
        ? "D is column-major"
        : problem.b.layout === "row"
          ? "ldmatrix needs neighbouring columns of a row-major B"
          : s.warpN % 32 !== 0
            ? "a warp tile needs a multiple of 32 columns for it"
            : "bulk copies interleave columns in groups of 4, and n is no multiple of 4";
  return [{ topic: "interleave", text: `not used: ${why}` }];
}
