/**
 * Ladders: a kernel built up from schedules alone, each of which changes a few fields of the one before, so that the difference between
 * two neighbours is what that change is worth. Data of a backend; the command line runs them.
 */
import type { Checked, Feature, Schedule, ScheduleField, ScheduleModel } from "@tilewright/core";
import { ok } from "@tilewright/core";
import { parseSchedule } from "./schedule/codec.ts";

export interface LadderStep {
  /** A word or two: `ldmatrix`. */
  readonly name: string;
  /** What changes, in a sentence. */
  readonly summary: string;
  /** Fields that change, as schedule text. The first step states all that is not at its default. */
  readonly change: string;
}

export interface Ladder {
  /** Short name, one of its backend: `hgemm`. */
  readonly name: string;
  readonly summary: string;
  /** What a target has to have for its steps, beside what the backend asks. */
  readonly needs?: Feature;
  /** dtypes and layouts of its problem, in the words of `defineProblem`, without the sizes. */
  readonly request: Readonly<Record<string, unknown>>;
  /** m, n and k for a GPU, where every step shall matter, and for the emulator, which shall need seconds. */
  readonly sizes: {
    readonly gpu: readonly [number, number, number];
    readonly emulator: readonly [number, number, number];
  };
  readonly steps: readonly LadderStep[];
}

/** Steps, one a line: `name | summary | change`. */
export const ladderSteps = (text: string): readonly LadderStep[] =>
  text
    .trim()
    .split("\n")
    .map((line) => {
      const [name = "", summary = "", change = ""] = line.trim().split(" | ");
      return { name, summary, change };
    });

/**
 * A schedule as steps: first with all of its optimisations off that can be off together, then each of them switched on, in the order of the model. `legal`: whether a
 * schedule makes a kernel.
 */
export function ladderTo(
  model: ScheduleModel,
  best: Schedule,
  legal: (schedule: Schedule) => boolean,
): readonly LadderStep[] {
  const word = (field: ScheduleField, from: Schedule): string =>
    `${field.name}=${field.print(from[field.name] ?? field.default)}`;
  const on = model.fields.filter(
    (field) => field.off !== null && word(field, best) !== word(field, without(best, [field])),
  );
  const all = without(best, on);
  const off = legal(all)
    ? on
    : [...on].reverse().reduce<readonly ScheduleField[]>((these, field) => {
        const more = these.concat(field);
        return legal(without(best, more)) ? more : these;
      }, []);
  const plain = without(best, off);
  const steps = model.fields.filter((field) => off.includes(field));
  return [
    {
      name: "plain",
      summary: "with every optimisation off that the schedule can do without",
      change: model.fields.map((field) => word(field, plain)).join(" "),
    },
    ...steps.map((field, i) => {
      const [before, after] = [without(best, steps.slice(i)), without(best, steps.slice(i + 1))];
      return {
        name: field.name,
        summary: field.summary,
        change: model.fields
          .filter((each) => word(each, before) !== word(each, after))
          .map((each) => word(each, after))
          .join(" "),
      };
    }),
  ];
}

/** The schedule with these fields at their off values, the last first. */
function without(schedule: Schedule, fields: readonly ScheduleField[]): Schedule {
  let rest = schedule;
  for (const field of fields.toReversed())
    rest = { ...rest, ...(field.without?.(rest) ?? { [field.name]: field.off ?? field.default }) };
  return rest;
}

/** The steps' schedules, in order. Errors are those of the codec: a ladder that its model does not know. */
export function ladderSchedules(model: ScheduleModel, ladder: Ladder): Checked<readonly Schedule[]> {
  const fields = new Map<string, string>();
  const schedules: Schedule[] = [];
  for (const { change } of ladder.steps) {
    for (const word of change.split(/\s+/).filter((part) => part !== "")) fields.set(nameOf(word), word);
    const parsed = parseSchedule(model, [...fields.values()].join(" "));
    if (!parsed.ok) return parsed;
    schedules.push(parsed.value);
  }
  return ok(schedules);
}

const nameOf = (word: string): string => word.split("=")[0] ?? word;
