/** examples/onnx: its commands run as its README has them, and its plans hold what they promise. */
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { findTarget } from "@tilewright/core";
import type { SequenceLaunch } from "@tilewright/runtime";
import { afterAll, describe, expect, test } from "vitest";
import { lower } from "../examples/onnx/lower.ts";
import { type Graph, readModel } from "../examples/onnx/onnx.ts";
import { compileModel } from "../examples/onnx/plan.ts";
import { root } from "./lib/files.ts";
import { toolNode } from "./lib/workspace.mjs";

const example = join(root, "examples/onnx");
// Inside of the workspace, whose packages it imports.
mkdirSync(join(root, "out"), { recursive: true });
const folder = mkdtempSync(join(root, "out/onnx-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
cpSync(example, folder, { recursive: true });

const readme = readFileSync(join(example, "README.md"), "utf8");
const lines = [...readme.matchAll(/^```sh test=\S+\n(.*?)^```$/gms)].flatMap(([, text = ""]) =>
  text.trim().split("\n"),
);
/** Those that need torch, and what they make. */
const elsewhere = /^python |bert\.onnx/;
const commands = lines.filter((line) => !elsewhere.test(line)).map((line) => line.replace(/ +#.*/, ""));

const tiny = (): Graph => readModel(readFileSync(join(example, "tiny.onnx")));
const sm80 = findTarget("sm_80");
const goal = { target: sm80.ok ? sm80.value : (undefined as never), numSms: 4 };

describe("examples/onnx", () => {
  test.each(commands)("%s", (line) => {
    expect(line).toMatch(/^node main\.ts /);
    const flags = ["--conditions=@tilewright/source", "--no-warnings"];
    const { status, stdout, stderr } = spawnSync(toolNode(), [...flags, ...line.split(/ +/).slice(1)], {
      ...{ cwd: folder, encoding: "utf8", env: { ...process.env, NO_COLOR: "1" } },
    });
    expect([status, stderr]).toEqual([0, ""]);
    expect(stdout).toMatch(/14 launches of 6 kernels/);
    if (!line.includes(" run ")) return;
    // Rounding to bf16 between kernels: it differs, by little.
    const error = Number(/512 elements, at most (\S+) from onnxruntime/.exec(stdout)?.[1]);
    expect(error).toBeGreaterThan(1e-3);
    expect(error).toBeLessThan(0.03);
  });

  test("the README has commands, and names every file", () => {
    expect(commands.length).toBe(3);
    const files = readdirSync(example).filter((name) => /\.(ts|py)$/.test(name));
    const told = files.filter((name) => readme.includes(name));
    expect(files.filter((name) => !told.includes(name))).toEqual([]);
  });

  test("it imports what packages export, and its own files", () => {
    const { dependencies } = JSON.parse(readFileSync(join(example, "package.json"), "utf8"));
    for (const name of readdirSync(example).filter((file) => file.endsWith(".ts")))
      for (const [, from = ""] of readFileSync(join(example, name), "utf8").matchAll(/ from "([^"]+)"/g))
        expect(from.startsWith("./") || from.startsWith("node:") || from in dependencies, from).toBe(true);
  });

  test("what follows a product is computed where its sums are", () => {
    const { steps } = lower(tiny());
    const shapeOf = (name: string, { operands }: (typeof steps)[number]) => operands[name]?.shape.join("x");
    const said = steps.slice(0, 7).map((step) => {
      const name = /@(\w+)/.exec(step.program ?? "")?.[1];
      return name ?? `${shapeOf("a", step)} ${shapeOf("b", step)} ${step.epilogue}`;
    });
    expect(said).toEqual([
      "32x16 16x48 acc + v0[n]:f32",
      "attention_bf16_b2_h2_q16_k16_d8",
      "32x16 16x16 acc + v0[n]:f32 + v1[m,n]:bf16",
      "layernorm_32x16",
      "32x16 16x32 gelu(acc + v0[n]:f32)",
      "32x32 32x16 acc + v0[n]:f32 + v1[m,n]:bf16",
      "layernorm_32x16",
    ]);
    expect(steps[1]?.program).toContain("param %bias f32[b, s] strides 16, 1");
    expect(steps[1]?.program).toMatch(/map %S = %S \* \(0\.35\d+\) \+ %bias/);
  });

  test("launches have aligned places inside of the arena, which activations share", () => {
    const plan = compileModel(tiny(), goal);
    const launches = plan.launches.filter((each): each is SequenceLaunch => "args" in each);
    expect(launches.length).toBe(14);
    for (const { args } of launches)
      for (const argument of args)
        if (argument.kind === "pointer") {
          expect(argument.address % 16n).toBe(0n);
          expect(argument.address).toBeLessThan(BigInt(plan.arena));
        }
    expect(plan.arena).toBeLessThan(0.6 * plan.unshared);
    const { at = 0, bytes = 0 } = plan.outputs.encoded ?? {};
    expect(at + bytes).toBeLessThanOrEqual(plan.arena);
  });

  test("what is no model, or is cut off, is refused with a sentence", () => {
    const bytes = readFileSync(join(example, "tiny.onnx"));
    for (const part of [Buffer.from("no model"), bytes.subarray(0, 9000), Buffer.alloc(0), bytes.subarray(7)])
      expect(() => readModel(part)).toThrow(/no ONNX model|has no end/);
  });

  test("a node without a kernel is refused by name", () => {
    const graph = tiny();
    const nodes = graph.nodes.map((node) => (node.op === "Softmax" ? { ...node, op: "Hardmax" } : node));
    expect(() => lower({ ...graph, nodes })).toThrow("no kernel for Hardmax, of softmax");
  });
});
