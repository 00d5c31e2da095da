/** The parameters of a launch file as a device takes them. */
import type { DeviceBuffer, LaunchArgument } from "@tilewright/runtime";
import { encodeElements, isElementType } from "./elements.ts";
import { type Field, type Launch, type LaunchParam, type Scalar, scalarValue } from "./schema.ts";

const bytesOfHex = (text: string): Uint8Array =>
  Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));

const bytesOfScalar = (value: Scalar, dtype: string): Uint8Array =>
  encodeElements(isElementType(dtype) ? dtype : "f32", [scalarValue(value)]);

/** Bytes that a field takes. */
export function sizeOfField(field: Field): number {
  if ("tensorMap" in field) return 128;
  if ("buffer" in field) return 8;
  return "bytes" in field ? field.bytes.length / 2 : bytesOfScalar(field.value, field.dtype).length;
}

/** Where each field stands, and its bytes. */
export function fieldBytes(
  fields: readonly Field[],
  buffers: ReadonlyMap<string, DeviceBuffer>,
  tensorMaps: ReadonlyMap<string, Uint8Array>,
): readonly (readonly [at: number, bytes: Uint8Array])[] {
  const bytesOf = (field: Field): Uint8Array => {
    if ("tensorMap" in field) return known(tensorMaps, field.tensorMap);
    if ("bytes" in field) return bytesOfHex(field.bytes);
    if ("value" in field) return bytesOfScalar(field.value, field.dtype);
    const address = known(buffers, field.buffer).address + BigInt(field.offset);
    return new Uint8Array(BigUint64Array.of(address).buffer);
  };
  return fields.map((field) => [field.at, bytesOf(field)]);
}

/**
 * Arguments in order. `buffers` holds every buffer and `tensorMaps` every map that the file names (makeBuffers has checked
 * that there are no others).
 */
export function argumentsOf(
  launch: Launch,
  buffers: ReadonlyMap<string, DeviceBuffer>,
  tensorMaps: ReadonlyMap<string, Uint8Array>,
): readonly LaunchArgument[] {
  const argument = (param: LaunchParam): LaunchArgument => {
    if (typeof param === "number") return param;
    if ("int" in param) return BigInt(param.int);
    if ("bytes" in param) return bytesOfHex(param.bytes);
    if ("value" in param) return bytesOfScalar(param.value, param.dtype);
    if ("fields" in param) {
      const bytes = new Uint8Array(param.size);
      for (const [at, part] of fieldBytes(param.fields, buffers, tensorMaps)) bytes.set(part, at);
      return bytes;
    }
    if ("tensorMap" in param) return known(tensorMaps, param.tensorMap);
    const buffer = known(buffers, param.buffer);
    return param.offset === 0 ? buffer : buffer.address + BigInt(param.offset);
  };
  return launch.params.map(argument);
}

/** An entry that has been checked to be there. */
export function known<T>(map: ReadonlyMap<string, T>, name: string): T {
  const value = map.get(name);
  if (value === undefined) throw new TypeError(`${name} has not been made`);
  return value;
}
