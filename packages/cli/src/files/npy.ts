/**
 * NumPy's .npy (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html), read and written by npyjs.
 * npyjs takes files on trust; the checks that a damaged or foreign file needs are here.
 */
import {
  type Checked,
  type DType,
  decodeArray,
  err,
  type MatrixLayout,
  ok,
  type Storage,
  storageFromBytes,
} from "@tilewright/core";
import { dump, parse } from "npyjs";
import { codes, failWith, problemWith } from "../codes.ts";
import type { RandomAccess } from "./read.ts";
import { countOf, type Tensor } from "./tensor.ts";

/** NumPy's name of each dtype that both sides know. */
const codeOf: Readonly<Partial<Record<DType, "f4" | "f2" | "f8" | "i1" | "u1" | "i4">>> = {
  f32: "f4",
  f16: "f2",
  f64: "f8",
  s8: "i1",
  u8: "u1",
  s32: "i4",
};
const byCode: Readonly<Record<string, DType>> = Object.fromEntries(
  Object.entries(codeOf).map(([dtype, code]) => [code, dtype as DType]),
);

/** NumPy's names of what is refused, for messages: its one-letter codes count bytes, not bits. */
const foreignNames: Readonly<Record<string, string>> = {
  b1: "bool",
  i2: "int16",
  i8: "int64",
  u2: "uint16",
  u4: "uint32",
  u8: "uint64",
  c8: "complex64",
  c16: "complex128",
};

/** Codes of real numbers, integers of all widths included. */
const numbers = new Set([...Object.values(codeOf), "i2", "u2", "u4", "i8", "u8"] as string[]);

type Parsed = ReturnType<typeof parse>;

/** npyjs's exceptions, told apart by the messages of the version that package.json pins. */
function explain(error: unknown, source: string) {
  const message = error instanceof Error ? error.message : String(error);
  const descr = /^Unsupported dtype: (.*)$/.exec(message)?.[1];
  if (descr?.startsWith(">") === true) {
    const hint = `store it little-endian: numpy.save(path, a.astype("<${descr.slice(1)}"))`;
    return problemWith(codes.npyBigEndian, source, `${source} is big-endian (dtype ${descr})`, { hint });
  }
  if (descr !== undefined) return wrongDtype(descr, source);
  if (error instanceof RangeError) {
    return problemWith(
      codes.npyTruncated,
      source,
      `${source} is truncated: its bytes do not fill what its header says`,
    );
  }
  return problemWith(codes.npyMalformed, source, `${source} is not a .npy file of numbers: ${message}`, {
    hint: "write it with numpy.save",
  });
}

const wrongDtype = (descr: string, source: string) =>
  problemWith(
    codes.npyDtype,
    source,
    `${source} holds ${foreignNames[descr] ?? "dtype"} (${descr}), which is not read`,
    {
      hint: "float32 (<f4) and float16 (<f2) are: numpy.save(path, a.astype(numpy.float32))",
    },
  );

/** An array as its file holds it. */
export interface NpyArray {
  readonly source: string;
  readonly shape: readonly number[];
  /** NumPy's code without the byte order: `f4`, `i8`. */
  readonly code: string;
  readonly layout: MatrixLayout;
  /** All elements, little-endian. */
  readonly bytes: Uint8Array;
}

/** Read an array of any numbers. Refuses what is truncated, padded, big-endian or not of numbers. */
export function readNpyArray(file: RandomAccess, source: string): Checked<NpyArray> {
  let parsed: Parsed;
  try {
    const bytes = file.read(0, file.size);
    parsed = parse(bytes.buffer as ArrayBuffer, { convertFloat16: false });
  } catch (error) {
    return err([explain(error, source)]);
  }
  const { data, shape, fortranOrder } = parsed;
  if (!numbers.has(parsed.dtype) || !ArrayBuffer.isView(data)) return err([wrongDtype(parsed.dtype, source)]);
  if (!shape.every((extent) => Number.isSafeInteger(extent) && extent >= 0)) {
    const message = `${source} has a damaged header: its shape is no tuple of integers`;
    return failWith(codes.npyMalformed, source, message);
  }
  const needed = countOf(shape);
  const held = elementCount(data);
  if (held !== needed) {
    const what = `${source} holds ${held} elements where its shape (${shape.join(", ")}) needs ${needed}`;
    return failWith(codes.npyTruncated, source, held < needed ? `${what}: it is truncated` : what);
  }
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return ok({ source, shape, code: parsed.dtype, layout: fortranOrder ? "col" : "row", bytes });
}

/** Read an array of a dtype that kernels are compiled for; see {@link readNpyArray}. */
export function readNpy(file: RandomAccess, source: string): Checked<Tensor> {
  const array = readNpyArray(file, source);
  if (!array.ok) return array;
  const { code, shape, layout, bytes } = array.value;
  const dtype = byCode[code];
  if (dtype === undefined) return err([wrongDtype(code, source)]);
  return ok({ source, shape, dtype, layout, data: storageFromBytes(dtype, bytes, countOf(shape)) });
}

/** npyjs types its arrays as views; those that get here are typed arrays. */
const elementCount = (data: ArrayBufferView): number => ("length" in data ? Number(data.length) : Number.NaN);

/**
 * An array in C order as the bytes of a .npy file. Dtypes that NumPy lacks (bf16, fp8) become float32, which holds all
 * their values.
 */
export function encodeNpy(shape: readonly number[], dtype: DType, data: Storage): Uint8Array {
  const code = codeOf[dtype];
  if (code !== undefined) return new Uint8Array(dump(data, [...shape], { dtype: code }));
  return new Uint8Array(dump(new Float32Array(decodeArray(dtype, data, countOf(shape))), [...shape]));
}

const arrays = {
  i2: Int16Array,
  u2: Uint16Array,
  u4: Uint32Array,
  i8: BigInt64Array,
  u8: BigUint64Array,
} as const;

/** Integers that no kernel of this compiler multiplies, but other kernels compute, as the bytes of a .npy file. */
export function encodeNpyIntegers(
  shape: readonly number[],
  code: keyof typeof arrays,
  bytes: Uint8Array,
): Uint8Array {
  // A copy, because views of wide elements want an aligned start.
  return new Uint8Array(dump(new arrays[code](bytes.slice().buffer), [...shape], { dtype: code }));
}
