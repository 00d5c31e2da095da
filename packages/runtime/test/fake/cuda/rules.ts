/** What the fake driver refuses: texts, launches, parameters. Pure functions of a device and a request. */
import { parseArch, unfitReason } from "../../../src/arch.ts";
import type { CudaLaunchConfig, CudaStatus, FunctionAttribute } from "../../../src/cuda/driver.ts";
import { driverTooOld } from "../../../src/cuda/versions.ts";
import { type ParamInfo, readPtxHeader } from "../../../src/ptx-header.ts";
import type { FakeDevice } from "./devices.ts";

/** CUresult values that the model gives by itself. */
export const status = {
  invalidValue: 1,
  outOfMemory: 2,
  notInitialized: 3,
  invalidDevice: 101,
  invalidImage: 200,
  invalidContext: 201,
  noBinary: 209,
  invalidPtx: 218,
  unsupportedPtxVersion: 222,
  invalidHandle: 400,
  illegalState: 401,
  notFound: 500,
  notReady: 600,
  hostRegistered: 712,
  hostNotRegistered: 713,
  cooperativeTooLarge: 720,
  captureUnsupported: 900,
  graphUpdateFailed: 910,
  invalidCluster: 912,
} as const;

/** What the JIT says to a text; null when it compiles. */
export function compileRefusal(
  text: string,
  device: FakeDevice,
  driverVersion: number,
): { readonly status: CudaStatus; readonly log: string } | null {
  const header = readPtxHeader(text);
  if (header === null) return { status: status.invalidImage, log: "" };
  if (driverTooOld(header.version, driverVersion) !== null) {
    return { status: status.unsupportedPtxVersion, log: "ptxas fatal   : Unsupported .version" };
  }
  const arch = parseArch(header.target);
  const { capabilityMajor, capabilityMinor } = device.attributes;
  if (arch !== null && unfitReason(arch, [capabilityMajor, capabilityMinor]) !== null) {
    return { status: status.noBinary, log: "" };
  }
  const broken = text.split("\n").findIndex((line) => line.includes("not.an.instruction"));
  if (broken === -1) return null;
  const where = `ptxas application ptx input, line ${broken + 1}; error   :`;
  return { status: status.invalidPtx, log: `${where} Not a name of any known instruction: 'not'` };
}

const elf = [0x7f, 0x45, 0x4c, 0x46];
const mark = "tilewright fake cubin";

/** What this driver's linker makes: an ELF in name only, for one capability, with the text inside. */
export function cubinOf(text: string, { attributes }: FakeDevice): Uint8Array {
  const head = `${mark} ${attributes.capabilityMajor}.${attributes.capabilityMinor}\n`;
  return new Uint8Array([...elf, ...new TextEncoder().encode(head + text)]);
}

/** The text in a cubin of {@link cubinOf} for this device; null for any other. */
export function ptxOfCubin(image: Uint8Array, { attributes }: FakeDevice): string | null {
  const text = new TextDecoder().decode(image.subarray(elf.length));
  const head = `${mark} ${attributes.capabilityMajor}.${attributes.capabilityMinor}\n`;
  return text.startsWith(head) ? text.slice(head.length) : null;
}

/** Blocks that one multiprocessor holds, by threads and by shared memory (1 KB of each block is the system's). */
export function residentBlocks({ attributes }: FakeDevice, threads: number, smem: number): number {
  const warps = Math.ceil(threads / 32);
  const byThreads = Math.floor(attributes.maxThreadsPerSm / (32 * warps));
  const bySmem = Math.floor((attributes.maxSmemPerBlock + 1024) / (smem + 1024));
  return Math.max(0, Math.min(byThreads, bySmem, 32));
}

/** Attributes of a function that nothing was set on. */
export function functionDefaults(device: FakeDevice, staticSmem: number): Record<FunctionAttribute, number> {
  const { capabilityMajor, capabilityMinor, maxThreadsPerBlock, defaultSmemPerBlock } = device.attributes;
  return {
    maxThreadsPerBlock,
    staticSmem,
    constBytes: 0,
    localBytes: 0,
    registers: 32,
    ptxVersion: 80,
    binaryVersion: 10 * capabilityMajor + capabilityMinor,
    maxDynamicSmem: defaultSmemPerBlock - staticSmem,
    nonPortableCluster: 0,
  };
}

const within = (value: number, most: number): boolean =>
  Number.isInteger(value) && value >= 1 && value <= most;

/** Status of a launch beyond the device's limits, or beyond what the function opted in to; null when it can start. */
export function launchRefusal(
  config: CudaLaunchConfig,
  device: FakeDevice,
  defaults: Readonly<Record<FunctionAttribute, number>>,
  set: ReadonlyMap<FunctionAttribute, number>,
): CudaStatus | null {
  const { attributes } = device;
  const of = (attribute: FunctionAttribute): number => set.get(attribute) ?? defaults[attribute];
  const [x, y, z] = config.block;
  const [gridX, gridY, gridZ] = config.grid;
  const fits =
    within(x, attributes.maxBlockX) &&
    within(y, attributes.maxBlockY) &&
    within(z, attributes.maxBlockZ) &&
    within(x * y * z, attributes.maxThreadsPerBlock) &&
    within(gridX, attributes.maxGridX) &&
    within(gridY, attributes.maxGridY) &&
    within(gridZ, attributes.maxGridZ);
  if (!fits) return status.invalidValue;
  if (config.dynamicSmem > of("maxDynamicSmem")) return status.invalidValue;
  if (config.dynamicSmem + of("staticSmem") > attributes.maxSmemPerBlock) return status.invalidValue;
  const { accessWindow = null, preferredCluster = null } = config;
  if (accessWindow !== null && accessWindow.bytes > attributes.maxAccessWindow) return status.invalidValue;
  if (config.cooperative) {
    const resident = residentBlocks(device, x * y * z, config.dynamicSmem + of("staticSmem"));
    if (gridX * gridY * gridZ > resident * attributes.multiprocessors) return status.cooperativeTooLarge;
  }
  if (config.cluster === null) return preferredCluster === null ? null : status.invalidValue;
  const { cluster } = config;
  const multiple = (preferredCluster ?? cluster).every((extent, axis) => extent % (cluster[axis] ?? 0) === 0);
  if (!multiple) return status.invalidCluster;
  const blocks = config.cluster[0] * config.cluster[1] * config.cluster[2];
  const most = of("nonPortableCluster") === 1 ? 16 : 8;
  const divides = config.cluster.every((extent, axis) => (config.grid[axis] ?? 0) % extent === 0);
  return attributes.clusterLaunch === 1 && divides && blocks <= most ? null : status.invalidCluster;
}

/** Throws when the bytes given are not what the entry declares: the real driver would read past them. */
export function assertParams(
  entry: string,
  declared: readonly ParamInfo[] | null,
  given: readonly Uint8Array[],
): void {
  if (declared === null) return;
  const has = given.map((bytes) => bytes.byteLength).join(", ");
  const wants = declared.map((param) => param.size).join(", ");
  if (has !== wants) throw new Error(`fake driver: ${entry} takes [${wants}] bytes and got [${has}]`);
}
