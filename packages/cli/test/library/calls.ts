/** Random calls of the mixed library, and what they must amount to by our own evaluation of its manifests. */
import {
  createRandom,
  evaluateConstraints,
  evaluateLaunchExpr,
  type LaunchEnvironment,
  type LaunchExpr,
  type Manifest,
  type ParamSpec,
  resolveLaunch,
  tensorMapInterleaves,
  tensorMapL2Promotions,
  tensorMapOf,
  tensorMapSwizzles,
  tensorMapTypes,
} from "@tilewright/core";
import { unfitReason } from "@tilewright/runtime";
import type { Library } from "../../src/library/model.ts";

export interface Call {
  readonly operation: string;
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly batch: number;
  readonly alpha: number;
  readonly beta: number;
  /** Number of step 1. */
  readonly scale: number;
  /** Address of the bias; 0 is a mistake. */
  readonly bias: number;
  /** Address and bytes of the caller's; 0 for none. */
  readonly workspace: number;
  readonly workspaceBytes: number;
  readonly stream: number;
}

export const addresses = { a: 0x1000_0100, b: 0x1100_0000, d: 0x1200_0010 } as const;

/** Sizes that fit all, some and no kernels. Numbers are such that f32 holds them. */
export function randomCalls(count: number, seed: number): readonly Call[] {
  const random = createRandom(seed);
  const below = (n: number): number => Math.floor(random.uniform() * n);
  const one = <T>(values: readonly [T, ...T[]]): T => values[below(values.length)] ?? values[0];
  return Array.from({ length: count }, () => ({
    operation: one(["variable", "all"]),
    m: one([64, 1 + below(900)]),
    n: one([48, 1 + below(300)]),
    k: one([40, 8 * (1 + below(40)), 1 + below(300)]),
    batch: 1 + below(3),
    alpha: one([1, -0.25 * below(40)]),
    beta: one([0, 0, 0, 0.75]),
    scale: below(64) / 8,
    bias: one([0x1300_0000, 0x1300_0000, 0x1300_0000, 0x1300_0008, 0]),
    ...one([
      { workspace: 0, workspaceBytes: 0 },
      { workspace: 0x1400_0000, workspaceBytes: 1 << 20 },
      { workspace: 0x1400_0000, workspaceBytes: 64 },
    ]),
    stream: one([0, 0xabc0]),
  }));
}

/** A compute capability and its multiprocessors. */
export interface Gpu {
  readonly cc: readonly [number, number];
  readonly sms: number;
}

/** What the stub's journal must hold of a call, and how the call ends. */
export interface Expected {
  readonly status: "ok" | "no kernel" | "bad argument";
  readonly events: readonly unknown[];
}

function environmentOf(call: Call, gpu: Gpu): LaunchEnvironment {
  const { m, n, k, batch, alpha, beta, scale } = call;
  return {
    ...{ m, n, k, batch, alpha, beta, epilogue1: scale, numSms: gpu.sms },
    ...{ lda: k, ldb: k, ldc: 0, ldd: n, strideA: k * m, strideB: k * n, strideC: 0, strideD: n * m },
  };
}

const must = (expr: LaunchExpr, env: LaunchEnvironment): number => {
  const value = evaluateLaunchExpr(expr, env);
  if (!value.ok) throw new Error(JSON.stringify(value.error));
  return value.value;
};

const hex = (view: DataView): string => Buffer.from(view.buffer).toString("hex");

/** Bytes of a parameter as the stub sees them; null for a mistake. */
function bytesOf(param: ParamSpec, env: LaunchEnvironment, pointers: Record<string, number>): string | null {
  if (param.kind === "tensorMap") {
    const { operand } = param.tensorMap;
    if ((pointers[operand] ?? 0) === 0) return null;
    const made = tensorMapOf(param.tensorMap, env, BigInt(pointers[operand] ?? 0));
    // The driver refuses such a map; the stub takes it.
    if (!made.ok) return null;
    const { value: map } = made;
    const words = [
      ...[tensorMapTypes[map.dtype].driver, map.dims.length, Number(map.address)],
      ...[...map.dims, ...map.strides, ...map.box, ...map.elementStrides],
      tensorMapInterleaves.indexOf(map.interleave) |
        (tensorMapSwizzles[map.swizzle].driver << 8) |
        (tensorMapL2Promotions.indexOf(map.l2) << 16),
    ];
    const view = new DataView(new ArrayBuffer(128));
    words.forEach((word, i) => {
      view.setUint32(4 * i, word, true);
    });
    return hex(view);
  }
  const view = new DataView(new ArrayBuffer(param.size));
  if (param.kind === "pointer") {
    const address = pointers[param.name] ?? 0;
    if (address === 0 || address % (param.name === "workspace" ? 1 : param.align) !== 0) return null;
    view.setBigUint64(0, BigInt(address), true);
    return hex(view);
  }
  const value = must(param.value, env);
  switch (param.dtype) {
    case "f32":
      view.setFloat32(0, value, true);
      break;
    case "f64":
      view.setFloat64(0, value, true);
      break;
    case "u32":
      view.setUint32(0, value, true);
      break;
    case "s32":
      view.setInt32(0, value, true);
      break;
    case "u64":
      view.setBigUint64(0, BigInt(value), true);
      break;
  }
  return hex(view);
}

/** Where the stub's allocations lie. */
const OWN = 0x7000_0000_0000;

function pickOf(library: Library, call: Call, gpu: Gpu): Manifest | null {
  const env = environmentOf(call, gpu);
  const operation = library.operations.find(({ name }) => name === call.operation);
  const number = operation?.dispatch.find((i) => {
    const artefact = library.artefacts[i];
    if (artefact === undefined) return false;
    const { rule, major, minor } = artefact.device;
    const fits = unfitReason({ cc: [major, minor], portability: rule }, gpu.cc) === null;
    return fits && evaluateConstraints(artefact.manifest.constraints, env).ok;
  });
  return number === undefined ? null : (library.artefacts[number]?.manifest ?? null);
}

/** What a call must do. */
export function expectedOf(library: Library, call: Call, gpu: Gpu): Expected {
  const manifest = pickOf(library, call, gpu);
  if (manifest === null) return { status: "no kernel", events: [] };
  const env = environmentOf(call, gpu);
  const bytes = must(manifest.workspace.bytes, env);
  const own = bytes > 0 && call.workspace === 0;
  const workspace = own ? OWN : call.workspace;
  const pointers = { ...addresses, epilogue0: call.bias, workspace };
  const { stream } = call;
  const launches = manifest.kernels.map((kernel) => {
    const { grid, block, cluster, dynamicSmem } = (() => {
      const made = resolveLaunch(kernel, env);
      if (!made.ok) throw new Error(JSON.stringify(made.error));
      return made.value;
    })();
    const params = [...kernel.params]
      .sort((a, b) => a.offset - b.offset)
      .map((param) => bytesOf(param, env, pointers));
    return {
      ...{ call: "launch", entry: kernel.entry, grid, block, dynamicSmem, stream },
      ...(cluster.every((extent) => extent === 1) ? {} : { attribute4: cluster }),
      ...(kernel.launch.cooperative ? { attribute2: [1, 0, 0] } : {}),
      params,
    };
  });
  if (launches.some(({ params }) => params.includes(null)) || (!own && bytes > call.workspaceBytes))
    return { status: "bad argument", events: [] };
  const { init } = manifest.workspace;
  const zeroed = bytes > 0 && (init === "zeroEach" || (init === "zeroOnce" && own));
  return {
    status: "ok",
    events: [
      ...(own ? [{ call: "alloc", bytes, stream }] : []),
      ...(zeroed ? [{ call: "set", address: workspace, value: 0, bytes, stream }] : []),
      ...launches,
      ...(own ? [{ call: "free", stream }] : []),
    ],
  };
}
