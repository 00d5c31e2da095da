/** Lay shared tiles out as tensor engines want them: panels as wide as the widest swizzle that divides the contiguous axis. */

import { SCALE_WORDS, stepMatrix, stepOfBuffer } from "@tilewright/core";
import { findTensorKind } from "../atoms/tensorKinds.ts";
import { findWarpgroupAtom } from "../atoms/warpgroup.ts";
import { boxedRun, PATTERN_ROWS } from "../launch/tensor-copies.ts";
import { interleavedOver, panelled } from "../layout/layout.ts";
import { type TensorSwizzle, tensorSwizzles } from "../layout/swizzle.ts";
import type { Layout } from "../layout/types.ts";
import { contiguousAxis, matrixAxis, operandRole } from "../tile/accesses.ts";
import { elementBytes } from "../tile/elementBytes.ts";
import { elementSources } from "../tile/elements.ts";
import { feedsEpilogue } from "../tile/operandRings.ts";
import { blockShape, bufferOf, eachStmt, takeDirective } from "../tile/rewrite.ts";
import { holdsScales } from "../tile/scaleTiles.ts";
import { storesInBulk } from "../tile/staged.ts";
import { broughtViews } from "../tile/stepViews.ts";
import type { Buffer, Ring, TileProgram } from "../tile/types.ts";
import { codesOf } from "../tile/weights.ts";
import type { Pass } from "./pass.ts";

/** Bytes of a panel's row by swizzle: its span, and 16 (a row of a core matrix) without one. */
const spans = [
  ["128B", 128],
  ["64B", 64],
  ["32B", 32],
  ["none", 16],
] as const satisfies readonly (readonly [TensorSwizzle, number])[];

/** Bytes of a core matrix's row. */
const CORE_ROW = 16;

/** Bulk copies write shared memory at multiples of 128 bytes (PTX ISA, cp.async.bulk.tensor). */
const BULK_ALIGN = 128;

/**
 * Directive `tensor swizzle=128B|64B|32B|none major=any|k|a interleave=T`: operands in rings, and tiles that an epilogue goes through, get panels whose rows are as long as that
 * swizzle's span, or a narrower one's where the tile's contiguous axis is no multiple of it, or its part of one warpgroup instruction: those begin
 * at a panel where they do not follow k, and so does each warpgroup's part of a tile that D goes through. The contiguous axis is global memory's, or with `major=k` that of k, for instructions which take no other (`major=a`: of A alone).
 * `interleave`: neighbouring columns of a B that is contiguous along k go to so many runs (absent: 1), for nests whose atoms take turns along n.
 */
export const bindTensorLayouts: Pass = {
  name: "bindTensorLayouts",
  summary: "Shared tiles get the panels and swizzles of bulk tensor copies and matrix descriptors",
  from: "specialised",
  to: "specialised",
  run(program) {
    const taken = takeDirective(program, "tensor");
    if (!taken) return program;
    const widest = taken.args.swizzle;
    const major = taken.args.major;
    const turns = taken.args.interleave;
    const input = taken.program;
    const copied = (ring: Ring): readonly string[] =>
      ring.buffers.filter(
        (name) => operandRole(input, name) !== null || holdsScales(input, name) || feedsEpilogue(input, ring),
      );
    const tiles = new Set(input.rings.flatMap(copied));
    const staged = new Set<string>();
    for (const stmt of eachStmt(input.body))
      if (stmt.kind === "epilogue" && stmt.via !== null && storesInBulk(stmt)) staged.add(stmt.via.buffer);
    for (const name of staged) tiles.add(name);
    // What threads compute for a product.
    for (const stmt of eachStmt(input.body))
      if (stmt.kind === "map" && operandRole(input, stmt.dst.buffer) !== null) tiles.add(stmt.dst.buffer);
    // Codes of weights and their factors lie as in memory, in boxes as wide as they may be.
    const plain = new Set(
      eachStmt(input.body)
        .flatMap((stmt) => (stmt.kind === "map" && codesOf(stmt) !== null ? elementSources(stmt.value) : []))
        .map(({ buffer }) => buffer),
    );
    for (const name of input.rings.flatMap(({ buffers }) => buffers)) if (plain.has(name)) tiles.add(name);
    const layoutOf = (b: Buffer): Layout => {
      // A block of factors is what one copy to tensor memory takes; vectors of them lie along the operand's rows.
      if (holdsScales(input, b.name))
        return b.dtype === "f32"
          ? vectorLayout(b, 0, copiedAlong(input, b, 0))
          : panelled(blockShape(b), 1, SCALE_WORDS, null);
      if (plain.has(b.name)) return vectorLayout(b, 1, copiedAlong(input, b, 1));
      const axis = axisOf(input, b, major);
      if (blockShape(b)[1 - axis] === 1 && !staged.has(b.name)) return vectorLayout(b, axis);
      // Each warpgroup has whole panels of what it stores, and of what it reads beside its accumulators.
      const part =
        staged.has(b.name) || broughtFrom(input, b) !== null
          ? blockShape(b)[axis] / warpsAlong(input, axis)
          : (atomPart(input, b.name, axis) ?? blockShape(b)[axis]);
      if (wordsAcrossK(input, b, axis))
        return panelled(blockShape(b), axis, ATOM_WORDS, tensorSwizzles["128B_ATOM_32B"]);
      const layout = tensorLayout(b, axis, part, widest);
      return axis === 0 && operandRole(input, b.name) === "b" ? interleavedOver(layout, 1, turns) : layout;
    };
    return {
      ...input,
      buffers: input.buffers.map((b) =>
        tiles.has(b.name) && b.layout === null && b.space === "shared"
          ? {
              ...b,
              layout: layoutOf(b),
              align: Math.max(b.align, BULK_ALIGN),
            }
          : b,
      ),
    };
  },
};

/** Words of 32 bits in a row of the swizzle that instructions want which take them with m or n contiguous. */
const ATOM_WORDS = 32;

/** Whether instructions of tensor memory read a tile of 32-bit elements with m or n contiguous: pieces of 32 bytes are permuted then (PTX ISA 9.0, canonical layouts). */
function wordsAcrossK(program: TileProgram, buffer: Buffer, axis: 0 | 1): boolean {
  if (elementBytes(buffer) !== 4 || blockShape(buffer)[axis] % ATOM_WORDS !== 0) return false;
  for (const stmt of eachStmt(program.body)) {
    if (stmt.kind !== "mma" || findTensorKind(stmt.atom) === null) continue;
    if (stmt.a.buffer === buffer.name) return axis === 0;
    if (stmt.b.buffer === buffer.name) return axis === 1;
  }
  return false;
}

/** Operands and C keep the order of global memory; the tile of an epilogue has D's. */
function axisOf(program: TileProgram, buffer: Buffer, major: string): 0 | 1 {
  const source = broughtFrom(program, buffer);
  if (source !== null) return sourceAxis(program, source);
  if (program.rings.some((ring) => ring.buffers.includes(buffer.name))) {
    const role = operandRole(program, buffer.name);
    const alongK = major === "k" || (major === "a" && role === "a");
    return alongK ? (role === "a" ? 1 : 0) : contiguousAxis(program, buffer.name);
  }
  if (operandRole(program, buffer.name) !== null) return contiguousAxis(program, buffer.name);
  const d = program.buffers.find((b) => b.name === "D");
  return d?.layout?.stride[1] === 1 ? 1 : 0;
}

/** The contiguous axis of C, or of what a step reads: of a vector the one that it has. */
function sourceAxis(program: TileProgram, source: Buffer): 0 | 1 {
  const step = stepOfBuffer(source.name);
  const matrix = step === null ? null : stepMatrix(program.problem, step);
  if (matrix === null) return matrixAxis(program, "C");
  if (matrix.operand === null) return matrix.across === 0 ? 1 : 0;
  return matrix.operand.layout === "row" ? 1 : 0;
}

/** The matrix or vector that bulk copies bring into a tile for the epilogue; null for other tiles. */
function broughtFrom(program: TileProgram, buffer: Buffer): Buffer | null {
  const read = eachStmt(program.body).some(
    (s) => s.kind === "epilogue" && broughtViews(s).some((view) => view.buffer === buffer.name),
  );
  if (!read) return null;
  for (const s of eachStmt(program.body))
    if (s.kind === "copy" && s.dst.buffer === buffer.name) return bufferOf(program, s.src.buffer);
  return null;
}

/** Elements of one warpgroup instruction along an operand's contiguous axis, where that is m or n; null for others. */
function atomPart(program: TileProgram, name: string, axis: 0 | 1): number | null {
  for (const stmt of eachStmt(program.body)) {
    if (stmt.kind !== "mma") continue;
    const atom = findWarpgroupAtom(stmt.atom);
    if (atom === null) continue;
    const swapped = bufferOf(program, stmt.acc.buffer).lanes === 1;
    if (stmt.a.buffer === name && axis === 0) return swapped ? atom.n : atom.m;
    if (stmt.b.buffer === name && axis === 1) return swapped ? atom.m : atom.n;
  }
  return null;
}

/** Warps, or warpgroups, that share an axis of the accumulator out among them: each has whole panels of a tile that D goes through. */
const warpsAlong = (program: TileProgram, axis: 0 | 1): number =>
  (program.nest?.[axis === 0 ? "m" : "n"] ?? []).reduce(
    (count, f) => (f.tier === "warp" ? count * f.extent : count),
    1,
  );

/**
 * A vector has no rows to permute: runs as long as a box may be, which begin where bulk copies may write. Of several vectors, which threads read at columns of their own, runs
 * are powers of two, so that a mask says which run a column is in. `whole`: elements that come together.
 */
function vectorLayout(buffer: Buffer, axis: 0 | 1, whole: number = blockShape(buffer)[axis]): Layout {
  const shape = blockShape(buffer);
  const longest = boxedRun(whole, elementBytes(buffer)) ?? whole;
  const run =
    longest < shape[axis] && shape[1 - axis] !== 1 ? Math.min(longest, largestPowerOfTwo(whole)) : longest;
  return panelled(shape, axis, run, null);
}

/** Elements of a tile along an axis that come together: half of them where they come from two places. */
const copiedAlong = (program: TileProgram, { name, shape }: Buffer, axis: 0 | 1): number =>
  eachStmt(program.body).reduce(
    (least, s) => (s.kind === "copy" && s.dst.buffer === name ? Math.min(least, s.dst.extent[axis]) : least),
    shape[axis],
  );

/** The largest power of two that divides `n`. */
const largestPowerOfTwo = (n: number): number => n & -n;

/** `part`: elements of the contiguous axis that have to be whole panels; it divides the tile. */
function tensorLayout(buffer: Buffer, axis: 0 | 1, part: number, widest: string): Layout {
  const size = elementBytes(buffer);
  const shape = blockShape(buffer);
  const bytes = part * size;
  const from = spans.findIndex(([name]) => name === widest);
  // Panels begin where the swizzle's pattern does; of a tile of fewer rows across than that has, boxes are as they come.
  const begins = (span: number): boolean =>
    span === shape[axis] * size || (shape[1 - axis] ?? 1) % PATTERN_ROWS === 0;
  for (const [name, span] of spans.slice(Math.max(0, from)))
    if (bytes % span === 0 && begins(span)) return panelled(shape, axis, span / size, tensorSwizzles[name]);
  // Shorter than a core matrix's row: no tensor engine takes it, and the backend says so.
  const run = bytes % CORE_ROW === 0 ? boxedRun(part, size) : null;
  return panelled(shape, axis, run ?? shape[axis], null);
}
