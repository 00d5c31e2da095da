/** Kernels that are launched beside the main one: behind it over what it has left in the workspace, or before it to leave something there. */
import type { Target } from "@tilewright/core";
import { clusterSize, type KernelDeclaration, type Launches, type TileProgram } from "@tilewright/ir";
import type { ModuleBuilder } from "@tilewright/ptx";
import { numberClusters } from "./clusters.ts";
import { Context } from "./context.ts";
import type { Engine, StmtOf } from "./engine.ts";
import { declareParameters } from "./params.ts";
import { noShared } from "./smem.ts";
import { lowerStmts } from "./statements.ts";

/** Where a further kernel goes, and for what. */
export interface FurtherKernel {
  readonly engine: Engine;
  readonly target: Target;
  readonly builder: ModuleBuilder;
  /** The main kernel's program, of which it has its own part. */
  readonly program: TileProgram;
  readonly stmt: StmtOf<"kernel">;
  /** What its name stands for. */
  readonly kernel: KernelDeclaration;
  readonly launches: Launches;
  readonly locations: Context["locations"];
}

/** Adds the kernel of a statement to the text, without clusters and without shared memory: its work tiles go by the main kernel's CTAs, of which each of its own has a warp. */
export function buildFurtherKernel(at: FurtherKernel): void {
  const { engine, target, builder, kernel, launches } = at;
  const { name, params, threads, row } = kernel;
  const { warps, body } = at.stmt;
  const { cluster, pair } = at.program.launch;
  const program: TileProgram = {
    ...at.program,
    name,
    launch:
      warps === undefined ? { threads, cluster: [1, 1] } : { threads, cluster, ...(pair ? { pair } : {}) },
    rings: [],
  };
  const entry = builder.entry(name, { params: declareParameters(params), maxntid: [threads, 1, 1] });
  const role = { first: 0, warps: warps ?? threads / 32 };
  const across = { across: "grid", clusterOf: clusterSize(program) } as const;
  const own = warps === undefined ? role : { ...role, ...across };
  const ctx = new Context(program, target, engine, entry, noShared, kernel, launches, own);
  ctx.groups = row ?? null;
  ctx.locations = at.locations;
  if (kernel.pdl === true) ctx.emitAny(null, "griddepcontrol.launch_dependents");
  numberClusters(ctx);
  lowerStmts(ctx, body);
  ctx.body.emit(null, "ret");
  ctx.root.replay(entry);
}
