/** GPUs for the fake driver, with the limits of the real ones (CUDA programming guide, compute capabilities). */
import type { ComputeCapability } from "../../../src/arch.ts";
import type { DeviceAttribute } from "../../../src/cuda/driver.ts";

export interface FakeDevice {
  readonly name: string;
  /** Bytes. Small by default, so that running out of memory can be tested. */
  readonly memory: number;
  readonly attributes: Readonly<Record<DeviceAttribute, number>>;
}

function device(
  name: string,
  cc: ComputeCapability,
  own: Pick<
    FakeDevice["attributes"],
    "multiprocessors" | "maxSmemPerBlock" | "clusterLaunch" | "l2Bytes" | "maxPersistingL2"
  >,
): FakeDevice {
  return {
    name,
    memory: 64 * 2 ** 20,
    attributes: {
      maxThreadsPerBlock: 1024,
      maxBlockX: 1024,
      maxBlockY: 1024,
      maxBlockZ: 64,
      maxGridX: 2 ** 31 - 1,
      maxGridY: 65_535,
      maxGridZ: 65_535,
      defaultSmemPerBlock: 49_152,
      clockRateKHz: 1_980_000,
      memoryClockKHz: 2_619_000,
      memoryBusBits: 5120,
      capabilityMajor: cc[0],
      capabilityMinor: cc[1],
      cooperativeLaunch: 1,
      maxThreadsPerSm: 2048,
      maxAccessWindow: 134_213_632,
      tensorMaps: cc[0] >= 9 ? 1 : 0,
      ...own,
    },
  };
}

export const fakeH200 = device("NVIDIA H200", [9, 0], {
  multiprocessors: 132,
  maxSmemPerBlock: 232_448,
  clusterLaunch: 1,
  l2Bytes: 62_914_560,
  maxPersistingL2: 39_321_600,
});

export const fakeA100 = device("NVIDIA A100-SXM4-40GB", [8, 0], {
  multiprocessors: 108,
  maxSmemPerBlock: 166_912,
  clusterLaunch: 0,
  l2Bytes: 41_943_040,
  maxPersistingL2: 31_457_280,
});

export const fakeV100 = device("Tesla V100-SXM2-16GB", [7, 0], {
  multiprocessors: 80,
  maxSmemPerBlock: 98_304,
  clusterLaunch: 0,
  l2Bytes: 6_291_456,
  maxPersistingL2: 0,
});
