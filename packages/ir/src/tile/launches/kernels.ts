/** Kernels with their grids and parameters, and the workspace: what a launch needs to know, as declarations of the program. */
import {
  expertAxisOf,
  expertRowsOf,
  type KernelSpec,
  type LaunchExpr,
  type ParamSpec,
  type Problem,
  sizeMultiple,
  WARP,
} from "@tilewright/core";
import { eachStmt } from "../rewrite.ts";
import { declaredRuns } from "../runs.ts";
import { launchRanges, matrixAlign } from "../sizes.ts";
import { copyBlocks, TRANSPOSING_THREADS, transposedLines } from "../transposed.ts";
import type {
  KernelDeclaration,
  MachineDeclarations,
  RegionDeclaration,
  Stmt,
  TileProgram,
} from "../types.ts";
import { arraysOf } from "./arrays.ts";
import { blocksOfTile, clusterExtents, problemsOf, tilesOf, times } from "./counts.ts";
import { gridOf } from "./grid.ts";
import { endOfParams, operandPointers, parameters, rowOfGroups, workspacePointer } from "./parameters.ts";
import { tensorMaps } from "./tensorMaps.ts";
import { resultCount, resultPlaces, type WorkspaceLayout, workspaceOf } from "./workspace.ts";

type KernelStmt = Extract<Stmt, { kind: "kernel" }>;

export type Launches = NonNullable<MachineDeclarations["launches"]>;

/**
 * What no statement says of the main kernel: CTAs that shall fit an SM and registers of a thread, of which ptxas is told (null leaves them to it), and what the emission keeps
 * in registers; nothing unless given.
 */
export type LaunchHints = Partial<Pick<KernelDeclaration, "ctas" | "maxnreg" | "keeps">>;

/** Of a kernel that leaves all to ptxas. */
export const noHints = (): LaunchHints => ({});

/** What ptxas is told of kernels beside the main one. */
const further = { exact: false, ctas: null, maxnreg: null, keeps: [] } as const;

/** The declarations that a program asks for; hints are those of its backend. */
export function launchesOf(
  program: TileProgram,
  { ctas = null, maxnreg = null, keeps = [] }: LaunchHints,
): Launches {
  const workspace = workspaceOf(program);
  const { regions, results, copies, end } = workspace;
  const plain = placedParameters(program, regions, end !== 0);
  // ptxas follows register budgets only where it knows how many registers a thread begins with.
  const budgeted = eachStmt(program.body).some((s) => s.kind === "role" && s.registers !== null);
  const main: KernelDeclaration = {
    role: "main",
    name: program.name,
    grid: gridOf(program),
    threads: program.launch.threads,
    exact: budgeted || maxnreg !== null,
    ctas: ctas ?? (budgeted ? 1 : null),
    maxnreg,
    keeps,
    workspace: end,
    params: [...plain, ...tensorMaps(program, regions, endOfParams(plain))],
    ...rowOfGroups(program),
    arrays: arraysOf(program, workspace),
  };
  return {
    kernels: [
      ...(copies.length === 0 ? [] : [transposeDeclaration(program, workspace)]),
      main,
      ...program.body.flatMap((stmt) =>
        stmt.kind === "kernel" && stmt.warps !== undefined ? [sumDeclaration(program, workspace, stmt)] : [],
      ),
      ...(results.length > 0 ? [resultDeclaration(program, workspace)] : []),
    ],
    init: workspace.init,
    regions,
    ...factsOf(program.problem),
  };
}

/** What all kernels take of a problem: extents that the launch supplies, problems of its batch, rows of its experts, runs of rows. */
function factsOf(problem: Problem): Pick<Launches, "sizes" | "batch" | "experts" | "runs"> {
  const runs = declaredRuns(problem);
  const experts = expertRowsOf(problem);
  const multiple = sizeMultiple(problem, expertAxisOf(problem));
  return {
    sizes: [...launchRanges(problem)].map(([name, [least, most]]) => ({
      ...{ name, least, most },
      ...(experts === null || multiple === 1 ? {} : { multiple }),
    })),
    ...(problem.batch.kind === "strided" ? { batch: problemsOf(problem) } : {}),
    ...(experts === null ? {} : { experts }),
    ...(runs.length === 0 ? {} : { runs }),
  };
}

/** The kernel before one that reads transposed copies: CTAs of all copies along x, and problems along y. */
function transposeDeclaration(program: TileProgram, workspace: WorkspaceLayout): KernelDeclaration {
  const { copies, end } = workspace;
  const own = transposeProgram(program);
  const pointers = operandPointers(own);
  const blocks = copies.reduce((sum, which) => sum + copyBlocks(program.problem, which), 0);
  return {
    role: "prepare",
    name: own.name,
    grid: [blocks, problemsOf(program.problem), 1],
    ...further,
    threads: own.launch.threads,
    workspace: end,
    params: [...pointers, workspacePointer(endOfParams(pointers))],
    arrays: arraysOf(own, workspace),
    ...(program.launch.pdl === true ? { pdl: true } : {}),
  };
}

/** The program that makes copies: nothing but the matrices, as the launch has them. */
const transposeProgram = (program: TileProgram): TileProgram => ({
  ...program,
  name: `${program.name}_transposed`,
  launch: { threads: TRANSPOSING_THREADS, cluster: [1, 1] },
  buffers: program.buffers.flatMap(({ transposed, ...b }) =>
    transposed === true ? [{ ...b, align: matrixAlign(program.problem, b.name === "A" ? "a" : "b") }] : [],
  ),
  rings: [],
  body: [],
});

/**
 * The second kernel of `reduce … by kernel`. One warp a CTA: no thread needs another's sum, and so a tile occupies as many SMs as its accumulators have warps. The grid has
 * tiles along x and problems along y, as the main kernel's, and the warps of a tile along z.
 */
function sumDeclaration(
  program: TileProgram,
  workspace: WorkspaceLayout,
  stmt: KernelStmt,
): KernelDeclaration {
  const { regions, resultsEnd } = workspace;
  const all = eachStmt(stmt.body);
  const tiles = all.find((s) => s.kind === "tiles");
  const used = new Set(["C", "D", ...all.flatMap((s) => (s.kind === "reduce" ? [s.acc.buffer] : []))]);
  const own = {
    ...program,
    name: stmt.name,
    buffers: program.buffers.filter(({ name }) => used.has(name)),
    rings: [],
    body: stmt.body,
  };
  const count = tiles === undefined ? 1 : tilesOf(tiles);
  // All groups may be empty.
  const most: LaunchExpr = program.problem.batch.kind === "grouped" ? ["max", 1, count] : count;
  return {
    role: "reduce",
    name: stmt.name,
    grid: [times(most, blocksOfTile(program)), problemsOf(program.problem), stmt.warps ?? 1],
    ...further,
    threads: WARP,
    workspace: resultsEnd,
    params: placedParameters(own, regions, true),
    ...rowOfGroups(program),
    arrays: arraysOf(own, workspace),
  };
}

/** Threads of a CTA that stores results; one has one of each step. */
const RESULT_THREADS = 128;

/** The kernel that stores results: along x one thread a result, along y problems or groups. */
function resultDeclaration(
  program: TileProgram,
  { regions, results, resultsEnd }: WorkspaceLayout,
): KernelDeclaration {
  const blocks = results.map(({ step }): LaunchExpr => {
    const places = resultPlaces(program.problem, step);
    return typeof places === "number"
      ? Math.ceil(places / RESULT_THREADS)
      : ["ceilDiv", places, RESULT_THREADS];
  });
  const most = (a: LaunchExpr, b: LaunchExpr): LaunchExpr =>
    typeof a === "number" && typeof b === "number" ? Math.max(a, b) : ["max", a, b];
  return {
    role: "reduce",
    name: `${program.name}_results`,
    grid: [blocks.reduce(most), problemsOf(program.problem), 1],
    ...further,
    threads: RESULT_THREADS,
    workspace: resultsEnd,
    params: placedParameters({ ...program, buffers: [] }, regions, true),
    ...rowOfGroups(program),
    arrays: [],
  };
}

/** What the kernels do that make transposed copies, and that store results. */
export function copyKernels(program: TileProgram): readonly KernelStmt[] {
  const { copies, results } = workspaceOf(program);
  let blocks = 0;
  const transposes = copies.map((which): Stmt => {
    const [first, ctas] = [blocks, copyBlocks(program.problem, which)];
    blocks += ctas;
    const buffer = which.toUpperCase();
    return { kind: "transpose", buffer, first, ctas, ...transposedLines(program.problem, which) };
  });
  const stores = results.flatMap(({ index, step: { dtype }, step }): readonly Stmt[] => [
    { kind: "result.load", step: index, count: resultCount(program.problem, step) },
    { kind: "result.clear", step: index },
    { kind: "result.store", step: index, dtype },
  ]);
  return [
    { kind: "kernel", name: `${program.name}_transposed`, body: transposes } as const,
    { kind: "kernel", name: `${program.name}_results`, body: stores } as const,
  ].filter(({ body }) => body.length > 0);
}

/** Name of the parameter that says where the results of a step lie, where only the launch knows. */
export const placeParam = (step: number): string => `place${step}`;

/** Parameters of a program, and behind them those that say where results lie, naturally aligned. */
function placedParameters(
  program: TileProgram,
  regions: readonly RegionDeclaration[],
  workspace: boolean,
): readonly ParamSpec[] {
  const own = parameters(program, workspace);
  let offset = Math.ceil(endOfParams(own) / 8) * 8;
  const places = regions.flatMap(({ name: region, at }): readonly ParamSpec[] => {
    const step = /^epilogue(\d+)$/.exec(region)?.[1];
    if (typeof at === "number" || step === undefined) return [];
    offset += 8;
    const name = placeParam(Number(step));
    return [{ kind: "scalar", name, dtype: "u64", offset: offset - 8, size: 8, value: at }];
  });
  return [...own, ...places];
}

/** CTAs of a cluster that every GPU with clusters launches (CUDA programming guide). */
const PORTABLE_CLUSTER = 8;

/** How a declared kernel is launched. Kernels beside the main one have no clusters and no shared memory. */
export function specOf(
  program: Pick<TileProgram, "launch" | "machine">,
  kernel: KernelDeclaration,
): KernelSpec {
  const { launch, machine } = program;
  const main = kernel.role === "main";
  const cluster = main ? clusterExtents(program, kernel) : ([1, 1, 1] as const);
  return {
    entry: kernel.name,
    role: kernel.role,
    launch: {
      grid: kernel.grid,
      block: [kernel.threads, 1, 1],
      cluster,
      dynamicSmem: main ? (machine?.memory.shared ?? 0) : 0,
      staticSmem: 0,
      cooperative: false,
      ...(main && launch.pdl ? { programmatic: true } : {}),
      ...(cluster.reduce((n, extent) => n * extent, 1) > PORTABLE_CLUSTER
        ? { nonPortableCluster: true }
        : {}),
    },
    params: kernel.params,
    ...(kernel.row === undefined ? {} : { groups: kernel.row }),
    workspaceBytes: kernel.workspace,
  };
}
