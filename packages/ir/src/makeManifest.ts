/** The manifest of an artefact, from what the compiler knows. */

import type { Problem, PtxVersion, Schedule, Target } from "@tilewright/core";
import {
  type Constraint,
  dtypes,
  expertRowsOf,
  extentNames,
  firstCudaFor,
  gemmBound,
  type KernelSpec,
  type LaunchExpr,
  leadingNames,
  type Manifest,
  manifestSchemaId,
  type ParamSpec,
  printProblem,
  sha256,
  sizeMost,
  stepExtentNames,
  storedIn,
  strideNames,
  symbolicSizes,
  WORKSPACE_ALIGN,
  weightFactors,
  weightMatrix,
  weightOrder,
} from "@tilewright/core";
import { disorderOf } from "./determinism.ts";
import { tensorsOf } from "./program/tensors.ts";
import type { AxisProgram } from "./program/types.ts";
import { printProgram } from "./tile/print.ts";
import type { TileProgram } from "./tile/types.ts";
import { featuresOf } from "./tile/verify/features.ts";

export interface ManifestInput {
  readonly backend: string;
  readonly version: string;
  readonly target: Target;
  /** The bound program. */
  readonly program: TileProgram;
  /** The program that compiling began with: it stands for the schedule where there is none. */
  readonly start: TileProgram;
  readonly schedule: { readonly schedule: Schedule; readonly text: string } | null;
  /** The program over named axes that it was compiled from. */
  readonly source?: AxisProgram;
  readonly ptx: string;
  readonly kernels: readonly KernelSpec[];
  readonly workspaceInit: Manifest["workspace"]["init"];
}

/**
 * A manifest that names its PTX file `ENTRY.ptx` beside itself. Without a schedule (compiled from a tile program) the plan is
 * `from=STAGE:HASH`, the hash being of the program's text.
 */
export function makeManifest(parts: ManifestInput): Manifest {
  const { program, target } = parts;
  const { problem } = program;
  const plan = parts.schedule ?? fromPlan(parts.start);
  const request = [printProblem(problem), target.arch, parts.backend, plan.text, parts.version].join("\n");
  const bytes = parts.kernels
    .map((k) => k.workspaceBytes)
    .reduce((a, b): LaunchExpr => (a === 0 || a === b ? b : b === 0 ? a : ["max", a, b]));
  const ptxVersion = versionOf(parts.ptx) ?? target.minPtx;
  return {
    $schema: manifestSchemaId,
    schemaVersion: 1,
    id: `sha256:${sha256(request)}`,
    generator: { name: "tilewright", version: parts.version, backend: parts.backend },
    target: {
      arch: target.arch,
      portability: target.portability,
      minPtx: ptxVersion.join("."),
      minDriver: (firstCudaFor(ptxVersion)?.cuda ?? ptxVersion).join("."),
      features: featuresOf(program),
    },
    request: problem,
    plan: { schedule: plan.text, fields: plan.schedule },
    images: [{ format: "ptx", arch: target.arch, path: `${program.name}.ptx`, sha256: sha256(parts.ptx) }],
    kernels: parts.kernels.map((kernel) => ({ ...kernel, params: kernel.params.map(inBuffers(problem)) })),
    workspace: { bytes, align: WORKSPACE_ALIGN, init: bytes === 0 ? "none" : parts.workspaceInit },
    constraints: constraintsOf(problem),
    numerics: {
      acc: problem.acc,
      rounding: "rn",
      relativeBound: relativeBound(problem),
      deterministic: disorderOf(program).length === 0,
    },
    resources: null,
    ...weightsOf(problem),
    ...(parts.source === undefined ? {} : { tensors: tensorsOf(parts.source) }),
  };
}

/** A parameter by the buffer that a launch takes its address from: of an operand that lies in another one's, that one. */
const inBuffers =
  (problem: Problem) =>
  (param: ParamSpec): ParamSpec => {
    if (param.kind === "pointer") return { ...param, name: storedIn(problem, param.name) };
    if (param.kind !== "tensorMap") return param;
    const { tensorMap } = param;
    return { ...param, tensorMap: { ...tensorMap, operand: storedIn(problem, tensorMap.operand) } };
  };

/** How weights lie; nothing of problems without. */
function weightsOf(problem: Problem): Pick<Manifest, "weights"> {
  const [words, factors] = [weightMatrix(problem), weightFactors(problem)];
  return words === null || factors === null
    ? {}
    : { weights: { order: weightOrder(problem.b.dtype), words, factors: factors.shape } };
}

function fromPlan(start: TileProgram): { readonly schedule: Schedule; readonly text: string } {
  const source = `${start.stage}:${sha256(printProgram(start)).slice(0, 16)}`;
  return { schedule: { from: source }, text: `from=${source}` };
}

/** `.version` of a text. */
function versionOf(ptx: string): PtxVersion | null {
  const [, major, minor] = /^\s*\.version\s+(\d+)\.(\d+)/m.exec(ptx) ?? [];
  return major === undefined || minor === undefined ? null : [Number(major), Number(minor)];
}

/** What must hold of sizes that the launch supplies: their ranges and divisibility, and matrices that their strides hold. */
function symbolicConstraints(problem: Problem): readonly Constraint[] {
  const { symbolic, batch } = problem;
  const free = (name: string): boolean => symbolicSizes(problem).some((each) => each === name);
  const found = symbolicSizes(problem).flatMap((name): Constraint[] => {
    const range = symbolic?.[name];
    // Matrices of the epilogue are packed: what they must meet follows from the extents.
    if (range === undefined || name.startsWith("ldepilogue")) return [];
    const { min, max, multiple } = range;
    // Rows of counts are as many for each expert as kernels have between experts.
    if (expertRowsOf(problem) === "counts") return [["eq", name, max]];
    return [
      ["ge", name, min],
      ["le", name, max],
      ...(multiple === 1 ? [] : [["eq", ["mod", name, multiple], 0] satisfies Constraint]),
    ];
  });
  const holds = (name: string, extent: string): readonly Constraint[] =>
    free(name) || free(extent) ? [["ge", name, extent]] : [];
  for (const which of ["a", "b", "c", "d"] as const) {
    const operand = problem[which];
    if (operand === null) continue;
    found.push(...holds(leadingNames[which], extentNames[which][operand.layout === "row" ? 1 : 0]));
  }
  problem.epilogue.forEach((step, i) => {
    if (!("operand" in step) || free(`ldepilogue${i}`)) return;
    const extent = stepExtentNames(problem, step)[step.operand.layout === "row" ? 1 : 0];
    if (free(extent)) found.push(["le", extent, step.operand.ld]);
  });
  if (batch.kind === "strided") {
    const [lines, line] = problem.d.layout === "row" ? ["m", "n"] : ["n", "m"];
    if ([strideNames.d, leadingNames.d, "m", "n", "batch"].some(free) && sizeMost(problem, "batch") > 1)
      // From the first element of a D to its last: the matrices of the batch do not overlap.
      found.push([
        "ge",
        strideNames.d,
        ["add", ["mul", ["sub", lines ?? "m", 1], leadingNames.d], line ?? "n"],
      ]);
  }
  return found;
}

/** Sizes, leading dimensions, the batch and the factors that the problem fixes are compiled in. */
function constraintsOf(problem: Problem): readonly Constraint[] {
  const free = new Set<string>(symbolicSizes(problem));
  const { batch, alpha, beta } = problem;
  const strided = batch.kind === "strided" ? batch : null;
  const fixed: readonly (readonly [string, number | "runtime" | undefined])[] = [
    ["m", problem.m],
    ["n", problem.n],
    ["k", problem.k],
    ["lda", problem.a.ld],
    ["ldb", problem.b.ld],
    ["ldc", problem.c?.ld],
    ["ldd", problem.d.ld],
    ["batch", batch.kind === "none" ? 1 : batch.count],
    ["strideA", strided?.strideA],
    ["strideB", strided?.strideB],
    ["strideC", problem.c === null ? undefined : strided?.strideC],
    ["strideD", strided?.strideD],
    ["alpha", alpha],
    ["beta", beta],
  ];
  return [
    ...fixed.flatMap(([name, value]): Constraint[] =>
      value === undefined || value === "runtime" || free.has(name) ? [] : [["eq", name, value]],
    ),
    ...symbolicConstraints(problem),
  ];
}

/** Bound of the accumulation over sum |a*b|: integers are exact, f64 has 29 bits more than f32. */
function relativeBound(problem: Problem): number {
  if (dtypes[problem.acc].kind === "int") return 0;
  const k = sizeMost(problem, "k");
  return problem.acc === "f64" ? gemmBound(k, 1, 2 ** -52) : gemmBound(k, 1);
}
