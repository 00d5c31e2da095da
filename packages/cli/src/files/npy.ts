/**
 * NumPy's .npy (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html), read and written by npyjs.
 * npyjs takes files on trust; the checks that a damaged or foreign file needs are here.
 */
import {
  bytesOfStorage,
  type Checked,
  type DType,
  decodeArray,
  err,
  ok,
  storageFromBytes,
} from "@tilewright/ir";
import { dump, parse } from "npyjs";
import { codes, problemWith } from "../codes.ts";
import { asMatrixShape, type Matrix } from "./matrix.ts";
import type { RandomAccess } from "./read.ts";

/** NumPy's name of each dtype that both sides know. */
const byCode: Readonly<Record<string, DType>> = {
  f4: "f32",
  f2: "f16",
  f8: "f64",
  i1: "s8",
  u1: "u8",
  i4: "s32",
};
const codeOf: Readonly<Partial<Record<DType, string>>> = Object.fromEntries(
  Object.entries(byCode).map(([code, dtype]) => [dtype, code]),
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

/** Read a matrix. Refuses what is truncated, padded, big-endian, not numeric or not of rank 2. */
export function readNpy(file: RandomAccess, source: string): Checked<Matrix> {
  let parsed: Parsed;
  try {
    const bytes = file.read(0, file.size);
    parsed = parse(bytes.buffer as ArrayBuffer, { convertFloat16: false });
  } catch (error) {
    return err([explain(error, source)]);
  }
  const dtype = byCode[parsed.dtype];
  if (dtype === undefined) return err([wrongDtype(parsed.dtype, source)]);
  if (!parsed.shape.every((extent) => Number.isSafeInteger(extent) && extent >= 0))
    return err([
      problemWith(
        codes.npyMalformed,
        source,
        `${source} has a damaged header: its shape is no tuple of integers`,
      ),
    ]);
  const shape = asMatrixShape(parsed.shape, source);
  if (!shape.ok) return shape;
  const { rows, cols } = shape.value;
  const { data } = parsed;
  const needed = rows * cols;
  const held = elementCount(data);
  if (held !== needed) {
    const what = `${source} holds ${held} elements where its shape (${rows}, ${cols}) needs ${needed}`;
    return err([problemWith(codes.npyTruncated, source, held < needed ? `${what}: it is truncated` : what)]);
  }
  const layout = parsed.fortranOrder ? "col" : "row";
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return ok({ source, rows, cols, dtype, layout, data: storageFromBytes(dtype, bytes, needed) });
}

/** npyjs types its arrays as views; all of them are typed arrays (bool is refused before). */
const elementCount = (data: ArrayBufferView): number =>
  "length" in data ? Number(data.length) : data.byteLength;

/**
 * A row-major matrix as the bytes of a .npy file in C order. Dtypes that NumPy lacks (bf16, fp8) become float32, which
 * holds all their values.
 */
export function encodeNpy(matrix: Omit<Matrix, "source" | "layout">): Uint8Array {
  const { rows, cols, dtype, data } = matrix;
  const code = codeOf[dtype];
  if (code !== undefined)
    return new Uint8Array(dump(sameBytes(dtype, data), [rows, cols], { dtype: code as "f4" }));
  const widened = new Float32Array(decodeArray(dtype, data, rows * cols));
  return new Uint8Array(dump(widened, [rows, cols]));
}

const sameBytes = (dtype: DType, data: Matrix["data"]) =>
  storageFromBytes(dtype, bytesOfStorage(data), data.length);
