/** Requests for operands whose elements share bytes or scale factors: what the problem model asks of their sizes. */
import { type DType, dtypes, isScaled, roundUp, scaledTypes } from "@tilewright/core";

/** A request for a problem, as far as it is looked at here. */
interface Request {
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly a?: Matrix;
  readonly b?: Matrix;
  readonly batch?: { readonly kind: string; readonly strideA?: number; readonly strideB?: number };
}

interface Matrix {
  readonly dtype?: DType;
  readonly layout?: "row" | "col";
  readonly ld?: number;
  readonly align?: number;
}

/** Whether elements share bytes, or factors: sizes are then known before the launch. */
export const isNarrow = (dtype: DType): boolean => isScaled(dtype) || dtypes[dtype].bits < 8;

/** The fewest elements that fill whole bytes: 2 of 4 bits, 4 of 6 bits. */
const wholeBytes = (dtype: DType): number =>
  dtypes[dtype].bits === 8 ? 1 : 8 / (dtypes[dtype].bits & -dtypes[dtype].bits);

/** The nearest request that is a problem: rows and matrices of narrow elements end with a byte, K with what shares a scale factor. Others are as they were. */
export function inWholeBytes<T extends object>(request: T): T {
  const { a, b, batch, ...sizes } = request as T & Request;
  const [inA, inB] = [a?.dtype ?? "f32", b?.dtype ?? "f32"];
  if (!isNarrow(inA) && !isNarrow(inB)) return request;
  const k = roundUp(
    sizes.k,
    Math.max(...[inA, inB].map((dtype) => (isScaled(dtype) ? scaledTypes[dtype].block : 1))),
  );
  const matrix = (of: Matrix | undefined, dtype: DType, rows: number, columns: number): Matrix => {
    const layout = of?.layout ?? "row";
    const least = layout === "row" ? columns : rows;
    const { align } = of ?? {};
    return {
      ...of,
      dtype,
      layout,
      ld: roundUp(Math.max(of?.ld ?? 1, least), wholeBytes(dtype)),
      ...(align === undefined ? {} : { align: Math.max(1, align) }),
    };
  };
  const stride = (name: "strideA" | "strideB", dtype: DType): object => {
    const asked = batch?.[name];
    return asked === undefined ? {} : { [name]: roundUp(asked, wholeBytes(dtype)) };
  };
  return {
    ...request,
    k,
    a: matrix(a, inA, sizes.m, k),
    b: matrix(b, inB, k, sizes.n),
    ...(batch === undefined
      ? {}
      : { batch: { ...batch, ...stride("strideA", inA), ...stride("strideB", inB) } }),
  };
}
