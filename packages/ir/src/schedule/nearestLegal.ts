/** The legal schedule nearest to one that is not: what to write instead of all of it, where the reasons name what is wrong field by field. */
import type { Diagnostic, FieldValue, Schedule, ScheduleField, ScheduleModel } from "@tilewright/core";

/** Schedules that are gone on from at a time, and steps after which the search is given up: each step changes one number or word. */
const BEAM = 6;
const STEPS = 8;

/** Numbers that fields are often set to: small counts, then multiples of 8 in steps that grow. */
const COMMON = [
  0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 232, 240, 256,
  320, 384, 512,
] as const;

/** A field that holds its default was hardly chosen: to change it counts for less. */
const DEFAULTED = 0.5;

/** What a reason weighs against distance: any change is better than one reason more. */
const REASON = 100;

export interface Legality {
  /** Every reason why a schedule is illegal; none when it is legal. */
  readonly check: (schedule: Schedule) => readonly Diagnostic[];
  /** Schedules that are legal, best first: what is left where no change of a few fields does. */
  readonly own: Iterable<Schedule>;
}

/** Octaves between two numbers, and a little for being different at all. */
const apart = (a: number, b: number): number => (a === b ? 0 : 0.25 + Math.abs(Math.log2((a + 1) / (b + 1))));

function valueDistance(a: FieldValue, b: FieldValue): number {
  if (typeof a === "number" && typeof b === "number") return apart(a, b);
  if (Array.isArray(a) && Array.isArray(b)) return a.reduce((sum, x, i) => sum + apart(x, b[i] ?? 0), 0);
  return a === b ? 0 : 1;
}

const valueIn = (schedule: Schedule, field: ScheduleField): FieldValue =>
  schedule[field.name] ?? field.default;

const same = (field: ScheduleField, a: FieldValue, b: FieldValue): boolean =>
  field.print(a) === field.print(b);

function distance({ fields }: ScheduleModel, given: Schedule, other: Schedule): number {
  return fields.reduce((sum, field) => {
    const from = valueIn(given, field);
    const weight = same(field, from, field.default) ? DEFAULTED : 1;
    return sum + weight * valueDistance(from, valueIn(other, field));
  }, 0);
}

/** Numbers to try instead of one: those that are common, and its own neighbours among multiples. */
const numbersNear = (value: number): readonly number[] => [
  ...new Set([...COMMON, ...[1, 8, 16, 64, 128].flatMap((unit) => [value - unit, value - (value % unit)])]),
];

/** Values to try instead of one: other words, other numbers in one place, the default, off, and what the reasons' hints name. */
function valuesNear(
  field: ScheduleField,
  value: FieldValue,
  hinted: readonly string[],
): readonly FieldValue[] {
  const texts = [...hinted, ...field.syntax.split("|"), field.print(field.default)];
  if (field.off !== null) texts.push(field.print(field.off));
  if (typeof value === "number") texts.push(...numbersNear(value).map(String));
  if (Array.isArray(value))
    for (const place of value.keys())
      for (const number of numbersNear(value[place] ?? 0))
        texts.push(field.print(value.map((old, i) => (i === place ? number : old))));
  return [...new Set(texts)].flatMap((text) => {
    const parsed = field.parse(text);
    return parsed === null || same(field, parsed, value) ? [] : [parsed];
  });
}

/** Texts that the hints of reasons give to fields: `nearest legal: stages=3` gives 3 to `stages`. */
function hintsOf(reasons: readonly Diagnostic[]): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>();
  const add = (name: string): string[] => {
    const list = found.get(name) ?? [];
    found.set(name, list);
    return list;
  };
  for (const { at, hint } of reasons) {
    const [, name] = /^schedule\.(\w+)/.exec(at) ?? [];
    if (name !== undefined) add(name);
    for (const [, field = "", text = ""] of (hint ?? "").matchAll(/\b([a-z]\w*)=([\w.:+/-]*\w)/g))
      add(field).push(text);
  }
  return found;
}

interface State {
  readonly schedule: Schedule;
  readonly reasons: readonly Diagnostic[];
  readonly score: number;
}

/** Changes of one number or word of the fields that reasons or their hints name, until some schedule is legal; the nearest of those. */
function repaired(model: ScheduleModel, given: Schedule, check: Legality["check"]): Schedule | null {
  const seen = new Set<string>();
  const stateOf = (schedule: Schedule): State => {
    const reasons = check(schedule);
    return { schedule, reasons, score: reasons.length * REASON + distance(model, given, schedule) };
  };
  let beam = [stateOf(given)];
  for (let step = 0; step < STEPS; step++) {
    const next: State[] = [];
    for (const { schedule, reasons } of beam) {
      const hinted = hintsOf(reasons);
      for (const field of model.fields) {
        const texts = hinted.get(field.name);
        if (texts === undefined) continue;
        for (const value of valuesNear(field, valueIn(schedule, field), texts)) {
          const changed = { ...schedule, [field.name]: value };
          const key = model.fields.map((f) => f.print(valueIn(changed, f))).join(" ");
          if (seen.has(key)) continue;
          seen.add(key);
          next.push(stateOf(changed));
        }
      }
    }
    next.sort((a, b) => a.score - b.score);
    const [best] = next;
    if (best === undefined) return null;
    if (best.reasons.length === 0) return best.schedule;
    beam = next.slice(0, BEAM);
  }
  return null;
}

/** Values between two, nearest to the wanted one first: the wanted one itself; of tuples place by place. */
function valuesBetween(field: ScheduleField, wanted: FieldValue, now: FieldValue): readonly FieldValue[] {
  const values = [wanted, ...valuesNear(field, wanted, [])];
  if (Array.isArray(wanted) && Array.isArray(now))
    for (const [place, number] of wanted.entries())
      for (const near of [number, ...numbersNear(number)]) {
        const parsed = field.parse(field.print(now.map((old, i) => (i === place ? near : old))));
        if (parsed !== null) values.push(parsed);
      }
  return values
    .map((value) => ({ value, far: valueDistance(wanted, value) }))
    .filter(({ far }) => far < valueDistance(wanted, now))
    .sort((x, y) => x.far - y.far)
    .map(({ value }) => value);
}

/** A legal schedule with fields set back, again and again while any can be, to what was given or as near as stays legal. */
function broughtBack(
  model: ScheduleModel,
  given: Schedule,
  legal: Schedule,
  check: Legality["check"],
): Schedule {
  let schedule = legal;
  for (let moved = true; moved; ) {
    moved = false;
    for (const field of model.fields) {
      const nearer = valuesBetween(field, valueIn(given, field), valueIn(schedule, field)).find(
        (value) => check({ ...schedule, [field.name]: value }).length === 0,
      );
      if (nearer === undefined) continue;
      schedule = { ...schedule, [field.name]: nearer };
      moved = true;
    }
  }
  return schedule;
}

/**
 * A legal schedule near to one that is not: found by changing what the reasons name, or from the backend's own with as many of the given fields as stay legal,
 * whichever is nearer. Distances are octaves of numbers and changed words. Null where the backend has no schedule at all.
 */
export function nearestLegal(
  model: ScheduleModel,
  given: Schedule,
  { check, own }: Legality,
): Schedule | null {
  const [first = null] = own;
  const [best] = [repaired(model, given, check), first]
    .filter((schedule) => schedule !== null)
    .map((schedule) => broughtBack(model, given, schedule, check))
    .map((schedule) => ({ schedule, far: distance(model, given, schedule) }))
    .sort((a, b) => a.far - b.far);
  return best?.schedule ?? null;
}

/** The fields that differ from their defaults in a schedule, or in the one that it stands for: a text that parses back to all of it. */
export function shortText({ fields }: ScheduleModel, schedule: Schedule, given: Schedule): string {
  const isDefault = (of: Schedule, field: ScheduleField): boolean =>
    same(field, valueIn(of, field), field.default);
  return fields
    .filter((field) => !isDefault(schedule, field) || !isDefault(given, field))
    .map((field) => `${field.name}=${field.print(valueIn(schedule, field))}`)
    .join(" ");
}
