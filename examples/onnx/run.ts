/** Runs a plan on a device: a GPU, or the emulator with every hazard looked for. */
import { decodeArray, encodeArray, storageFromBytes, unwrap } from "@tilewright/core";
import { type Device, launchPlanned } from "@tilewright/runtime";

import type { Tensor } from "./onnx.ts";
import type { Place, Plan } from "./plan.ts";

export function runPlan(
  device: Device,
  plan: Plan,
  constants: ReadonlyMap<string, Tensor>,
  inputs: ReadonlyMap<string, ArrayLike<number>>,
): ReadonlyMap<string, ArrayLike<number>> {
  using arena = unwrap(device.alloc(plan.arena));
  const write = ({ dtype, at }: Place, values: ArrayLike<number>) =>
    unwrap(arena.write(new Uint8Array(encodeArray(dtype, values as number[]).buffer), at));
  for (const place of plan.constants)
    write(
      place,
      place.from.flatMap((name) => Array.from(constants.get(name)?.values ?? [])),
    );
  for (const [name, place] of Object.entries(plan.inputs)) write(place, inputs.get(name) ?? []);
  unwrap(arena.write(new Uint8Array(plan.workspace.bytes), plan.workspace.at));
  const modules = plan.images.map((image) => unwrap(device.load(image)));
  for (const launch of plan.launches) {
    if ("zero" in launch) {
      unwrap(arena.write(new Uint8Array(launch.bytes), launch.zero));
      continue;
    }
    const module = modules[launch.image];
    if (module === undefined) throw new Error(`the plan has no image ${launch.image}`);
    const { findings } = unwrap(launchPlanned(device, module, launch, arena.address));
    if (findings.length > 0)
      throw new Error(`${launch.entry}: ${findings.map(({ message }) => message).join("\n")}`);
  }
  return new Map(
    Object.entries(plan.outputs).map(([name, { at, bytes, dtype, shape }]) => {
      const elements = shape.reduce((all, size) => all * size, 1);
      return [name, decodeArray(dtype, storageFromBytes(dtype, unwrap(arena.read(at, bytes)), elements))];
    }),
  );
}
