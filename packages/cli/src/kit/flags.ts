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

export interface FlagOptions {
  readonly hint?: string;
  readonly aliases?: readonly string[];
  readonly longLetters?: boolean;
  readonly group?: string;
}

function meta(summary: string, hint: string | null, options: FlagOptions, negatable = false): FlagMeta {
  return {
    summary,
    hint: hint === null ? null : (options.hint ?? hint),
    aliases: options.aliases ?? [],
    negatable,
    longLetters: options.longLetters ?? false,
    group: options.group ?? "Options",
  };
}

/** `--name`: off unless given. */
export const toggle = (summary: string, options: FlagOptions = {}) =>
  z
    .boolean()
    .default(false)
    .register(flagRegistry, meta(summary, null, options));

/** `--name`, off unless given, or `--name=FORM`. */
export const toggleOr = <const T extends readonly [string, ...string[]]>(
  summary: string,
  forms: T,
  options: FlagOptions = {},
) =>
  z
    .union([z.boolean(), z.enum(forms)])
    .default(false)
    .register(flagRegistry, { ...meta(summary, null, options), forms });

/** `--name` or `--no-name`: on unless switched off. */
export const switchOn = (summary: string, options: FlagOptions = {}) =>
  z
    .boolean()
    .default(true)
    .register(flagRegistry, meta(summary, null, options, true));

/** `--name` or `--no-name`: what is usual depends on other flags. */
export const either = (summary: string, options: FlagOptions = {}) =>
  z
    .boolean()
    .optional()
    .register(flagRegistry, meta(summary, null, options, true));

/** Any text. */
export const text = (summary: string, options: FlagOptions = {}) =>
  z
    .string()
    .optional()
    .register(flagRegistry, meta(summary, "TEXT", options));

/** One of a few words. */
export const choice = <const T extends readonly [string, ...string[]]>(
  summary: string,
  words: T,
  options: FlagOptions = {},
) =>
  z
    .enum(words, { error: (issue) => `'${String(issue.input)}' is none of ${words.join(", ")}` })
    .optional()
    .register(flagRegistry, { ...meta(summary, words.join("|"), options), words });

const integerForm = /^[+-]?\d+$/;
const numberForm = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/** An integer of 0 to 2^32 - 1, such as a seed. */
export const seed = (summary: string, fallback: number, options: FlagOptions = {}) =>
  z
    .string()
    .transform((value, context) => {
      const number = Number(value);
      if (integerForm.test(value) && number >= 0 && number <= 2 ** 32 - 1) return number;
      context.addIssue({
        code: "custom",
        message: `'${value}' is not an integer from 0 to 4294967295`,
        input: value,
      });
      return z.NEVER;
    })
    .default(fallback)
    .register(flagRegistry, meta(`${summary} (default ${fallback})`, "N", options));

/** A positive integer, such as a count. */
export const count = (summary: string, most: number, options: FlagOptions = {}) =>
  z
    .string()
    .transform((value, context) => {
      const number = Number(value);
      if (integerForm.test(value) && number >= 1 && number <= most) return number;
      context.addIssue({
        code: "custom",
        message: `'${value}' is not an integer from 1 to ${most}`,
        input: value,
      });
      return z.NEVER;
    })
    .optional()
    .register(flagRegistry, meta(summary, "N", options));

/** Any finite number. */
export const number = (summary: string, options: FlagOptions = {}) =>
  z
    .string()
    .transform((value, context) => {
      if (numberForm.test(value) && Number.isFinite(Number(value))) return Number(value);
      context.addIssue({ code: "custom", message: `'${value}' is not a finite number`, input: value });
      return z.NEVER;
    })
    .optional()
    .register(flagRegistry, meta(summary, "X", options));

/** Comma-separated words, each one of `words` where they are given. */
export const list = <const T extends string = string>(
  summary: string,
  words: readonly T[] | null,
  options: FlagOptions = {},
) =>
  z
    .string()
    .transform((value, context): readonly T[] => {
      const items = value.split(",").map((item) => item.trim());
      const allowed = (item: string): item is T => words === null || words.some((word) => word === item);
      const accepted = items.filter(allowed);
      const wrong = items.filter((item) => item === "" || !allowed(item));
      if (wrong.length === 0) return [...new Set(accepted)];
      const told = wrong.map((item) => (item === "" ? "an empty entry" : `'${item}'`)).join(", ");
      const message =
        words === null ? `${told} in the list '${value}'` : `${told}: none of ${words.join(", ")}`;
      context.addIssue({ code: "custom", message, input: value });
      return z.NEVER;
    })
    .optional()
    .register(flagRegistry, meta(summary, "A,B,…", options));

/** A positional argument; required unless `.optional()` follows before it is registered. */
export const argument = (summary: string, hint: string) =>
  z.string().register(flagRegistry, meta(summary, hint, { hint }));

/** A positional argument that may be left out. */
export const optionalArgument = (summary: string, hint: string) =>
  z
    .string()
    .optional()
    .register(flagRegistry, meta(summary, hint, { hint }));

/** A positional argument that is one of a few words. */
export const choiceArgument = <const T extends readonly [string, ...string[]]>(
  summary: string,
  words: T,
  hint: string,
) =>
  z
    .enum(words, { error: (issue) => `'${String(issue.input)}' is none of ${words.join(", ")}` })
    .register(flagRegistry, meta(`${summary}: ${words.join(", ")}`, "WORD", { hint }));
