/** Work that went wrong as files that `tilewright emulate` runs: kernel.ptx, a launch file for each kernel, and the inputs. */
import { createHash } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  evaluateLaunchExpr,
  given,
  type KernelSpec,
  type LaunchEnvironment,
  launchEnvironment,
  type ParamSpec,
  resolveLaunch,
  tensorMapOf,
  workspaceBytes,
} from "@tilewright/core";
import type { Dim3 } from "../device.ts";
import { type GemmArtifact, type GemmInputs, type GemmOptions, inputBytes, stepScalars } from "../gemm.ts";
import { readImage } from "../image.ts";
import { type DeviceOperand, deviceOperands } from "../operands.ts";
import type { IsolatedLaunch } from "./protocol.ts";

/** A launch file of `tilewright emulate`, as far as it is written here. */
export type LaunchFile = Readonly<Record<string, unknown>>;

export interface Replay {
  /** Entry, text, shape: one line for messages. */
  readonly identity: string;
  /** Entry and hash, for the folder's name. */
  readonly label: string;
  readonly image: string | Uint8Array;
  /** In the order of the kernels. Each but the last writes what the next one reads. */
  readonly launches: readonly LaunchFile[];
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
  return { ...identify(ask.entry, ask.image, ask, null), image: ask.image, launches: [launch], inputs };
}

/** What an input holds in a replay: bytes, or a `dtype`, `shape` and `fill` that the launch file states. */
export type InputSource = (operand: DeviceOperand) => Uint8Array | LaunchFile | null;

/** The replay of a GEMM with its inputs: every kernel of it, one launch file each. */
export const gemmReplay = (
  artifact: GemmArtifact,
  host: GemmInputs,
  options: GemmOptions,
  device: { readonly numSms: number },
): Replay => replayOf(artifact, (operand) => inputBytes(operand, host), { ...options, ...host }, device);

/** The same with inputs from anywhere. `scalars`: what the problem leaves to the launch. */
export function replayOf(
  artifact: GemmArtifact,
  source: InputSource,
  scalars: Pick<GemmOptions, "alpha" | "beta"> & Pick<GemmInputs, "steps">,
  device: { readonly numSms: number },
): Replay {
  const { manifest, ptx } = artifact;
  const kernel = manifest.kernels.find(({ role }) => role === "main") ?? manifest.kernels[0];
  const schedule = (manifest as { readonly plan?: { readonly schedule?: string } }).plan?.schedule ?? null;
  const { alpha, beta } = scalars;
  const env: LaunchEnvironment = {
    ...launchEnvironment(manifest.request, device, given({ alpha, beta })),
    ...stepScalars(scalars),
  };
  const inputs: Record<string, Uint8Array> = {};
  const buffers: Record<string, LaunchFile> = {};
  const written: Record<string, number> = {};
  for (const operand of deviceOperands(manifest.request)) {
    const { name, bytes, direction } = operand;
    const data = direction === "in" ? source(operand) : null;
    if (data instanceof Uint8Array) inputs[name] = data.subarray(0, bytes);
    if (direction !== "in") written[name] = bytes;
    buffers[name] =
      data instanceof Uint8Array
        ? { fill: { file: fileOf(name) } }
        : (data ?? { bytes, fill: direction === "reduced" ? "zeros" : "none" });
  }
  const workspace = workspaceBytes(manifest, env);
  if (workspace.ok && workspace.value > 0) {
    buffers.workspace = { bytes: workspace.value, fill: "zeros" };
    written.workspace = workspace.value;
  }
  const launches = manifest.kernels.map((one, index): LaunchFile => {
    const resolved = resolveLaunch(one, env);
    const last = index === manifest.kernels.length - 1;
    return {
      entry: one.entry,
      ...(resolved.ok ? geometry(resolved.value) : {}),
      buffers: passed(buffers, written, index, last),
      ...argumentsOf(one, env),
      ...(last ? {} : { outputs: outputsAfter(written, index) }),
    };
  });
  const resolved = kernel === undefined ? null : resolveLaunch(kernel, env);
  return {
    ...identify(kernel?.entry ?? "unknown", ptx, resolved?.ok === true ? resolved.value : null, schedule),
    image: ptx,
    launches,
    inputs,
  };
}

/** Where launch `index` leaves `name` for the next one. */
const stateFile = (name: string, index: number): string => `${name}-after-${index + 1}.npy`;

const outputsAfter = (written: Readonly<Record<string, number>>, index: number): LaunchFile =>
  Object.fromEntries(Object.keys(written).map((name) => [name, stateFile(name, index)]));

/** The buffers of launch `index`: those that kernels write come from the launch before, and need a type to be written as a file. */
function passed(
  buffers: Readonly<Record<string, LaunchFile>>,
  written: Readonly<Record<string, number>>,
  index: number,
  last: boolean,
): LaunchFile {
  const after = Object.entries(written).map(([name, size]) => {
    if (index > 0) return [name, { fill: { file: stateFile(name, index - 1) } }] as const;
    const { bytes: _, ...rest } = buffers[name] ?? {};
    return [name, last ? buffers[name] : { dtype: "u8", shape: [size], ...rest }] as const;
  });
  return { ...buffers, ...Object.fromEntries(after) };
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
            const { operand, at } = param.tensorMap;
            tensorMaps[param.name] = { buffer: operand, ...(at === undefined ? {} : { offset: at }), ...map };
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

/** A replay on disk. */
export interface KeptReplay {
  /** Entry, hash of the text, schedule and launch shape of the kernel: one line. */
  readonly identity: string;
  /** How to see it again; null where the disk does not let us keep it. */
  readonly again: string | null;
}

/** Write a replay into a folder of its own under `root`; null for nowhere. */
export function keepReplay(replay: Replay, root: string | null): KeptReplay {
  const { identity, launches } = replay;
  if (root === null) return { identity, again: null };
  const folder = join(root, replay.label.replace(/[^\w.-]/g, "_"));
  const image = readImage(replay.image);
  const text = image.ok && image.value.kind === "ptx" ? image.value.text : null;
  const file = join(folder, text === null ? "kernel.cubin" : "kernel.ptx");
  const names = launches.map((_, index) =>
    join(folder, launches.length === 1 ? "launch.json" : `launch-${index + 1}.json`),
  );
  try {
    mkdirSync(folder, { recursive: true });
    writeFileSync(file, text ?? replay.image);
    for (const [name, bytes] of Object.entries(replay.inputs))
      writeFileSync(join(folder, fileOf(name)), npyOf(bytes));
    for (const [index, launch] of launches.entries())
      writeFileSync(names[index] ?? "", `${JSON.stringify(launch, null, 2)}\n`);
  } catch {
    return { identity, again: null };
  }
  const commands = names.map((name) => `tilewright emulate ${file} --launch ${name}`);
  return {
    identity,
    again:
      text === null
        ? `kept in ${folder}, as a cubin, which the emulator does not run`
        : `see it again: ${commands.join(" && ")}`,
  };
}
