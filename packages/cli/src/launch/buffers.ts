/** The buffers of a launch file: their size, and what they hold before the launch. */
import {
  bytesOfStorage,
  type Checked,
  type Diagnostic,
  didYouMean,
  err,
  type InputDistribution,
  ok,
  randomStorage,
} from "@tilewright/core";
import { codes, failWith, problemWith } from "../codes.ts";
import { countOf } from "../files/tensor.ts";
import { formatBytes } from "../output/format.ts";
import type { ArrayLoader } from "./arrays.ts";
import {
  type ElementType,
  elementBytes,
  encodeElements,
  integerRange,
  isElementType,
  isIntegral,
  isRandomType,
} from "./elements.ts";
import { sizeOfField } from "./params.ts";
import { type Field, type Launch, type LaunchBuffer, type Scalar, scalarValue } from "./schema.ts";

export interface HostBuffer {
  readonly name: string;
  /** Null for a buffer of plain bytes. */
  readonly typed: { readonly type: ElementType; readonly shape: readonly number[] } | null;
  /** Bytes. */
  readonly size: number;
  /** Null leaves it uninitialised. */
  readonly initial: Uint8Array | null;
}

/** Most bytes that the buffers of one launch take together: the emulator's device memory. */
const memoryLimit = 2 ** 30;

type Random = Extract<
  LaunchBuffer["fill"],
  { readonly normal: object } | { readonly uniform: object } | { readonly integers: object }
>;

/** The distribution and seed that a fill names. */
function distributionOf(
  fill: Random,
  type: ElementType,
): { readonly seed: number; readonly distribution: InputDistribution } {
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
  const unsigned = type.startsWith("u") ? { low: 0, high: 8 } : {};
  return { seed, distribution: { kind: "integers", ...unsigned, ...given(rest) } };
}

/** Random elements of any type: those that are no dtype of a kernel take integers drawn as doubles. */
function randomElements(type: ElementType, count: number, fill: Random): Uint8Array | string {
  const { distribution, seed } = distributionOf(fill, type);
  if (isRandomType(type)) return bytesOfStorage(randomStorage(type, count, distribution, seed));
  if (distribution.kind !== "integers") return `${type} takes "integers", not "${distribution.kind}"`;
  return encodeElements(type, Array.from(randomStorage("f64", count, distribution, seed)));
}

/** Why a scalar is no value of a type; null if it is one. */
function scalarProblem(type: ElementType, value: Scalar): string | null {
  const number = scalarValue(value);
  if (!isIntegral(type)) return null;
  if (typeof number === "number" && !Number.isInteger(number)) return `${value} is no integer`;
  const [low, high] = integerRange(type);
  return BigInt(number) < low || BigInt(number) > high
    ? `${value} is no ${type}, which is from ${low} to ${high}`
    : null;
}

/** A diagnosis of one field of the launch file. */
type Invalid = (field: string, message: string, hint: string) => Checked<never>;

function fromFile(
  load: ArrayLoader,
  name: string,
  spec: LaunchBuffer,
  file: string,
  invalid: Invalid,
): Checked<HostBuffer> {
  const array = load(file);
  if (!array.ok) return array;
  const { shape, type, bytes, layout } = array.value;
  // bf16 and fp8 come as bits in unsigned integers, and tf32 as float32: NumPy has no types for them.
  const wanted = spec.dtype === undefined || !isElementType(spec.dtype) ? type : spec.dtype;
  const sameBits =
    elementBytes(wanted, 8) === elementBytes(type, 8) &&
    (wanted === type || type.startsWith("u") || wanted === "tf32");
  if (!sameBits || (spec.shape !== undefined && spec.shape.join() !== shape.join()))
    return invalid(
      "",
      `${file} holds ${type} of shape [${shape.join(", ")}], not ${wanted} of shape [${(spec.shape ?? shape).join(", ")}]`,
      "leave dtype and shape to the file",
    );
  if (spec.bytes !== undefined && spec.bytes !== bytes.byteLength)
    return invalid(
      ".bytes",
      `${file} holds ${bytes.byteLength} bytes, not ${spec.bytes}`,
      "leave the size to the file",
    );
  // Memory keeps the file's order; a Fortran matrix is the transposed one in C order.
  const typed = { type: wanted, shape: layout === "row" ? shape : [...shape].reverse() };
  return ok({ name, typed, size: bytes.byteLength, initial: bytes });
}

function makeBuffer(load: ArrayLoader, name: string, spec: LaunchBuffer): Checked<HostBuffer> {
  const at = `buffers.${name}`;
  const invalid: Invalid = (field, message, hint) => failWith(codes.badJson, at + field, message, { hint });
  const { fill } = spec;
  if (typeof fill === "object" && "file" in fill) return fromFile(load, name, spec, fill.file, invalid);
  const { dtype, shape } = spec;
  const typed =
    dtype !== undefined && isElementType(dtype) && shape !== undefined ? { type: dtype, shape } : null;
  const size = typed === null ? spec.bytes : elementBytes(typed.type, countOf(typed.shape));
  if (size === undefined) return invalid("", "its size is not given", 'give "bytes", or "dtype" and "shape"');
  if (spec.bytes !== undefined && spec.bytes !== size)
    return invalid(".bytes", `dtype and shape need ${size} bytes, not ${spec.bytes}`, "leave bytes out");
  // Before anything of that size is made on the host.
  if (size > memoryLimit) return err([tooLarge(at, size)]);
  if (fill === "none") return ok({ name, typed, size, initial: null });
  if (fill === "zeros") return ok({ name, typed, size, initial: new Uint8Array(size) });
  if (typed === null)
    return invalid(".fill", "numbers need a dtype", 'give "dtype" and "shape" instead of "bytes"');
  const { type } = typed;
  const count = countOf(typed.shape);
  if ("constant" in fill || "values" in fill) {
    const given = "constant" in fill ? [fill.constant] : fill.values;
    const wrong = given.map((value) => scalarProblem(type, value)).find((problem) => problem !== null);
    if (wrong !== undefined) return invalid(".fill", wrong, `take numbers that ${type} holds`);
    if ("values" in fill && given.length !== count)
      return invalid(
        ".fill.values",
        `${given.length} values for ${count} elements`,
        "give one for each element",
      );
    const numbers = given.map(scalarValue);
    const values = "values" in fill ? numbers : new Array<number | bigint>(count).fill(numbers[0] ?? 0);
    return ok({ name, typed, size, initial: encodeElements(type, values) });
  }
  const random = randomElements(type, count, fill);
  if (typeof random === "string") return invalid(".fill", random, 'take "integers", "constant" or "values"');
  return ok({ name, typed, size, initial: random });
}

const tooLarge = (at: string, size: number) =>
  problemWith(codes.tooLarge, at, `${formatBytes(size)}; the emulator has ${formatBytes(memoryLimit)}`, {
    hint: "run a smaller problem",
  });

/** Everything that the launch refers to, checked before anything runs: all that is wrong, and the buffers that are right. */
export function makeBuffers(
  load: ArrayLoader,
  launch: Launch,
): { readonly buffers: readonly HostBuffer[]; readonly problems: readonly Diagnostic[] } {
  const found: Diagnostic[] = [];
  const buffers = Object.entries(launch.buffers).flatMap(([name, spec]) => {
    const made = makeBuffer(load, name, spec);
    if (made.ok) return [made.value];
    found.push(...made.error);
    return [];
  });
  const total = buffers.reduce((sum, { size }) => sum + size, 0);
  if (total > memoryLimit) found.push(tooLarge("buffers", total));
  found.push(...danglingNames(launch));
  for (const name of Object.keys(launch.outputs))
    if (buffers.some((buffer) => buffer.name === name && buffer.typed === null))
      found.push(
        problemWith(codes.badJson, `outputs.${name}`, "a .npy file needs a dtype and a shape", {
          hint: `give buffers.${name} "dtype" and "shape"`,
        }),
      );
  for (const [i, param] of launch.params.entries()) {
    if (typeof param !== "object" || !("value" in param) || !isElementType(param.dtype)) continue;
    const wrong = scalarProblem(param.dtype, param.value);
    if (wrong !== null) found.push(problemWith(codes.badJson, `params[${i}]`, wrong));
  }
  for (const [at, fields, size] of structuresOf(launch, buffers))
    found.push(...fieldProblems(at, fields, size));
  return { buffers, problems: found };
}

/** Everything that fields stand in: its place in the launch file, and its bytes. */
const structuresOf = (
  launch: Launch,
  buffers: readonly HostBuffer[],
): readonly (readonly [at: string, fields: readonly Field[], size: number])[] => [
  ...Object.entries(launch.buffers).map(
    ([name, { fields }]) =>
      [
        `buffers.${name}`,
        fields,
        buffers.find((buffer) => buffer.name === name)?.size ?? Number.POSITIVE_INFINITY,
      ] as const,
  ),
  ...launch.params.flatMap((param, i) =>
    typeof param === "object" && "fields" in param
      ? [[`params[${i}]`, param.fields, param.size] as const]
      : [],
  ),
];

/** Fields that reach beyond what they stand in, and numbers that their type does not hold. */
const fieldProblems = (at: string, fields: readonly Field[], size: number): readonly Diagnostic[] =>
  fields.flatMap((field, k) => {
    const place = `${at}.fields[${k}]`;
    const wrong =
      "value" in field && isElementType(field.dtype) ? scalarProblem(field.dtype, field.value) : null;
    if (wrong !== null) return [problemWith(codes.badJson, place, wrong)];
    const end = field.at + sizeOfField(field);
    return end <= size
      ? []
      : [
          problemWith(codes.badJson, place, `the field ends at byte ${end} of ${size}`, {
            hint: "make it larger",
          }),
        ];
  });

/** Buffers and tensor maps that are named where there is none of that name. */
function danglingNames(launch: Launch): readonly Diagnostic[] {
  const buffers = Object.keys(launch.buffers);
  const maps = Object.keys(launch.tensorMaps);
  const missing = (at: string, what: string, name: string, known: readonly string[]) =>
    known.includes(name)
      ? []
      : [
          problemWith(codes.badJson, at, `there is no ${what} '${name}'`, {
            hint: didYouMean(name, known, `${what}s: ${known.join(", ") || "none"}`),
          }),
        ];
  const inBuffers = (at: string, name: string) => missing(at, "buffer", name, buffers);
  const named = (at: string, what: Field | Launch["params"][number]) => {
    if (typeof what !== "object") return [];
    if ("buffer" in what) return inBuffers(at, what.buffer);
    return "tensorMap" in what ? missing(at, "tensor map", what.tensorMap, maps) : [];
  };
  return [
    ...launch.params.flatMap((param, i) => named(`params[${i}]`, param)),
    ...structuresOf(launch, []).flatMap(([at, fields]) =>
      fields.flatMap((field, k) => named(`${at}.fields[${k}]`, field)),
    ),
    ...Object.entries(launch.tensorMaps).flatMap(([name, map]) =>
      inBuffers(`tensorMaps.${name}.buffer`, map.buffer),
    ),
    ...Object.keys(launch.outputs).flatMap((name) => inBuffers(`outputs.${name}`, name)),
    ...Object.keys(launch.expected).flatMap((name) => inBuffers(`expected.${name}`, name)),
    ...(["writes", "reads"] as const).flatMap((kind) =>
      (launch.before?.[kind] ?? []).flatMap((name, k) => inBuffers(`before.${kind}[${k}]`, name)),
    ),
  ];
}
