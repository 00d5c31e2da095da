/** Bound tile program to PTX: the module, its text, and how to launch it. */
import {
  type Buffer,
  type Checked,
  childrenOf,
  type EpilogueStep,
  err,
  type KernelSpec,
  type LoweredKernel,
  ok,
  type ParamSpec,
  type PtxVersion,
  type Stmt,
  sizeOf,
  type Target,
  type TileProgram,
} from "@tilewright/ir";
import { moduleBuilder, type PtxModule, printModule, type ScalarType } from "@tilewright/ptx";
import { partialTiles, WORKSPACE, workspaceBytes } from "./combine.ts";
import { CannotLower, Context } from "./context.ts";
import { lowerStmts } from "./control.ts";
import { SMEM } from "./sharedAddress.ts";
import { mapShared } from "./smem.ts";

/** Oldest PTX that the text needs: 6.3 brought nothing we use, but is the oldest that current drivers are tested with for sm_70. */
const OLDEST_PTX: PtxVersion = [6, 3];

/** Alignment of the block's dynamic shared memory: the period of the widest swizzle (bits 3, base 4, shift 3). */
const SMEM_ALIGN = 1024;

/** The text and the launch of a bound program, or why it cannot be expressed (hand-edited programs only). */
export function lower(program: TileProgram, target: Target): Checked<LoweredKernel> {
  const lowered = lowerToModule(program, target);
  if (!lowered.ok) return lowered;
  const { module, kernel } = lowered.value;
  return ok({
    ptx: printModule(module),
    kernel,
    ...(partialTiles(program) ? { workspaceInit: "zeroOnce" } : {}),
  });
}

/** As `lower`, with the module as objects. */
export function lowerToModule(
  program: TileProgram,
  target: Target,
): Checked<{ readonly module: PtxModule; readonly kernel: KernelSpec }> {
  if (program.stage !== "bound")
    return err([fault("program", `is at stage ${program.stage}; lowering takes a bound program`)]);
  try {
    return ok(build(program, target));
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
    hint: "print the program before the edit with --ir bound",
  }) as const;

function build(program: TileProgram, target: Target): { module: PtxModule; kernel: KernelSpec } {
  const shared = mapShared(program);
  const params = parameters(program);
  const builder = moduleBuilder({ version: newer(target.minPtx, OLDEST_PTX), target: program.arch });
  if (shared.totalBytes > 0) builder.externShared(SMEM, { align: SMEM_ALIGN });
  const entry = builder.entry(program.name, {
    params: params.map((p) => ({ name: `p_${p.name}`, type: ptxTypes[p.size] ?? "u64" })),
    maxntid: [program.launch.threads, 1, 1],
  });
  const ctx = new Context(program, target, entry, shared);
  lowerStmts(ctx, program.body);
  ctx.body.emit(null, "ret");
  ctx.root.replay(entry);
  return { module: builder.build(), kernel: kernelSpec(program, params, shared.totalBytes) };
}

const ptxTypes: Readonly<Record<number, ScalarType>> = { 8: "u64", 4: "f32" };

const newer = (a: PtxVersion, b: PtxVersion): PtxVersion =>
  a[0] > b[0] || (a[0] === b[0] && a[1] > b[1]) ? a : b;

/** Pointers in the order A, B, C, D, epilogue steps and workspace, then the scalars that the launch supplies; naturally aligned. */
function parameters(program: TileProgram): readonly ParamSpec[] {
  const out: ParamSpec[] = [];
  let offset = 0;
  const operands = ["a", "b", "c", "d"] as const;
  for (const name of operands) {
    const buffer = operandBuffer(program, name);
    if (!buffer) continue;
    const access = name === "d" ? "write" : "read";
    out.push({ kind: "pointer", name, offset, size: 8, align: buffer.align, access });
    offset += 8;
  }
  const epilogue = findEpilogue(program.body);
  const steps = epilogue?.steps ?? [];
  steps.forEach((step, index) => {
    const access = stepAccess(step);
    if (access === null) return;
    // Vectors are as aligned as their elements.
    const align = "operand" in step ? step.operand.align : "dtype" in step ? sizeOf(step.dtype) : 4;
    out.push({ kind: "pointer", name: `epilogue${index}`, offset, size: 8, align, access });
    offset += 8;
  });
  if (partialTiles(program)) {
    out.push({ kind: "pointer", name: WORKSPACE, offset, size: 8, align: 256, access: "readwrite" });
    offset += 8;
  }
  for (const name of ["alpha", "beta"] as const) {
    if (epilogue?.[name] !== "runtime") continue;
    out.push({ kind: "scalar", name, dtype: "f32", offset, size: 4, value: name });
    offset += 4;
  }
  steps.forEach((step, index) => {
    if (step.kind !== "scale" || step.by !== "scalar") return;
    const name = `epilogue${index}`;
    out.push({ kind: "scalar", name, dtype: "f32", offset, size: 4, value: name });
    offset += 4;
  });
  return out;
}

/** What a step does with its own buffer; null for steps without one. */
function stepAccess(step: EpilogueStep): "read" | "write" | "readwrite" | null {
  switch (step.kind) {
    case "bias":
    case "residual":
    case "gate":
      return "read";
    case "scale":
      return step.by === "scalar" ? null : "read";
    case "output":
      return "write";
    case "reduce":
      return "readwrite";
    case "activation":
    case "clamp":
    case "cast":
      return null;
  }
}

const operandBuffer = (program: TileProgram, name: "a" | "b" | "c" | "d"): Buffer | undefined =>
  program.buffers.find((b) => b.space === "global" && b.name === name.toUpperCase());

function findEpilogue(stmts: readonly Stmt[]): Extract<Stmt, { kind: "epilogue" }> | null {
  for (const stmt of stmts) {
    if (stmt.kind === "epilogue") return stmt;
    const inner = findEpilogue(childrenOf(stmt));
    if (inner) return inner;
  }
  return null;
}

function kernelSpec(program: TileProgram, params: readonly ParamSpec[], smemBytes: number): KernelSpec {
  const tiles = program.body.find((s) => s.kind === "tiles");
  const blocks = tiles?.kind === "tiles" ? tiles.extents[0] * tiles.extents[1] : 1;
  const splits = tiles?.kind === "tiles" ? (tiles.split?.extent ?? 1) : 1;
  return {
    entry: program.name,
    role: "main",
    launch: {
      grid: [blocks, program.problem.batch.kind === "strided" ? program.problem.batch.count : 1, splits],
      block: [program.launch.threads, 1, 1],
      cluster: [1, 1, 1],
      dynamicSmem: smemBytes,
      staticSmem: 0,
      cooperative: false,
    },
    params,
    workspaceBytes: workspaceBytes(program),
  };
}
