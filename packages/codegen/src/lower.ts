/** Tile program to PTX: the module, its text, and how to launch it. */

import {
  type Checked,
  err,
  type KernelSpec,
  type Manifest,
  ok,
  type PtxVersion,
  type SourceLocation,
  type Target,
} from "@tilewright/core";
import { clusterExtents, type LoweredKernel, must, specOf, type TileProgram } from "@tilewright/ir";
import {
  type Instruction,
  moduleBuilder,
  type PtxModule,
  printInstruction,
  printModule,
  type Statement,
  versionNeeded,
} from "@tilewright/ptx";

import { CannotLower } from "./cannotLower.ts";
import { Context } from "./context.ts";
import { withWholeDefinitions } from "./definitions.ts";
import type { Engine } from "./engine.ts";
import { buildFurtherKernel } from "./furtherKernel.ts";
import { GROUP_MAPS_PTX } from "./groupMaps.ts";
import { declareParameters } from "./params.ts";
import { threadIsNot } from "./setup.ts";
import { mapShared, SMEM } from "./smem.ts";
import { lowerStmts } from "./statements.ts";

/** Alignment of the block's dynamic shared memory: the period of the widest swizzle (bits 3, base 4, shift 3). */
const SMEM_ALIGN = 1024;

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
    if (!(error instanceof CannotLower)) throw error;
    const location = error.stmt === null ? undefined : locations?.get(error.stmt);
    const refused = fault(error.at, error.message);
    return err([location === undefined ? refused : { ...refused, location }]);
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
  const shared = mapShared(program);
  const launches = must(
    program.machine?.launches,
    "a program of stage machine has its kernels (declareLaunches)",
  );
  const found = launches.kernels.find(({ role }) => role === "main");
  const main = must(found, "a kernel is the main one (launches)");
  const cluster = clusterExtents(program, main);
  const block = [main.threads, 1, 1] as const;

  const builder = moduleBuilder({
    version: target.minPtx,
    target: program.arch,
  });
  if (shared.totalBytes > 0) builder.externShared(SMEM, { align: SMEM_ALIGN });
  const entry = builder.entry(main.name, {
    params: declareParameters(main.params),
    ...(main.exact ? { reqntid: block } : { maxntid: block }),
    ...(main.ctas === null ? {} : { minnctapersm: main.ctas }),
    ...(main.maxnreg === null ? {} : { maxnreg: main.maxnreg }),
    ...(cluster.some((extent) => extent > 1) ? { cluster } : {}),
  });
  const ctx = new Context(program, target, engine, entry, shared, main, launches);
  ctx.locations = locations;
  ctx.groups = main.row ?? null;
  // The first predicate of every kernel: who is not thread 0, unless another begins; ptxas drops it where nobody asks.
  if (program.body[0]?.kind !== "only") threadIsNot(ctx, 0);
  lowerStmts(ctx, program.body);
  ctx.body.emit(null, "ret");
  ctx.root.replay(entry);
  const declared = new Map(launches.kernels.map((kernel) => [kernel.name, kernel]));
  for (const stmt of program.body)
    if (stmt.kind === "kernel") {
      const kernel = must(declared.get(stmt.name), `@${stmt.name} is declared (launches)`);
      buildFurtherKernel({ engine, target, builder, program, stmt, kernel, launches, locations });
    }
  const specs = launches.kernels.map((kernel) => specOf(program, kernel));
  const at = launches.kernels.indexOf(main);
  const [before, then] = [specs.slice(0, at), specs.slice(at + 1)];
  const module = builder.build();
  const mapped = launches.regions.some(({ name }) => name === "maps");
  const oldest = mapped ? newer(engine.oldestPtx, GROUP_MAPS_PTX) : engine.oldestPtx;
  const version = newer(newer(target.minPtx, oldest), versionNeeded(module));
  return {
    module: withWholeDefinitions({ ...module, version }, ctx.loopsOverTiles),
    kernel: specOf(program, main),
    before,
    then,
    workspaceInit: launches.init,
  };
}

const newer = (a: PtxVersion, b: PtxVersion): PtxVersion =>
  a[0] > b[0] || (a[0] === b[0] && a[1] > b[1]) ? a : b;
