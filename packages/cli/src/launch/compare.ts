/** What buffers hold after a launch against what they should. */
import { type Checked, decodeArray, err, ok, storageFromBytes } from "@tilewright/ir";
import { codes, problemWith } from "../codes.ts";
import type { Context } from "../context.ts";
import { loadTensor } from "../files/load.ts";
import { countOf, type Tensor } from "../files/tensor.ts";
import type { HostBuffer } from "./buffers.ts";
import type { Launch } from "./schema.ts";

export interface BufferCheck {
  readonly buffer: string;
  readonly elements: number;
  /** Elements beyond the tolerance. */
  readonly failures: number;
  readonly maxAbs: number;
  /** The first element that fails, as an index in memory. */
  readonly first: { readonly index: number; readonly actual: number; readonly expected: number } | null;
}

export type Expectations = ReadonlyMap<
  string,
  { readonly tensor: Tensor; readonly abs: number; readonly rel: number }
>;

/** Load what is expected, before anything runs. A file's elements are taken in the order in which it stores them. */
export function loadExpectations(
  context: Context,
  launch: Launch,
  buffers: readonly HostBuffer[],
): Checked<Expectations> {
  const expectations = new Map<string, { tensor: Tensor; abs: number; rel: number }>();
  const errors = Object.entries(launch.expected).flatMap(([name, { file, abs, rel }]) => {
    const tensor = loadTensor(context, file);
    if (!tensor.ok) return tensor.error;
    const buffer = buffers.find((candidate) => candidate.name === name);
    const held = buffer?.typed === null || buffer === undefined ? null : countOf(buffer.typed.shape);
    const wanted = countOf(tensor.value.shape);
    if (held !== null && held !== wanted)
      return [
        problemWith(
          codes.shapeMismatch,
          `expected.${name}`,
          `${file} holds ${wanted} elements, the buffer ${held}`,
        ),
      ];
    expectations.set(name, { tensor: tensor.value, abs, rel });
    return [];
  });
  return errors.length > 0 ? err(errors) : ok(expectations);
}

/** Compare one buffer, given as bytes. A buffer without a dtype is read as the file's. */
export function compareBuffer(
  buffer: HostBuffer,
  bytes: Uint8Array,
  expectations: Expectations,
): BufferCheck | null {
  const expectation = expectations.get(buffer.name);
  if (expectation === undefined) return null;
  const { tensor, abs, rel } = expectation;
  const elements = countOf(tensor.shape);
  const dtype = buffer.typed?.dtype ?? tensor.dtype;
  const actual = decodeArray(dtype, storageFromBytes(dtype, bytes, elements), elements);
  const expected = decodeArray(tensor.dtype, tensor.data, elements);
  let failures = 0;
  let maxAbs = 0;
  let first: BufferCheck["first"] = null;
  for (let index = 0; index < elements; index++) {
    const [x, y] = [actual[index] ?? Number.NaN, expected[index] ?? Number.NaN];
    // Equal covers infinities and NaN, whose difference says nothing.
    if (x === y || (Number.isNaN(x) && Number.isNaN(y))) continue;
    const error = Math.abs(x - y);
    maxAbs = Number.isNaN(error) ? Number.POSITIVE_INFINITY : Math.max(maxAbs, error);
    if (error <= abs + rel * Math.abs(y)) continue;
    failures++;
    first ??= { index, actual: x, expected: y };
  }
  return { buffer: buffer.name, elements, failures, maxAbs, first };
}
