/** Schedules as text: `tile=128x128x8 stages=2 raster=grouped:8`. */

import type { FieldValue, Schedule, ScheduleField, ScheduleModel } from "@tilewright/core";
import { type Checked, type Diagnostic, didYouMean, err, InternalError, ok } from "@tilewright/core";
import { currentValue, renamedField } from "./renamed.ts";

/** Diagnostics of the codec; backends number their legality rules from TW2100. */
export const scheduleCodes = {
  unknownField: "TW2001",
  malformedValue: "TW2002",
  repeatedField: "TW2003",
  notAssignment: "TW2004",
} as const;

const text = (field: ScheduleField, value: FieldValue): string => `${field.name}=${field.print(value)}`;

/** What to write instead of a value that does not fit: the nearest legal one, or the default. */
function valueHint(field: ScheduleField, given: string): string {
  const near = field.nearest?.(given) ?? null;
  return near === null
    ? `write ${field.name}=${field.syntax}, e.g. ${text(field, field.default)}`
    : `nearest legal: ${text(field, near)}`;
}

function malformed(field: ScheduleField, given: string): Diagnostic {
  return {
    code: scheduleCodes.malformedValue,
    kind: "invalid",
    at: `schedule.${field.name}`,
    message: `'${given}' does not fit ${field.syntax}`,
    hint: valueHint(field, given),
  };
}

function unknown(model: ScheduleModel, name: string, given?: string): Diagnostic {
  const names = model.fields.map((field) => field.name);
  const now = renamedField(model, name);
  return {
    code: scheduleCodes.unknownField,
    kind: "invalid",
    at: `schedule.${name}`,
    message: now === null ? `there is no field '${name}'` : `'${name}' is now called '${now}'`,
    hint:
      now !== null
        ? `write ${now}${given === undefined ? "" : `=${currentValue(now, given)}`}`
        : didYouMean(name, names, `fields: ${names.join(", ")}`),
  };
}

/** Every field's default. */
export const defaultSchedule = (model: ScheduleModel): Schedule =>
  Object.fromEntries(model.fields.map((field) => [field.name, field.default]));

/** Words `name=value` separated by spaces, in any order; fields left out take their default. All errors at once. */
export function parseSchedule(model: ScheduleModel, source: string): Checked<Schedule> {
  const errors: Diagnostic[] = [];
  const given = new Map<string, FieldValue>();
  const seen = new Set<string>();
  for (const word of source.split(/\s+/).filter((part) => part !== "")) {
    const equals = word.indexOf("=");
    if (equals < 1) {
      errors.push({
        code: scheduleCodes.notAssignment,
        kind: "invalid",
        at: "schedule",
        message: `'${word}' is not name=value`,
        hint: `e.g. ${model.fields
          .slice(0, 2)
          .map((field) => text(field, field.default))
          .join(" ")}`,
      });
      continue;
    }
    const name = word.slice(0, equals);
    const value = word.slice(equals + 1);
    const field = model.fields.find((candidate) => candidate.name === name);
    if (field === undefined) {
      errors.push(unknown(model, name, value));
      continue;
    }
    if (seen.has(name)) {
      errors.push({
        code: scheduleCodes.repeatedField,
        kind: "invalid",
        at: `schedule.${name}`,
        message: `'${name}' is given more than once`,
        hint: "keep one of them",
      });
      continue;
    }
    seen.add(name);
    const parsed = field.parse(value);
    if (parsed === null) errors.push(malformed(field, value));
    else given.set(name, parsed);
  }
  if (errors.length > 0) return err(errors);
  return ok(
    Object.fromEntries(model.fields.map((field) => [field.name, given.get(field.name) ?? field.default])),
  );
}

/**
 * A schedule from a record, e.g. a JSON request: each value as the model holds it, or as text. Fields left out take their default.
 * All errors at once.
 */
export function scheduleFromRecord(
  model: ScheduleModel,
  record: Readonly<Record<string, FieldValue>>,
): Checked<Schedule> {
  const errors: Diagnostic[] = [];
  for (const name of Object.keys(record))
    if (!model.fields.some((field) => field.name === name)) errors.push(unknown(model, name));
  const values = model.fields.map((field): [string, FieldValue] => {
    const value = record[field.name];
    if (value === undefined) return [field.name, field.default];
    const given = field.print(value);
    const parsed = field.parse(given);
    if (parsed === null) errors.push(malformed(field, given));
    return [field.name, parsed ?? field.default];
  });
  return errors.length > 0 ? err(errors) : ok(Object.fromEntries(values));
}

/** Canonical text: every field of the model in its order. The key of tuning results, logs and manifests. */
export const printSchedule = (model: ScheduleModel, schedule: Schedule): string =>
  model.fields.map((field) => text(field, schedule[field.name] ?? field.default)).join(" ");

/** A schedule that is kept as text in a backend's own data. Throws (a bug there) when it does not parse. */
export function storedSchedule(model: ScheduleModel, stored: string): Schedule {
  const parsed = parseSchedule(model, stored);
  if (!parsed.ok) throw new InternalError(`the stored schedule ${stored} does not parse`, parsed.error);
  return parsed.value;
}
