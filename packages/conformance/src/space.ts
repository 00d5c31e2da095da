/** The schedule space of a backend: every schedule in it either compiles or is refused with reasons that say what would do. */
import {
  createRandom,
  type Diagnostic,
  formatDiagnostic,
  type Problem,
  type Random,
  type Schedule,
  type ScheduleField,
  type Target,
} from "@tilewright/core";
import {
  type Backend,
  type Compiler,
  createCompiler,
  defaultSchedule,
  parseSchedule,
  printSchedule,
} from "@tilewright/ir";
import { expect, test } from "vitest";
import { everything } from "./build.ts";
import { pick, problemOf, targetOf } from "./random.ts";

export interface SpaceOptions {
  readonly arch: string;
  /** Requests, each with sizes that need no large grid: legality asks for no size, and compiling a small problem is quick. */
  readonly problems: readonly [object, ...object[]];
  readonly seed: number;
  /** Schedules beside those that change one field of the default; ten times as many with TILEWRIGHT_SLOW=1. */
  readonly count: number;
  /** One value of the fields of so many, others for the next problem; all unless given, and with TILEWRIGHT_SLOW=1. */
  readonly sample?: number;
}

/** Parts of tuples: powers of two, their odd neighbours, and what divides nothing. */
const PARTS = [1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256] as const;
const INTEGERS = [0, 1, 2, 3, 4, 5, 7, 8, 16, 33, 64] as const;

/** Texts that a field may take, from its syntax: all of its words, small integers, its bounds, some tuples. */
function textsOf({ syntax, parse }: ScheduleField, random: Random): readonly string[] {
  const alternatives = syntax.split("|");
  const bounds = syntax.match(/\d+/g) ?? [];
  const tuple = /^[A-Z]+(?:([x+/])[A-Z]+)+/.exec(syntax);
  const ranks = tuple ? (tuple[0].match(/[A-Z]+/g) ?? []).length : 0;
  const tuples = Array.from({ length: ranks > 0 ? 12 : 0 }, () =>
    Array.from({ length: ranks }, () => pick(random, PARTS)).join(tuple?.[1] ?? "x"),
  );
  const grouped = alternatives.flatMap((word) =>
    word.endsWith(":G") ? [1, 2, 8].map((g) => word.replace("G", String(g))) : [],
  );
  const candidates = [...alternatives, ...bounds, ...INTEGERS.map(String), ...tuples, ...grouped];
  return [...new Set(candidates)].filter((text) => parse(text) !== null);
}

/** The default with each field at each of its values; own schedules of the backend with a few fields changed; fields all at random. */
function* schedulesOf(
  backend: Backend,
  problem: Problem,
  target: Target,
  random: Random,
  count: number,
  [turn, of]: readonly [turn: number, of: number],
): Generator<Schedule> {
  const { fields } = backend.schedule;
  const values = (field: ScheduleField) =>
    textsOf(field, random).flatMap((text) => {
      const value = field.parse(text);
      return value === null ? [] : [value];
    });
  const base = defaultSchedule(backend.schedule);
  const alone = fields.flatMap((field) => values(field).map((value) => ({ ...base, [field.name]: value })));
  yield* alone.filter((_, i) => i % of === turn % of);
  const own: Schedule[] = [];
  for (const schedule of backend.schedules(problem, target)) if (own.push(schedule) >= 8) break;
  const [first = base, ...others] = own;
  for (let i = 0; i < count; i++) {
    const start = pick(random, [first, ...others]);
    const changes = random.integer(0, 4) === 0 ? fields.length : random.integer(1, 3);
    const changed: Record<string, Schedule[string]> = { ...start };
    for (let c = 0; c < changes; c++) {
      const field = fields[changes === fields.length ? c : random.integer(0, fields.length - 1)];
      const [value, ...more] = field ? values(field) : [];
      if (field && value !== undefined) changed[field.name] = pick(random, [value, ...more]);
    }
    yield changed;
  }
}

interface ProblemInput {
  readonly problem: Problem;
  readonly target: Target;
  readonly schedule: Schedule;
}

/** What is wrong with a refusal: a reason without its hint, or a hint that names a value which the field does not take. */
function faultsOfRefusal(backend: Backend, reasons: readonly Diagnostic[]): readonly string[] {
  return reasons.flatMap((reason) => {
    const text = formatDiagnostic(reason);
    if (!/^TW\d{4}$/.test(reason.code) || reason.message === "" || !reason.hint)
      return [`unexplained: ${text}`];
    const advice = [...(reason.hint ?? "").matchAll(/\b([a-z]+)=([\w.:x+/-]*\w)/g)];
    return advice.flatMap(([, name, value]) => {
      const field = backend.schedule.fields.find((f) => f.name === name);
      return field && field.parse(value ?? "") === null ? [`a hint with ${name}=${value}: ${text}`] : [];
    });
  });
}

/** Of the refused schedules one in so many is asked for the nearest legal one, which takes some hundred checks. */
const ASKED = 150;

/** What is wrong with the legal schedule that stands behind the reasons against another. */
function faultsOfNearest(compiler: Compiler, backend: Backend, input: ProblemInput): readonly string[] {
  const made = compiler.compile(input);
  const nearest = made.ok ? undefined : made.error.at(-1);
  const [, text] = /^nearest legal schedule: (.*)$/.exec(nearest?.hint ?? "") ?? [];
  if (text === undefined) return ["no nearest legal schedule"];
  const parsed = parseSchedule(backend.schedule, text);
  const reasons = parsed.ok ? backend.check(input.problem, parsed.value, input.target) : parsed.error;
  return reasons.map((reason) => `${text} is said to be legal: ${formatDiagnostic(reason)}`);
}

/** A test that walks the space. A legal schedule compiles, every pass verified; nothing throws; both kinds occur. */
export function scheduleSpace(backend: Backend, options: SpaceOptions): void {
  const target = targetOf(options.arch);
  const compiler = createCompiler({ backends: [backend] });
  const count = options.count * (everything ? 10 : 1);
  const sample = everything ? 1 : (options.sample ?? 1);
  test.each(
    options.problems.map(
      (request, turn) => [JSON.stringify(request).replaceAll('"', ""), request, turn] as const,
    ),
  )(
    `every schedule of the ${backend.id} backend on ${options.arch} is legal or refused with reasons: %s`,
    (_name, request, turn) => {
      const problem = problemOf(request);
      const random = createRandom(options.seed);
      const faults: string[] = [];
      let [legal, refused] = [0, 0];
      const seen = new Set<string>();
      for (const schedule of schedulesOf(backend, problem, target, random, count, [turn, sample])) {
        const text = printSchedule(backend.schedule, schedule);
        // The default comes once for each field.
        if (seen.has(text)) continue;
        seen.add(text);
        const again = parseSchedule(backend.schedule, text);
        if (!again.ok) faults.push(`${text} does not parse back`);
        const reasons = backend.check(problem, schedule, target);
        if (reasons.length > 0) {
          refused++;
          if (refused % ASKED === 0)
            faults.push(
              ...faultsOfNearest(compiler, backend, { problem, target, schedule }).map(
                (fault) => `${text}\n${fault}`,
              ),
            );
          faults.push(...faultsOfRefusal(backend, reasons).map((fault) => `${text}\n${fault}`));
          continue;
        }
        legal++;
        try {
          const made = compiler.compile({ problem, target, schedule, verify: "each" });
          if (!made.ok) faults.push(`${text}\n${made.error.map(formatDiagnostic).join("\n")}`);
        } catch (thrown) {
          faults.push(`${text}\nthrew ${thrown instanceof Error ? thrown.message : thrown}`);
        }
      }
      expect(faults).toEqual([]);
      expect(legal).toBeGreaterThan(10);
      expect(refused).toBeGreaterThan(10);
    },
  );
}
