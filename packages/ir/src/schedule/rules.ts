/** Legality as a table: what a backend's rules find wrong with a schedule, as diagnostics. */
import type { Diagnostic, Problem, Schedule, ScheduleModel, Target } from "@tilewright/core";

/** What a rule finds. `unsupported`: nothing is malformed, but the backend does not do it. */
export interface ScheduleFault {
  readonly message: string;
  readonly hint: string;
  readonly unsupported?: boolean;
}

/** One rule about subjects `S` (a schedule with its problem and target): what is wrong, as often as it is, or null. The code is the rule's own. */
export interface ScheduleRule<S> {
  readonly code: Diagnostic["code"];
  readonly at: string;
  readonly find: (subject: S) => ScheduleFault | readonly ScheduleFault[] | null;
}

/** Makes the rows of a backend's table: the code, the field of its model that is at fault, and what is found. */
export const rulesOf =
  <S, M extends ScheduleModel>() =>
  (
    code: Diagnostic["code"],
    field: M["fields"][number]["name"],
    find: ScheduleRule<S>["find"],
  ): ScheduleRule<S> => ({ code, at: `schedule.${field}`, find });

/** Reasons in the order of the rules, each looked for when it is asked for: the first decides whether a schedule is legal. */
export function* ruleFaults<S>(rules: readonly ScheduleRule<S>[], subject: S): Generator<Diagnostic> {
  for (const { code, at, find } of rules) {
    const found = find(subject);
    if (found === null) continue;
    for (const { message, hint, unsupported } of "message" in found ? [found] : found)
      yield { code, kind: unsupported ? "unsupported" : "invalid", at, message, hint };
  }
}

/** `inParts`: of a program that takes an axis in parts, whose tiles shared memory has in place of those as wide as D's. */
type Asked<T> = (problem: Problem, schedule: Schedule, target: Target, inParts?: boolean) => T;

/** What a backend answers about a schedule for a problem and a target: both from one list of reasons. */
export interface Legality {
  /** Every reason why the schedule is illegal; none when it is legal. */
  readonly checkSchedule: Asked<readonly Diagnostic[]>;
  /** Whether it is legal: the first reason against it is enough. */
  readonly isLegal: Asked<boolean>;
}

/** Both answers of a backend whose reasons are these, each looked for when it is asked for. */
export const legality = (faultsOf: Asked<Generator<Diagnostic>>): Legality => ({
  checkSchedule: (...asked) => [...faultsOf(...asked)],
  isLegal: (...asked) => faultsOf(...asked).next().done === true,
});

/** The multiple of `unit`, at least one of it, that is closest to a value. */
export const nearestMultiple = (value: number, unit: number): number =>
  Math.max(1, Math.round(value / unit)) * unit;
