/** A library that no backend makes as a whole: every kind of parameter, several kernels, clusters, variable sizes, all device rules. */
import {
  callerTensors,
  defineProblem,
  type KernelSpec,
  type LibraryDevice,
  type Manifest,
  type ManifestTensor,
  manifestSchemaId,
  type ParamSpec,
  printLibraryIndex,
  printManifest,
} from "@tilewright/core";
import type { OutputFile } from "../../src/files/atomic.ts";
import { sha256 } from "../../src/files/hash.ts";
import { languages, launcherFiles } from "../../src/library/launchers/index.ts";
import { dispatchOrder, indexOf, type Library, type LibraryArtefact } from "../../src/library/model.ts";

const problem = defineProblem({
  ...{ m: 64, n: 48, k: 32, dtype: "bf16", alpha: "runtime" },
  b: { layout: "col" },
  epilogue: [
    { kind: "bias", along: "n", dtype: "f32" },
    { kind: "scale", by: "scalar", dtype: "f32" },
  ],
});
if (!problem.ok) throw new Error("problem");

const gated = defineProblem({
  ...{ m: 64, n: 48, k: 32, dtype: "bf16", gated: "halves" },
  b: { layout: "col" },
  epilogue: [
    { kind: "load", by: "n", dtype: "f32", name: "bg" },
    { kind: "map", expression: "silu(acc + $0) * up" },
  ],
});
if (!gated.ok) throw new Error("gated");

const packed = defineProblem({ ...{ m: 64, n: 48, k: 128, weights: { group: 32, zeros: true } } });
if (!packed.ok) throw new Error("packed");

const map = (operand: "a" | "b" | "workspace", offset: number): ParamSpec => ({
  ...{ kind: "tensorMap", name: `map_${operand}`, offset, size: 128 },
  tensorMap: {
    ...{ operand, dtype: "bf16", ...(operand === "workspace" ? { at: 512 } : {}) },
    ...(operand === "workspace"
      ? { dims: [64, 4, 1], strides: [128, 512] }
      : {
          dims: ["k", operand === "a" ? "m" : "n", "batch"],
          strides: [
            ["mul", operand === "a" ? "lda" : "ldb", 2],
            ["mul", operand === "a" ? "strideA" : "strideB", 2],
          ],
        }),
    box: [operand === "a" ? 64 : 32, 128, 1],
    elementStrides: [1, 1, 1],
    ...{ interleave: "none", swizzle: operand === "a" ? "128B" : "64B", l2: "256B", oob: "zero" },
  },
});

const pointer = (name: "a" | "b" | "d" | "workspace" | "epilogue0", offset: number): ParamSpec => ({
  ...{ kind: "pointer", name, offset, size: 8, align: 16, access: "readwrite" },
});

/** A scalar of each type, and every operation of expressions; `offset` in bytes. */
const scalars = (offset: number): readonly ParamSpec[] => [
  {
    kind: "scalar",
    name: "tiles",
    dtype: "u32",
    offset,
    size: 4,
    value: ["ceilDiv", ["mul", "m", "n"], 128],
  },
  {
    kind: "scalar",
    name: "diff",
    dtype: "s32",
    offset: offset + 4,
    size: 4,
    value: ["sub", "n", ["add", "k", "m"]],
  },
  {
    kind: "scalar",
    name: "most",
    dtype: "u64",
    offset: offset + 8,
    size: 8,
    value: ["max", ["mul", "lda", "strideA"], 7],
  },
  { kind: "scalar", name: "half", dtype: "f64", offset: offset + 16, size: 8, value: ["mul", "alpha", 0.5] },
  { kind: "scalar", name: "alpha", dtype: "f32", offset: offset + 24, size: 4, value: "alpha" },
  { kind: "scalar", name: "epilogue1", dtype: "f32", offset: offset + 28, size: 4, value: "epilogue1" },
  {
    kind: "scalar",
    name: "down",
    dtype: "s32",
    offset: offset + 32,
    size: 4,
    value: ["div", ["sub", "n", "m"], 5],
  },
  {
    kind: "scalar",
    name: "rest",
    dtype: "s32",
    offset: offset + 36,
    size: 4,
    value: ["mod", ["sub", "n", "m"], 5],
  },
  {
    ...{ kind: "scalar", name: "less", dtype: "f32", offset: offset + 40, size: 4 },
    value: ["min", ["mul", "alpha", ["ceilDiv", "k", 3]], ["add", "epilogue1", "m"]],
  },
];

const main = (over: Partial<KernelSpec["launch"]>, params: readonly ParamSpec[]): KernelSpec => ({
  ...{ entry: "gemm_main", role: "main", params, workspaceBytes: ["mul", "m", 64] },
  launch: {
    grid: [
      ["min", "numSms", ["mul", ["ceilDiv", "m", 64], ["ceilDiv", "n", 32]]],
      "batch",
      ["max", 1, ["div", "k", 64]],
    ],
    ...{ block: [256, 1, 1], cluster: [1, 1, 1], dynamicSmem: 1024, staticSmem: 0, cooperative: false },
    ...over,
  },
});

const reduce: KernelSpec = {
  ...{ entry: "gemm_reduce", role: "reduce", workspaceBytes: 0 },
  launch: {
    grid: [["ceilDiv", "n", 32], 1, 1],
    ...{ block: [32, 2, 1], cluster: [1, 1, 1], dynamicSmem: 0, staticSmem: 0, cooperative: true },
  },
  // Not in the order of their offsets: that is the order of the entry.
  params: [pointer("workspace", 8), pointer("d", 0)],
};

const ptxTypes = { f32: "f32", f64: "f64", u32: "u32", s32: "s32", u64: "u64" } as const;

/** Text whose entries declare the parameters and do nothing. */
function ptxOf(arch: string, kernels: readonly KernelSpec[]): string {
  const declaration = (param: ParamSpec): string =>
    param.kind === "tensorMap"
      ? `.param .align 64 .b8 p_${param.name}[128]`
      : `.param .${param.kind === "pointer" ? "u64" : ptxTypes[param.dtype]} p_${param.name}`;
  const entries = kernels.map(({ entry, params }) => {
    const inOrder = [...params].sort((a, b) => a.offset - b.offset);
    return `.visible .entry ${entry}(\n  ${inOrder.map(declaration).join(",\n  ")})\n{\n  ret;\n}\n`;
  });
  return `.version 8.0\n.target ${arch}\n.address_size 64\n${entries.join("")}`;
}

interface Made {
  readonly artefact: LibraryArtefact;
  readonly files: readonly OutputFile[];
}

function artefact(
  number: number,
  arch: string,
  device: LibraryDevice,
  kernels: readonly KernelSpec[],
  more: Pick<Manifest, "constraints" | "workspace" | "tensors">,
  cubin: string | null = null,
): Made {
  const ptx = ptxOf(arch, kernels);
  const binary = "no text: a cubin";
  const manifest: Manifest = {
    ...{ $schema: manifestSchemaId, schemaVersion: 1, id: `sha256:${String(number).repeat(64)}` },
    generator: { name: "tilewright", version: "0.0.0", backend: "test" },
    target: { arch, portability: device.rule, minPtx: "8.0", minDriver: "12.0", features: [] },
    request: problem.ok ? problem.value : ({} as never),
    plan: { schedule: "stages=1", fields: { stages: 1 } },
    images: [
      { format: "ptx", arch, path: `k${number}.ptx`, sha256: sha256(ptx) },
      ...(cubin === null
        ? []
        : [{ format: "cubin" as const, arch: cubin, path: `k${number}.cubin`, sha256: sha256(binary) }]),
    ],
    kernels,
    ...more,
    numerics: { acc: "f32", rounding: "rn", relativeBound: 0, deterministic: true },
    resources: null,
  };
  const text = printManifest(manifest);
  const path = `kernels/k${number}.gemm.json`;
  return {
    artefact: { manifest, choice: { from: "given" }, path, sha256: sha256(text), device },
    files: [
      { path, data: text },
      { path: `kernels/k${number}.ptx`, data: ptx },
      ...(cubin === null ? [] : [{ path: `kernels/k${number}.cubin`, data: binary }]),
    ],
  };
}

const workspace = (init: Manifest["workspace"]["init"]): Manifest["workspace"] => ({
  ...{ bytes: ["mul", "m", 64], align: 256, init },
});
const common: Manifest["constraints"] = [
  ["eq", ["mod", "k", 8], 0],
  ["ge", "lda", "k"],
  ["lt", "beta", 0.5],
];

/** Attention of 2 batches of 4 heads, of which 2 share keys, head dim 32, from K by a tensor map. */
function attention(number: number, queries: number, keys: number): Made {
  const tensor = (name: string, operand: ManifestTensor["operand"], axes: string): ManifestTensor => {
    const extents = axes.split(" ").map((each) => [each.slice(0, 1), Number(each.slice(1))] as const);
    const strides = extents.map((_, i) => extents.slice(i + 1).reduce((all, [, extent]) => all * extent, 1));
    return {
      ...{ name, operand, dtype: "f16" },
      axes: extents.map(([axis, extent], i) => ({ name: axis, extent, stride: strides[i] ?? 1 })),
    };
  };
  const k: ParamSpec = {
    ...{ kind: "tensorMap", name: "map_b", offset: 64, size: 128 },
    tensorMap: {
      ...{ operand: "b", dtype: "f16", dims: [32, keys, 4], strides: [64, keys * 64], box: [32, 64, 1] },
      ...{ elementStrides: [1, 1, 1], interleave: "none", swizzle: "64B", l2: "256B", oob: "zero" },
    },
  };
  const kernel = main({ grid: [["ceilDiv", 2, ["ceilDiv", 16, "numSms"]], 8, 1] }, [
    ...[pointer("a", 0), pointer("d", 8), pointer("epilogue0", 16), k],
  ]);
  return artefact(
    number,
    "sm_90a",
    { rule: "arch", major: 9, minor: 0 },
    [{ ...kernel, workspaceBytes: 0 }],
    {
      ...{ constraints: [], workspace: { bytes: 0, align: 256, init: "none" } },
      tensors: [
        tensor("Q", "a", `b2 h2 g2 q${queries} d32`),
        tensor("K", "b", `b2 h2 s${keys} d32`),
        tensor("V", "epilogue0", `b2 h2 s${keys} e32`),
        tensor("O", "d", `b2 h2 g2 q${queries} e32`),
      ],
    },
  );
}

const made: readonly Made[] = [
  artefact(
    0,
    "sm_90a",
    { rule: "arch", major: 9, minor: 0 },
    [
      main(
        {
          grid: [["mul", 2, ["ceilDiv", "m", 64]], ["mul", 8, "batch"], 1],
          cluster: [2, 8, 1],
          dynamicSmem: 197_632,
        },
        [
          ...[map("a", 0), map("b", 128), pointer("d", 256), pointer("epilogue0", 264)],
          ...scalars(272),
          pointer("workspace", 320),
          map("workspace", 384),
        ],
      ),
      reduce,
    ],
    { constraints: common, workspace: workspace("zeroEach") },
  ),
  artefact(
    1,
    "sm_80",
    { rule: "portable", major: 8, minor: 0 },
    [
      main({}, [
        pointer("a", 0),
        pointer("b", 8),
        pointer("d", 16),
        pointer("epilogue0", 24),
        ...scalars(32),
      ]),
    ],
    { constraints: common, workspace: { bytes: 0, align: 256, init: "none" } },
    "sm_86",
  ),
  artefact(
    2,
    "sm_80",
    { rule: "portable", major: 8, minor: 0 },
    [main({ cooperative: true }, [pointer("d", 0), pointer("workspace", 8)]), reduce],
    {
      constraints: [
        ["eq", "m", 64],
        ["eq", "n", 48],
        ["ne", "k", 40],
      ],
      workspace: workspace("zeroOnce"),
    },
  ),
  attention(3, 64, 64),
  attention(4, 128, 64),
];

const artefacts = made.map((each) => each.artefact);

/** Operations over the same artefacts, so that launchers have more than one. */
export const mixed: Library = {
  ...{ name: "mixed", artefacts },
  operations: [
    { name: "variable", problem: problem.value, dispatch: dispatchOrder(artefacts, [0, 1]) },
    { name: "all", problem: problem.value, dispatch: dispatchOrder(artefacts, [0, 1, 2]) },
    { name: "gated", problem: gated.value, dispatch: dispatchOrder(artefacts, [0, 1]) },
    { name: "packed", problem: packed.value, dispatch: dispatchOrder(artefacts, [1]) },
    {
      ...{ name: "flash", problem: problem.value, dispatch: dispatchOrder(artefacts, [3, 4]) },
      tensors: callerTensors(artefacts[3]?.manifest.tensors ?? []),
    },
  ],
};

/** Every file of the library. */
export const mixedFiles: readonly OutputFile[] = [
  ...made.flatMap(({ files }) => files),
  ...launcherFiles(mixed, languages),
  { path: "index.json", data: printLibraryIndex(indexOf(mixed)) },
];
