/**
 * safetensors (https://huggingface.co/docs/safetensors): 8 bytes of header length, a JSON header, then the tensors' bytes.
 * Only the header and the one tensor asked for are read, since such files are often many gigabytes.
 * No registry package reads a local file's tensors with bounds checks, and the format is this small: hence a reader of our own.
 */
import {
  type Checked,
  type Diagnostic,
  type DType,
  didYouMean,
  err,
  ok,
  storageBytes,
  storageFromBytes,
} from "@tilewright/core";
import { z } from "zod";
import { codes, failWith, problemWith } from "../codes.ts";
import type { RandomAccess } from "./read.ts";
import { countOf, type Tensor } from "./tensor.ts";

/** The reference implementation's limit on the header, in bytes (safetensors, MAX_HEADER_SIZE). */
const maxHeader = 100_000_000;

const byCode: Readonly<Record<string, DType>> = {
  F32: "f32",
  F16: "f16",
  BF16: "bf16",
  F64: "f64",
  I8: "s8",
  U8: "u8",
  I32: "s32",
  F8_E4M3: "e4m3",
  F8_E5M2: "e5m2",
  // Codes of scale factors.
  F8_E8M0: "u8",
  F6_E2M3: "e2m3",
  F6_E3M2: "e3m2",
  F4: "e2m1",
};

const extent = z.number().int().nonnegative();
const Header = z.record(
  z.string(),
  z.union([
    z.object({ dtype: z.string(), shape: z.array(extent), data_offsets: z.tuple([extent, extent]) }),
    // `__metadata__`: free text.
    z.record(z.string(), z.string()),
  ]),
);

/** Read one tensor as an array; `name` null means that the path named none. */
export function readSafetensors(file: RandomAccess, path: string, name: string | null): Checked<Tensor> {
  const source = name === null ? path : `${path}#${name}`;
  const damaged = (why: string) =>
    failWith(codes.safetensorsMalformed, source, `${path} is not a whole safetensors file: ${why}`);
  if (file.size < 8) return damaged("it is shorter than the 8 bytes of its header's length");
  const length = Number(new DataView(file.read(0, 8).buffer).getBigUint64(0, true));
  if (length > maxHeader) return damaged(`its header would be ${length} bytes long`);
  if (8 + length > file.size) return damaged(`its header of ${length} bytes is cut off`);

  const header = parseHeader(new TextDecoder().decode(file.read(8, length)));
  if (header === null) return damaged("its header is not the JSON that the format prescribes");
  const names = Object.keys(header).filter((key) => key !== "__metadata__");
  const entry = name === null || name === "__metadata__" ? undefined : header[name];
  if (name === null || entry === undefined || !isTensor(entry)) return err([noSuchTensor(path, name, names)]);

  const dtype = byCode[entry.dtype];
  if (dtype === undefined) {
    const hint = `read are ${Object.keys(byCode).join(", ")}`;
    return failWith(codes.safetensorsDtype, source, `${source} has dtype ${entry.dtype}, which is not read`, {
      hint,
    });
  }
  const { shape } = entry;
  const count = countOf(shape);
  const [begin, end] = entry.data_offsets;
  const needed = storageBytes(dtype, count);
  if (end - begin !== needed)
    return damaged(`'${name}' is said to lie in bytes ${begin} to ${end}, where its shape needs ${needed}`);
  if (8 + length + end > file.size)
    return damaged(`'${name}' ends at byte ${8 + length + end} of ${file.size}`);
  const bytes = file.read(8 + length + begin, needed);
  return ok({ source, shape, dtype, layout: "row", data: storageFromBytes(dtype, bytes, count) });
}

type Entry = z.output<typeof Header>[string];
type TensorEntry = Extract<Entry, { dtype: string; shape: number[] }>;
const isTensor = (entry: Entry): entry is TensorEntry => Array.isArray(entry.shape);

function parseHeader(text: string): z.output<typeof Header> | null {
  try {
    return Header.safeParse(JSON.parse(text)).data ?? null;
  } catch {
    return null;
  }
}

function noSuchTensor(path: string, name: string | null, names: readonly string[]): Diagnostic {
  const some =
    names.length === 0
      ? "none"
      : `${names.slice(0, 8).join(", ")}${names.length > 8 ? `, … (${names.length} in all)` : ""}`;
  const message = name === null ? `${path} does not say which tensor` : `${path} has no tensor '${name}'`;
  const fallback = `write ${path}#NAME; it holds ${some}`;
  const hint = name === null ? fallback : didYouMean(name, names, fallback);
  return problemWith(codes.safetensorsName, name === null ? path : `${path}#${name}`, message, { hint });
}
