/**
 * Flags as zod schemas: one value says how a flag is written, checked, explained and typed.
 * What concerns the command line alone (short names, value hints) stands in a registry of its own, because zod
 * would write any other metadata into JSON Schemas.
 */
import { z } from "zod";

export interface FlagMeta {
  readonly summary: string;
  /** How the value is written: `FILE.npy`, `M`; null for a switch. */
  readonly hint: string | null;
  /** Other spellings; one letter means `-x`, more mean `--xx`. */
  readonly aliases: readonly string[];
  /** A switch that also exists as `--no-name`. */
  readonly negatable: boolean;
  /** One-letter names are written `--a`, as those of the operands; `-a` works too. */
  readonly longLetters: boolean;
  /** Words that a switch may take after its `=`: `--json=line`. */
  readonly forms?: readonly string[];
  /** Words of which the value is one. */
  readonly words?: readonly string[];
  /** Heading in --help. */
  readonly group: string;
}

export const flagRegistry = z.registry<FlagMeta>();

interface FlagOptions {
  readonly hint?: string;
  readonly aliases?: readonly string[];
  readonly longLetters?: boolean;
}

/** A text alone is the hint. */
type Options = FlagOptions | string;

/** What the command line knows of a flag. */
export function meta(summary: string, hint: string | null, options: Options, negatable = false): FlagMeta {
  const given = typeof options === "string" ? { hint: options } : options;
  return {
    summary,
    hint: hint === null ? null : (given.hint ?? hint),
    aliases: given.aliases ?? [],
    negatable,
    longLetters: given.longLetters ?? false,
    group: "Options",
  };
}

/** Flags under a heading of --help. */
export function grouped<F extends Readonly<Record<string, z.ZodType>>>(group: string, flags: F): F {
  for (const flag of Object.values(flags)) {
    const known = flagRegistry.get(flag);
    if (known !== undefined) flagRegistry.add(flag, { ...known, group });
  }
  return flags;
}

/** `--name`: off unless given. */
export const toggle = (summary: string, options: Options = {}) =>
  z
    .boolean()
    .default(false)
    .register(flagRegistry, meta(summary, null, options));

/** `--name`, off unless given, or `--name=FORM`. */
export const toggleOr = <const T extends readonly [string, ...string[]]>(summary: string, forms: T) =>
  z
    .union([z.boolean(), z.enum(forms)])
    .default(false)
    .register(flagRegistry, { ...meta(summary, null, {}), forms });

/** `--name` or `--no-name`: on unless switched off. */
export const switchOn = (summary: string) =>
  z
    .boolean()
    .default(true)
    .register(flagRegistry, meta(summary, null, {}, true));

/** `--name` or `--no-name`: what is usual depends on other flags. */
export const either = (summary: string) =>
  z
    .boolean()
    .optional()
    .register(flagRegistry, meta(summary, null, {}, true));

/** Any text. */
export const text = (summary: string, options: Options = {}) =>
  z
    .string()
    .optional()
    .register(flagRegistry, meta(summary, "TEXT", options));

const oneOf = <const T extends readonly [string, ...string[]]>(words: T) =>
  z.enum(words, { error: (issue) => `'${String(issue.input)}' is none of ${words.join(", ")}` });

/** One of a few words. */
export const choice = <const T extends readonly [string, ...string[]]>(
  summary: string,
  words: T,
  options: Options = {},
) =>
  oneOf(words)
    .optional()
    .register(flagRegistry, { ...meta(summary, words.join("|"), options), words });

/** A word that `read` makes something of, or says in sentences why it cannot. */
export const reading = <T>(read: (value: string) => { readonly value: T } | string | readonly string[]) =>
  z.string().transform((value, context): T => {
    const found = read(value);
    if (typeof found === "object" && "value" in found) return found.value;
    for (const message of [found].flat()) context.addIssue({ code: "custom", message, input: value });
    return z.NEVER;
  });

const numberForm = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

const integer = (least: number, most: number) =>
  reading((word) => {
    const value = Number(word);
    if (/^[+-]?\d+$/.test(word) && value >= least && value <= most) return { value };
    return `'${word}' is not an integer from ${least} to ${most}`;
  });

/** An integer of 0 to 2^32 - 1, such as a seed. */
export const seed = (summary: string, fallback: number) =>
  integer(0, 2 ** 32 - 1)
    .default(fallback)
    .register(flagRegistry, meta(`${summary} (default ${fallback})`, "N", {}));

/** A positive integer, such as a count. */
export const count = (summary: string, most: number, options: Options = {}) =>
  integer(1, most)
    .optional()
    .register(flagRegistry, meta(summary, "N", options));

/** Any finite number. */
export const number = (summary: string, options: Options = {}) =>
  reading((word) => {
    const value = Number(word);
    return numberForm.test(word) && Number.isFinite(value) ? { value } : `'${word}' is not a finite number`;
  })
    .optional()
    .register(flagRegistry, meta(summary, "X", options));

/** Comma-separated words, each one of `words` where they are given. */
export const list = <const T extends string = string>(
  summary: string,
  words: readonly T[] | null,
  options: Options = {},
) =>
  reading((value): { readonly value: readonly T[] } | string => {
    const items = value.split(",").map((item) => item.trim());
    const allowed = (item: string): item is T => words === null || words.some((word) => word === item);
    const wrong = items.filter((item) => item === "" || !allowed(item));
    if (wrong.length === 0) return { value: [...new Set(items.filter(allowed))] };
    const told = wrong.map((item) => (item === "" ? "an empty entry" : `'${item}'`)).join(", ");
    return words === null ? `${told} in the list '${value}'` : `${told}: none of ${words.join(", ")}`;
  })
    .optional()
    .register(flagRegistry, meta(summary, "A,B,…", options));

/** A positional argument; required unless `.optional()` follows before it is registered. */
export const argument = (summary: string, hint: string) =>
  z.string().register(flagRegistry, meta(summary, hint, hint));

/** A positional argument that may be left out. */
export const optionalArgument = (summary: string, hint: string) =>
  z
    .string()
    .optional()
    .register(flagRegistry, meta(summary, hint, hint));

/** A positional argument that is one of a few words. */
export const choiceArgument = <const T extends readonly [string, ...string[]]>(
  summary: string,
  words: T,
  hint: string,
) => oneOf(words).register(flagRegistry, meta(`${summary}: ${words.join(", ")}`, "WORD", hint));
