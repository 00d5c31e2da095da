/** Constructors of schedule fields: each gives grammar, default and off value of one field. */

import type { FieldValue, ScheduleField } from "@tilewright/core";
import { nearest } from "@tilewright/core";
import {
  type LineOrder,
  lineOrderKinds,
  lineOrderSyntax,
  parseLineOrder,
  printLineOrder,
} from "../tile/lineOrder.ts";
import type { Raster } from "../tile/types.ts";

interface Common<N extends string = string> {
  readonly name: N;
  readonly summary: string;
}

const integer = /^\d{1,9}$/;
const clamp = (value: number, min: number, max: number): number => Math.min(max, Math.max(min, value));

/** An integer from `min` to `max` (both included). */
export function intField<const N extends string>(
  spec: Common<N> & {
    readonly default: number;
    readonly off?: number | null;
    readonly min?: number;
    readonly max?: number;
  },
): ScheduleField<N, number, number> {
  const { min = 1, max = 999_999_999 } = spec;
  return {
    name: spec.name,
    summary: spec.summary,
    syntax: max === 999_999_999 ? `N (${min} or more)` : `${min}..${max}`,
    default: spec.default,
    off: spec.off ?? null,
    parse: (text) => (integer.test(text) && Number(text) >= min && Number(text) <= max ? Number(text) : null),
    print: String,
    nearest: (text) => {
      const value = Number(text);
      return text === "" || !Number.isFinite(value) ? null : clamp(Math.round(value), min, max);
    },
  };
}

/** One of a few words. */
export function wordField<const N extends string, const W extends string>(
  spec: Common<N> & {
    readonly words: readonly W[];
    readonly default: NoInfer<W>;
    readonly off?: NoInfer<W> | null;
  },
): ScheduleField<N, W, W> {
  return {
    name: spec.name,
    summary: spec.summary,
    syntax: spec.words.join("|"),
    default: spec.default,
    off: spec.off ?? null,
    parse: (text) => spec.words.find((word) => word === text) ?? null,
    print: String,
    nearest: (text) => nearest(text, spec.words, 1)[0] ?? null,
  };
}

/** One of a few numbers: as text a word, in what it means the number. */
export const sizeField = <const N extends string, const S extends number>(
  spec: Common<N> & { readonly sizes: readonly S[]; readonly default: NoInfer<S>; readonly off: NoInfer<S> },
): ScheduleField<N, string, S> => ({
  ...wordField({
    ...spec,
    words: spec.sizes.map(String),
    default: String(spec.default),
    off: String(spec.off),
  }),
  read: (text) => spec.sizes.find((size) => String(size) === text) ?? spec.default,
});

/** An optimisation that is on or off. */
export const flagField = <const N extends string>(
  spec: Common<N> & { readonly default: "on" | "off" },
): ScheduleField<N, "on" | "off", boolean> => ({
  ...wordField({ ...spec, words: ["on", "off"], off: "off" }),
  read: (value) => value === "on",
});

type TupleValue<Names extends readonly string[], None extends boolean> =
  | { readonly [K in keyof Names]: number }
  | (None extends true ? "none" : never);

/**
 * Integers of at least `min` with a separator: `128x128x8`. `names` give the syntax and the rank. With `none`, that word is a
 * value too (a string, where the others are tuples).
 */
export function tupleField<
  const N extends string,
  const Names extends readonly string[],
  const None extends boolean = false,
>(
  spec: Common<N> & {
    readonly names: Names;
    readonly separator?: string;
    readonly default: TupleValue<NoInfer<Names>, None>;
    readonly off?: TupleValue<NoInfer<Names>, None> | null;
    readonly min?: number;
    readonly none?: None;
  },
): ScheduleField<N, TupleValue<Names, None>, TupleValue<Names, None>> {
  const { separator = "x", min = 1, none = false, names } = spec;
  const example = typeof spec.default === "string" ? names.map(() => min) : spec.default;
  return {
    name: spec.name,
    summary: spec.summary,
    syntax: names.join(separator) + (none ? "|none" : ""),
    default: spec.default,
    off: spec.off ?? null,
    parse: (text) => {
      const parts = text.split(separator);
      const fits =
        parts.length === names.length && parts.every((part) => integer.test(part) && Number(part) >= min);
      // The types of a name's rank, and of 'none' where that is a value, do not follow from the text.
      const value = none && text === "none" ? text : fits ? parts.map(Number) : null;
      return value as TupleValue<Names, None> | null;
    },
    print: (value) => (Array.isArray(value) ? value.join(separator) : String(value)),
    // Numbers that can be read stay, in place; the rest comes from the default.
    nearest: (text) => {
      const found = text.match(/-?\d+(\.\d+)?/g)?.map(Number) ?? [];
      return found.length === 0
        ? none && text.startsWith("n")
          ? "none"
          : null
        : names.map((_, i) => clamp(Math.round(found[i] ?? example[i] ?? min), min, 999_999_999));
    },
  };
}

/** Order of a walk's lines, see `LineOrder`; ascending is off. */
export function lineOrderField<const N extends string>(spec: Common<N>): ScheduleField<N, string, LineOrder> {
  return {
    ...spec,
    syntax: lineOrderSyntax,
    default: "up",
    off: "up",
    parse: (text) => {
      const order = parseLineOrder(text);
      return order === null ? null : printLineOrder(order);
    },
    print: String,
    read: (text) => parseLineOrder(text) ?? { kind: "up", from: 0 },
    nearest: (text) => nearest(text, lineOrderKinds, 1)[0] ?? null,
  };
}

const inGroups = /^(grouped|snake|blocked):([1-9]\d{0,8})$/;
const plainRasters = ["row", "col", "hilbert"] as const;
const groupedRasters = ["grouped", "snake", "blocked"] as const;

/**
 * Order in which output tiles are visited: `row`, `col`, `grouped:G` (G tile rows at a time), `snake:G` (the same to and fro), `blocked:G` (the same in blocks of 4 x 2 tiles) or `hilbert`.
 * Read it with `rasterOf`.
 */
export function rasterField(spec: { readonly default: string }): ScheduleField<"raster", string, Raster> {
  return {
    name: "raster",
    summary:
      "order of the output tiles: rows, columns, or for L2 reuse G tile rows at a time, the same to and fro or in blocks of 4 x 2 tiles, or Hilbert's curve",
    syntax: "row|col|grouped:G|snake:G|blocked:G|hilbert",
    default: spec.default,
    off: "row",
    parse: (text) => (plainRasters.some((word) => word === text) || inGroups.test(text) ? text : null),
    print: String,
    read: rasterOf,
    nearest: (text) => {
      const count = /\d+/.exec(text)?.[0];
      const kind = groupedRasters.find((name) => name[0] === text[0]) ?? null;
      if (count !== undefined && Number(count) > 0 && kind !== null) return `${kind}:${Number(count)}`;
      if (kind === "snake" || kind === "blocked") return `${kind}:8`;
      return nearest(text, [...plainRasters, "grouped:8"], 1)[0] ?? null;
    },
  };
}

/** A raster field's value as the tile IR has it. Throws (a bug) on a value that the field would not parse. */
export function rasterOf(value: FieldValue | undefined): Raster {
  const plain = plainRasters.find((word) => word === value);
  if (plain !== undefined) return { kind: plain };
  const [, name, group] = (typeof value === "string" ? inGroups.exec(value) : null) ?? [];
  const kind = groupedRasters.find((word) => word === name);
  if (kind === undefined) throw new TypeError(`not a raster: ${String(value)}`);
  return { kind, group: Number(group) };
}

/** The same field with another default, e.g. for a backend that is best with other tiles. Throws (a bug) when it is no value of the field. */
export function withDefault<F extends ScheduleField>(field: F, value: F["default"]): F {
  if (field.parse(field.print(value)) === null)
    throw new TypeError(`${field.name}=${field.print(value)} does not fit ${field.syntax}`);
  return { ...field, default: value };
}
