/**
 * C structures of the driver API as bytes (x86-64 and AArch64: little-endian, natural alignment), from cuda.h.
 * Pointers inside them are raw addresses: whoever packs one keeps what it points to alive until the call has returned.
 */
import { accessProperty, type CudaAccessWindow, type CudaLaunchConfig } from "./driver.ts";

/** `CUlaunchAttributeID`. */
const launchAttribute = {
  accessPolicyWindow: 1,
  cooperative: 2,
  clusterDimension: 4,
  programmaticStreamSerialization: 6,
  priority: 8,
  preferredClusterDimension: 11,
} as const;

/** `CUlaunchAttribute`: id (4), padding (4), a union of 64 bytes. */
const attributeBytes = 72;
const valueOffset = 8;

/** `CUlaunchConfig`: seven u32 (28), padding (4), hStream (8), attrs (8), numAttrs (4), padding (4). */
const configBytes = 56;

type WriteValue = (view: DataView, at: number) => void;

const dimension =
  (dim: readonly [number, number, number]): WriteValue =>
  (view, at) =>
    dim.forEach((extent, axis) => {
      view.setUint32(at + 4 * axis, extent, true);
    });
const word =
  (value: number): WriteValue =>
  (view, at) =>
    view.setInt32(at, value, true);
/** `CUaccessPolicyWindow`: base_ptr (8), num_bytes (8), hitRatio (4), hitProp (4), missProp (4). */
const accessWindow =
  (window: CudaAccessWindow): WriteValue =>
  (view, at) => {
    view.setBigUint64(at, window.address, true);
    view.setBigUint64(at + 8, BigInt(window.bytes), true);
    view.setFloat32(at + 16, window.hitRatio, true);
    view.setInt32(at + 20, accessProperty[window.hit], true);
    view.setInt32(at + 24, accessProperty[window.miss], true);
  };

/** The launch attributes of a config, and how many they are. */
export function packAttributes(config: CudaLaunchConfig): {
  readonly bytes: Uint8Array;
  readonly count: number;
} {
  const { cluster, preferredCluster = null, accessWindow: window = null, priority = null } = config;
  const values: (readonly [id: number, write: WriteValue])[] = [];
  if (cluster !== null) values.push([launchAttribute.clusterDimension, dimension(cluster)]);
  if (preferredCluster !== null)
    values.push([launchAttribute.preferredClusterDimension, dimension(preferredCluster)]);
  if (config.cooperative) values.push([launchAttribute.cooperative, word(1)]);
  if (config.programmatic === true) values.push([launchAttribute.programmaticStreamSerialization, word(1)]);
  if (priority !== null) values.push([launchAttribute.priority, word(priority)]);
  if (window !== null) values.push([launchAttribute.accessPolicyWindow, accessWindow(window)]);
  // Never empty: its address is taken.
  const view = new DataView(new ArrayBuffer(attributeBytes * Math.max(1, values.length)));
  values.forEach(([id, write], index) => {
    view.setUint32(attributeBytes * index, id, true);
    write(view, attributeBytes * index + valueOffset);
  });
  return { bytes: new Uint8Array(view.buffer), count: values.length };
}

/** `CUlaunchConfig` with its attributes at address `attributes`. */
export function packConfig(config: CudaLaunchConfig, attributes: bigint, count: number): Uint8Array {
  const bytes = new Uint8Array(configBytes);
  const view = new DataView(bytes.buffer);
  [...config.grid, ...config.block, config.dynamicSmem].forEach((word, index) => {
    view.setUint32(4 * index, word, true);
  });
  view.setBigUint64(32, config.stream, true);
  view.setBigUint64(40, count === 0 ? 0n : attributes, true);
  view.setUint32(48, count, true);
  return bytes;
}

/** `CUjit_option`. */
const jitOption = { infoLog: 3, infoLogBytes: 4, errorLog: 5, errorLogBytes: 6, logVerbose: 12 } as const;

/** Option ids (i32) and values (8 bytes each) for a load that writes both logs; `size` is the bytes of each log buffer. */
export function packJitOptions(
  infoLog: bigint,
  errorLog: bigint,
  size: number,
): { readonly count: number; readonly ids: Uint8Array; readonly values: Uint8Array } {
  const options: readonly (readonly [id: number, value: bigint])[] = [
    [jitOption.infoLog, infoLog],
    [jitOption.infoLogBytes, BigInt(size)],
    [jitOption.errorLog, errorLog],
    [jitOption.errorLogBytes, BigInt(size)],
    [jitOption.logVerbose, 1n],
  ];
  const ids = new DataView(new ArrayBuffer(4 * options.length));
  const values = new DataView(new ArrayBuffer(8 * options.length));
  options.forEach(([id, value], index) => {
    ids.setInt32(4 * index, id, true);
    values.setBigUint64(8 * index, value, true);
  });
  return { count: options.length, ids: new Uint8Array(ids.buffer), values: new Uint8Array(values.buffer) };
}

/** 64-bit words, as C reads an array of `cuuint64_t`. At least one, because a pointer to it is passed. */
export function packU64(values: readonly number[]): Uint8Array {
  return new Uint8Array(BigUint64Array.from(values.length === 0 ? [0n] : values.map(BigInt)).buffer);
}

/** 32-bit words. */
export function packU32(values: readonly number[]): Uint8Array {
  return new Uint8Array(Uint32Array.from(values).buffer);
}

/** Text up to the first NUL byte. */
export function textOf(bytes: Uint8Array): string {
  const end = bytes.indexOf(0);
  return new TextDecoder().decode(end === -1 ? bytes : bytes.subarray(0, end));
}
