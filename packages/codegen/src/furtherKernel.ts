/** Kernels that are launched beside the main one: behind it over what it has left in the workspace, or before it to leave something there. */
import type { Target } from "@tilewright/core";
import {
  clusterSize,
  type KernelDeclaration,
  type KernelStep,
  type Launches,
  type TileProgram,
} from "@tilewright/ir";
import type { ModuleBuilder } from "@tilewright/ptx";
import { numberClusters } from "./clusters.ts";
import { Context } from "./context.ts";
import type { Engine, StmtOf } from "./engine.ts";
import { declareParameters } from "./params.ts";
import { noShared } from "./smem.ts";
import { lowerStmts } from "./statements.ts";
import type { RoleThreads } from "./values.ts";

/** Where a further kernel goes, and for what. */
export interface FurtherKernel {
  readonly engine: Engine;
  readonly target: Target;
  readonly builder: ModuleBuilder;
  /** The main kernel's program, of which it has its own part. */
  readonly program: TileProgram;
  readonly kernel: KernelDeclaration;
  readonly launches: Launches;
  readonly locations: Context["locations"];
}

/** The lines of one kind that its declaration has. */
export const stepsOf = <K extends KernelStep["kind"]>(
  { kernel }: FurtherKernel,
  kind: K,
): readonly Extract<KernelStep, { kind: K }>[] =>
  kernel.steps.filter((step): step is Extract<KernelStep, { kind: K }> => step.kind === kind);

/** Adds a kernel without clusters and without shared memory to the text; `fill` emits its code. `role`: the threads that run it; those of its block unless given. */
export function buildFurtherKernel(
  { engine, target, builder, program, kernel, launches, locations }: FurtherKernel,
  fill: (ctx: Context) => void,
  role?: RoleThreads,
): void {
  const { params, threads, row } = kernel;
  const entry = builder.entry(kernel.name, { params: declareParameters(params), maxntid: [threads, 1, 1] });
  const ctx = new Context(program, target, engine, entry, noShared, kernel, launches, role);
  ctx.groups = row ?? null;
  ctx.locations = locations;
  if (kernel.pdl === true) ctx.emitAny(null, "griddepcontrol.launch_dependents");
  fill(ctx);
  ctx.body.emit(null, "ret");
  ctx.root.replay(entry);
}

/** The kernel of a statement. Workspace and tiles go by the main kernel's CTAs, of whose clusters it has none. */
export function buildStatedKernel(at: FurtherKernel, { warps, body }: StmtOf<"kernel">): void {
  const { cluster, pair } = at.program.launch;
  const launch = { threads: at.kernel.threads, cluster, ...(pair ? { pair } : {}) };
  const program = { ...at.program, name: at.kernel.name, launch, rings: [] };
  buildFurtherKernel(
    { ...at, program },
    (ctx) => {
      numberClusters(ctx);
      lowerStmts(ctx, body);
    },
    warps === undefined ? undefined : { first: 0, warps, across: "grid", clusterOf: clusterSize(program) },
  );
}
