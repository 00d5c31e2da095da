/** A backend that serves gated products, by schedules and programs of the product of all columns of B. */

import type { Diagnostic, Problem, Schedule, Target, Verdict } from "@tilewright/core";
import { BLOCK_SCALE, dtypes, err, isScaled, ok, roundUp, SCALE_ROWS } from "@tilewright/core";
import type { Backend } from "./backend.ts";
import {
  fieldFaults,
  nearestFaults,
  noSchedule,
  servingQuantized,
  widerSchedules,
} from "./quantizedBackend.ts";
import { BULK_FACTORS, PAIRED_RUN, pairColumns, pairingFault, productOf } from "./tile/gated.ts";
import { commonRows } from "./tile/gemm.ts";

/** Fields of schedules, and what they have to be: partial tiles, transposing kernels, fragments of global memory and instructions that exchange A and B know nothing of pairs of columns. */
const plain: Readonly<Record<string, string>> = {
  split: "1",
  streamk: "0",
  swapAB: "off",
  ctaGroup: "1",
  overlappedColumns: "0",
  tail: "0",
  pair: "off",
  stagedOperands: "ab",
  transpose: "off",
};

/** The same of weights, whose instructions have both sums of a column in one thread, too, where A and B are exchanged. */
const { swapAB: _, ...weighted } = plain;

/** The same of weights whose blocks meet in a cluster, where A and B are exchanged: each block's slice, of rows then, has both sums of its elements. */
const { split: __, ...meeting } = weighted;

/** What fields have to be for a problem, by a schedule. */
function wantedOf({ weights }: Problem, { reduction, swapAB }: Schedule): Readonly<Record<string, string>> {
  if (weights === undefined) return plain;
  return reduction === "cluster" && swapAB === "on" ? meeting : weighted;
}

/** Bits of a column of a chunk: a multiple of these has chunks that end with it. */
const WHOLE_BITS = 1024;

const fault = (at: string, message: string, hint: string): Diagnostic => ({
  code: "TW1907",
  kind: "unsupported",
  at,
  message: `a gated product: ${message}`,
  hint,
});

const unserved = (at: string, message: string, hint: string): Diagnostic => ({
  code: "TW1908",
  kind: "unsupported",
  at,
  message,
  hint,
});

const inTurn =
  "scale factors of B are those of Wg's columns, then those of Wu's, and its columns come in turn";

/** Schedules of which wider ones are made: bulk copies, which not all pairs take, have the first of them. */
const WIDENED = 256;

/** Fewest columns under one factor that schedules have: the search takes half of a tile to lie under half as many factors as the whole, and it lies under up to as many. */
const LEAST_SHARED = 32;

/** Whether half of a tile lies under few squares of factors. */
function hasFewFactors({ blockScales }: Problem, { tile }: Schedule): boolean {
  const half = Array.isArray(tile) ? Number(tile[1]) / 2 : 0;
  return blockScales?.b !== "128x128" || commonRows(half, BLOCK_SCALE) >= Math.min(half, LEAST_SHARED);
}

/** Schedules whose halves are whole blocks of factors, in a ring that fits beside their columns: made of those that are narrower. */
function* wholeBlocks(schedules: Iterable<Schedule>): Iterable<Schedule> {
  const seen = new Set<string>();
  for (const schedule of schedules) {
    if (!Array.isArray(schedule.tile)) continue;
    const [m = 0, n = 0, k = 0] = schedule.tile.map(Number);
    for (let stages = Number(schedule.stages); stages > 0; stages--) {
      const wider = { ...schedule, tile: [m, roundUp(n, 2 * SCALE_ROWS), k], stages };
      const text = JSON.stringify(wider);
      if (!seen.has(text)) yield wider;
      seen.add(text);
    }
  }
}

/** What keeps columns of two factors in turn from being copied. `served`: the backend has bulk tensor copies for them. */
function interleavedFaults({ k, b }: Problem, served: boolean): readonly Diagnostic[] {
  if (!served) {
    const message = "columns of two factors in turn come by bulk tensor copies only";
    return [unserved("problem.gated", message, "use --gated halves, or a backend with bulk tensor copies")];
  }
  const { bits } = dtypes[b.dtype];
  if ((k * bits) % WHOLE_BITS === 0) return [];
  const message = `the last chunk of interleaved columns of ${k} elements goes on into the next column`;
  const hint = `pad k with zeros to a multiple of ${WHOLE_BITS / bits}, or use --gated halves`;
  return [unserved("problem.k", message, hint)];
}

/** The backend with gated products and quantised outputs among what it serves. `more`: what the backend has to say of schedules beside what all have in common; `interleaved`: whether it serves columns in turn; `adapted`: a schedule of the product as pairs take it. */
export function servingGated(
  backend: Backend,
  more: (schedule: Schedule, problem: Problem, target: Target) => readonly Diagnostic[] = () => [],
  interleaved = false,
  adapted: (schedule: Schedule, problem: Problem) => Schedule = (schedule) => schedule,
): Backend {
  const faultsOf = (problem: Problem, schedule: Schedule, target: Target): readonly Diagnostic[] => {
    const product = productOf(problem);
    // D has the columns of one factor, and what lies along them.
    const own = { ...product, n: problem.n };
    const found = [...backend.check(product, schedule, target), ...more(schedule, problem, target)];
    if (found.length === 0) found.push(...backend.check(own, schedule, target));
    found.push(...fieldFaults(backend, schedule, wantedOf(problem, schedule), "pairs of columns", fault));
    if (found.length > 0) return found;
    const program = backend.tile(product, schedule, target);
    const unpaired = pairingFault(program, problem);
    if (unpaired !== null) return [fault("schedule.tile", unpaired, "fewer warps along n, or a wider tile")];
    return [];
  };
  /** Those of the product that can be paired; where its tiles are narrower than a pair, or than blocks of factors of both halves, wider ones. */
  function* pairedSchedules(...[problem, ...rest]: Parameters<Backend["schedules"]>): Iterable<Schedule> {
    const [target] = rest;
    const product = productOf(problem);
    const isPaired = (schedule: Schedule): boolean => faultsOf(problem, schedule, target).length === 0;
    let found = false;
    for (const unpaired of backend.schedules(product, ...rest)) {
      const schedule = adapted(unpaired, problem);
      if (!hasFewFactors(problem, schedule) || !isPaired(schedule)) continue;
      found = true;
      yield schedule;
    }
    if (found) return;
    if (isScaled(problem.a.dtype)) {
      for (const schedule of wholeBlocks(backend.schedules(product, ...rest)))
        if (isPaired(adapted(schedule, problem))) yield adapted(schedule, problem);
      return;
    }
    for (const columns of [2 * PAIRED_RUN, BULK_FACTORS.vectors])
      for (const schedule of widerSchedules(backend.schedules(product, ...rest), columns, WIDENED))
        if (isPaired(schedule)) yield schedule;
  }
  /** A product whose schedules all keep the two sums of an element apart is not served; the one with the fewest faults says why. */
  const servedBySome = (problem: Problem, target: Target): Verdict => {
    for (const _ of pairedSchedules(problem, target)) return ok(true);
    const nearest = nearestFaults(backend.schedules(productOf(problem), target), (schedule) =>
      faultsOf(problem, adapted(schedule, problem), target),
    );
    const hint =
      problem.gated === "interleaved"
        ? "use --gated halves, or rows of A and B at whole 16 bytes"
        : `use another backend${problem.b.layout === "row" ? ", or a column-major B" : ""}`;
    return err([unserved("problem.gated", noSchedule(nearest ?? [], "a gated product: "), hint)]);
  };
  const { kernel } = backend;
  return servingQuantized({
    ...backend,
    accepts(problem, target) {
      const verdict = backend.accepts(productOf(problem), target);
      if (problem.gated === undefined) return verdict;
      const found = verdict.ok ? [] : [...verdict.error];
      if (problem.gated === "interleaved" && (isScaled(problem.a.dtype) || problem.blockScales !== undefined))
        found.push(
          unserved(
            "problem.gated",
            inTurn,
            `use --gated halves${isScaled(problem.a.dtype) ? "" : ", or matrices"}`,
          ),
        );
      if (problem.gated === "interleaved") found.push(...interleavedFaults(problem, interleaved));
      return found.length > 0 ? err(found) : servedBySome(problem, target);
    },
    ...(backend.claims && {
      claims: (problem, target) => backend.claims?.(productOf(problem), target) ?? null,
    }),
    schedules: (problem, ...rest) =>
      problem.gated === undefined ? backend.schedules(problem, ...rest) : pairedSchedules(problem, ...rest),
    ...(kernel && {
      kernel: (problem, schedule, target) => kernel(productOf(problem), schedule, target),
    }),
    check: (problem, schedule, target, inParts) =>
      problem.gated === undefined
        ? backend.check(problem, schedule, target, inParts)
        : faultsOf(problem, schedule, target),
    ...(backend.explain && {
      explain: (problem, schedule, target) => backend.explain?.(productOf(problem), schedule, target) ?? [],
    }),
    tile(problem, schedule, target) {
      const program = backend.tile(productOf(problem), schedule, target);
      return problem.gated === undefined ? program : pairColumns(program, problem);
    },
  });
}
