/** Tile program to PTX: the module, its text, and how to launch it. */
import {
  bufferOf,
  type Checked,
  eachStmt,
  err,
  type KernelSpec,
  type LaunchExpr,
  type LoweredKernel,
  type Manifest,
  ok,
  type PtxVersion,
  rolesOf,
  type SourceLocation,
  type Target,
  type TileProgram,
  transposedOperands,
} from "@tilewright/ir";
import {
  type Instruction,
  moduleBuilder,
  type PtxModule,
  printInstruction,
  printModule,
  type Statement,
} from "@tilewright/ptx";

import { ptxOfPolicies } from "./cachePolicy.ts";
import { clusterExtents } from "./clusters.ts";
import { CannotLower, Context } from "./context.ts";
import { counterBytes } from "./counter.ts";
import { withWholeDefinitions } from "./definitions.ts";
import type { Engine } from "./engine.ts";
import { ptxOfFormats } from "./formats.ts";
import { GROUP_MAPS_PTX, groupMapBytes } from "./groupMaps.ts";
import { declareParameters, endOfParams, memoryDTypes, rowOfGroups } from "./params.ts";
import { buildResultKernel, initWithResults, placedParameters, wideResults } from "./results.ts";
import { closeKernel, openKernel } from "./setup.ts";
import { mapShared, type SharedMap, SMEM } from "./smem.ts";
import { lowerStmts } from "./statements.ts";
import { buildSumKernel } from "./sumKernel.ts";
import { tensorMaps } from "./tensorMaps.ts";
import { gridOf } from "./tiles.ts";
import { type TransposedCopy, transposedCopies } from "./transposedCopies.ts";
import { buildTransposeKernel } from "./transposeKernel.ts";
import { type PartialTiles, partialTiles, workspaceBytes } from "./workspace.ts";

/** Alignment of the block's dynamic shared memory: the period of the widest swizzle (bits 3, base 4, shift 3). */
const SMEM_ALIGN = 1024;

/** Blocks of a cluster that every GPU with clusters launches (CUDA programming guide). */
const PORTABLE_CLUSTER = 8;

/** A lowered program as objects. */
export interface LoweredModule {
  readonly module: PtxModule;
  readonly kernel: KernelSpec;
  /** Kernels that are launched before it, in order. */
  readonly before: readonly KernelSpec[];
  /** Kernels that are launched behind it, in order. */
  readonly then: readonly KernelSpec[];
  /** What the kernels want of their workspace before a launch. */
  readonly workspaceInit: Manifest["workspace"]["init"];
}

/** The text and the launch of a program of stage machine, or why the engine cannot express it (hand-edited programs only). */
export function lowerWith(
  engine: Engine,
  program: TileProgram,
  target: Target,
  locations?: ReadonlyMap<object, SourceLocation>,
): Checked<LoweredKernel> {
  const lowered = lowerToModuleWith(engine, program, target, locations);
  if (!lowered.ok) return lowered;
  const { module, ...launches } = lowered.value;
  const ptx = printModule(module);
  return ok({ ptx, ...launches, ...(locations === undefined ? {} : { lines: linesOf(module, ptx) }) });
}

/** For each line of a module's text the line that its instruction was made for; 0 for none. An instruction is a line of its own. */
function linesOf(module: PtxModule, text: string): readonly number[] {
  const instructions = module.items.flatMap((item) =>
    item.kind === "function" && item.body !== null ? instructionsOf(item.body) : [],
  );
  let next = 0;
  return text.split("\n").map((line) => {
    const instruction = instructions[next];
    if (instruction === undefined || line.trim() !== printInstruction(instruction)) return 0;
    next += 1;
    return instruction.location?.line ?? 0;
  });
}

const instructionsOf = (body: readonly Statement[]): readonly Instruction[] =>
  body.flatMap((statement) =>
    statement.kind === "instruction"
      ? [statement]
      : statement.kind === "scope"
        ? instructionsOf(statement.body)
        : [],
  );

/** As `lowerWith`, with the module as objects. */
export function lowerToModuleWith(
  engine: Engine,
  program: TileProgram,
  target: Target,
  locations?: ReadonlyMap<object, SourceLocation>,
): Checked<LoweredModule> {
  if (program.stage !== "machine")
    return err([fault("program", `is at stage ${program.stage}; lowering takes a program of stage machine`)]);
  try {
    return ok(build(engine, program, target, locations ?? null));
  } catch (error) {
    if (error instanceof CannotLower) return err([fault(error.at, error.message)]);
    throw error;
  }
}

const fault = (at: string, message: string) =>
  ({
    code: "TW3901",
    kind: "unsupported",
    at,
    message,
    hint: "print the program before the edit with --ir machine",
  }) as const;

function build(
  engine: Engine,
  program: TileProgram,
  target: Target,
  locations: Context["locations"],
): LoweredModule {
  const { frame } = engine;
  const shared = mapShared(program);
  const parts = partialTiles(program, engine, target);
  const counters = counterBytes(program);
  const maps = groupMapBytes(program);
  const used = parts !== null ? workspaceBytes(parts) : maps === 0 ? counters : maps;
  const wide = wideResults(program, used);
  const { results } = wide;
  const { copies, end: workspaceEnd } = placeCopies(program, wide.end);
  const plain = placedParameters(program, results, workspaceEnd !== 0);
  const common = [...plain, ...tensorMaps(program, endOfParams(plain))];
  const end = endOfParams(common);
  const params = [...common, ...(frame.params?.(program, end) ?? [])];
  const cluster = clusterExtents(program);
  const clustered = cluster.some((extent) => extent > 1);
  const blocks = frame.blocksPerSm?.(program) ?? null;

  // ptxas follows register budgets only where it knows how many registers a thread begins with.
  const budgeted = rolesOf(program).some((role) => role.registers !== null);
  const block = [program.launch.threads, 1, 1] as const;
  const least = blocks ?? (budgeted ? 1 : null);

  const registers = frame.registers?.(program, target) ?? null;

  const builder = moduleBuilder({
    version: [
      target.minPtx,
      engine.ptxVersion(program),
      ptxOfFormats(memoryDTypes(program), target),
      ptxOfParts(parts),
      ptxOfMeeting(shared),
      maps === 0 ? ([1, 0] as const) : GROUP_MAPS_PTX,
      ptxOfPolicies(program),
    ].reduce(newer),
    target: program.arch,
  });
  if (shared.totalBytes > 0) builder.externShared(SMEM, { align: SMEM_ALIGN });
  const entry = builder.entry(program.name, {
    params: declareParameters(params),
    ...(budgeted || registers !== null ? { reqntid: block } : { maxntid: block }),
    ...(least === null ? {} : { minnctapersm: least }),
    ...(registers === null ? {} : { maxnreg: registers }),
    ...(clustered ? { cluster } : {}),
  });
  const ctx = new Context(program, target, engine, entry, shared);
  ctx.locations = locations;
  ctx.groups = rowOfGroups(program);
  ctx.results = results;
  ctx.copies = copies;
  openKernel(ctx);
  frame.open?.(ctx);
  lowerStmts(ctx, program.body);
  frame.close?.(ctx);
  closeKernel(ctx);
  ctx.body.emit(null, "ret");
  ctx.root.replay(entry);
  const launch = launchOf(program, shared.totalBytes);
  const before =
    copies.length === 0 ? [] : [buildTransposeKernel(engine, program, target, copies, workspaceEnd, builder)];
  const then = [
    ...(parts?.by === "kernel" ? [buildSumKernel(engine, program, target, parts, builder, wide)] : []),
    ...(results.length > 0 ? [buildResultKernel(engine, program, target, results, wide.end, builder)] : []),
  ];
  return {
    module: withWholeDefinitions(builder.build(), stays(program)),
    kernel: {
      entry: program.name,
      role: "main",
      launch: frame.launch?.(program, launch) ?? launch,
      params,
      ...(ctx.groups === null ? {} : { groups: ctx.groups }),
      workspaceBytes: workspaceEnd,
    },
    before,
    then,
    // Counters of tiles that blocks ask for end as they began: at 0.
    workspaceInit: initWithResults(results, parts?.init ?? (counters === 0 ? "none" : "zeroOnce")),
  };
}

/** Transposed copies behind all else in the workspace, and where it ends with them. */
function placeCopies(
  program: TileProgram,
  used: LaunchExpr,
): { readonly copies: readonly TransposedCopy[]; readonly end: LaunchExpr } {
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

/**
 * Whether the epilogue stands in a loop, too: blocks loop over tiles or parts of them, or roles wait in loops for accumulators that no register holds.
 */
const stays = (program: TileProgram): boolean =>
  program.buffers.some((b) => b.space === "tensor") ||
  eachStmt(program.body).some((s) => s.kind === "tiles" && (s.visit !== null || s.share !== undefined));

/** Additions to several words of memory at once came with PTX ISA 8.1 (red). */
const ptxOfParts = (parts: PartialTiles | null): PtxVersion =>
  parts !== null && parts.vector > 1 ? [8, 1] : [1, 0];

/** Stores in another block's shared memory that an mbarrier counts (st.async) came with 8.1, too. */
const ptxOfMeeting = ({ meeting }: SharedMap): PtxVersion => (meeting === null ? [1, 0] : [8, 1]);

const newer = (a: PtxVersion, b: PtxVersion): PtxVersion =>
  a[0] > b[0] || (a[0] === b[0] && a[1] > b[1]) ? a : b;

function launchOf(program: TileProgram, sharedBytes: number): KernelSpec["launch"] {
  const cluster = clusterExtents(program);
  return {
    grid: gridOf(program),
    block: [program.launch.threads, 1, 1],
    cluster,
    dynamicSmem: sharedBytes,
    staticSmem: 0,
    cooperative: false,
    ...(program.launch.overlap ? { programmatic: true } : {}),
    ...(cluster.reduce((n, extent) => n * extent, 1) > PORTABLE_CLUSTER ? { nonPortableCluster: true } : {}),
  };
}
