/** Libraries of attention whose tensors say more than Q, K and V: sequences, pages, scales, gradients; on the emulator beside float64, and what C calls them. */
import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import {
  bytesOfStorage,
  callerTensors,
  type DType,
  decodeArray,
  encodeArray,
  readManifest,
  storageFromBytes,
} from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { cli } from "../harness.ts";
import { scratch } from "../scratch.ts";
import { opened } from "./opened.ts";

const [heads, kvHeads, columns] = [2, 1, 16];
const sizes = { heads, kvHeads, headDim: columns, batch: 2, dtype: "f16" } as const;
const library = (problem: object, dims: object) => ({
  name: "lib",
  archs: ["sm_80"],
  operations: [{ name: "attend", problem: { op: "attention", ...sizes, ...problem }, sizes: [dims] }],
});

const compiled = (cwd: string, request: object, flags: readonly string[] = []) =>
  cli(["compile", "--library", "out", "--kernels", "-", ...flags], { cwd, stdin: JSON.stringify(request) });

/** Numbers between -1 and 1 that f16 has. */
const numbers = (count: number, seed: number): readonly number[] =>
  Array.from({ length: count }, (_, i) => (((i * 37 + seed * 11) % 61) - 30) / 32);
const bytes = (dtype: DType, values: readonly number[]): Uint8Array =>
  bytesOfStorage(encodeArray(dtype, Float64Array.from(values)));

/** Row `row` of head `head` of a matrix of so many rows a head. */
const rowOf = (values: readonly number[], rows: number, head: number, row: number): readonly number[] =>
  values.slice((head * rows + row) * columns, (head * rows + row + 1) * columns);

/** softmax(q.K^T / 4) . V in float64. */
function attend(q: readonly number[], keys: readonly (readonly number[])[], values: typeof keys) {
  const scores = keys.map((key) => key.reduce((sum, x, i) => sum + x * (q[i] ?? 0), 0) / Math.sqrt(columns));
  const weights = scores.map((score) => Math.exp(score - Math.max(...scores)));
  const sum = weights.reduce((all, each) => all + each, 0);
  return q.map((_, e) => values.reduce((all, row, s) => all + ((weights[s] ?? 0) * (row[e] ?? 0)) / sum, 0));
}

/** `attend` of the library in `out`, on the emulator of a GPU: bytes by label, and what it stores as `stored`. */
async function launched(
  folder: { readonly path: string },
  given: Readonly<Record<string, Uint8Array>>,
  stored: string,
): Promise<readonly number[]> {
  const { library, buffer } = await opened(folder, "sm_80");
  const buffers = Object.fromEntries(Object.entries(given).map(([label, data]) => [label, buffer(data)]));
  expect(library.launch("attend", {}, buffers)).toMatchObject({ ok: true });
  const read = buffers[stored]?.read();
  if (!read?.ok) throw new Error("memory");
  return [...decodeArray("f16", storageFromBytes("f16", read.value, read.value.length / 2))];
}

const near = (found: readonly number[], wanted: readonly number[]): void => {
  expect(found).toHaveLength(wanted.length);
  found.forEach((each, i) => {
    expect(Math.abs(each - (wanted[i] ?? Number.NaN))).toBeLessThan(2e-3);
  });
};

/** The lines of the C header's comment that name the tensors of `attend`. */
const described = (folder: { readonly path: string }): readonly string[] =>
  readFileSync(join(folder.path, "out", "lib.h"), "utf8")
    .split("\n * attend\n")[1]
    ?.split("*/")[0]
    ?.split("\n")
    .map((line) => line.replace(/^ \* */, "").trim())
    .filter((line) => line !== "") ?? [];

const hasPython = spawnSync("python3", ["--version"]).status === 0;

/** Of the Python launcher: the tensors of the only kernel as it names them, and which it takes to be written. */
const inPython = (folder: { readonly path: string }) => {
  const script = `
import glob, importlib.util, json
spec = importlib.util.spec_from_file_location("lib", "lib.py")
lib = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lib)
with open(glob.glob("kernels/*.json")[0]) as file:
    manifest = json.load(file)
shapes = lib.shapes_of(manifest)
print(json.dumps([[o.label, o.rows, o.dtype, o.out, shapes[o.name].shape, shapes[o.name].strides] for o in lib.tensors_of(manifest)]))`;
  const cwd = join(folder.path, "out");
  return JSON.parse(execFileSync("python3", ["-c", script], { cwd, encoding: "utf8" }));
};

/** The same by `callerTensors`; what is written is what the launch stores. */
const inTypeScript = (folder: { readonly path: string }, written: readonly string[]) => {
  const kernels = join(folder.path, "out", "kernels");
  const [file = ""] = readdirSync(kernels).filter((name) => name.endsWith(".json"));
  const manifest = readManifest(JSON.parse(readFileSync(join(kernels, file), "utf8")));
  if (!manifest.ok) throw new Error("the manifest was just written");
  return callerTensors(manifest.value.tensors ?? []).map(({ label, axes, dtype, shape, strides }) => [
    ...[label, axes.join(", "), dtype, written.includes(label)],
    ...[shape, strides],
  ]);
};

test.skipIf(!hasPython).each([
  [{ offsets: "both", lse: true }, ["out", "lse"]],
  [{ offsets: "keys", alibi: true, layout: "bshd" }, ["out"]],
  [{ pageSize: 8 }, ["out"]],
  [{ kvDtype: "e4m3" }, ["out"]],
  [{ kvDtype: "e4m3", kvScales: "sequence" }, ["out"]],
  [{ bias: "hqs" }, ["out"]],
  [{ backward: "q" }, ["delta", "dQ"]],
  [{ backward: "kv", bias: "bhqs" }, ["dK", "dV"]],
  [{ latent: true, valueDim: 8, lse: true }, ["out", "lse"]],
] as const)("Python names tensors as TypeScript does: %j", async (problem, written) => {
  using folder = scratch();
  const request = library(problem, { queries: 8, keys: 16 });
  expect(await compiled(folder.path, request)).toMatchObject({ code: 0, stderr: "" });
  expect(inPython(folder)).toEqual(inTypeScript(folder, written));
});

describe("attention of libraries", () => {
  test("sequences of different lengths by offsets, each beside float64", async () => {
    using folder = scratch();
    const request = library({ offsets: "both" }, { queries: 8, keys: 12 });
    expect(await compiled(folder.path, request)).toMatchObject({ code: 0, stderr: "" });
    expect(described(folder)).toEqual([
      "q: batch x heads x queries x head dim, f16",
      "k: batch x heads x keys x head dim, f16",
      "v: batch x heads x keys x value dim, f16",
      "qOffsets: batch + 1, s32",
      "kOffsets: batch + 1, s32",
      "out: batch x heads x queries x value dim, f16",
    ]);
    // All sequences together have 16 rows of Q and 24 of K.
    const [q, k, v] = [numbers(heads * 16 * columns, 1), numbers(24 * columns, 2), numbers(24 * columns, 3)];
    const [qOffsets, kOffsets] = [
      [0, 5, 12],
      [0, 3, 14],
    ] as const;
    const out = await launched(
      folder,
      {
        ...{ q: bytes("f16", q), k: bytes("f16", k), v: bytes("f16", v) },
        qOffsets: bytes("s32", qOffsets),
        kOffsets: bytes("s32", kOffsets),
        out: new Uint8Array(2 * q.length),
      },
      "out",
    );
    for (const [begin, end, first, last] of [
      [0, 5, 0, 3],
      [5, 12, 3, 14],
    ] as const) {
      const rows = Array.from({ length: last - first }, (_, s) => first + s);
      for (let head = 0; head < heads; head++)
        for (let row = begin; row < end; row++)
          near(
            rowOf(out, 16, head, row),
            attend(
              rowOf(q, 16, head, row),
              rows.map((s) => rowOf(k, 24, 0, s)),
              rows.map((s) => rowOf(v, 24, 0, s)),
            ),
          );
    }
  });

  test("keys in pages by a table", async () => {
    using folder = scratch();
    const request = library({ pageSize: 8, pages: 5 }, { queries: 4, keys: 16 });
    expect(await compiled(folder.path, request)).toMatchObject({ code: 0, stderr: "" });
    expect(described(folder)).toContain("lengths: batch, s32");
    expect(described(folder)).toContain("table: batch x pages, s32");
    const [q, k, v] = [
      numbers(2 * heads * 4 * columns, 4),
      numbers(40 * columns, 5),
      numbers(40 * columns, 6),
    ];
    const table = [
      [3, 1],
      [4, 0],
    ];
    const lengths = [11, 16];
    const out = await launched(
      folder,
      {
        ...{ q: bytes("f16", q), k: bytes("f16", k), v: bytes("f16", v) },
        lengths: bytes("s32", lengths),
        table: bytes("s32", table.flat()),
        out: new Uint8Array(2 * q.length),
      },
      "out",
    );
    lengths.forEach((length, b) => {
      const rows = Array.from({ length }, (_, s) => 8 * (table[b]?.[s >> 3] ?? 0) + (s % 8));
      for (let row = 0; row < heads * 4; row++)
        near(
          rowOf(out, heads * 4, b, row),
          attend(
            rowOf(q, heads * 4, b, row),
            rows.map((s) => rowOf(k, 40, 0, s)),
            rows.map((s) => rowOf(v, 40, 0, s)),
          ),
        );
    });
  });

  test("K and V in e4m3 with a scale of each head; gradients: what launchers call their tensors", async () => {
    using narrow = scratch();
    const request = library({ kvDtype: "e4m3", kvScales: "head" }, { queries: 4, keys: 16 });
    expect(await compiled(narrow.path, request)).toMatchObject({ code: 0, stderr: "" });
    const codes = numbers(2 * 16 * columns, 7).map((x) => Math.round(4 * x) / 4);
    const q = numbers(2 * heads * 4 * columns, 8);
    const out = await launched(
      narrow,
      {
        ...{ q: bytes("f16", q), k: bytes("e4m3", codes), v: bytes("e4m3", codes) },
        ...{ kScale: bytes("f32", [0.5]), vScale: bytes("f32", [0.25]) },
        out: new Uint8Array(2 * q.length),
      },
      "out",
    );
    const rows = (b: number, scale: number) =>
      Array.from({ length: 16 }, (_, s) => rowOf(codes, 16, b, s).map((x) => scale * x));
    for (let b = 0; b < 2; b++)
      for (let row = 0; row < heads * 4; row++)
        near(rowOf(out, heads * 4, b, row), attend(rowOf(q, heads * 4, b, row), rows(b, 0.5), rows(b, 0.25)));

    using back = scratch();
    expect(await compiled(back.path, library({ backward: "kv" }, { queries: 8, keys: 16 }))).toMatchObject({
      code: 0,
      stderr: "",
    });
    expect(described(back)).toEqual([
      "q: batch x heads x rows x head dim, f16",
      "k: batch x heads x keys x head dim, f16",
      "v: batch x heads x keys x value dim, f16",
      "dOut: batch x heads x rows x value dim, f16",
      "lse: batch x heads x rows, f32",
      "delta: batch x heads x rows, f32",
      "dK: batch x heads x keys x head dim, f16",
      "dV: batch x heads x keys x value dim, f16",
    ]);
  });

  test("V in the rows of K, which has no tensor of its own", async () => {
    using folder = scratch();
    const request = library({ latent: true, valueDim: 8 }, { queries: 4, keys: 16 });
    expect(await compiled(folder.path, request)).toMatchObject({ code: 0, stderr: "" });
    expect(described(folder)).toEqual([
      "q: batch x heads x queries x head dim, f16",
      "k: batch x heads x keys x head dim, f16",
      "out: batch x heads x queries x value dim, f16",
    ]);
    // Both parameters of the kernel have K's address.
    const header = readFileSync(join(folder.path, "out", "lib.h"), "utf8");
    expect(header.split('lib_put_pointer(lib, p, l, "k", offsetof(lib_args, b)')).toHaveLength(3);
    const [q, k] = [numbers(2 * heads * 4 * columns, 7), numbers(2 * 16 * columns, 8)];
    const out = await launched(
      folder,
      { q: bytes("f16", q), k: bytes("f16", k), out: new Uint8Array(q.length) },
      "out",
    );
    for (const head of [0, 1, 2, 3])
      for (const row of [0, 1, 2, 3]) {
        // Heads of one sequence share its keys.
        const keys = Array.from({ length: 16 }, (_, s) => rowOf(k, 16, head >> 1, s));
        const from = (head * 4 + row) * 8;
        near(out.slice(from, from + 8), attend(rowOf(q, 4, head, row), keys, keys).slice(0, 8));
      }
  });

  test("a wheel has no place for them: every reason at once", async () => {
    using folder = scratch();
    const request = library({ offsets: "keys", kvDtype: "e4m3" }, { queries: 4, keys: 16 });
    const wheel = await compiled(folder.path, request, ["--wheel"]);
    expect(wheel.code).toBe(2);
    expect(wheel.stderr).toContain(
      "attend has offsets of sequences and scales of K and V, and wheels have no place for them",
    );
    const latent = library({ latent: true, valueDim: 8 }, { queries: 4, keys: 16 });
    expect((await compiled(folder.path, latent, ["--wheel"])).stderr).toContain(
      "attend has V in the rows of K, and wheels have no place for them",
    );
    expect(folder.list()).toEqual([]);
  });
});
