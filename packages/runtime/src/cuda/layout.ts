/**
 * C structures of the driver API as bytes (x86-64 and AArch64: little-endian, natural alignment), from cuda.h.
 * Pointers inside them are raw addresses: whoever packs one keeps what it points to alive until the call has returned.
 */
import type { CudaLaunchConfig } from "./driver.ts";

/** `CUlaunchAttributeID`. */
const cooperativeAttribute = 2;
const clusterAttribute = 4;

/** `CUlaunchAttribute`: id (4), padding (4), a union of 64 bytes. */
const attributeBytes = 72;
const valueOffset = 8;

/** `CUlaunchConfig`: seven u32 (28), padding (4), hStream (8), attrs (8), numAttrs (4), padding (4). */
const configBytes = 56;

/** The launch attributes of a config, and how many they are. */
export function packAttributes(config: CudaLaunchConfig): {
  readonly bytes: Uint8Array;
  readonly count: number;
} {
  const bytes = new Uint8Array(2 * attributeBytes);
  const view = new DataView(bytes.buffer);
  let count = 0;
  if (config.cluster !== null) {
    const at = attributeBytes * count++;
    view.setUint32(at, clusterAttribute, true);
    config.cluster.forEach((extent, axis) => {
      view.setUint32(at + valueOffset + 4 * axis, extent, true);
    });
  }
  if (config.cooperative) {
    const at = attributeBytes * count++;
    view.setUint32(at, cooperativeAttribute, true);
    view.setInt32(at + valueOffset, 1, true);
  }
  return { bytes, count };
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

/** Text up to the first NUL byte. */
export function textOf(bytes: Uint8Array): string {
  const end = bytes.indexOf(0);
  return new TextDecoder().decode(end === -1 ? bytes : bytes.subarray(0, end));
}
