/** The kernel's parameters, as the manifest lists them. */
import {
  type DType,
  type EpilogueStep,
  type GroupRow,
  type ParamSpec,
  sizeExpr,
  sizeOf,
  stepBuffer,
  symbolicSizes,
  WORKSPACE_ALIGN,
} from "@tilewright/core";
import { type Buffer, childrenOf, type Stmt, type TileProgram } from "@tilewright/ir";
import type { ParamOptions } from "@tilewright/ptx";
import type { StmtOf } from "./engine.ts";
import { groupRow, type OperandParam, tableParam } from "./groups.ts";
import { sizeDType } from "./sizes.ts";
import { WORKSPACE } from "./workspace.ts";

/** The workspace's pointer at a place among the parameters, in bytes. */
export const workspacePointer = (offset: number): ParamSpec => ({
  kind: "pointer",
  name: WORKSPACE,
  offset,
  size: 8,
  align: WORKSPACE_ALIGN,
  access: "readwrite",
});

/** Pointers in the order A, B, C, D, scale factors, epilogue steps and workspace, then the scalars and sizes that the launch supplies; naturally aligned. Of a grouped problem, the table in the place of operands and sizes. */
export function parameters(program: TileProgram, hasWorkspace: boolean): readonly ParamSpec[] {
  const { problem } = program;
  const pointers = operandPointers(program);
  const grouped = problem.batch.kind === "grouped";
  const out: ParamSpec[] = grouped ? [tableParam(0)] : [...pointers];
  let offset = 8 * out.length;
  const epilogue = findEpilogue(program.body);
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
    if (step.kind !== "scale" || step.by !== "scalar") return;
    const name = `epilogue${index}`;
    out.push({ kind: "scalar", name, dtype: "f32", offset, size: 4, value: name });
    offset += 4;
  });
  for (const name of symbolicSizes(problem)) {
    // How many problems there are is the grid's second extent; groups have rows.
    if (name === "batch" || grouped) continue;
    const dtype = sizeDType(name);
    const size = dtype === "u64" ? 8 : 4;
    offset = Math.ceil(offset / size) * size;
    out.push({ kind: "scalar", name, dtype, offset, size, value: sizeExpr(problem, name) });
    offset += size;
  }
  return out;
}

/** Bytes up to the end of the last parameter. */
export const endOfParams = (params: readonly ParamSpec[]): number =>
  params.reduce((most, p) => Math.max(most, p.offset + p.size), 0);

/** The row of each group of a grouped problem; null of others. */
export const rowOfGroups = (program: TileProgram): GroupRow | null =>
  program.problem.batch.kind === "grouped" ? groupRow(program.problem, operandPointers(program)) : null;

/** Pointers to the operands that a program reads where the launch has them, and to those of its epilogue. */
export function operandPointers(program: TileProgram): readonly OperandParam[] {
  const out: OperandParam[] = [];
  let offset = 0;
  const operands = ["a", "b", "c", "d", "sfa", "sfb"] as const;
  for (const name of operands) {
    const buffer = operandBuffer(program, name);
    if (!buffer || buffer.transposed === true) continue;
    const access = name === "d" ? "write" : "read";
    out.push({ kind: "pointer", name, offset, size: 8, align: buffer.align, access });
    offset += 8;
  }
  (findEpilogue(program.body)?.steps ?? []).forEach((step, index) => {
    const access = stepAccess(step);
    if (access === null) return;
    const own = "operand" in step ? step.operand.align : "dtype" in step ? sizeOf(step.dtype) : 4;
    // A vector that bulk copies bring has to begin where they can take it.
    const align = program.buffers.find((b) => b.name === stepBuffer(index))?.align ?? own;
    out.push({ kind: "pointer", name: `epilogue${index}`, offset, size: 8, align, access });
    offset += 8;
  });
  return out;
}

/** Parameters as an entry declares them: `p_a`, `p_alpha`. */
export const declareParameters = (params: readonly ParamSpec[]): readonly ParamOptions[] =>
  params.map(declared);

/** How a parameter is declared; a tensor map is 128 bytes at a multiple of 64 (PTX ISA, tensor maps). */
function declared(param: ParamSpec): ParamOptions {
  const name = `p_${param.name}`;
  switch (param.kind) {
    case "pointer":
      return { name, type: "u64" };
    case "scalar":
      return { name, type: param.dtype };
    case "tensorMap":
      return { name, type: "b8", length: param.size, align: 64 };
  }
}

/** dtypes that the epilogue reads, stores or casts to. */
export function memoryDTypes(program: TileProgram): readonly DType[] {
  const { c, d } = program.problem;
  const steps = findEpilogue(program.body)?.steps ?? [];
  const ofStep = (step: EpilogueStep): DType =>
    "operand" in step ? step.operand.dtype : "dtype" in step ? step.dtype : "f32";
  return [d.dtype, ...(c ? [c.dtype] : []), ...steps.map(ofStep)];
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

const operandBuffer = (
  program: TileProgram,
  name: "a" | "b" | "c" | "d" | "sfa" | "sfb",
): Buffer | undefined => program.buffers.find((b) => b.space === "global" && b.name === name.toUpperCase());

function findEpilogue(stmts: readonly Stmt[]): StmtOf<"epilogue"> | null {
  for (const stmt of stmts) {
    if (stmt.kind === "epilogue") return stmt;
    const inner = findEpilogue(childrenOf(stmt));
    if (inner) return inner;
  }
  return null;
}
