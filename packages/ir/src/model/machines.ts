/** The GPUs that the model knows, and where each number is from. See machine.ts for the words in brackets. */
import type { Gpu } from "../target.ts";
import type { Machine } from "./machine.ts";

const MiB = 1024 * 1024;

const h200: Machine = {
  gpu: "H200",
  // [data]
  sms: 132,
  boostGHz: 1.98,
  flopsPerCycle: {
    // [isa] four partitions of 32 lanes.
    fma: 4 * 32 * 2,
    // [seen] by the pipe counter: an m16n8k16 in 6.0 cycles a partition, two thirds of what wgmma does.
    mma: (4 * 16 * 8 * 16 * 2) / 6,
    // [isa] m64n256k16 in 128 cycles.
    wgmma: 4096,
  },
  sustained: {
    // [seen] share of the cycles with an issue at all: register banks and fragment loads take the others.
    fma: 0.905,
    // [seen] loops of nothing but mma reach 6.5 of the counter's 6.0 cycles.
    mma: 6 / 6.5,
    // [seen] busy while active, best kernel.
    wgmma: 0.98,
  },
  // [isa] 32 banks of 4 bytes.
  sharedBytes: 128,
  // [seen] the most that any kernel took in: 24 KiB in 335 cycles (tiles of 64 x 128, 4096^3). The path is 64 bytes wide, and equal requests of
  // neighbouring SMs are answered once.
  intakeBytes: 73,
  // [read]
  storeBytes: 64,
  // [derived] see B200.
  copyRequests: 1,
  tensorMemoryBytes: 0,
  // [read] 264 ns from L2 on average (see B200), and as long again for the copy engine, the barrier and the thread that wakes up.
  loadNs: 400,
  // [derived] 150 cycles: a barrier's phase, the branch out of the waiting loop, the first instruction's descriptors.
  handOverNs: 90,
  // [isa] bar.sync of a block and the first fragment's load: about 60 cycles.
  barrierNs: 35,
  // [seen] an empty kernel, from event to event.
  launchNs: 2900,
  // [derived] 4.5 us for launch, start and end together, less the launch.
  startNs: 1200,
  fetchNs: 1000,
  memoryGBs: 4800,
  l2Bytes: 50 * MiB,
  // [seen]
  clusters: { 2: 66, 4: 30 },
  // [data]
  powerCap: 700,
  // [read]
  idleWatts: 120,
  energy: {
    // [derived] what is left of 700 W when the other terms are taken from a profile at the cap: 785 TFLOP/s of wgmma at 1.595 GHz
    // (9.2 TB/s from L2, 15.3 TB/s from shared memory, 0.9 TB/s of DRAM) leave 411 W; 525 TFLOP/s of mma.sync at 1.66 GHz leave 456 W;
    // 54.2 TFLOP/s of FFMA at 1.97 GHz leave 520 W. Random normal data.
    flop: { fma: 4.2, mma: 0.75, wgmma: 0.52 },
    // [read] 5 nm logic and wires.
    sharedByte: 1.5,
    l2Byte: 12,
    // [read] HBM3: 4 pJ a bit, with the way through the chip.
    memoryByte: 40,
  },
};

const h100: Machine = { ...h200, gpu: "H100 SXM", memoryGBs: 3350 };

const b200: Machine = {
  gpu: "B200",
  // [data]
  sms: 148,
  boostGHz: 1.965,
  flopsPerCycle: {
    fma: h200.flopsPerCycle.fma ?? 256,
    // [hopper]
    mma: h200.flopsPerCycle.mma ?? 0,
    // [data] 2250 TFLOP/s at 1.86 GHz.
    tcgen05: 8192,
  },
  sustained: {
    fma: h200.sustained.fma ?? 1,
    mma: h200.sustained.mma ?? 1,
    // [hopper] tensor pipe of the best kernels; 0.96 was published for a Blackwell one.
    tcgen05: 0.98,
  },
  sharedBytes: 128,
  // [hopper]
  intakeBytes: 73,
  storeBytes: 64,
  // [derived] boxes of 16-byte rows: 11 % of the tensor rate, an unpipelined 128x128x64 chunk of 2048 requests in some 2300 cycles.
  copyRequests: 1,
  // [read] 32 lanes of 4 bytes for each of four warps.
  tensorMemoryBytes: 512,
  // [read] L2 answers after 148 ns (near side) to 344 ns (far side); the rest as on Hopper.
  loadNs: 400,
  handOverNs: 90,
  barrierNs: 35,
  // [hopper]
  launchNs: 2900,
  startNs: 1200,
  // [read] about 1 us.
  fetchNs: 1000,
  // [data]
  memoryGBs: 8000,
  l2Bytes: 126 * MiB,
  // [read] pairs fill the GPU; clusters of four strand SMs, how many is not published.
  clusters: { 2: 74 },
  // [data] HGX boards.
  powerCap: 1000,
  // [read] two dies and eight stacks.
  idleWatts: 200,
  // [hopper] tcgen05 takes wgmma's energy.
  energy: { ...h200.energy, flop: { fma: 4.2, mma: 0.75, tcgen05: 0.52 } },
};

// Sustained power of the boards is not published beside the kernels that the model is compared with: the clock stays at boost.
const b300: Machine = { ...b200, gpu: "B300", powerCap: null };

/** Every machine of the model. */
export const machines: readonly Machine[] = [h100, h200, b200, b300];

/** The machine of a GPU; null where nobody has described it. */
export const machineOf = (gpu: Gpu): Machine | null =>
  machines.find((machine) => machine.gpu === gpu.name) ?? null;
