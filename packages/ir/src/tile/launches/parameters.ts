/** Parameters of a program's kernels, as the manifest lists them, and rows of the table of a grouped problem. */
import {
  type EpilogueStep,
  expertRowsOf,
  type GroupField,
  type GroupRow,
  isLaunchScalar,
  type ParamSpec,
  roundUp,
  type SizeName,
  sizeExpr,
  stepBuffer,
  symbolicSizes,
  vectorAlign,
  WORKSPACE_ALIGN,
} from "@tilewright/core";
import { eachStmt } from "../rewrite.ts";
import type { Stmt, TileProgram } from "../types.ts";

/** Names of the workspace's pointer, and of that to the table of a grouped problem. */
export const WORKSPACE = "workspace";
export const GROUP_TABLE = "groups";

const POINTER_BYTES = 8;

/** A pointer that each group of a grouped problem has its own of. */
type OperandParam = Extract<ParamSpec, { kind: "pointer" }>;

/** Strides of batches may pass 32 bits; all other sizes have 32. */
export const sizeDType = (name: SizeName): "u32" | "u64" => (name.startsWith("stride") ? "u64" : "u32");

/** The workspace's pointer at a place among the parameters, in bytes. */
export const workspacePointer = (offset: number): ParamSpec => ({
  kind: "pointer",
  name: WORKSPACE,
  offset,
  size: 8,
  align: WORKSPACE_ALIGN,
  access: "readwrite",
});

/** The pointer to rows of a table, or to the int32 that tell rows of experts apart. */
const groupsPointer = (offset: number, align: number): ParamSpec => ({
  kind: "pointer",
  name: GROUP_TABLE,
  offset,
  size: 8,
  align,
  access: "read",
});

/** Pointers in the order A, B, C, D, scale factors, epilogue steps and workspace, then the scalars and sizes that the launch supplies; naturally aligned. Of a grouped problem, the table in the place of operands and sizes; of experts what tells their rows apart behind the operands. */
export function parameters(program: TileProgram, hasWorkspace: boolean): readonly ParamSpec[] {
  const { problem } = program;
  const pointers = operandPointers(program);
  const grouped = problem.batch.kind === "grouped";
  const out: ParamSpec[] =
    expertRowsOf(problem) !== null
      ? [...pointers, groupsPointer(8 * pointers.length, SIZE_BYTES)]
      : grouped
        ? [groupsPointer(0, POINTER_BYTES)]
        : [...pointers];
  let offset = 8 * out.length;
  const epilogue = epilogueOf(program);
  const steps = epilogue?.steps ?? [];
  if (hasWorkspace) {
    out.push(workspacePointer(offset));
    offset += 8;
  }
  for (const name of ["alpha", "beta"] as const) {
    if (epilogue?.[name] !== "runtime") continue;
    const size = problem.acc === "f64" ? 8 : 4;
    out.push({ kind: "scalar", name, dtype: size === 8 ? "f64" : "f32", offset, size, value: name });
    offset += size;
  }
  steps.forEach((step, index) => {
    if (!isLaunchScalar(step)) return;
    const name = `epilogue${index}`;
    out.push({ kind: "scalar", name, dtype: "f32", offset, size: 4, value: name });
    offset += 4;
  });
  for (const name of symbolicSizes(problem)) {
    // How many problems there are is the grid's second extent; groups have rows.
    if (name === "batch" || grouped) continue;
    const dtype = sizeDType(name);
    const size = dtype === "u64" ? 8 : 4;
    offset = roundUp(offset, size);
    out.push({ kind: "scalar", name, dtype, offset, size, value: sizeExpr(problem, name) });
    offset += size;
  }
  return out;
}

/** Bytes up to the end of the last parameter. */
export const endOfParams = (params: readonly ParamSpec[]): number =>
  params.reduce((most, p) => Math.max(most, p.offset + p.size), 0);

type PointerField = Extract<GroupField, { kind: "pointer" }>;
const SIZE_BYTES = 4;

/** Names that a row has, of the pointers of a kernel. */
const inRow = (name: OperandParam["name"]): name is PointerField["name"] =>
  name !== "sfa" && name !== "sfb" && name !== WORKSPACE && name !== GROUP_TABLE;

/** The row of each group of a grouped problem, the pointers of the kernel's operands, then its sizes; absent of others, experts among them. */
export function rowOfGroups(program: TileProgram): { readonly row?: GroupRow } {
  const { problem } = program;
  if (problem.batch.kind !== "grouped" || problem.batch.rows !== undefined) return {};
  const pointers = operandPointers(program).flatMap(
    ({ name, align, access }): Omit<PointerField, "offset">[] =>
      inRow(name) ? [{ kind: "pointer", name, align, access }] : [],
  );
  const sizes = symbolicSizes(problem);
  const end = POINTER_BYTES * pointers.length;
  const row: GroupRow = {
    // Rows begin where a pointer may.
    bytes: Math.ceil((end + SIZE_BYTES * sizes.length) / POINTER_BYTES) * POINTER_BYTES,
    fields: [
      ...pointers.map((field, i): GroupField => ({ ...field, offset: POINTER_BYTES * i })),
      ...sizes.map(
        (name, i): GroupField => ({
          kind: "size",
          name,
          offset: end + SIZE_BYTES * i,
          value: sizeExpr(problem, name),
        }),
      ),
    ],
  };
  return { row };
}

/** Pointers to the operands that a program reads where the launch has them, and to those of its epilogue. */
export function operandPointers(program: TileProgram): readonly OperandParam[] {
  const out: OperandParam[] = [];
  let offset = 0;
  const adds = eachStmt(program.body).some((s) => s.kind === "epilogue" && s.adds && s.dst.buffer === "D");
  const operands = ["a", "b", "c", "d", "sfa", "sfb"] as const;
  for (const name of operands) {
    const buffer = program.buffers.find((b) => b.space === "global" && b.name === name.toUpperCase());
    if (buffer === undefined || buffer.transposed === true) continue;
    const access = name !== "d" ? "read" : adds ? "readwrite" : "write";
    out.push({ kind: "pointer", name, offset, size: 8, align: buffer.align, access });
    offset += 8;
  }
  (epilogueOf(program)?.steps ?? []).forEach((step, index) => {
    const access = stepAccess(step);
    if (access === null) return;
    const own =
      "operand" in step ? step.operand.align : "dtype" in step ? vectorAlign(program.problem, index) : 4;
    // A vector that bulk copies bring has to begin where they can take it.
    const align = program.buffers.find((b) => b.name === stepBuffer(index))?.align ?? own;
    out.push({ kind: "pointer", name: `epilogue${index}`, offset, size: 8, align, access });
    offset += 8;
  });
  return out;
}

/** What a step does with its own buffer; null for steps without one. */
function stepAccess(step: EpilogueStep): "read" | "write" | "readwrite" | null {
  switch (step.kind) {
    case "bias":
    case "residual":
    case "source":
    case "gate":
    case "factor":
    case "gather":
    case "scatter":
      return "read";
    case "scale":
    case "load":
      return step.by === "scalar" ? null : "read";
    case "output":
    case "result":
    case "quantize":
      return "write";
    case "reduce":
      return "readwrite";
    case "activation":
    case "map":
    case "clamp":
    case "cast":
      return null;
  }
}

/** The program's first epilogue; null without one. */
export const epilogueOf = (program: TileProgram): Extract<Stmt, { kind: "epilogue" }> | null =>
  eachStmt(program.body).find((s) => s.kind === "epilogue") ?? null;
