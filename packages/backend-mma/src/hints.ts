/** What ptxas is told of a kernel. */
import { dtypes, launchableRegisters, type Target } from "@tilewright/core";
import { eachStmt, type LaunchHints, type TileProgram } from "@tilewright/ir";

const usesFp8 = ({ buffers }: TileProgram): boolean =>
  buffers.some(
    ({ name, dtype }) => name === "A" && dtypes[dtype].bits === 8 && dtypes[dtype].kind === "float",
  );

/** ptxas shares out the registers of a block evenly, and a kernel of nine warps is then refused by the launch (measured on an H200: error 701). */
function registers({ launch }: TileProgram, target: Target): number | null {
  const { maxRegistersPerThread, registersPerBlock } = target.limits;
  const most = launchableRegisters(launch.threads / 32, target);
  const shared = Math.floor(registersPerBlock / launch.threads / REGISTER_UNIT) * REGISTER_UNIT;
  return most < Math.min(maxRegistersPerThread, shared) ? most : null;
}

/** Registers of a thread are given out in units of 8. */
const REGISTER_UNIT = 8;

const usesBulk = (program: TileProgram): boolean => program.rings.some((ring) => ring.transport === "tma");

/** Threads. */
const SMALL_BLOCK = 128;

/**
 * Left alone, ptxas 13.0 lowers its register aim for small blocks whose fragments are put together from single elements or, of 8-bit floats, widened, and meets it by
 * spilling some (8 bytes at 96 registers, 24 at 128, where 114 and 154 hold all). Where bulk copies bring chunks, and in
 * larger blocks, it fits by itself and, told that one block is enough, spills 52 to 84 at 255. Not where rows are reduced between products: it spills 20 at 64 there, where 87 hold all.
 */
function blocksPerSm(program: TileProgram): number | null {
  const { body, buffers, launch } = program;
  const reduces = eachStmt(body).some(({ kind }) => kind === "reduce.row");
  if (usesBulk(program)) return reduces ? 1 : null;
  if (launch.threads > SMALL_BLOCK) return null;
  const isIn = (name: string, space: string): boolean =>
    buffers.some((b) => b.name === name && b.space === space);
  const bySingles = eachStmt(body).some(
    (s) =>
      s.kind === "copy" &&
      s.transport === "direct" &&
      isIn(s.src.buffer, "shared") &&
      isIn(s.dst.buffer, "register"),
  );
  return reduces || bySingles || usesFp8(program) ? 1 : null;
}

/** Accumulators of a thread beside which two sets of fragments and the addresses of copies leave registers for eight more addresses (ptxas 13.0: 232 of 255). */
const ROOMY = 128;

/**
 * Fragments' addresses are kept where every tile lies inside of its matrices, so that no bounds take registers, and f32 is not taken apart: eight instructions of 96
 * beside the products of a chunk, and 0.9 to 1.2 % of the time at 4096 and 8192 (docs/perf/mma.md).
 */
function keepsFlips({ body, buffers, problem, launch }: TileProgram): boolean {
  const inside = eachStmt(body).every(
    (s) => s.kind !== "copy" || s.transport !== "cp.async" || !s.guard.includes(true),
  );
  const most = Math.max(
    ...eachStmt(body).flatMap((s) => {
      const acc = s.kind === "mma" ? buffers.find((b) => b.name === s.acc.buffer) : undefined;
      return acc === undefined ? [] : [(acc.shape[0] * acc.shape[1]) / launch.threads];
    }),
  );
  return inside && most <= ROOMY && problem.precision !== "3xtf32";
}

/** Of a program of stage machine. */
export const hints = (program: TileProgram, target: Target): LaunchHints => ({
  ctas: blocksPerSm(program),
  maxnreg: registers(program, target),
  keeps: keepsFlips(program) ? ["addresses"] : [],
});
