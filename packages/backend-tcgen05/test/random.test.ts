/** Random legal schedules: the proof holds, the text is what was proven, and ptxas takes it for both chips and for their family. A sample, or 300 with TILEWRIGHT_SLOW=1. */
import { assemble, hasPtxas, pick, targetOf } from "@tilewright/conformance";
import {
  createRandom,
  type DType,
  dtypes,
  type Problem,
  printProblem,
  type Random,
  readProblemRequest,
} from "@tilewright/core";
import { printSchedule, proveProtocol, runPasses } from "@tilewright/ir";
import { expect, it } from "vitest";
import { tcgen05 } from "../src/index.ts";
import { randomSchedule } from "./support/cases.ts";

const slow = process.env.TILEWRIGHT_SLOW === "1";
const COUNT = slow ? 300 : 8;
const targets = [targetOf("sm_100a"), targetOf("sm_103a"), targetOf("sm_100f")] as const;
/** Text for the family runs on either chip, so either is what it is assembled for. */
const chipOf = (arch: string, seed: number): string =>
  arch === "sm_100f" ? (seed % 2 === 0 ? "sm_100a" : "sm_103a") : arch;

/** Sizes of a few tiles with tails, leading dimensions that bulk copies can take, and many K chunks. */
function problemAt(rng: Random): Problem {
  const dtype = pick<DType>(rng, [
    "bf16",
    "f16",
    "tf32",
    "e4m3",
    "s8",
    "e2m1",
    "e3m2",
    "mxf8",
    "mxf4",
    "nvf4",
  ]);
  const size = (most: number): number => 8 * rng.integer(1, most / 8);
  const [m, n, k] = [size(1500), size(1500), 512 * rng.integer(4, 8)];
  // Bulk copies want rows of whole 16 bytes: both layouts of 16-bit types, K-contiguous ones of the others.
  const both = dtypes[dtype].bits === 16;
  const request = {
    m,
    n,
    k,
    a: { dtype, layout: both && m % 8 === 0 ? pick(rng, ["row", "col"]) : "row", align: 32 },
    b: { dtype, layout: both && n % 8 === 0 ? pick(rng, ["row", "col"]) : "col", align: 32 },
    d: { dtype: dtypes[dtype].out, align: 16 },
  };
  const problem = readProblemRequest(request);
  if (!problem.ok) throw new TypeError(JSON.stringify(problem.error));
  return problem.value;
}

it.each(Array.from({ length: COUNT }, (_, seed) => seed))("seed %i", { timeout: 600_000 }, (seed) => {
  const rng = createRandom(1000 + seed);
  const problem = problemAt(rng);
  const schedule = randomSchedule(rng, problem, targets[0]);
  const name = `${printProblem(problem)}\n${printSchedule(tcgen05.schedule, schedule)}`;
  for (const target of targets) {
    // What there is on both chips, and in their family, is one program; kind i8 is on the first only.
    if (!tcgen05.accepts(problem, target).ok) continue;
    expect(tcgen05.check(problem, schedule, target), name).toEqual([]);
    const bound = runPasses(tcgen05.tile(problem, schedule, target), target, tcgen05.passes);
    if (!bound.ok) throw new TypeError(`${name}: ${JSON.stringify(bound.error)}`);
    if (target === targets[0]) expect(proveProtocol(bound.value, target), name).toEqual([]);
    const lowered = tcgen05.lower(bound.value, target);
    if (!lowered.ok) throw new TypeError(`${name}: not lowered`);
    if (hasPtxas) expect(assemble(lowered.value.ptx, chipOf(target.arch, seed)).faults, name).toEqual([]);
  }
});
