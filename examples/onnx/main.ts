/**
 *   node main.ts run MODEL.onnx [--arch sm_80]                    compile, run on a GPU or the emulator, compare with MODEL.f32
 *   node main.ts compile MODEL.onnx --arch sm_90a --out FOLDER    kernels and plan.json, for run.py
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { findTarget, unwrap } from "@tilewright/core";
import { openDevice } from "@tilewright/runtime";
import { readModel } from "./onnx.ts";
import { compileModel, type Plan } from "./plan.ts";
import { runPlan } from "./run.ts";

/** Rounding of activations to bf16 (8 bits of mantissa), over what a layer norm leaves: a few units. */
const TOLERANCE = 0.03;

const describe = ({ launches, images, arena, unshared }: Plan): string =>
  `${launches.length} launches of ${images.length} kernels, ${arena} bytes of memory, ${unshared} if activations had their own`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    arch: { type: "string", default: "sm_80" },
    sms: { type: "string", default: "132" },
    out: { type: "string", default: "out" },
    device: { type: "string", default: "auto" },
  },
});
const [command, path] = positionals;
if (path === undefined || (command !== "run" && command !== "compile")) {
  console.error("node main.ts run|compile MODEL.onnx [--arch ARCH] [--out FOLDER] [--device auto|emulator]");
  process.exit(2);
}
const target = unwrap(findTarget(values.arch));
const graph = readModel(readFileSync(path));
if (command === "compile") {
  const plan = compileModel(graph, { target, numSms: Number(values.sms) });
  mkdirSync(values.out, { recursive: true });
  const images = plan.images.map((text, i) => {
    writeFileSync(join(values.out, `${i}.ptx`), text);
    return `${i}.ptx`;
  });
  writeFileSync(
    join(values.out, "plan.json"),
    JSON.stringify({ ...plan, images }, (_, value) => (typeof value === "bigint" ? Number(value) : value), 1),
  );
  console.log(`${values.out}: ${describe(plan)}`);
} else {
  using device = unwrap(
    await openDevice({ kind: values.device === "emulator" ? "emulator" : "auto", arch: target.arch }),
  );
  const plan = compileModel(graph, { target, numSms: device.numSms });
  // Inputs, and what onnxruntime makes of them (expect.py).
  const numbers = new Float32Array(new Uint8Array(readFileSync(path.replace(/\.onnx$/, ".f32"))).buffer);
  let read = 0;
  const take = (count: number): Float32Array => {
    read += count;
    return numbers.subarray(read - count, read);
  };
  const inputs = new Map(
    [...graph.inputs].map(([name, dims]) => [name, take(dims.reduce((all, size) => all * size, 1))]),
  );
  const made = runPlan(device, plan, graph.constants, inputs);
  console.log(`${device.name}: ${describe(plan)}`);
  for (const [name, values] of made) {
    const expected = take(values.length);
    const errors = Array.from(values, (x, i) => Math.abs(x - (expected[i] ?? Number.NaN)));
    const error = errors.reduce((a, b) => Math.max(a, b), 0);
    console.log(`${name}: ${values.length} elements, at most ${error.toPrecision(3)} from onnxruntime`);
    if (!(error <= TOLERANCE)) process.exitCode = 5;
  }
}
