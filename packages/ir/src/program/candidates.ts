/** Schedules of a program over named axes: those of its product that compiling tries, and candidates to measure, which its other statements go with. */
import { type Checked, ok, type Schedule, type ScheduleModel, type Target } from "@tilewright/core";
import type { Backend } from "../backend.ts";
import type { Machine } from "../model/machine.ts";
import type { Plan } from "../plans.ts";
import type { Candidate } from "../rank.ts";
import { printSchedule } from "../schedule/codec.ts";
import { nestsOf, servedBy } from "./nests.ts";
import { parseAxisProgram } from "./parse.ts";
import { scheduleProgram } from "./schedule.ts";
import type { AxisProgram } from "./types.ts";

/** Schedules of a program's product that are tried on the program, of each backend. */
export const MOST_TRIED = 24;

/**
 * Schedules of its product that a program over named axes is tried with, of each backend that serves it, in the order in which compiling takes the first that goes with its other statements.
 * Errors: those of a program that has no place in tiles, and why no backend serves it.
 */
export function programPlans(
  backends: readonly Backend[],
  source: AxisProgram,
  target: Target,
  machine?: Machine,
): Checked<readonly Plan[]> {
  const served = servedBy(backends, source, target);
  if (!served.ok) return served;
  const { anchor, able } = served.value;
  return ok(
    able.flatMap((backend) => {
      const plans = new Map<string, Plan>();
      for (const { plan } of nestsOf(backend, anchor, { target, machine }, null)) {
        if (plan !== null) plans.set(plan.text, plan);
        if (plans.size === MOST_TRIED) break;
      }
      return [...plans.values()];
    }),
  );
}

/** How many times as fast as a backend's engine another one's may be. */
const FASTER = 4;

/** Schedules of a backend that are varied field by field. */
const VARIED = 3;

/**
 * The candidates of all backends for a program over axes whose engines are fast enough, lazily, the backends in turn: of each in the order in which the compiler tries them, the first ones followed by those that differ in one field.
 * None has a prediction: that is of a program of stage machine, and that passes take a schedule is known when it is compiled.
 */
export function* programCandidates(
  backends: readonly Backend[],
  text: string,
  target: Target,
  machine: Machine,
): Generator<Candidate> {
  const source = parseAxisProgram(text);
  const served = source.ok ? servedBy(backends, source.value, target) : source;
  if (!source.ok || !served.ok) return;
  const program = source.value;
  const { anchor: product, able } = served.value;
  const { problem } = product;
  const nests = (backend: Backend, given: readonly Plan[] | null) =>
    nestsOf(backend, product, { target, machine }, given);
  /** Plans whose tiles hold what the program wants of them. */
  function* fitting(backend: Backend, given: readonly Plan[] | null): Generator<Candidate> {
    for (const { base, plan, chain } of nests(backend, given)) {
      const options = { fewer: 0, split: Number(plan?.schedule.split ?? 1), chain };
      if (plan !== null && scheduleProgram(program, product, base, options) !== null)
        yield { ...plan, prediction: null };
    }
  }
  function* varied(backend: Backend): Generator<Candidate> {
    let count = 0;
    for (const candidate of fitting(backend, null)) {
      yield candidate;
      if (count++ >= VARIED) continue;
      for (const schedule of neighbours(backend.schedule, candidate.schedule))
        if (backend.check(problem, schedule, target, true).length === 0)
          yield* fitting(backend, [{ backend, schedule, text: printSchedule(backend.schedule, schedule) }]);
    }
  }
  const seen = new Set<string>();
  const rateOf = ({ engine }: Backend): number =>
    engine === undefined ? Number.POSITIVE_INFINITY : (machine.flopsPerCycle[engine] ?? 0);
  const fastest = Math.max(...able.map(rateOf));
  let turns = able.filter((backend) => rateOf(backend) * FASTER >= fastest).map(varied);
  while (turns.length > 0) {
    const next = turns.map((turn) => ({ turn, result: turn.next() }));
    turns = next.flatMap(({ turn, result }) => (result.done ? [] : [turn]));
    for (const { result } of next) {
      if (result.done) continue;
      const key = `${result.value.backend.id} ${result.value.text}`;
      if (!seen.has(key)) yield result.value;
      seen.add(key);
    }
  }
}

/** Schedules that differ in one field: by another of its words, or by one where it is a number. */
const neighbours = ({ fields }: ScheduleModel, schedule: Schedule): readonly Schedule[] =>
  fields.flatMap((field) => {
    const value = schedule[field.name] ?? field.default;
    const numbers = typeof value === "number" ? [value + 1, value - 1].map(String) : [];
    return [...field.syntax.split("|"), ...numbers].flatMap((word) => {
      const other = field.parse(word);
      return other === null || field.print(other) === field.print(value)
        ? []
        : [{ ...schedule, [field.name]: other }];
    });
  });
