/** A backend that serves gated products, by schedules and programs of the product of all columns of B. */

import type { Diagnostic, Problem, Schedule, Target } from "@tilewright/core";
import { dtypes, err } from "@tilewright/core";
import type { Backend } from "./backend.ts";
import { pairColumns, pairingFault, productOf } from "./tile/gated.ts";

/** Fields of schedules, and what they have to be: partial tiles, transposing kernels, fragments of global memory and instructions that exchange A and B know nothing of pairs of columns. */
const plain: Readonly<Record<string, string>> = {
  split: "1",
  streamk: "0",
  swapAB: "off",
  tail: "0",
  pair: "off",
  stagedOperands: "ab",
  transpose: "off",
};

/** Bits of a column of a chunk: a multiple of these has chunks that end with it. */
const WHOLE_BITS = 1024;

const fault = (at: string, message: string, hint: string): Diagnostic => ({
  code: "TW1907",
  kind: "unsupported",
  at,
  message: `a gated product: ${message}`,
  hint,
});

/** `more`: what the backend has to say of schedules beside what all have in common; `interleaved`: whether it serves columns in turn. */
export function servingGated(
  backend: Backend,
  more: (schedule: Schedule, problem: Problem) => readonly Diagnostic[] = () => [],
  interleaved = false,
): Backend {
  const faultsOf = (problem: Problem, schedule: Schedule, target: Target): readonly Diagnostic[] => {
    const product = productOf(problem);
    // D has the columns of one factor, and what lies along them.
    const own = { ...product, n: problem.n };
    const found = [...backend.check(product, schedule, target), ...more(schedule, problem)];
    if (found.length === 0) found.push(...backend.check(own, schedule, target));
    for (const field of backend.schedule.fields) {
      const wanted = plain[field.name];
      const value = schedule[field.name];
      if (wanted === undefined || value === undefined || field.print(value) === wanted) continue;
      found.push(
        fault(
          `schedule.${field.name}`,
          `pairs of columns need ${field.name}=${wanted}`,
          `nearest legal: ${field.name}=${wanted}`,
        ),
      );
    }
    if (found.length > 0) return found;
    const program = backend.tile(product, schedule, target);
    const unpaired = pairingFault(program, problem);
    if (unpaired !== null) return [fault("schedule.tile", unpaired, "fewer warps along n, or a wider tile")];
    return [];
  };
  return {
    ...backend,
    accepts(problem, target) {
      const verdict = backend.accepts(productOf(problem), target);
      const bits = problem.k * dtypes[problem.b.dtype].bits;
      if (problem.gated !== "interleaved" || (interleaved && bits % WHOLE_BITS === 0)) return verdict;
      if (!interleaved) {
        const message = "columns of two factors in turn come by bulk tensor copies only";
        const hint = "use --gated halves, or a backend with bulk tensor copies";
        const none: Diagnostic = { code: "TW1908", kind: "unsupported", at: "problem.gated", message, hint };
        return err([...(verdict.ok ? [] : verdict.error), none]);
      }
      const found: Diagnostic = {
        code: "TW1908",
        kind: "unsupported",
        at: "problem.k",
        message: `the last chunk of interleaved columns of ${problem.k} elements goes on into the next column`,
        hint: `pad k with zeros to a multiple of ${WHOLE_BITS / dtypes[problem.b.dtype].bits}, or use --gated halves`,
      };
      return err([...(verdict.ok ? [] : verdict.error), found]);
    },
    ...(backend.claims && {
      claims: (problem, target) => backend.claims?.(productOf(problem), target) ?? null,
    }),
    *schedules(problem, target, machine) {
      for (const schedule of backend.schedules(productOf(problem), target, machine))
        if (problem.gated === undefined || faultsOf(problem, schedule, target).length === 0) yield schedule;
    },
    ...(backend.kernel && {
      kernel: (problem, schedule, target) => backend.kernel?.(productOf(problem), schedule, target) as never,
    }),
    check: (problem, schedule, target) =>
      problem.gated === undefined
        ? backend.check(problem, schedule, target)
        : faultsOf(problem, schedule, target),
    ...(backend.explain && {
      explain: (problem, schedule, target) => backend.explain?.(productOf(problem), schedule, target) ?? [],
    }),
    tile(problem, schedule, target) {
      const program = backend.tile(productOf(problem), schedule, target);
      return problem.gated === undefined ? program : pairColumns(program, problem);
    },
  };
}
