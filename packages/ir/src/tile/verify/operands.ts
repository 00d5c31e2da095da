/** Global buffers are the operands of the problem. */
import type { DType } from "@tilewright/core";
import {
  blockFactors,
  exchangedOf,
  type MatrixName,
  matrixOf,
  namedBuffers,
  type Operand,
  operandShape,
  type Problem,
  SCALE_ALIGN,
  SCALE_WORDS,
  scaleMatrix,
  stepMatrix,
  stepOfBuffer,
  weightFactors,
  weightMatrix,
} from "@tilewright/core";
import { matrixLayout } from "../matrixLayout.ts";
import { exchanged } from "../rewrite.ts";
import { type FactorName, factorOperands, isFactors } from "../scaleTiles.ts";
import { nearestHint } from "../text/nearest.ts";
import { TRANSPOSED_ALIGN, transposedStrides, transposeFault } from "../transposed.ts";
import type { Buffer } from "../types.ts";
import type { Fault, Verifier } from "./verifier.ts";

export const operands: Verifier = {
  name: "operands",
  code: "TW3104",
  property:
    "global buffers are %A, %B, %C, %D with the problem's shape, dtype, strides and alignment, the factors %SFA, %SFB, and what step 0, 1, … reads: %E0, %E1; inputs are not written",
  from: "nest",
  *check({ program, sites, buffers }) {
    const { problem } = program;
    for (const declared of program.buffers) {
      if (declared.space !== "global") continue;
      const buffer = asDeclared(declared);
      const which = matrixOf(buffer.name);
      if (isFactors(buffer.name)) yield* compareFactors(buffer, buffer.name, problem);
      else if (stepOfBuffer(buffer.name) !== null) yield* compareInput(buffer, problem);
      else if (which === null)
        yield {
          at: declared,
          message: `global buffer %${declared.name} is no operand`,
          hint:
            nearestHint(buffer.name, namedBuffers, "%") ??
            "operands are %A, %B, %C and %D, the factors %SFA and %SFB, and what steps read, %E0 and so on",
        };
      else yield* compare(buffer, which, problem);
    }
    // What multiplies names its operands; a program without a product has none.
    if (buffers.get("D")?.space !== "global")
      yield { at: "%D", message: "there is no global buffer %D", hint: "declare global %D" };
    for (const site of sites) {
      const { stmt } = site;
      if (stmt.kind !== "copy" && stmt.kind !== "fill" && stmt.kind !== "epilogue") continue;
      const { buffer } = stmt.dst;
      if (buffer !== "D" && buffers.get(buffer)?.space === "global")
        yield { at: site, message: `writes %${buffer}, an input`, hint: "write %D or a tile" };
    }
  },
};

/** The buffer whose rows and columns are exchanged, where they are. */
function asDeclared(buffer: Buffer): Buffer {
  const name = exchangedOf(buffer.name);
  return name === null ? buffer : exchanged(buffer, name);
}

function* compare(buffer: Buffer, which: MatrixName, problem: Problem): Iterable<Fault> {
  const operand: Operand | null = problem[which];
  if (operand === null) {
    yield {
      at: buffer,
      message: "the problem has no C",
      hint: "remove the buffer, or give the problem a beta",
    };
    return;
  }
  if (buffer.transposed === true) {
    yield* compareCopy(buffer, which, problem);
    return;
  }
  const words = which === "b" ? weightMatrix(problem) : null;
  const { shape, stride } = matrixLayout(problem, which);
  if (words === null) yield* mismatches(buffer, operand.dtype, shape, stride);
  else yield* mismatches(buffer, "s32", words, [words[1], 1]);
  if (buffer.align > operand.align)
    yield {
      at: buffer,
      message: `claims an alignment of ${buffer.align} bytes, where the problem guarantees ${operand.align}`,
      hint: `write align ${operand.align}, or raise the problem's alignment`,
    };
}

/** A transposed copy in the workspace, with its own strides and alignment. */
function* compareCopy(buffer: Buffer, which: MatrixName, problem: Problem): Iterable<Fault> {
  if (which !== "a" && which !== "b") {
    yield {
      at: buffer,
      message: `%${buffer.name} has no copy in the workspace`,
      hint: "copies are of %A and %B",
    };
    return;
  }
  const fault = transposeFault(problem, which);
  if (fault !== null) {
    yield { at: buffer, ...fault };
    return;
  }
  yield* mismatches(
    buffer,
    problem[which].dtype,
    operandShape(problem, which),
    transposedStrides(problem, which),
  );
  if (buffer.align > TRANSPOSED_ALIGN)
    yield {
      at: buffer,
      message: `claims an alignment of ${buffer.align} bytes, where a copy has ${TRANSPOSED_ALIGN}`,
      hint: `write align ${TRANSPOSED_ALIGN}`,
    };
}

/** Words of four factors, a row for each 128 rows of the operand; or factors in f32. */
function* compareFactors(buffer: Buffer, name: FactorName, problem: Problem): Iterable<Fault> {
  const matrix = scaleMatrix(problem, factorOperands[name]);
  const blocks = blockFactors(problem, factorOperands[name]);
  const groups = name === "SFB" ? weightFactors(problem) : null;
  if (groups !== null) yield* mismatches(buffer, groups.dtype, groups.shape, [groups.shape[1], 1]);
  else if (matrix === null && blocks === null) {
    const operand = factorOperands[name];
    yield {
      at: buffer,
      message: `${problem[operand].dtype} has no factors`,
      hint: `remove the buffer, or make ${operand.toUpperCase()} block-scaled`,
    };
    return;
  }
  if (matrix !== null) {
    const words = matrix.blocks[1] * SCALE_WORDS;
    yield* mismatches(buffer, "s32", [matrix.blocks[0], words], [words, 1]);
  }
  if (blocks !== null) {
    // Rows that share a factor may have one each, all the same.
    const { axis = 0, runs = 1, step = 0 } = buffer.layout?.interleaved ?? {};
    const parts = axis === 0 && step === 0 && blocks.each % runs === 0 ? runs : 1;
    yield* mismatches(buffer, "f32", [blocks.rows * parts, blocks.factors], blocks.strides);
  }
  if (buffer.align > SCALE_ALIGN)
    yield {
      at: buffer,
      message: `claims an alignment of ${buffer.align} bytes, where factors have ${SCALE_ALIGN}`,
      hint: `write align ${SCALE_ALIGN}`,
    };
}

/** What a step reads; a vector may be asked to begin where bulk copies can take it. */
function* compareInput(buffer: Buffer, problem: Problem): Iterable<Fault> {
  const step = stepOfBuffer(buffer.name) ?? 0;
  const matrix = stepMatrix(problem, step);
  if (matrix === null) {
    yield {
      at: buffer,
      message: `step ${step} reads no matrix and no vector`,
      hint: "remove the buffer, or name the step that reads it",
    };
    return;
  }
  yield* mismatches(buffer, matrix.dtype, matrix.shape, matrix.strides);
  if (matrix.operand !== null && buffer.align > matrix.operand.align)
    yield {
      at: buffer,
      message: `claims an alignment of ${buffer.align} bytes, where the problem guarantees ${matrix.operand.align}`,
      hint: `write align ${matrix.operand.align}, or raise the problem's alignment`,
    };
}

function* mismatches(
  buffer: Buffer,
  dtype: DType,
  shape: readonly [number, number],
  strides: readonly [number, number],
): Iterable<Fault> {
  const expected: readonly (readonly [string, unknown, unknown])[] = [
    ["dtype", buffer.dtype, dtype],
    ["shape", buffer.shape.join(" x "), shape.join(" x ")],
    ["strides", buffer.layout?.stride.join(", ") ?? "none", strides.join(", ")],
    ["slots", buffer.slots, 1],
  ];
  for (const [what, found, wanted] of expected)
    if (found !== wanted)
      yield {
        at: buffer,
        message: `${what} ${found}, where the problem says ${wanted}`,
        hint: `write ${wanted}`,
      };
}
