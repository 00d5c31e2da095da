/** Load fragments by ldmatrix where lanes and registers of their owners are those of 8 x 8 matrices. */

import type { Pass, Stmt, TileProgram } from "@tilewright/ir";
import {
  bufferOf,
  contiguousAxis,
  directed,
  elementBytes,
  MATRIX_ROW_BYTES,
  matrixLoad,
  rewriteStmts,
  withBody,
} from "@tilewright/ir";

/**
 * Directive `matrices most=1|2|4`: matrices of one instruction. A fragment that cannot be loaded so (32-bit elements across the contiguous
 * axis, 64-bit ones, pairs along it that are widened) stays with direct loads.
 */
export const loadMatrices: Pass = {
  name: "loadMatrices",
  summary: "Fragments come by ldmatrix where their owners allow",
  from: "specialised",
  to: "specialised",
  run: directed("matrices", (program, { most }) =>
    withBody(
      program,
      rewriteStmts(program.body, (stmt) => byMatrices(program, stmt, most)),
    ),
  ),
};

function byMatrices(program: TileProgram, stmt: Stmt, most: number): Stmt {
  if (stmt.kind !== "copy" || stmt.transport === "factors") return stmt;
  const [src, dst] = [bufferOf(program, stmt.src.buffer), bufferOf(program, stmt.dst.buffer)];
  if (src.space !== "shared" || dst.own === null) return stmt;
  const bytes = elementBytes(src);
  const contiguous = contiguousAxis(program, src.name);
  const row = MATRIX_ROW_BYTES / bytes;
  const load = matrixLoad(dst.own, bytes, contiguous, most, elementBytes(dst));
  if (load === null || src.shape[contiguous] % row !== 0) return stmt;
  return { ...stmt, transport: "ldmatrix", vector: [row, load.count] };
}
