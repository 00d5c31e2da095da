/**
 * Reads an ONNX model: nodes in order, constants with their values, inputs and outputs. Field numbers are those of
 * https://github.com/onnx/onnx/blob/main/onnx/onnx.proto, of which an encoder needs few.
 */

export interface Tensor {
  readonly dims: readonly number[];
  readonly values: ArrayLike<number>;
}

export interface Node {
  readonly op: string;
  readonly inputs: readonly string[];
  readonly output: string;
  readonly attributes: ReadonlyMap<string, number | string | readonly number[] | Tensor>;
}

export interface Graph {
  readonly nodes: readonly Node[];
  readonly constants: ReadonlyMap<string, Tensor>;
  readonly inputs: ReadonlyMap<string, readonly number[]>;
  readonly outputs: readonly string[];
}

/** A message: by field number its values, integers as they are, all else as bytes. */
type Message = ReadonlyMap<number, readonly (bigint | Uint8Array)[]>;

/** Bytes of a value by its wire type; integers and lengths say themselves (protobuf.dev, encoding). */
const fixed: Readonly<Record<number, number>> = { 1: 8, 5: 4 };

/** An integer of seven bits a byte, and where it ends. */
function varint(bytes: Uint8Array, from: number): readonly [bigint, number] {
  let value = 0n;
  for (let at = from; at < bytes.length && at < from + 10; at++) {
    const byte = bytes[at] ?? 0;
    value |= BigInt(byte & 127) << BigInt(7 * (at - from));
    if (byte < 128) return [BigInt.asIntN(64, value), at + 1];
  }
  throw new Error(`an integer has no end, at byte ${from}`);
}

function parse(bytes: Uint8Array): Message {
  const message = new Map<number, (bigint | Uint8Array)[]>();
  for (let at = 0, value: bigint | Uint8Array; at < bytes.length; ) {
    [value, at] = varint(bytes, at);
    const [field, wire] = [Number(value) >> 3, Number(value) & 7];
    if (wire === 0 || wire === 2) [value, at] = varint(bytes, at);
    const length = wire === 2 ? Number(value) : (fixed[wire] ?? 0);
    if ((wire !== 0 && wire !== 2 && length === 0) || length > bytes.length - at)
      throw new Error(`this is no ONNX model: field ${field} of wire type ${wire} at byte ${at}`);
    if (wire !== 0) value = bytes.subarray(at, at + length);
    at += length;
    message.set(field, [...(message.get(field) ?? []), value]);
  }
  return message;
}

const bytesOf = (message: Message, field: number): readonly Uint8Array[] =>
  (message.get(field) ?? []).filter((value) => typeof value !== "bigint");
const texts = (message: Message, field: number): readonly string[] =>
  bytesOf(message, field).map((bytes) => new TextDecoder().decode(bytes));
const messages = (message: Message, field: number): readonly Message[] => bytesOf(message, field).map(parse);

/** Integers, one a field or many packed into one. */
const integers = (message: Message, field: number): readonly number[] =>
  (message.get(field) ?? []).flatMap((value) => {
    if (typeof value === "bigint") return [Number(value)];
    const found: number[] = [];
    for (let at = 0, one = 0n; at < value.length; found.push(Number(one))) [one, at] = varint(value, at);
    return found;
  });

/** A copy, which begins where elements may. */
const aligned = (bytes: Uint8Array): ArrayBuffer => new Uint8Array(bytes).buffer;
const floats = (bytes: Uint8Array): Float32Array => new Float32Array(aligned(bytes));

const FLOAT = 1;
const INT64 = 7;

function tensorOf(message: Message): Tensor {
  const [type = 0] = integers(message, 2);
  const dims = integers(message, 1);
  const [raw] = bytesOf(message, 9);
  if (type === FLOAT) return { dims, values: floats(raw ?? bytesOf(message, 4)[0] ?? new Uint8Array()) };
  if (type !== INT64)
    throw new Error(`constant ${texts(message, 8)[0]} has data type ${type}; float and int64 are read`);
  const values = raw && Array.from(new BigInt64Array(aligned(raw)), Number);
  return { dims, values: values ?? integers(message, 7) };
}

/** Values of attributes by ONNX's number of their type. */
const attributes: Readonly<
  Record<number, (message: Message) => number | string | readonly number[] | Tensor | undefined>
> = {
  1: (message) => floats(bytesOf(message, 2)[0] ?? new Uint8Array(4))[0],
  2: (message) => integers(message, 3)[0] ?? 0,
  3: (message) => texts(message, 4)[0],
  4: (message) => messages(message, 5).map(tensorOf)[0],
  7: (message) => integers(message, 8),
};

function nodeOf(message: Message): Node {
  const [op = ""] = texts(message, 4);
  const named = messages(message, 5).map((attribute) => {
    const [name = ""] = texts(attribute, 1);
    const value = attributes[integers(attribute, 20)[0] ?? 0]?.(attribute);
    if (value === undefined) throw new Error(`${op} has attribute ${name}, which is not read`);
    return [name, value] as const;
  });
  return { op, inputs: texts(message, 1), output: texts(message, 2)[0] ?? "", attributes: new Map(named) };
}

/** Name and sizes of an input. */
function inputOf(message: Message): readonly [string, readonly number[]] {
  const [name = ""] = texts(message, 1);
  const [type] = messages(message, 2).flatMap((each) => messages(each, 1));
  const [shape] = type === undefined ? [] : messages(type, 2);
  const dims = shape === undefined ? [] : messages(shape, 1).map((dim) => integers(dim, 1)[0]);
  const known = dims.filter((size) => size !== undefined);
  if (known.length < dims.length)
    throw new Error(`${name} has a size that is not fixed; export with fixed sizes`);
  return [name, known];
}

export function readModel(bytes: Uint8Array): Graph {
  const [graph] = messages(parse(bytes), 7);
  if (graph === undefined) throw new Error("this is no ONNX model: it has no graph");
  return {
    nodes: messages(graph, 1).map(nodeOf),
    constants: new Map(
      messages(graph, 5).map((message) => [texts(message, 8)[0] ?? "", tensorOf(message)] as const),
    ),
    inputs: new Map(messages(graph, 11).map(inputOf)),
    outputs: messages(graph, 12).flatMap((message) => texts(message, 1)),
  };
}
