/**
 *   node main.ts run MODEL.onnx [--arch sm_80]                    compile, run on a GPU or the emulator, compare with float64
 *   node main.ts compile MODEL.onnx --arch sm_90a --out FOLDER    kernels and plan.json, for run.py
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { findTarget, randomStorage, roundTo } from "@tilewright/core";
import { openDevice } from "@tilewright/runtime";
import { must } from "./must.ts";
import { readModel } from "./onnx.ts";
import { compileModel, type Plan } from "./plan.ts";
import { reference } from "./reference.ts";
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
const target = must(findTarget(values.arch));
const graph = readModel(readFileSync(path));
if (command === "compile") {
  const plan = compileModel(graph, { target, numSms: Number(values.sms) });
  mkdirSync(values.out, { recursive: true });
  const images = plan.images.map((text, i) => {
    writeFileSync(join(values.out, `${i}.ptx`), text);
    return `${i}.ptx`;
  });
  writeFileSync(join(values.out, "plan.json"), JSON.stringify({ ...plan, images }, null, 1));
  console.log(`${values.out}: ${describe(plan)}`);
} else {
  using device = must(
    await openDevice({ kind: values.device === "emulator" ? "emulator" : "auto", arch: target.arch }),
  );
  const plan = compileModel(graph, { target, numSms: device.numSms });
  // Random tokens; the last quarter of them is masked.
  const inputs = new Map(
    [...graph.inputs].map(([name, dims], i) => {
      const count = dims.reduce((all, size) => all * size, 1);
      const random = Array.from(randomStorage("f32", count, { kind: "normal" }, i + 1) as Float32Array, (x) =>
        roundTo("bf16", x),
      );
      const tokens = dims.at(-1) ?? 1;
      return [
        name,
        dims.at(-2) === 1 ? random.map((_, j) => (j % tokens < 0.75 * tokens ? 0 : -1e4)) : random,
      ];
    }),
  );
  const [made, wanted] = [runPlan(device, plan, graph.constants, inputs), reference(graph, inputs)];
  console.log(`${device.name}: ${describe(plan)}`);
  for (const [name, values] of made) {
    const expected = wanted.get(name) ?? [];
    const error = Array.from(values, (x, i) => Math.abs(x - (expected[i] ?? Number.NaN))).reduce(
      (a, b) => Math.max(a, b),
      0,
    );
    console.log(`${name}: ${values.length} elements, at most ${error.toPrecision(3)} from float64`);
    if (!(error <= TOLERANCE)) process.exitCode = 5;
  }
}
