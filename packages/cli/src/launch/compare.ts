/** What buffers hold after a launch against what they should. */
import { type Checked, dtypes, encodeArray, err, isDType, ok } from "@tilewright/core";
import { codes, problemWith } from "../codes.ts";
import { countOf } from "../files/tensor.ts";
import type { ArrayLoader, LaunchArray } from "./arrays.ts";
import type { HostBuffer } from "./buffers.ts";
import { bitsOfElement, decodeElements, type ElementType, elementBytes } from "./elements.ts";
import type { Launch } from "./schema.ts";

/** One element that differs. */
interface Difference {
  /** Its place in memory, and by axis. */
  readonly index: number;
  readonly position: readonly number[];
  /** Integers of 64 bits in decimal. */
  readonly actual: number | string;
  readonly expected: number | string;
}

export interface BufferCheck {
  readonly buffer: string;
  readonly elements: number;
  /** Elements beyond the tolerance. */
  readonly failures: number;
  readonly maxAbs: number;
  /** Largest |actual - expected| / |expected|, over elements that are not expected to be 0. */
  readonly maxRel: number;
  /** Most representable values between actual and expected; null where the dtype is no float. */
  readonly maxUlp: number | null;
  /** The first element that fails, and the one that is farthest off. */
  readonly first: Difference | null;
  readonly worst: Difference | null;
}

interface Expectation {
  readonly array: LaunchArray;
  readonly abs: number;
  readonly rel: number;
  readonly ulp: number;
  readonly exact: boolean;
}
export type Expectations = ReadonlyMap<string, Expectation>;

/** Load what is expected, before anything runs. A file's elements are taken in the order in which it stores them. */
export function loadExpectations(
  load: ArrayLoader,
  launch: Launch,
  buffers: readonly HostBuffer[],
): Checked<Expectations> {
  const expectations = new Map<string, Expectation>();
  const errors = Object.entries(launch.expected).flatMap(([name, { file, ...tolerance }]) => {
    const loaded = load(file);
    if (!loaded.ok) return loaded.error;
    const array = loaded.value;
    const wanted = countOf(array.shape);
    const buffer = buffers.find((candidate) => candidate.name === name);
    const mismatch = (message: string, hint: string) => [
      problemWith(codes.shapeMismatch, `expected.${name}`, message, { hint }),
    ];
    if (buffer?.typed === null && elementBytes(array.type, wanted) > buffer.size)
      return mismatch(
        `${file} holds ${elementBytes(array.type, wanted)} bytes, the buffer ${buffer.size}`,
        "expect what fits",
      );
    if (buffer !== undefined && buffer.typed !== null) {
      const held = countOf(buffer.typed.shape);
      if (held !== wanted)
        return mismatch(
          `${file} holds ${wanted} elements [${array.shape.join(", ")}], the buffer ${held} [${buffer.typed.shape.join(", ")}]`,
          "give the buffer the shape of what is expected",
        );
      if (tolerance.exact && elementBytes(buffer.typed.type, 8) !== elementBytes(array.type, 8))
        return mismatch(
          `${file} holds ${array.type}, the buffer ${buffer.typed.type}: their bits cannot be equal`,
          "leave exact out to compare values",
        );
    }
    expectations.set(name, { array, ...tolerance });
    return [];
  });
  return errors.length > 0 ? err(errors) : ok(expectations);
}

/** Bits of a float as an integer that counts representable values: neighbours differ by 1, -0 and 0 by none. */
function ordinal(bits: bigint, width: number): bigint {
  const sign = 1n << BigInt(width - 1);
  return (bits & sign) === 0n ? bits : -(bits & (sign - 1n));
}

/** Representable values between two numbers of a float type; null where there is no such count. */
function ulpDistance(type: ElementType, actual: number, expected: number): number | null {
  if (!isDType(type) || dtypes[type].kind !== "float") return null;
  if (Number.isNaN(actual) || Number.isNaN(expected)) return Number.POSITIVE_INFINITY;
  const width = dtypes[type].bits;
  // One value at a time: elements under 8 bits would lie packed.
  const bits = (value: number): bigint => {
    const stored = encodeArray(type, [value]);
    const view = new DataView(stored.buffer, stored.byteOffset, stored.byteLength);
    if (width === 64) return view.getBigUint64(0, true);
    if (width === 32) return BigInt(view.getUint32(0, true));
    return BigInt(width === 16 ? view.getUint16(0, true) : view.getUint8(0));
  };
  const distance = ordinal(bits(actual), width) - ordinal(bits(expected), width);
  return Number(distance < 0n ? -distance : distance);
}

/** An element's place by axis, C order. */
function positionOf(index: number, shape: readonly number[]): readonly number[] {
  let rest = index;
  return [...shape]
    .reverse()
    .map((extent) => {
      const at = rest % extent;
      rest = Math.floor(rest / extent);
      return at;
    })
    .reverse();
}

const shown = (value: number | bigint): number | string =>
  typeof value === "bigint" ? String(value) : value;

/** Compare one buffer, given as bytes. A buffer without a dtype is read as the file's. */
export function compareBuffer(
  buffer: HostBuffer,
  bytes: Uint8Array,
  expectations: Expectations,
): BufferCheck | null {
  const expectation = expectations.get(buffer.name);
  if (expectation === undefined) return null;
  const { array, abs, rel, ulp, exact } = expectation;
  const elements = countOf(array.shape);
  const { type, shape } = buffer.typed ?? { type: array.type, shape: array.shape };
  const actual = decodeElements(type, bytes, elements);
  const expected = decodeElements(array.type, array.bytes, elements);
  const width = bitsOfElement(type) / 8;
  const sameBits = (index: number): boolean => {
    if (width < 1) return actual[index] === expected[index];
    for (let k = index * width; k < (index + 1) * width; k++) if (bytes[k] !== array.bytes[k]) return false;
    return true;
  };
  let failures = 0;
  let maxAbs = 0;
  let maxRel = 0;
  let maxUlp: number | null = ulpDistance(type, 0, 0);
  let first: Difference | null = null;
  let worst: Difference | null = null;
  for (let index = 0; index < elements; index++) {
    const x = actual[index] ?? Number.NaN;
    const y = expected[index] ?? Number.NaN;
    // Equal covers infinities and NaN, whose difference says nothing.
    const equal = x === y || Object.is(x, y) || (typeof x === "bigint" && x === BigInt(y));
    if (exact ? sameBits(index) : equal) continue;
    const [a, e] = [Number(x), Number(y)];
    const difference = typeof x === "bigint" && typeof y === "bigint" ? Number(x - y) : a - e;
    const error = Number.isNaN(difference) ? Number.POSITIVE_INFINITY : Math.abs(difference);
    const steps = ulpDistance(type, a, e);
    const seen = { index, position: positionOf(index, shape), actual: shown(x), expected: shown(y) };
    if (worst === null || error > maxAbs) worst = seen;
    maxAbs = Math.max(maxAbs, error);
    if (e !== 0) maxRel = Math.max(maxRel, Number.isFinite(error) ? error / Math.abs(e) : error);
    if (steps !== null) maxUlp = Math.max(maxUlp ?? 0, steps);
    const near = error <= abs + rel * Math.abs(e) || (ulp > 0 && steps !== null && steps <= ulp);
    if (!exact && near) continue;
    failures++;
    first ??= seen;
  }
  return { buffer: buffer.name, elements, failures, maxAbs, maxRel, maxUlp, first, worst };
}

/** A buffer that a run has left otherwise than the first one. */
export interface BufferDifference {
  readonly buffer: string;
  /** First byte, and how many. */
  readonly first: number;
  readonly bytes: number;
  readonly size: number;
}

/**
 * Where two contents of a buffer differ; null where they are equal. Words of 8 bytes that are addresses of one place are equal: buffers lie
 * elsewhere in every run. `samePlace` says so of the first run's value and the other's.
 */
export function differenceOf(
  buffer: string,
  expected: Uint8Array,
  actual: Uint8Array,
  samePlace: (expected: bigint, actual: bigint) => boolean,
): BufferDifference | null {
  // This runs in pages, too, which have no Buffer.
  if (expected.length === actual.length && expected.every((byte, i) => byte === actual[i])) return null;
  const viewOf = (data: Uint8Array): DataView => new DataView(data.buffer, data.byteOffset, data.length);
  const [left, right] = [viewOf(expected), viewOf(actual)];
  let [first, bytes] = [-1, 0];
  for (let at = 0; at < expected.length; at++) {
    if (expected[at] === actual[at]) continue;
    const word = at & ~7;
    if (
      word + 8 <= expected.length &&
      samePlace(left.getBigUint64(word, true), right.getBigUint64(word, true))
    ) {
      at = word + 7;
      continue;
    }
    if (first < 0) first = at;
    bytes += 1;
  }
  return first < 0 ? null : { buffer, first, bytes, size: expected.length };
}
