/** Kernels that are launched beside the main one: behind it over what it has left in the workspace, or before it to leave something there. */
import type { Target } from "@tilewright/core";
import type { KernelDeclaration, KernelStep, Launches, TileProgram } from "@tilewright/ir";
import type { ModuleBuilder } from "@tilewright/ptx";
import { Context } from "./context.ts";
import type { Engine } from "./engine.ts";
import { declareParameters } from "./params.ts";
import { noShared } from "./smem.ts";
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
}

/** The lines of one kind that its declaration has. */
export const stepsOf = <K extends KernelStep["kind"]>(
  { kernel }: FurtherKernel,
  kind: K,
): readonly Extract<KernelStep, { kind: K }>[] =>
  kernel.steps.filter((step): step is Extract<KernelStep, { kind: K }> => step.kind === kind);

/** Adds a kernel without clusters and without shared memory to the text; `fill` emits its code. `role`: the threads that run it; those of its block unless given. */
export function buildFurtherKernel(
  { engine, target, builder, program, kernel, launches }: FurtherKernel,
  fill: (ctx: Context) => void,
  role?: RoleThreads,
): void {
  const { params, threads, row } = kernel;
  const entry = builder.entry(kernel.name, { params: declareParameters(params), maxntid: [threads, 1, 1] });
  const ctx = new Context(program, target, engine, entry, noShared, kernel, launches, role);
  ctx.groups = row ?? null;
  if (kernel.pdl === true) ctx.emitAny(null, "griddepcontrol.launch_dependents");
  fill(ctx);
  ctx.body.emit(null, "ret");
  ctx.root.replay(entry);
}
