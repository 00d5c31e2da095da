/** The buffers that a problem needs on a device: their names in the manifest, their sizes, which way their bytes go. */
import {
  addsToD,
  batchAxes,
  batchReach,
  blockFactors,
  type DType,
  dtypes,
  expertAxisOf,
  groupStart,
  groupStrides,
  type Operand,
  operandElements,
  operandShape,
  operandSpan,
  type Problem,
  type ScaleMatrix,
  scaleMatrix,
  sizeOf,
  stepExtents,
  weightFactors,
} from "@tilewright/core";

/** `sfa`, `sfb`: scale factors of A and B. `epilogueI`: what step I of the epilogue reads or stores. */
export type OperandName = "a" | "b" | "c" | "d" | "sfa" | "sfb" | `epilogue${number}`;

export interface DeviceOperand {
  readonly name: OperandName;
  readonly bytes: number;
  /** For messages: `5 x 7 f32 with leading dimension 8`. */
  readonly shape: string;
  /**
   * - `in`: read by the kernel;
   * - `out`: every element is written by it;
   * - `reduced`: combined into by it, from 0 (the neutral element of both a sum and an amax).
   */
  readonly direction: "in" | "out" | "reduced";
}

/** Types under 8 bits are packed; the last byte may be half used. */
const bytesOf = (elements: number, dtype: DType): number => Math.ceil((elements * dtypes[dtype].bits) / 8);

/** Every buffer of a problem: A, B, C, D, the scale factors of A and B, then those of the epilogue in the order of its steps. */
export function deviceOperands(problem: Problem): readonly DeviceOperand[] {
  const operands: DeviceOperand[] = [];
  for (const which of ["a", "b", "c", "d"] as const) {
    const operand = problem[which];
    if (operand === null) continue;
    operands.push({
      name: which,
      bytes: bytesOf(operandElements(problem, which), operand.dtype),
      shape: matrixText(operand, operandShape(problem, which)),
      direction: which !== "d" ? "in" : addsToD(problem) ? "reduced" : "out",
    });
  }
  for (const which of ["a", "b"] as const) {
    const [matrix, blocks] = [scaleMatrix(problem, which), blockFactors(problem, which)];
    if (blocks !== null)
      operands.push({
        name: `sf${which}`,
        bytes: blocks.allBytes,
        shape: `${blocks.rows} x ${blocks.factors} f32, a factor for each ${blocks.form} of ${which.toUpperCase()}`,
        direction: "in",
      });
    const groups = which === "b" ? weightFactors(problem) : null;
    if (groups !== null)
      operands.push({
        name: "sfb",
        bytes: groups.allBytes,
        shape: `${groups.shape.join(" x ")} ${groups.dtype}, scales${problem.weights?.zeros ? " and zero points" : ""} of groups of ${problem.weights?.group} along K`,
        direction: "in",
      });
    if (matrix === null) continue;
    operands.push({
      name: `sf${which}`,
      bytes: matrix.allBytes,
      shape: codesText(matrix),
      direction: "in",
    });
  }
  problem.epilogue.forEach((_, index) => {
    const operand = stepOperand(problem, index);
    if (operand !== null) operands.push(operand);
  });
  return operands;
}

/** The buffer of one step of the epilogue; null where it has none. */
function stepOperand(problem: Problem, index: number): DeviceOperand | null {
  const step = problem.epilogue[index];
  if (step === undefined) return null;
  const name = `epilogue${index}` as const;
  const { m, n } = problem;
  const extents = stepExtents(problem, step);
  const batches = problem.batch.kind === "none" ? 1 : problem.batch.count;
  const reach = batchReach(batchAxes(problem, name));
  const vector = (length: number, dtype: DType, direction: DeviceOperand["direction"]): DeviceOperand => ({
    name,
    bytes: bytesOf(length, dtype),
    shape: `${length} ${dtype}`,
    direction,
  });
  const matrix = (operand: Operand, direction: DeviceOperand["direction"]): DeviceOperand => ({
    name,
    bytes: bytesOf(reach + operandSpan(operand, ...extents), operand.dtype),
    shape: matrixText(operand, extents),
    direction,
  });
  switch (step.kind) {
    case "bias":
      return vector(reach + (step.along === "m" ? m : n), step.dtype, "in");
    case "scale":
    case "load":
      return step.by === "scalar"
        ? null
        : vector(reach + (step.by === "tensor" ? 1 : step.by === "m" ? m : n), step.dtype, "in");
    case "residual":
    case "source":
    case "gate":
    case "factor":
      return matrix(step.operand, "in");
    case "output":
    case "result":
      return matrix(step.operand, "out");
    case "quantize": {
      const codes = scaleMatrix(problem, "d");
      const made = matrix(step.operand, "out");
      return codes === null ? made : { ...made, shape: codesText(codes) };
    }
    case "reduce":
      return vector(batches * (step.over === "n" ? m : step.over === "m" ? n : 1), step.dtype, "reduced");
    case "gather":
    case "scatter":
      return vector(m, "s32", "in");
    case "activation":
    case "map":
    case "clamp":
    case "cast":
      return null;
  }
}

const codesText = ({ rows, factors, format, blocks }: ScaleMatrix): string =>
  `${rows} x ${factors} ${format} in ${blocks.join(" x ")} blocks of 512 bytes`;

const matrixText = (operand: Operand, [rows, columns]: readonly [number, number]): string =>
  `${rows} x ${columns} ${operand.dtype} with leading dimension ${operand.ld}`;

/** A group's part of a buffer that experts share, in bytes: lines of `line` bytes from `at` on, `pitch` apart, which begin every `step` bytes of its own `bytes`. */
export interface ExpertSlice {
  readonly at: number;
  readonly bytes: number;
  readonly line: number;
  readonly step: number;
  readonly pitch: number;
}

/** An operand of all groups of a mixture of experts: one buffer, and where in it each group's part lies. */
export interface ExpertOperand extends DeviceOperand {
  readonly parts: readonly ExpertSlice[];
}

/** The lines of a part: where each stands in the group's own bytes, and where in the buffer. */
export const linesOfSlice = ({
  at,
  bytes,
  line,
  step,
  pitch,
}: ExpertSlice): readonly { readonly from: number; readonly to: number; readonly at: number }[] =>
  Array.from({ length: bytes === 0 ? 0 : Math.ceil(bytes / step) }, (_, i) => ({
    ...{ from: i * step, to: Math.min(bytes, i * step + line), at: at + i * pitch },
  }));

/** Bytes of a line of A or B, and from one line to the next, where a group's rows are columns of the lines of all groups; null where its part is in one piece. */
function linesAlongRows(problem: Problem, name: OperandName, rows: number) {
  const operand = name === "a" || name === "b" ? problem[name] : null;
  if (expertAxisOf(problem) !== "k" || operand === null) return null;
  if (operand.layout !== (name === "a" ? "row" : "col")) return null;
  const unit = sizeOf(operand.dtype);
  return { line: rows * unit, step: operand.ld * unit, pitch: operand.ld * unit };
}

/** Every buffer that experts with so many rows each share, for the rows that the problem has. */
export function expertOperands(problem: Problem, counts: readonly number[]): readonly ExpertOperand[] {
  const axis = expertAxisOf(problem);
  const one = (rows: number): Problem => ({ ...problem, [axis]: rows, batch: { kind: "none" } });
  const groups = counts.map((rows) => deviceOperands(one(rows)));
  return deviceOperands(one(problem[axis])).map((operand, i) => {
    const strides = groupStrides(problem, operand.name);
    // Factors of rows stand behind each other for each run along k.
    const runs = operand.name === "sfa" ? (blockFactors(problem, "a")?.factors ?? 1) : 1;
    let first = 0;
    const parts = groups.map((operands, g): ExpertSlice => {
      const at = groupStart(strides, first, g);
      first += counts[g] ?? 0;
      const count = counts[g] ?? 0;
      const bytes = count === 0 && axis === "m" ? 0 : (operands[i]?.bytes ?? 0);
      const whole = { line: bytes / runs, step: bytes / runs, pitch: operand.bytes / runs };
      return { at, bytes, ...(linesAlongRows(problem, operand.name, count) ?? whole) };
    });
    const blocks = strides.blocks !== undefined && groupStart(strides, problem[axis], counts.length);
    return { ...operand, bytes: blocks || operand.bytes + (counts.length - 1) * strides.group, parts };
  });
}
