/** Kernels that are launched beside the main one: behind it over what it has left in the workspace, or before it to leave something there. */
import type { GroupRow, KernelSpec, LaunchExpr, ParamSpec, Target, TileProgram } from "@tilewright/ir";
import type { ModuleBuilder } from "@tilewright/ptx";
import { Context } from "./context.ts";
import type { Engine } from "./engine.ts";
import { declareParameters } from "./params.ts";
import { noShared } from "./smem.ts";
import type { Crew } from "./values.ts";

/** What a further kernel is, beside its code. */
interface FurtherKernel {
  /** Its own program: its name, its threads, and what it has of the main kernel's. */
  readonly program: TileProgram;
  readonly role: KernelSpec["role"];
  /** The threads that run the code; those of its block unless given. */
  readonly crew?: Crew;
  readonly params: readonly ParamSpec[];
  /** The row of a group, which is the main kernel's: the launch has one table. */
  readonly groups: GroupRow | null;
  readonly grid: KernelSpec["launch"]["grid"];
  /** Bytes of workspace that the launch of all kernels has. */
  readonly workspaceBytes: LaunchExpr;
}

/** Adds a kernel without clusters and without shared memory to the text; `fill` emits its code. */
export function buildFurtherKernel(
  engine: Engine,
  target: Target,
  builder: ModuleBuilder,
  { program, role, crew, params, groups, grid, workspaceBytes }: FurtherKernel,
  fill: (ctx: Context) => void,
): KernelSpec {
  const { threads } = program.launch;
  const block = [threads, 1, 1] as const;
  const entry = builder.entry(program.name, { params: declareParameters(params), maxntid: block });
  const ctx = new Context(program, target, engine, entry, noShared, crew);
  ctx.groups = groups;
  fill(ctx);
  ctx.body.emit(null, "ret");
  ctx.root.replay(entry);
  return {
    entry: program.name,
    role,
    launch: { grid, block, cluster: [1, 1, 1], dynamicSmem: 0, staticSmem: 0, cooperative: false },
    params,
    ...(groups === null ? {} : { groups }),
    workspaceBytes,
  };
}
