/** How a compiled kernel fills an SM, and the time that the machine model predicts for it. */
import { dtypes, type Gpu, launchableRegisters, occupancy } from "@tilewright/core";
import {
  type Artifact,
  type Machine,
  machineOf,
  type Prediction,
  predictProgram,
  registersPerThread,
  type TileProgram,
} from "@tilewright/ir";

/**
 * Registers beside tiles: pointers, addresses, predicates, counters. ptxas 13.0 takes 20 to 40 of them for kernels of this shape
 * (measured over the SIMT backend's conformance schedules); the upper end, so that occupancy is not promised too high.
 */
const overheadRegisters = 40;

function registersOf(program: TileProgram): number {
  const tiles = program.buffers.map(({ own, slots, dtype }) =>
    own === null ? 0 : Math.ceil((registersPerThread(own) * slots * dtypes[dtype].bits) / 32),
  );
  return tiles.reduce((sum, count) => sum + count, overheadRegisters);
}

/** How the main kernel of an artefact fills an SM, and what for: registers are estimated from the program. */
export function fitOf({ target, program, kernels }: Artifact) {
  const kernel = kernels.find(({ role }) => role === "main");
  if (kernel === undefined) throw new TypeError("an artefact has a kernel");
  const threads = kernel.launch.block.reduce((product, extent) => product * extent, 1);
  const smem = kernel.launch.dynamicSmem + kernel.launch.staticSmem;
  // No more than a block of so many threads launches with: ptxas is told the threads, and spills what is beyond.
  const registers = Math.min(registersOf(program), launchableRegisters(Math.ceil(threads / 32), target));
  return { kernel, registers, smem, fit: occupancy({ threads, registers, smem }, target) };
}

/** A prediction, not a measurement, of the program as it stands: docs/perf/model.md says how near it is. */
export const predictionOfArtifact = (artifact: Artifact, machine: Machine): Prediction | null =>
  predictProgram(artifact.program, artifact.problem, machine, fitOf(artifact).fit.blocksPerSm);

/** The time that the machine model predicts on a GPU; null where it has no numbers. */
export const predictFor = (artifact: Artifact, gpu: Gpu): Prediction | null =>
  predictionOfArtifact(artifact, machineOf(gpu));
