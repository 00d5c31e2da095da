/** Everything that a GEMM reads: from files where they are given, else random numbers by seed. */

import { totalmem } from "node:os";
import {
  bytesOfStorage,
  type Diagnostic,
  type DType,
  type EpilogueStep,
  hasSlopes,
  type InputDistribution,
  isIndex,
  isLaunchScalar,
  launchEnvironment,
  operandElements,
  type Problem,
  type ReferenceInputs,
  randomScales,
  randomStorage,
  runData,
  type Storage,
  sizeOf,
  storedIn,
  workspaceBytes,
} from "@tilewright/core";
import { emulatedMemoryBytes } from "@tilewright/emulator";
import type { Artifact } from "@tilewright/ir";
import { type DeviceKind, deviceOperands, type GemmInputs } from "@tilewright/runtime";
import { codes, problemWith } from "../codes.ts";
import { formatBytes } from "../output/format.ts";
import { type FactorFiles, factorBytes } from "./factors.ts";
import { type Matrices, packMatrix } from "./files.ts";

export interface Inputs {
  /** Bytes for the device. */
  readonly host: GemmInputs;
  /** The same numbers for the reference. */
  readonly reference: ReferenceInputs;
}

/** What a step of the epilogue reads is of this dtype; null for a step that reads nothing. */
export function stepDType(step: EpilogueStep): DType | null {
  if ("dtype" in step) return step.dtype;
  return "operand" in step ? step.operand.dtype : null;
}

/** What running a problem takes of memory. */
interface MemoryUse {
  /** Where it runs. */
  readonly device: DeviceKind;
  /** Whether D is compared with a float64 reference. */
  readonly checked: boolean;
}

/**
 * Whether a launch for these problems (one, or groups) fits the emulated device and this machine: said before anything is made for it. Error: TW7xxx `tooLarge`.
 */
export function checkMemory(
  { manifest, problem }: Pick<Artifact, "manifest" | "problem">,
  problems: readonly Problem[],
  { device, checked }: MemoryUse,
): readonly Diagnostic[] {
  const sum = (bytes: readonly number[]): number => bytes.reduce((all, each) => all + each, 0);
  const workspace = workspaceBytes(manifest, launchEnvironment(problem, { numSms: 1 }));
  const operands = sum([
    ...problems.flatMap(deviceOperands).map(({ bytes }) => bytes),
    workspace.ok ? workspace.value : 0,
  ]);
  const refuse = (message: string, hint: string) => [
    problemWith(codes.tooLarge, "problem", message, { hint }),
  ];
  if (device === "emulator" && operands > emulatedMemoryBytes)
    return refuse(
      `operands and workspace take ${formatBytes(operands)}, and the emulated device has ${formatBytes(emulatedMemoryBytes)}`,
      "smaller sizes show the same hazards; --device cuda runs it where a GPU of the architecture is",
    );
  // On the host every operand is there twice (the copy and the emulator's memory); the float64 reference holds A, B, D, a bound and sum|a*b|.
  const reference = problems.map(
    ({ m, n, k, batch }) => 8 * (m * k + k * n + 4 * m * n * (batch.kind === "none" ? 1 : batch.count)),
  );
  const needed = 2 * operands + (checked ? sum(reference) : 0);
  if (needed <= 0.8 * totalmem()) return [];
  return refuse(
    `running this takes about ${formatBytes(needed)} of memory on this machine, which has ${formatBytes(totalmem())}`,
    checked ? "smaller sizes, or --no-check to save the reference's share" : "smaller sizes",
  );
}

interface RandomOptions {
  readonly distribution: InputDistribution;
  readonly seed: number;
  /** Rows of A or D that the rows of an expert are; of a problem without experts none. */
  readonly index?: (step: Extract<EpilogueStep, { kind: "gather" | "scatter" }>) => Int32Array;
}

/** Inputs of a problem: what is given, else random numbers, which differ between operands and are the same for the same seed. */
export function randomInputs(
  problem: Problem,
  options: RandomOptions,
  matrices: Matrices = {},
  factors: FactorFiles = {},
): Inputs {
  // Every operand draws from a seed of its own, so that A does not change with the size of B.
  const random = (stream: number, dtype: DType, count: number): Storage =>
    randomStorage(dtype, count, options.distribution, (options.seed * 64 + stream) >>> 0);
  const operand = (which: "a" | "b" | "c", stream: number): Storage | null => {
    const spec = problem[which];
    if (spec === null) return null;
    const matrix = matrices[which];
    return matrix === undefined
      ? random(stream, spec.dtype, operandElements(problem, which))
      : packMatrix(matrix, spec);
  };
  const [a, b, c] = [operand("a", 0), operand("b", 1), operand("c", 2)];
  if (a === null || b === null) throw new TypeError("a problem has A and B");
  const read = new Map(
    deviceOperands(problem)
      .filter(({ direction }) => direction === "in")
      .map(({ name, bytes }) => [name, bytes]),
  );
  const steps = problem.epilogue.map((step, i): Storage | number | null => {
    if (isLaunchScalar(step)) return 0.5;
    if (isIndex(step)) return options.index?.(step) ?? null;
    const bytes = read.get(`epilogue${i}`);
    const dtype = stepDType(step);
    if (bytes === undefined || dtype === null) return null;
    const count = bytes / sizeOf(dtype);
    if (storedIn(problem, `epilogue${i}`) === "b") return b.slice(0, count);
    const drawn = runData(problem, i, count, (step) => options.seed + step) ?? random(3 + i, dtype, count);
    return hasSlopes(step) && drawn instanceof Float32Array ? drawn.map(Math.abs) : drawn;
  });
  const scales = (which: "a" | "b", stream: number): Uint8Array | null =>
    factorBytes(problem, `sf${which}`, factors) ??
    randomScales(problem, which, options.distribution, (options.seed * 64 + stream) >>> 0);
  const [sfa, sfb] = [scales("a", 62), scales("b", 63)];
  const bytesOf = (data: Storage | number | null) =>
    data === null || typeof data === "number" ? data : bytesOfStorage(data);
  return {
    host: {
      a: bytesOfStorage(a),
      b: bytesOfStorage(b),
      c: c === null ? null : bytesOfStorage(c),
      sfa,
      sfb,
      steps: steps.map(bytesOf),
    },
    reference: { a, b, c, sfa, sfb, steps },
  };
}
