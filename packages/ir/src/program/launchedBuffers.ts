/** Buffers of a program's launch: its matrices, and what steps of the epilogue read. */
import {
  batchAxes,
  batchGrain,
  bufferOfOperand,
  exchangedBuffer,
  matrixOf,
  operandShape,
  operandStrides,
  type Problem,
  sizeOf,
} from "@tilewright/core";
import { stepInput } from "../tile/gemm.ts";
import { exchanged } from "../tile/rewrite.ts";
import { matrixAlign } from "../tile/sizes.ts";
import type { Buffer, TileProgram } from "../tile/types.ts";
import type { Anchor } from "./anchor.ts";

/** Buffers of the nest, with matrices as the launch has them, and what steps read. */
export function launchedBuffers(anchor: Anchor, { buffers }: TileProgram): readonly Buffer[] {
  const { launched, products: chain, operands, paged } = anchor;
  const matrix = (like: Buffer, which: "a" | "b" | "d"): Buffer => {
    const shape = operandShape(launched, which);
    const layout = { shape, stride: operandStrides(launched[which]), swizzle: null };
    return { ...like, shape, layout, align: matrixAlign(launched, which) };
  };
  const inPages = (buffer: Buffer, which: Parameters<typeof paged.get>[0]): Buffer => {
    const pages = paged.get(which);
    return pages === undefined ? buffer : { ...buffer, paged: pages };
  };
  const own = [
    ...buffers.flatMap((b) => {
      if (chain.length === 0 && (b.name === "A" || b.name === "B")) return [];
      const which = matrixOf(b.name);
      return [which === null || which === "c" ? b : inPages(matrix(b, which), which)];
    }),
    ...launched.epilogue.map((step, i) => {
      const input = stepInput(launched, i, "dtype" in step ? sizeOf(step.dtype) : 1);
      return inPages({ ...input, align: stepAlign(launched, i, input) }, `epilogue${i}`);
    }),
  ];
  const turned = chain.flatMap(({ b, exchanged }) => {
    const operand = exchanged ? operands.get(b) : undefined;
    const name = operand && bufferOfOperand(operand);
    return own.filter((buffer) => buffer.name === name);
  });
  return [...own, ...[...new Set(turned)].map((buffer) => exchanged(buffer, exchangedBuffer(buffer.name)))];
}

/** Bytes that every matrix of a step's begins at multiples of. */
function stepAlign(launched: Problem, step: number, { align, dtype }: Buffer): number {
  const grain = batchGrain(batchAxes(launched, `epilogue${step}`).map(({ stride }) => stride));
  let most = align;
  while (most > sizeOf(dtype) && (grain * sizeOf(dtype)) % most !== 0) most /= 2;
  return most;
}
