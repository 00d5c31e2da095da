/**
 * The schedule model: fields with a text form. `tile=128x128x8 stages=2 raster=grouped:8` parses to a record and prints back.
 * The core fields are shared; a backend extends them with its own.
 */
import type { Checked } from "./diagnostics.ts";

/** What a field may hold: a number, a word, or a tuple of numbers. */
export type FieldValue = number | string | readonly number[];

/** A schedule: every field of its model has a value; "off" is a value, never absence. */
export type Schedule = Readonly<Record<string, FieldValue>>;

/** One field: its grammar, its off value, and what a person should know. */
export interface ScheduleField {
  readonly name: string;
  readonly summary: string;
  /** How a value is written, for messages and --help: `MxNxK`, `on|off`, `1..64`. */
  readonly syntax: string;
  readonly default: FieldValue;
  /** The value that switches this optimisation off, where the field is one. */
  readonly off: FieldValue | null;
  /** Parse the text after `=`; null when it does not fit `syntax`. */
  parse(text: string): FieldValue | null;
  print(value: FieldValue): string;
  /** The legal value nearest to a text that does not parse, for hints; null when there is nothing near. */
  nearest?(text: string): FieldValue | null;
}

export interface ScheduleModel {
  readonly fields: readonly ScheduleField[];
}

export interface ScheduleCodec {
  /** All errors at once; unknown fields name the nearest known one. Missing fields take the model's default. */
  parse(model: ScheduleModel, text: string): Checked<Schedule>;
  /** Canonical text: fields in the model's order, all of them. */
  print(model: ScheduleModel, schedule: Schedule): string;
}
