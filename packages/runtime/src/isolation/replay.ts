/** A launch that went wrong as files that `tilewright emulate` runs: kernel.ptx, launch.json and the inputs. */
import { createHash } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  evaluateLaunchExpr,
  type KernelSpec,
  type LaunchEnvironment,
  launchEnvironment,
  type ParamSpec,
  resolveLaunch,
  tensorMapOf,
} from "@tilewright/ir";
import type { Dim3 } from "../device.ts";
import {
  type GemmArtifact,
  type GemmInputs,
  type GemmOptions,
  inputBytes,
  stepScalars,
  workspaceBytes,
} from "../gemm.ts";
import { readImage } from "../image.ts";
import { deviceOperands } from "../operands.ts";
import type { IsolatedLaunch } from "./protocol.ts";

/** A launch file of `tilewright emulate`, as far as it is written here. */
type LaunchFile = Readonly<Record<string, unknown>>;

export interface Replay {
  /** Entry, text, shape: one line for messages. */
  readonly identity: string;
  /** Entry and hash, for the folder's name. */
  readonly label: string;
  readonly image: string | Uint8Array;
  readonly launch: LaunchFile;
  /** Contents of the .npy files that the launch file names. */
  readonly inputs: Readonly<Record<string, Uint8Array>>;
}

export const replayFolder = (): string => join(tmpdir(), "tilewright-replay");

interface Shape {
  readonly grid: Dim3;
  readonly block: Dim3;
  readonly cluster?: Dim3 | undefined;
  readonly dynamicSmem?: number | undefined;
}

function identify(entry: string, image: string | Uint8Array, shape: Shape | null, schedule: string | null) {
  const hash = createHash("sha256").update(image).digest("hex");
  const parts = [`${typeof image === "string" ? "PTX" : "cubin"} sha256 ${hash}`];
  if (schedule !== null) parts.push(`schedule ${schedule}`);
  if (shape !== null) {
    const { grid, block, cluster, dynamicSmem = 0 } = shape;
    parts.push(`grid ${grid.join(" x ")}`, `block ${block.join(" x ")}`);
    if (cluster?.some((extent) => extent > 1) === true) parts.push(`cluster ${cluster.join(" x ")}`);
    parts.push(`${dynamicSmem} B of dynamic shared memory`);
  }
  return { identity: `${entry} (${parts.join(", ")})`, label: `${entry}-${hash.slice(0, 12)}` };
}

const geometry = ({ grid, block, cluster, dynamicSmem }: Shape): LaunchFile => ({
  grid,
  block,
  ...(cluster?.some((extent) => extent > 1) === true ? { cluster } : {}),
  ...(dynamicSmem === undefined || dynamicSmem === 0 ? {} : { dynamicSmem }),
});

const fileOf = (name: string): string => `${name}.npy`;

/** The replay of a plain launch. */
export function launchReplay(ask: IsolatedLaunch): Replay {
  const inputs: Record<string, Uint8Array> = {};
  const buffers = Object.entries(ask.buffers).map(([name, { size, data, fill = 0 }]) => {
    if (data === undefined && fill === 0) return [name, { bytes: size, fill: "zeros" }];
    const bytes = new Uint8Array(size).fill(fill);
    if (data !== undefined) bytes.set(data);
    inputs[name] = bytes;
    return [name, { fill: { file: fileOf(name) } }];
  });
  const tensorMaps: Record<string, unknown> = {};
  const params = ask.args.map((argument, index) => {
    if ("buffer" in argument) return argument;
    if ("bytes" in argument) return { bytes: Buffer.from(argument.bytes).toString("hex") };
    if ("value" in argument)
      return typeof argument.value === "bigint" ? { int: argument.value.toString() } : argument.value;
    const name = `map${index}`;
    tensorMaps[name] = argument.tensorMap;
    return { tensorMap: name };
  });
  const launch = {
    entry: ask.entry,
    ...geometry(ask),
    buffers: Object.fromEntries(buffers),
    ...(Object.keys(tensorMaps).length > 0 ? { tensorMaps } : {}),
    params,
  };
  return { ...identify(ask.entry, ask.image, ask, null), image: ask.image, launch, inputs };
}

/** The replay of a GEMM's first kernel: later ones read what it leaves. */
export function gemmReplay(
  artifact: GemmArtifact,
  host: GemmInputs,
  options: GemmOptions,
  device: { readonly numSms: number },
): Replay {
  const { manifest, ptx } = artifact;
  const [kernel] = manifest.kernels;
  const schedule = (manifest as { readonly plan?: { readonly schedule?: string } }).plan?.schedule ?? null;
  const { alpha, beta } = options;
  const env: LaunchEnvironment = {
    ...launchEnvironment(manifest.request, device, {
      ...(alpha === undefined ? {} : { alpha }),
      ...(beta === undefined ? {} : { beta }),
    }),
    ...stepScalars(host),
  };
  const inputs: Record<string, Uint8Array> = {};
  const buffers: Record<string, unknown> = {};
  for (const operand of deviceOperands(manifest.request)) {
    const data = operand.direction === "in" ? inputBytes(operand, host) : null;
    if (data !== null) inputs[operand.name] = data.subarray(0, operand.bytes);
    buffers[operand.name] =
      data !== null
        ? { fill: { file: fileOf(operand.name) } }
        : { bytes: operand.bytes, fill: operand.direction === "reduced" ? "zeros" : "none" };
  }
  const workspace = workspaceBytes(manifest, env);
  if (workspace.ok && workspace.value > 0) buffers.workspace = { bytes: workspace.value, fill: "zeros" };
  const resolved = kernel === undefined ? null : resolveLaunch(kernel, env);
  const shape = resolved?.ok === true ? resolved.value : null;
  const entry = kernel?.entry ?? "unknown";
  const arguments_ = kernel === undefined ? { params: [] } : argumentsOf(kernel, env);
  return {
    ...identify(entry, ptx, shape, schedule),
    image: ptx,
    launch: { entry, ...(shape === null ? {} : geometry(shape)), buffers, ...arguments_ },
    inputs,
  };
}

function argumentsOf(kernel: KernelSpec, env: LaunchEnvironment): LaunchFile {
  const tensorMaps: Record<string, unknown> = {};
  const params = [...kernel.params]
    .sort((a, b) => a.offset - b.offset)
    .map((param: ParamSpec) => {
      switch (param.kind) {
        case "pointer":
          return { buffer: param.name };
        case "scalar": {
          const value = evaluateLaunchExpr(param.value, env);
          return value.ok ? value.value : 0;
        }
        case "tensorMap": {
          // Any address that every rule accepts: the launch file names the buffer instead.
          const spec = tensorMapOf(param.tensorMap, env, 1n << 40n);
          if (spec.ok) {
            const { address: _, ...map } = spec.value;
            tensorMaps[param.name] = { buffer: param.tensorMap.operand, ...map };
          }
          return { tensorMap: param.name };
        }
        default:
          return param satisfies never;
      }
    });
  return { ...(Object.keys(tensorMaps).length > 0 ? { tensorMaps } : {}), params };
}

/** A NumPy file of bytes: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html, version 1.0. */
function npyOf(bytes: Uint8Array): Uint8Array {
  const text = `{'descr': '|u1', 'fortran_order': False, 'shape': (${bytes.byteLength},), }`;
  // Magic (6), version (2), length (2), then the text, padded so that the data begins at a multiple of 64.
  const padded = `${text.padEnd(Math.ceil((10 + text.length + 1) / 64) * 64 - 11)}\n`;
  const head = Buffer.concat([Buffer.from([0x93]), Buffer.from("NUMPY"), Buffer.from([1, 0, 0, 0])]);
  head.writeUInt16LE(padded.length, 8);
  return Buffer.concat([head, Buffer.from(padded), bytes]);
}

/** Write a replay into a folder of its own under `root`; null where the disk does not let us. `ptx` is null for a cubin. */
export function writeReplay(
  root: string,
  replay: Replay,
): { readonly ptx: string | null; readonly launch: string } | null {
  const folder = join(root, replay.label.replace(/[^\w.-]/g, "_"));
  const image = readImage(replay.image);
  const text = image.ok && image.value.kind === "ptx" ? image.value.text : null;
  const paths = {
    ptx: text === null ? null : join(folder, "kernel.ptx"),
    launch: join(folder, "launch.json"),
  };
  try {
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, text === null ? "kernel.cubin" : "kernel.ptx"), text ?? replay.image);
    for (const [name, bytes] of Object.entries(replay.inputs))
      writeFileSync(join(folder, fileOf(name)), npyOf(bytes));
    writeFileSync(paths.launch, `${JSON.stringify(replay.launch, null, 2)}\n`);
    return paths;
  } catch {
    return null;
  }
}
