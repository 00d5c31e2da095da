/** Runs a plan on a device: a GPU, or the emulator with every hazard looked for. */
import { decodeArray, encodeArray, storageFromBytes, unwrap } from "@tilewright/core";
import { type Device, launchSequence } from "@tilewright/runtime";
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
  for (const { from, ...place } of plan.constants)
    write(
      place,
      from.flatMap((name) => Array.from(constants.get(name)?.values ?? [])),
    );
  for (const [name, place] of Object.entries(plan.inputs)) write(place, inputs.get(name) ?? []);
  const findings = unwrap(launchSequence(device, plan, arena)).flatMap((each) => each.findings);
  if (findings.length > 0) throw new Error(findings.map(({ message }) => message).join("\n"));
  return new Map(
    Object.entries(plan.outputs).map(([name, { at, bytes, dtype, shape }]) => {
      const elements = shape.reduce((all, size) => all * size, 1);
      return [name, decodeArray(dtype, storageFromBytes(dtype, unwrap(arena.read(at, bytes)), elements))];
    }),
  );
}
