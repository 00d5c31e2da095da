/** The buffers of a launch file: their size, and what they hold before the launch. */
import {
  bytesOfStorage,
  type Checked,
  type Diagnostic,
  type DType,
  err,
  type InputDistribution,
  makeStorage,
  ok,
  randomStorage,
  storageBytes,
} from "@tilewright/ir";
import { codes, problemWith } from "../codes.ts";
import type { Context } from "../context.ts";
import { loadTensor } from "../files/load.ts";
import { countOf } from "../files/tensor.ts";
import type { Launch, LaunchBuffer } from "./schema.ts";

export interface HostBuffer {
  readonly name: string;
  /** Null for a buffer of plain bytes. */
  readonly typed: { readonly dtype: DType; readonly shape: readonly number[] } | null;
  /** Bytes. */
  readonly size: number;
  /** Null leaves it uninitialised. */
  readonly initial: Uint8Array | null;
}

type Random = Exclude<LaunchBuffer["fill"], string | { file: string }>;

/** The distribution and seed that a fill names. */
function distributionOf(fill: Random): { readonly seed: number; readonly distribution: InputDistribution } {
  // Absent bounds must stay absent: the distributions have defaults of their own.
  const given = <T extends object>(bounds: T) =>
    Object.fromEntries(Object.entries(bounds).filter(([, value]) => value !== undefined));
  if ("normal" in fill) {
    const { seed, ...rest } = fill.normal;
    return { seed, distribution: { kind: "normal", ...given(rest) } };
  }
  if ("uniform" in fill) {
    const { seed, ...rest } = fill.uniform;
    return { seed, distribution: { kind: "uniform", ...given(rest) } };
  }
  const { seed, ...rest } = fill.integers;
  return { seed, distribution: { kind: "integers", ...given(rest) } };
}

function makeBuffer(context: Context, name: string, spec: LaunchBuffer): Checked<HostBuffer> {
  const at = `buffers.${name}`;
  const invalid = (message: string, hint: string) => err([problemWith(codes.badJson, at, message, { hint })]);
  const { fill } = spec;
  if (typeof fill === "object" && "file" in fill) {
    const tensor = loadTensor(context, fill.file);
    if (!tensor.ok) return tensor;
    const { shape, dtype, data, layout } = tensor.value;
    const clash =
      (spec.dtype !== undefined && spec.dtype !== dtype) ||
      (spec.shape !== undefined && spec.shape.join() !== shape.join());
    if (clash)
      return invalid(
        `${fill.file} holds ${dtype} of shape [${shape.join(", ")}]`,
        "leave dtype and shape to the file",
      );
    const bytes = bytesOfStorage(data);
    if (spec.bytes !== undefined && spec.bytes !== bytes.byteLength)
      return invalid(
        `${fill.file} holds ${bytes.byteLength} bytes, not ${spec.bytes}`,
        "leave the size to the file",
      );
    // Memory keeps the file's order; a Fortran matrix is the transposed one in C order.
    const typed = { dtype, shape: layout === "row" ? shape : [...shape].reverse() };
    return ok({ name, typed, size: bytes.byteLength, initial: bytes });
  }
  const typed =
    spec.dtype !== undefined && spec.shape !== undefined ? { dtype: spec.dtype, shape: spec.shape } : null;
  const size = typed === null ? spec.bytes : storageBytes(typed.dtype, countOf(typed.shape));
  if (size === undefined) return invalid("its size is not given", 'give "bytes", or "dtype" and "shape"');
  if (spec.bytes !== undefined && spec.bytes !== size)
    return invalid(`dtype and shape need ${size} bytes, not ${spec.bytes}`, "leave bytes out");
  if (typeof fill === "object") {
    if (typed === null)
      return invalid("random numbers need a dtype", 'give "dtype" and "shape" instead of "bytes"');
    const { distribution, seed } = distributionOf(fill);
    return ok({
      name,
      typed,
      size,
      initial: bytesOfStorage(randomStorage(typed.dtype, countOf(typed.shape), distribution, seed)),
    });
  }
  const initial =
    fill === "none"
      ? null
      : typed === null
        ? new Uint8Array(size)
        : bytesOfStorage(makeStorage(typed.dtype, countOf(typed.shape)));
  return ok({ name, typed, size, initial });
}

/** Everything that the launch reads, checked before anything runs; all errors at once. */
export function makeBuffers(context: Context, launch: Launch): Checked<readonly HostBuffer[]> {
  const found: Diagnostic[] = [];
  const buffers = Object.entries(launch.buffers).flatMap(([name, spec]) => {
    const made = makeBuffer(context, name, spec);
    if (made.ok) return [made.value];
    found.push(...made.error);
    return [];
  });
  const known = Object.keys(launch.buffers);
  const refer = (at: string, name: string) => {
    if (!known.includes(name))
      found.push(
        problemWith(codes.badJson, at, `there is no buffer '${name}'`, {
          hint: `buffers: ${known.join(", ") || "none"}`,
        }),
      );
  };
  for (const [i, param] of launch.params.entries())
    if (typeof param === "object" && "buffer" in param) refer(`params[${i}]`, param.buffer);
  for (const name of Object.keys(launch.outputs)) {
    refer(`outputs.${name}`, name);
    if (buffers.some((buffer) => buffer.name === name && buffer.typed === null))
      found.push(
        problemWith(codes.badJson, `outputs.${name}`, "a .npy file needs a dtype and a shape", {
          hint: `give buffers.${name} "dtype" and "shape"`,
        }),
      );
  }
  for (const name of Object.keys(launch.expected)) refer(`expected.${name}`, name);
  return found.length > 0 ? err(found) : ok(buffers);
}
