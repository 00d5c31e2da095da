/** What the shared lowering cannot express of any problem, as the reasons of a backend's verdict. */
import {
  type Diagnostic,
  type DType,
  err,
  expertRowsOf,
  hasFeature,
  isScaled,
  ok,
  type Problem,
  symbolicSizes,
  type Target,
  type Verdict,
} from "@tilewright/core";
import type { Raster, ScheduleFault, ScheduleRule } from "@tilewright/ir";
import { servedFormats } from "./formats.ts";

/** Blocks along the second axis of a grid (CUDA C++ Programming Guide, technical specifications). */
const MAX_BATCH = 65_535;

/** A reason why a problem is refused, for good or until it is built. */
export const unsupported = (
  code: Diagnostic["code"],
  at: string,
  message: string,
  hint: string,
): Diagnostic => ({ code, kind: "unsupported", at, message, hint });

/** Takes down a reason. */
export type Refuse = (...reason: Parameters<typeof unsupported>) => void;

/** The verdict on a problem: yes where nobody refuses anything. */
export function verdictOn(judge: (refuse: Refuse, reasons: Diagnostic[]) => void): Verdict {
  const reasons: Diagnostic[] = [];
  judge((...reason) => reasons.push(unsupported(...reason)), reasons);
  return reasons.length === 0 ? ok(true) : err(reasons);
}

/** The verdict on a target. */
export const targetVerdict = (
  served: boolean,
  code: Diagnostic["code"],
  message: string,
  hint: string,
): Verdict => (served ? ok(true) : err([unsupported(code, "target.arch", message, hint)]));

/** C and D of dtypes that no epilogue reads or stores. */
export const refuseOutputs = ({ c, d }: Problem, code: Diagnostic["code"]): readonly Diagnostic[] =>
  Object.entries({ c, d }).flatMap(([name, operand]) =>
    operand === null || servedFormats.includes(operand.dtype)
      ? []
      : [
          unsupported(
            code,
            `problem.${name}.dtype`,
            `${name.toUpperCase()} in ${operand.dtype} is not served yet`,
            `use one of ${servedFormats.join(", ")}`,
          ),
        ],
  );

/** Batches that a grid with a problem in each place of its second axis cannot hold. Each backend has codes of its own. */
export function refuseBatch({ batch }: Problem, code: Diagnostic["code"]): readonly Diagnostic[] {
  if (batch.kind === "none" || batch.count <= MAX_BATCH) return [];
  const message = `${batch.count} problems; the grid's second axis takes ${MAX_BATCH}`;
  return [unsupported(code, "problem.batch", message, `launch batches of at most ${MAX_BATCH}`)];
}

/** Sums that are promoted, and factors of 128 along k, of a backend that has neither. */
export function refuseTwoLevel(
  { precision, blockScales }: Problem,
  code: Diagnostic["code"],
  hint: string,
): readonly Diagnostic[] {
  const asked = [
    ...(precision === "promoted" ? [["precision", "sums that are promoted to f32"] as const] : []),
    ...(blockScales !== undefined ? [["blockScales", "factors of 128 along k"] as const] : []),
  ];
  return asked.map(([field, what]) => unsupported(code, `problem.${field}`, `${what} are not served`, hint));
}

/** Whether rows of experts come with scales in blocks: each expert's begin at a block of its own, so that only their number is the launch's. */
export const scaledExperts = (problem: Problem): boolean =>
  expertRowsOf(problem) !== null && isScaled(problem.a.dtype);

/** Sizes that come with the launch, of a backend whose kernels have theirs compiled in. */
export function refuseSymbolic(
  problem: Problem,
  code: Diagnostic["code"],
  others: string,
): readonly Diagnostic[] {
  const names = symbolicSizes(problem);
  if (names.length === 0) return [];
  const message = `kernels with ${names.join(", ")} at launch are not served yet`;
  return [unsupported(code, "problem.symbolic", message, `use ${others}, or fixed sizes`)];
}

/** Of rasters that ask how many tiles there are. */
export const COUNTED_RASTER =
  "pieces of the grid, and squares of Hilbert's curve, need the number of tiles before the launch";

/** Why a raster does not go with tiles that only the launch counts; null where it does. */
export function countedRasterFault(raster: Raster, { symbolic }: Problem): ScheduleFault | null {
  if (symbolic?.m === undefined && symbolic?.n === undefined) return null;
  if (raster.kind === "blocked")
    return { message: COUNTED_RASTER, hint: `nearest legal: raster=grouped:${raster.group}` };
  return raster.kind === "hilbert"
    ? { message: COUNTED_RASTER, hint: "nearest legal: raster=grouped:8" }
    : null;
}

/** Why stream-K does not go with sizes of the launch; null where it does. */
export function countedStreamKFault(blocks: number, { symbolic }: Problem): ScheduleFault | null {
  const counted = (["m", "n", "k"] as const).filter((name) => symbolic?.[name] !== undefined);
  if (blocks === 0 || counted.length === 0) return null;
  return {
    message: `shares of chunks are cut before the launch, which supplies ${counted.join(", ")}`,
    hint: "nearest legal: streamk=0, with split where tiles are few",
  };
}

/** Why blocks of a grouped problem share no tiles; null where they do not. */
function groupedSplitFault(split: number, { batch }: Problem): ScheduleFault | null {
  if (batch.kind !== "grouped" || split === 1) return null;
  return {
    message: "groups have different numbers of tiles, and parts of tiles have no place of their own",
    hint: "nearest legal: split=1",
  };
}

interface CountedSubject {
  readonly s: { readonly raster: Raster; readonly streamk: number; readonly split: number };
  readonly problem: Problem;
}

/** The three as rules of a backend, which has codes of its own. */
export const countedRules = (
  raster: Diagnostic["code"],
  streamk: Diagnostic["code"],
  split: Diagnostic["code"],
): readonly ScheduleRule<CountedSubject>[] => [
  { code: raster, at: "schedule.raster", find: ({ s, problem }) => countedRasterFault(s.raster, problem) },
  {
    code: streamk,
    at: "schedule.streamk",
    find: ({ s, problem }) => countedStreamKFault(s.streamk, problem),
  },
  { code: split, at: "schedule.split", find: ({ s, problem }) => groupedSplitFault(s.split, problem) },
];

/** What steps read and store: elements without scales. */
const stepFormats: readonly DType[] = servedFormats.filter((dtype) => !isScaled(dtype));

/** Epilogue steps whose data is of a dtype that they are not lowered for, factors and results, which are a tile program's, and rows that the target cannot add. */
export const refuseSteps = (
  { epilogue, d }: Problem,
  target: Target,
  code: Diagnostic["code"],
): readonly Diagnostic[] =>
  epilogue.flatMap((step, index) => {
    // bf16 is added in memory where vectors are (PTX ISA, red).
    if (step.kind === "scatter" && step.add && d.dtype === "bf16" && !hasFeature(target, "red.vector"))
      return [
        unsupported(
          code,
          `problem.epilogue[${index}]`,
          `${target.arch} adds no bf16 in memory`,
          "use --d-dtype f32, or a later --arch",
        ),
      ];
    if (step.kind === "factor" || step.kind === "result")
      return [
        unsupported(
          code,
          `problem.epilogue[${index}]`,
          `a further ${step.kind} is no step of an epilogue`,
          "write a tile program: examples/two-products.tile",
        ),
      ];
    const dtype = "dtype" in step ? step.dtype : "operand" in step ? step.operand.dtype : "f32";
    if (stepFormats.includes(dtype)) return [];
    const at = `problem.epilogue[${index}]`;
    return [
      unsupported(code, at, `${step.kind} in ${dtype} is not served yet`, `use ${stepFormats.join(", ")}`),
    ];
  });
