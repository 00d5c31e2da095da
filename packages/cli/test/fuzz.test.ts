/**
 * Damaged inputs of every format that is read: whatever comes, there is a value or a diagnostic, soon, and no exception. A sample; TILEWRIGHT_SLOW=1 tries
 * 50,000 of each, in ten minutes (last on 2026-11-24: none failed). A failure prints fast-check's seed and path, which reproduce it.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { fc, test as property } from "@fast-check/vitest";
import { type Checked, diagnosticsOfIssues, librarySchema, readManifest } from "@tilewright/core";
import { anchorOf, attentionText, parseAxisProgram, parseProgram, readAttention } from "@tilewright/ir";
import { checkModule, parseModule } from "@tilewright/ptx";
import { describe, expect } from "vitest";
import { compiler } from "../src/compiler.ts";
import { readJsonFile } from "../src/files/json.ts";
import { readNpy } from "../src/files/npy.ts";
import type { RandomAccess } from "../src/files/read.ts";
import { readSafetensors } from "../src/files/safetensors.ts";
import { fieldsAt, launchSchema } from "../src/launch/schema.ts";
import { planLibrary } from "../src/library/request.ts";
import { buildRequest } from "../src/request/request.ts";
import { contextIn } from "./harness.ts";

const slow = process.env.TILEWRIGHT_SLOW === "1";
const numRuns = slow ? 50_000 : 300;

/** Milliseconds of one input on a quiet machine, ten times over for a busy one. */
const MOST_MS = 20_000;

const fixture = (name: string): string =>
  readFileSync(join(fileURLToPath(new URL("fixtures", import.meta.url)), name)).toString("latin1");
const example = (name: string): string =>
  readFileSync(fileURLToPath(new URL(`../../../examples/${name}`, import.meta.url)), "utf8");

function kernel() {
  const made = compiler.compile({ problem: problemOf(), target: "sm_80" });
  if (!made.ok) throw new Error("the example does not compile");
  return made.value;
}
function problemOf() {
  const request = buildRequest(contextIn("/"), {
    ...{ m: 64, n: 48, k: 40, dtype: "f16", bLayout: "col", epilogue: "bias(n,f32)|relu" },
    ...{ arch: ["sm_80"], deterministic: false, store: [] },
  });
  if (!request.ok) throw new Error("the example is no problem");
  return request.value.problem;
}

function machineOf(input: Parameters<typeof compiler.compile>[0]): string {
  const made = compiler.compile(input);
  if (!made.ok) throw new Error("the example does not compile");
  return made.value.textAt("machine") ?? "";
}

const artifact = kernel();
const attended = readAttention({
  op: "attention",
  dtype: "bf16",
  queries: 64,
  keys: 512,
  headDim: 64,
  causal: true,
});
const attention = attended.ok ? attentionText(attended.value) : "";
const words = [
  ..."{ } [ ] ( ) < > , ; : . = % @ \" ' \\ / -1 0 1e999 0x 4294967296 9007199254740993 NaN null true __proto__ constructor \u0000 \ufeff é \n".split(
    " ",
  ),
  "\t",
  "[".repeat(300),
  "(".repeat(300),
  "{".repeat(300),
];

/** One change of a text: cut, doubled, a word put in, a character changed, a piece moved. Places are shares of its length. */
const edit = fc.record({
  kind: fc.constantFrom("cut", "double", "word", "character", "move", "end"),
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  length: fc.nat(40),
  to: fc.double({ min: 0, max: 1, noNaN: true }),
  word: fc.constantFrom(...words),
  code: fc.nat(255),
});
type Edit = typeof edit extends fc.Arbitrary<infer T> ? T : never;

function changed(text: string, { kind, at, length, to, word, code }: Edit): string {
  const [from, into] = [Math.floor(at * text.length), Math.floor(to * text.length)];
  const piece = text.slice(from, from + length);
  const rest = text.slice(0, from) + text.slice(from + length);
  switch (kind) {
    case "cut":
      return rest;
    case "double":
      return text.slice(0, from) + piece + text.slice(from);
    case "word":
      return text.slice(0, from) + word + text.slice(from);
    case "character":
      return text.slice(0, from) + String.fromCharCode(code) + text.slice(from + 1);
    case "move":
      return rest.slice(0, into) + piece + rest.slice(into);
    case "end":
      return text.slice(0, from);
  }
}

const damaged = (texts: readonly string[]): fc.Arbitrary<string> =>
  fc
    .tuple(fc.constantFrom(...texts), fc.array(edit, { minLength: 1, maxLength: 6 }))
    .map(([text, edits]) => edits.reduce(changed, text));

const contextOf = (text: string) => ({ ...contextIn("/"), readPipe: () => text });

/** A JSON text by a reader of values. */
const viaJson = (read: (value: unknown) => unknown) => (text: string) => {
  const file = readJsonFile(contextOf(text), "-");
  if (!file.ok) return file;
  const found = read(file.value.value);
  // Places of diagnostics are found in the text, too.
  if (typeof found === "object" && found !== null && "error" in found && Array.isArray(found.error))
    file.value.locate(found.error);
  return found;
};

const inMemory = (text: string): RandomAccess => {
  const bytes = Buffer.from(text, "latin1");
  return {
    size: bytes.length,
    read(offset, length) {
      expect(offset >= 0 && length >= 0 && offset + length <= bytes.length).toBe(true);
      return Uint8Array.from(bytes.subarray(offset, offset + length));
    },
  };
};

const launch = JSON.stringify({
  ...{ entry: "gemm", grid: [2, 2], block: 384, cluster: [2, 1, 1], dynamicSmem: 132224, fuel: 1000 },
  buffers: {
    a: { fill: { file: "a.npy" } },
    c: { dtype: "f32", shape: [4, 4], fill: { normal: { seed: 1 } } },
  },
  tensorMaps: {
    a: { buffer: "a", dtype: "f16", dims: [64, 64], strides: [128], box: [64, 8], swizzle: "128B" },
  },
  params: [{ tensorMap: "a" }, { buffer: "c" }, 256, { value: 1.5, dtype: "f16" }, { bytes: "00ff" }],
  expected: { c: { file: "c.npy", abs: 1e-6 } },
});
const request = JSON.stringify({
  arch: "sm_80",
  problem: {
    m: 64,
    n: 48,
    k: 40,
    a: { layout: "col", ld: 64 },
    epilogue: [{ kind: "bias", along: "n", dtype: "f32" }],
  },
  schedule: "stages=2",
});
const wishes = { most: 50, archs: null, backend: null, schedule: null, deterministic: false, store: [] };

/** Every format: texts that are right, and the reader; what it gives is a value or diagnostics. */
const formats: Readonly<
  Record<string, readonly [texts: readonly string[], read: (text: string) => unknown]>
> = {
  manifest: [[JSON.stringify(artifact.manifest)], viaJson(readManifest)],
  "launch file": [
    [launch],
    viaJson((value) => {
      const parsed = launchSchema.safeParse(value);
      return parsed.success
        ? parsed.data
        : diagnosticsOfIssues(parsed.error.issues, value, "TW7012", "-", fieldsAt);
    }),
  ],
  request: [[request], (text) => buildRequest(contextOf(text), { request: "-", deterministic: false })],
  library: [
    [example("library.json"), example("pytorch/library.json")],
    viaJson((value): Checked<unknown> | null => {
      const parsed = librarySchema.safeParse(value);
      return parsed.success ? planLibrary(parsed.data, wishes) : null;
    }),
  ],
  safetensors: [
    [fixture("weights.safetensors")],
    (text) => readSafetensors(inMemory(text), "x.safetensors", "w"),
  ],
  npy: [
    ["f32_c.npy", "f16_fortran.npy", "structured.npy", "empty.npy"].map(fixture),
    (text) => readNpy(inMemory(text), "x.npy"),
  ],
  PTX: [
    [artifact.ptx],
    (text) => {
      const parsed = parseModule(text);
      return parsed.ok ? checkModule(parsed.value) : parsed;
    },
  ],
  "tile IR": [
    (["nest", "staged", "bound", "machine"] as const).flatMap((stage) => artifact.textAt(stage) ?? []),
    parseProgram,
  ],
  // Roles, rings, pipelines and barriers; products that follow each other.
  "machine text": [
    [machineOf({ problem: problemOf(), target: "sm_90a" }), machineOf({ from: attention, target: "sm_90a" })],
    parseProgram,
  ],
  "programs over axes": [
    ["softmax", "rmsnorm", "layernorm"].map((name) => example(`${name}.tile`)),
    (text) => {
      const parsed = parseAxisProgram(text);
      return parsed.ok ? anchorOf(parsed.value) : parsed;
    },
  ],
};

describe.each(Object.entries(formats))("damaged: %s", (_name, [texts, read]) => {
  property.prop([damaged(texts)], { numRuns, interruptAfterTimeLimit: slow ? 3_000_000 : 60_000 })(
    "a value or diagnostics, in time",
    (text) => {
      const began = performance.now();
      expect(() => read(text)).not.toThrow();
      expect(performance.now() - began).toBeLessThan(MOST_MS);
    },
    slow ? 3_600_000 : 120_000,
  );
});
