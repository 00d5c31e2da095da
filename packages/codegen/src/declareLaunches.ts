/** Kernels, their grids and parameters, and the workspace: what a launch needs to know, as declarations of the program. */
import type { KernelSpec, LaunchExpr, Target } from "@tilewright/core";
import {
  bufferOf,
  eachStmt,
  type KernelDeclaration,
  type MachineDeclarations,
  type Pass,
  rolesOf,
  type TileProgram,
  transposedOperands,
} from "@tilewright/ir";
import { CannotLower } from "./cannotLower.ts";
import { clusterExtents } from "./clusters.ts";
import { counterBytes } from "./counter.ts";
import type { Engine } from "./engine.ts";
import { groupMapBytes } from "./groupMaps.ts";
import { endOfParams, rowOfGroups } from "./params.ts";
import {
  initWithResults,
  placedParameters,
  resultDeclaration,
  type WideResult,
  wideResults,
} from "./results.ts";
import { sumDeclaration } from "./sumKernel.ts";
import { tensorMaps } from "./tensorMaps.ts";
import { gridOf } from "./tiles.ts";
import { type TransposedCopy, transposedCopies } from "./transposedCopies.ts";
import { transposeDeclaration } from "./transposeKernel.ts";
import { type PartialTiles, partialTiles, workspaceBytes } from "./workspace.ts";

/** Blocks of a cluster that every GPU with clusters launches (CUDA programming guide). */
const PORTABLE_CLUSTER = 8;

export type Launches = NonNullable<MachineDeclarations["launches"]>;

/** How a program's workspace lies: parts, counters or maps first, then results, then copies of operands. */
export interface WorkspaceLayout {
  readonly parts: PartialTiles | null;
  /** Bytes of maps of groups; 0 where there are none. */
  readonly maps: LaunchExpr;
  readonly results: readonly WideResult[];
  readonly copies: readonly TransposedCopy[];
  /** Where results end, and copies. */
  readonly resultsEnd: LaunchExpr;
  readonly end: LaunchExpr;
}

export function workspaceOf(engine: Engine, program: TileProgram, target: Target): WorkspaceLayout {
  const parts = partialTiles(program, engine, target);
  const maps = groupMapBytes(program);
  const used = parts !== null ? workspaceBytes(parts) : maps === 0 ? counterBytes(program) : maps;
  const { results, end: resultsEnd } = wideResults(program, used);
  return { parts, maps, results, resultsEnd, ...placeCopies(program, resultsEnd) };
}

/** Transposed copies behind all else in the workspace, and where it ends with them. */
function placeCopies(program: TileProgram, used: LaunchExpr): Pick<WorkspaceLayout, "copies" | "end"> {
  if (transposedOperands(program).length === 0) return { copies: [], end: used };
  for (const stmt of eachStmt(program.body))
    if (stmt.kind === "copy" && stmt.transport === "tma" && bufferOf(program, stmt.src.buffer).transposed)
      throw new CannotLower(
        `%${stmt.src.buffer}`,
        "is a copy in the workspace, of which no tensor map is made",
      );
  if (typeof used !== "number")
    throw new CannotLower("transposed", "copies lie behind parts whose number only the launch knows");
  return transposedCopies(program, used);
}

/** The declarations that a program asks for. Throws `CannotLower`. */
export function launchesOf(engine: Engine, program: TileProgram, target: Target): Launches {
  const { frame } = engine;
  const workspace = workspaceOf(engine, program, target);
  const { parts, results, resultsEnd, copies, end } = workspace;
  const plain = placedParameters(program, results, end !== 0);
  const row = rowOfGroups(program);
  // ptxas follows register budgets only where it knows how many registers a thread begins with.
  const budgeted = rolesOf(program).some((role) => role.registers !== null);
  const maxnreg = frame.registers?.(program, target) ?? null;
  const main: KernelDeclaration = {
    role: "main",
    name: program.name,
    grid: frame.grid?.(program) ?? gridOf(program),
    threads: program.launch.threads,
    exact: budgeted || maxnreg !== null,
    ctas: frame.blocksPerSm?.(program) ?? (budgeted ? 1 : null),
    maxnreg,
    workspace: end,
    params: [...plain, ...tensorMaps(program, endOfParams(plain))],
    ...(row === null ? {} : { row }),
  };
  return {
    kernels: [
      ...(copies.length === 0 ? [] : [transposeDeclaration(program, copies, end)]),
      main,
      ...(parts?.by === "kernel" ? [sumDeclaration(program, parts, results, resultsEnd)] : []),
      ...(results.length > 0 ? [resultDeclaration(program, results, resultsEnd)] : []),
    ],
    // Counters of tiles that blocks ask for end as they began: at 0.
    init: initWithResults(results, parts?.init ?? (counterBytes(program) === 0 ? "none" : "zeroOnce")),
  };
}

/** The last of a backend's passes. What `lower` cannot express it leaves undeclared: lowering says why. */
export const declareLaunches = (engine: Engine): Pass => ({
  name: "declareLaunches",
  summary: "Kernels get their grids, parameters, tensor maps and workspace",
  from: "machine",
  to: "machine",
  run(program, target) {
    if (program.machine === undefined || program.machine.launches !== undefined) return program;
    try {
      return { ...program, machine: { ...program.machine, launches: launchesOf(engine, program, target) } };
    } catch (error) {
      if (error instanceof CannotLower) return program;
      throw error;
    }
  },
});

/** How a declared kernel is launched. Kernels beside the main one have no clusters and no shared memory. */
export function specOf(program: TileProgram, kernel: KernelDeclaration): KernelSpec {
  const main = kernel.role === "main";
  const cluster = main ? clusterExtents(program) : ([1, 1, 1] as const);
  return {
    entry: kernel.name,
    role: kernel.role,
    launch: {
      grid: kernel.grid,
      block: [kernel.threads, 1, 1],
      cluster,
      dynamicSmem: main ? (program.machine?.memory.shared ?? 0) : 0,
      staticSmem: 0,
      cooperative: false,
      ...(main && program.launch.pdl ? { programmatic: true } : {}),
      ...(cluster.reduce((n, extent) => n * extent, 1) > PORTABLE_CLUSTER
        ? { nonPortableCluster: true }
        : {}),
    },
    params: kernel.params,
    ...(kernel.row === undefined ? {} : { groups: kernel.row }),
    workspaceBytes: kernel.workspace,
  };
}
