/**
 * The schedule model: fields with a text form. `tile=128x128x8 stages=2 raster=grouped:8` parses to a record and prints back.
 * The core fields are shared; a backend extends them with its own.
 */

/** What a field may hold: a number, a word, or a tuple of numbers. */
export type FieldValue = number | string | readonly number[];

/** A schedule: every field of its model has a value; "off" is a value, never absence. */
export type Schedule = Readonly<Record<string, FieldValue>>;

/**
 * One field: its grammar, its off value, and what a person should know. `T`: the values that it parses to; `V`: what they mean, which `read` gives
 * where that is another type.
 */
export interface ScheduleField<N extends string = string, T extends FieldValue = FieldValue, V = unknown> {
  readonly name: N;
  readonly summary: string;
  /** How a value is written, for messages and --help: `MxNxK`, `on|off`, `1..64`. */
  readonly syntax: string;
  readonly default: T;
  /** The value that switches this optimisation off, where the field is one. */
  readonly off: T | null;
  /** What a schedule has without this optimisation, where other fields follow from it; else `off` alone. */
  without?(schedule: Schedule): Schedule;
  /** Parse the text after `=`; null when it does not fit `syntax`. */
  parse(text: string): T | null;
  print(value: FieldValue): string;
  /** The meaning of a value that `parse` has given. Absent: the value means itself. */
  read?(value: T): V;
  /** The legal value nearest to a text that does not parse, for hints; null when there is nothing near. */
  nearest?(text: string): FieldValue | null;
}

export interface ScheduleModel {
  readonly fields: readonly ScheduleField[];
}

/** What the fields of a model mean, by name: the type of a backend's schedule follows from its declaration. */
export type ScheduleValues<M extends ScheduleModel> = {
  readonly [F in M["fields"][number] as F["name"]]: F extends ScheduleField<string, FieldValue, infer V>
    ? V
    : never;
};
