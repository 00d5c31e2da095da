/** Runs a plan on a device: a GPU, or the emulator with every hazard looked for. */
import { decodeArray, encodeArray, storageFromBytes, type TensorMapSpec } from "@tilewright/core";
import type { Device, LaunchArgument } from "@tilewright/runtime";
import { must } from "./must.ts";
import type { Tensor } from "./onnx.ts";
import type { Argument, Place, Plan } from "./plan.ts";

const bytesFor = ({ dtype }: Place, values: ArrayLike<number>): Uint8Array =>
  new Uint8Array(encodeArray(dtype, values as number[]).buffer);

export function runPlan(
  device: Device,
  plan: Plan,
  constants: ReadonlyMap<string, Tensor>,
  inputs: ReadonlyMap<string, ArrayLike<number>>,
): ReadonlyMap<string, ArrayLike<number>> {
  using arena = must(device.alloc(plan.arena));
  for (const place of plan.constants) {
    const values = place.from.flatMap((name) => Array.from(constants.get(name)?.values ?? []));
    must(arena.write(bytesFor(place, values), place.at));
  }
  must(arena.write(new Uint8Array(plan.workspace.bytes), plan.workspace.at));
  for (const [name, place] of Object.entries(plan.inputs))
    must(arena.write(bytesFor(place, inputs.get(name) ?? []), place.at));
  const modules = plan.images.map((image) => must(device.load(image)));
  const argumentOf = (argument: Argument): LaunchArgument => {
    if ("pointer" in argument) return arena.address + BigInt(argument.pointer);
    if ("scalar" in argument) return argument.dtype === "u64" ? BigInt(argument.scalar) : argument.scalar;
    const spec = argument.map as unknown as TensorMapSpec;
    return must(device.encodeTensorMap({ ...spec, address: arena.address + BigInt(spec.address) }));
  };
  for (const launch of plan.launches) {
    if ("zero" in launch) {
      must(arena.write(new Uint8Array(launch.bytes), launch.zero));
      continue;
    }
    const { image, entry, grid, block, cluster, dynamicSmem, args } = launch;
    const module = modules[image];
    if (module === undefined) throw new Error(`the plan has no image ${image}`);
    const { findings } = must(
      must(module.kernel(entry)).launch({ grid, block, cluster, dynamicSmem, args: args.map(argumentOf) }),
    );
    if (findings.length > 0)
      throw new Error(`${entry}: ${findings.map(({ message }) => message).join("\n")}`);
  }
  return new Map(
    Object.entries(plan.outputs).map(([name, place]) => {
      const bytes = must(arena.read(place.at, place.bytes));
      const elements = place.shape.reduce((all, size) => all * size, 1);
      return [name, decodeArray(place.dtype, storageFromBytes(place.dtype, bytes, elements))];
    }),
  );
}
