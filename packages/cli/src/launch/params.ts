/** The parameters of a launch file as a device takes them. */
import type { DeviceBuffer, LaunchArgument } from "@tilewright/runtime";
import { encodeElements, isElementType } from "./elements.ts";
import { type Launch, type LaunchParam, scalarValue } from "./schema.ts";

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
    if ("bytes" in param)
      return Uint8Array.from(param.bytes.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
    if ("value" in param)
      return encodeElements(isElementType(param.dtype) ? param.dtype : "f32", [scalarValue(param.value)]);
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
