/** What has to hold before a launch can start; every reason at once. */
import { type Checked, type Diagnostic, didYouMean, err, ok, given as present } from "@tilewright/core";
import type { LaunchConfig } from "../api.ts";
import { rules } from "../checkers/rules.ts";
import type { Kernel } from "../load/types.ts";
import { arithmeticOf } from "../numerics/tensorcore.ts";

/** PTX limits that hold on every target since sm_70: threads per block, per axis, blocks per axis, cluster size. */
const maxThreads = 1024;
const maxBlock = [1024, 1024, 64] as const;
const maxGrid = [2 ** 31 - 1, 65535, 65535] as const;
/** Portable cluster size is 8; 16 with an opt-in that the emulator grants. */
const maxCluster = 16;
/** Dynamic plus static shared memory of a block: the 227 KiB of sm_90 and sm_100. */
const maxShared = 227 * 1024;

const axes = ["x", "y", "z"] as const;

/** Tells a reason why the launch cannot start. */
type Fault = (code: `TW50${string}`, at: string, message: string, hint?: string) => void;

/** Blocks of a launch: more would only end in want of fuel, hours later. */
const maxBlocks = 2 ** 24;

/** Errors: TW5021 grid or block, TW5022 cluster, TW5023 parameters, TW5024 shared memory, TW5025 .maxntid or .reqntid, TW5026 options. */
export function validateLaunch(kernel: Kernel, config: LaunchConfig): Checked<true> {
  const found: Diagnostic[] = [];
  const fault: Fault = (code, at, message, hint) =>
    void found.push({ code, kind: "invalid", at, message, ...present({ hint }) });
  dimensions(config.grid, maxGrid, "grid", fault);
  dimensions(config.block, maxBlock, "block", fault);
  const threads = config.block[0] * config.block[1] * config.block[2];
  if (threads > maxThreads)
    fault(
      "TW5021",
      "block",
      `a block of ${config.block.join("x")} has ${threads} threads, at most ${maxThreads} are possible`,
    );
  const blocks = config.grid[0] * config.grid[1] * config.grid[2];
  if (blocks > maxBlocks)
    fault(
      "TW5021",
      "grid",
      `a grid of ${config.grid.join("x")} has ${blocks} blocks, at most ${maxBlocks} are emulated`,
      "launch a part of the grid",
    );
  directives(kernel, config, threads, fault);
  const shape = config.cluster ?? kernel.requiredCluster;
  if (shape !== null) cluster(shape, config.grid, fault);
  clusterDirectives(kernel, config, fault);
  const registers = config.registersPerThread;
  if (registers !== undefined && !(Number.isInteger(registers) && registers >= 1 && registers <= 255))
    fault("TW5026", "registersPerThread", `${registers} is no number of registers from 1 to 255`);
  parameters(kernel, config.params, fault);
  const dynamic = config.dynamicSmem ?? 0;
  if (!Number.isInteger(dynamic) || dynamic < 0)
    fault("TW5024", "dynamicSmem", `${dynamic} is no number of bytes`);
  else {
    const total = kernel.dynamicSharedOffset - kernel.reservedShared + dynamic;
    if (total > maxShared)
      fault(
        "TW5024",
        "dynamicSmem",
        `${kernel.staticShared - kernel.reservedShared} bytes of static and ${dynamic} of dynamic shared memory exceed ${maxShared}`,
      );
  }
  if (config.fuel !== undefined && !(config.fuel > 0))
    fault("TW5026", "fuel", `${config.fuel} is no number of instructions`);
  if (config.residentClusters !== undefined && !(config.residentClusters >= 1))
    fault("TW5026", "residentClusters", `${config.residentClusters} is no positive number of clusters`);
  if (config.seed !== undefined && !Number.isInteger(config.seed))
    fault("TW5026", "seed", `${config.seed} is no integer`);
  for (const rule of config.disable ?? [])
    if (!Object.hasOwn(rules, rule))
      fault(
        "TW5026",
        "disable",
        `there is no rule ${rule}`,
        didYouMean(rule, Object.keys(rules), "docs/hazards/README.md lists the rules"),
      );
  if (config.arithmetic !== undefined && arithmeticOf(config.arithmetic) === null)
    fault(
      "TW5026",
      "arithmetic",
      `${config.arithmetic} is no architecture with tensor cores`,
      "a target from sm_70 on, for instance sm_90a",
    );
  return found.length === 0 ? ok(true) : err(found);
}

function dimensions(value: readonly number[], limits: readonly number[], at: string, fault: Fault): void {
  axes.forEach((axis, k) => {
    const n = value[k] ?? 0;
    const limit = limits[k] ?? 1;
    if (!Number.isInteger(n) || n < 1)
      fault(
        "TW5021",
        `${at}.${axis}`,
        `${n} is no positive number of ${at === "grid" ? "blocks" : "threads"}`,
      );
    else if (n > limit) fault("TW5021", `${at}.${axis}`, `${n} exceeds the limit of ${limit}`);
  });
}

function directives(kernel: Kernel, config: LaunchConfig, threads: number, fault: Fault): void {
  const required = kernel.requiredThreads;
  if (required !== null) {
    const want = [required[0] ?? 1, required[1] ?? 1, required[2] ?? 1];
    if (want.some((n, k) => n !== config.block[k]))
      fault(
        "TW5025",
        "block",
        `${kernel.name} has .reqntid ${want.join(", ")}, the block is ${config.block.join("x")}`,
        `launch with a block of ${want.join("x")}`,
      );
  } else if (kernel.maxThreads !== null && threads > kernel.maxThreads)
    fault(
      "TW5025",
      "block",
      `${kernel.name} has .maxntid ${kernel.maxThreads}, the block has ${threads} threads`,
      `launch with at most ${kernel.maxThreads} threads`,
    );
}

function cluster(value: readonly number[], grid: readonly number[], fault: Fault): void {
  const size = value.reduce((n, x) => n * x, 1);
  if (value.some((n) => !Number.isInteger(n) || n < 1))
    fault("TW5022", "cluster", `${value.join("x")} is no cluster size`);
  else if (size > maxCluster)
    fault("TW5022", "cluster", `a cluster of ${size} blocks exceeds the limit of ${maxCluster}`);
  else
    axes.forEach((axis, k) => {
      if ((grid[k] ?? 1) % (value[k] ?? 1) !== 0)
        fault("TW5022", `cluster.${axis}`, `${value[k]} does not divide the grid's ${grid[k]}`);
    });
}

/** What .reqnctapercluster, .explicitcluster and .maxclusterrank ask of a launch. */
function clusterDirectives(kernel: Kernel, config: LaunchConfig, fault: Fault): void {
  const { requiredCluster: required, maxClusterRank: most } = kernel;
  const given = config.cluster;
  if (given === undefined) {
    if (kernel.explicitCluster && required === null)
      fault(
        "TW5022",
        "cluster",
        `${kernel.name} has .explicitcluster, the launch names no cluster`,
        "give the launch a cluster",
      );
    return;
  }
  if (required?.some((n, k) => n !== given[k]) === true)
    fault(
      "TW5022",
      "cluster",
      `${kernel.name} has .reqnctapercluster ${required.join(", ")}, the launch a cluster of ${given.join("x")}`,
      "leave the launch's cluster out",
    );
  const blocks = given[0] * given[1] * given[2];
  if (most !== null && blocks > most)
    fault("TW5022", "cluster", `${kernel.name} has .maxclusterrank ${most}, the cluster ${blocks} blocks`);
}

function parameters(kernel: Kernel, values: LaunchConfig["params"], fault: Fault): void {
  if (values.length !== kernel.parameters.length) {
    const names = kernel.parameters.map((p, k) => `${p.name}: ${kernel.parameterTypes[k]}`).join(", ");
    fault(
      "TW5023",
      "params",
      `${kernel.name} takes ${kernel.parameters.length} parameters, ${values.length} are given`,
      `it takes (${names})`,
    );
    return;
  }
  kernel.parameters.forEach((parameter, k) => {
    const value = values[k];
    const type = kernel.parameterTypes[k] ?? "";
    const at = `params[${k}]`;
    const wrong = (message: string): void =>
      fault("TW5023", at, `${parameter.name} is ${type} of ${parameter.size} bytes, ${message}`);
    if (value instanceof Uint8Array) {
      if (value.length !== parameter.size) wrong(`${value.length} bytes are given`);
    } else if (type.includes("[")) wrong("it needs a Uint8Array");
    else if (typeof value === "bigint") {
      if (parameter.size !== 8) wrong("a bigint is given");
      else if (value < -(2n ** 63n) || value >= 2n ** 64n) wrong(`${value} does not fit`);
    } else if (typeof value === "number") {
      const float = type === "f32" || type === "f64";
      const limit = 2 ** (8 * parameter.size);
      if (parameter.size === 8 && !float) wrong("64-bit integers and pointers are given as bigint");
      else if (!float && (!Number.isInteger(value) || value < -limit / 2 || value >= limit))
        wrong(`${value} does not fit`);
    }
  });
}

/** The parameter buffer of a launch that has been checked. */
export function encodeParameters(kernel: Kernel, values: LaunchConfig["params"]): Uint8Array {
  const bytes = new Uint8Array(kernel.parameterBytes);
  const view = new DataView(bytes.buffer);
  kernel.parameters.forEach((parameter, k) => {
    const value = values[k];
    const type = kernel.parameterTypes[k] ?? "";
    if (value instanceof Uint8Array) bytes.set(value, parameter.offset);
    else if (typeof value === "bigint") view.setBigUint64(parameter.offset, BigInt.asUintN(64, value), true);
    else if (value !== undefined) {
      if (type === "f32") view.setFloat32(parameter.offset, value, true);
      else if (type === "f64") view.setFloat64(parameter.offset, value, true);
      else if (parameter.size === 4) view.setInt32(parameter.offset, value | 0, true);
      else if (parameter.size === 2) view.setInt16(parameter.offset, value, true);
      else view.setInt8(parameter.offset, value);
    }
  });
  return bytes;
}
