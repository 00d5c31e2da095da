import { describe, expect, test } from "vitest";
import { formatDiagnostic } from "../../src/diagnostics.ts";
import type { Manifest } from "../../src/manifest.ts";
import { defineProblem } from "../../src/problem/request.ts";
import { manifestSchemaId, printManifest, readManifest } from "../../src/schema/manifest.ts";
import { jsonSchemaOf, requestSchema, schemaNames } from "../../src/schema/request.ts";

const defined = defineProblem({
  m: 300,
  n: 200,
  k: 77,
  epilogue: [{ kind: "bias", along: "n", dtype: "f32" }],
});
if (!defined.ok) throw new Error("problem");

const manifest: Manifest = {
  $schema: manifestSchemaId,
  schemaVersion: 1,
  id: `sha256:${"0123456789abcdef".repeat(4)}`,
  generator: { name: "tilewright", version: "0.1.0", backend: "simt" },
  target: {
    arch: "sm_90a",
    portability: "arch",
    minPtx: "8.0",
    minDriver: "12.0",
    features: ["tma", "wgmma"],
  },
  request: defined.value,
  plan: { schedule: "tile=128x128x8 stages=2", fields: { tile: [128, 128, 8], stages: 2 } },
  images: [
    { format: "ptx", arch: "sm_90a", path: "k.ptx", sha256: "a".repeat(64) },
    {
      format: "cubin",
      arch: "sm_90a",
      path: "k.cubin",
      sha256: "b".repeat(64),
      ptxas: "13.0.88",
      flags: ["-O3"],
    },
  ],
  kernels: [
    {
      entry: "gemm",
      role: "main",
      launch: {
        grid: [["min", "numSms", ["mul", ["ceilDiv", "m", 128], ["ceilDiv", "n", 256]]], 1, "batch"],
        block: [384, 1, 1],
        cluster: [2, 1, 1],
        dynamicSmem: 197_632,
        staticSmem: 0,
        cooperative: false,
      },
      params: [
        {
          kind: "tensorMap",
          name: "mapA",
          offset: 0,
          size: 128,
          tensorMap: {
            operand: "a",
            dtype: "bf16",
            dims: ["k", "m"],
            strides: [["mul", "lda", 2]],
            box: [64, 128],
            elementStrides: [1, 1],
            interleave: "none",
            swizzle: "128B",
            l2: "128B",
            oob: "zero",
          },
        },
        { kind: "pointer", name: "d", offset: 128, size: 8, align: 16, access: "write" },
        { kind: "pointer", name: "epilogue0", offset: 136, size: 8, align: 16, access: "read" },
        { kind: "scalar", name: "alpha", dtype: "f32", offset: 144, size: 4, value: "alpha" },
      ],
      workspaceBytes: 0,
    },
  ],
  workspace: { bytes: 0, align: 256, init: "none" },
  constraints: [["eq", ["mod", "k", 8], 0]],
  numerics: { acc: "f32", rounding: "rn", relativeBound: 1.5e-6, deterministic: true },
  resources: {
    by: "ptxas 13.0",
    kernels: [
      { entry: "gemm", arch: "sm_90a", registers: 168, spillBytes: 0, staticSmem: 0, blocksPerSm: 1 },
    ],
  },
};

describe("manifest", () => {
  test("reads back what it prints", () => {
    expect(readManifest(JSON.parse(printManifest(manifest)))).toEqual({ ok: true, value: manifest });
  });

  test("canonical: key order of the input does not matter, and unknown fields go", () => {
    const { kernels, ...rest } = manifest;
    const shuffled = { kernels, future: true, ...Object.fromEntries(Object.entries(rest).reverse()) };
    const read = readManifest(shuffled);
    expect(read.ok && printManifest(read.value)).toBe(printManifest(manifest));
    expect(printManifest(manifest).startsWith('{\n  "$schema"')).toBe(true);
    expect(printManifest(manifest).endsWith("}\n")).toBe(true);
  });

  const refusals = (change: object): readonly string[] => {
    const read = readManifest({ ...manifest, ...change });
    return read.ok ? [] : read.error.map(formatDiagnostic);
  };

  test("another version is refused as such", () => {
    expect(refusals({ schemaVersion: 2 })).toEqual([
      "TW1306 (unsupported) at manifest.schemaVersion: version 2 of the manifest is not known\n  hint: this release reads version 1",
    ]);
  });

  test("every fault with its path", () => {
    expect(
      refusals({
        id: "md5:1",
        kernels: [],
        workspace: { bytes: ["pow", "m", 2], align: 256, init: "never" },
      }),
    ).toEqual([
      expect.stringMatching(/^TW1307 \(invalid\) at id: /),
      expect.stringMatching(/^TW1307 \(invalid\) at kernels: /),
      'TW1307 (invalid) at workspace.bytes[0]: "pow" is not one of add, sub, mul, div, ceilDiv, mod, min, max\n  hint: did you mean mod?',
      'TW1307 (invalid) at workspace.init: "never" is not one of none, zeroOnce, zeroEach\n  hint: use none',
    ]);
    expect(readManifest("text").ok).toBe(false);
  });
});

describe("JSON Schema", () => {
  test.each(schemaNames)("%s exports, with an id and a title", (name) => {
    const schema = jsonSchemaOf(name);
    expect(schema).toMatchObject({
      $schema: "https://json-schema.org/draft/2020-12/schema",
      title: `Tilewright ${name}`,
      type: "object",
    });
    expect(JSON.parse(JSON.stringify(schema))).toEqual(schema);
  });

  test("launch expressions are recursive by reference", () => {
    const text = JSON.stringify(jsonSchemaOf("manifest"));
    expect(text).toContain('"$ref":"#/$defs/LaunchExpr"');
    expect(jsonSchemaOf("manifest").$id).toBe(manifestSchemaId);
  });

  test("a request is strict", () => {
    const request = { arch: "sm_70", problem: { m: 1, n: 2, k: 3 }, schedule: "stages=2" };
    expect(requestSchema.safeParse(request).success).toBe(true);
    expect(requestSchema.safeParse({ ...request, shedule: "" }).success).toBe(false);
    expect(requestSchema.safeParse({ problem: request.problem }).success).toBe(false);
  });
});
