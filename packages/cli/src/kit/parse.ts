/** From argv to the checked arguments of a command: node tokenises, zod coerces, and every error is reported at once. */
import { type ParseArgsConfig, parseArgs } from "node:util";
import { type Checked, type Diagnostic, err, nearest, ok } from "@tilewright/core";
import type { z } from "zod";
import { codes, problemWith } from "../codes.ts";
import { type FlagMeta, flagRegistry } from "./flags.ts";

/** One flag or positional argument of a command, as help and the parser see it. */
export interface Slot {
  /** Key in the command's arguments. */
  readonly key: string;
  /** Spellings without dashes, the main one first; empty for a positional argument. */
  readonly names: readonly string[];
  readonly meta: FlagMeta;
  readonly required: boolean;
}

/** `aLayout` -> `a-layout`. */
const kebab = (key: string): string => key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

/** `m` -> `-m`, `arch` -> `--arch`. */
export const spell = (name: string, longLetters = false): string =>
  name.length === 1 && !longLetters ? `-${name}` : `--${name}`;

/** What a message calls a slot: its flag, or the hint of a positional argument. */
export const nameOf = (slot: Slot): string => {
  const [main] = slot.names;
  return main === undefined ? (slot.meta.hint ?? slot.key) : spell(main, slot.meta.longLetters);
};

/** The slots of a command's arguments, in the order in which they are declared. */
export function slotsOf(schema: z.ZodObject, positionals: readonly string[]): readonly Slot[] {
  return Object.entries(schema.shape).map(([key, field]) => {
    const meta = flagRegistry.get(field as z.ZodType);
    if (meta === undefined) throw new TypeError(`the argument '${key}' is not in the flag registry`);
    const positional = positionals.includes(key);
    return {
      key,
      names: positional ? [] : [kebab(key), ...meta.aliases],
      meta,
      required: !(field as z.ZodType).safeParse(undefined).success,
    };
  });
}

/** How a token is to be read. */
interface Spelling {
  readonly slot: Slot;
  readonly value: boolean | null;
}

function spellingsOf(slots: readonly Slot[]): ReadonlyMap<string, Spelling> {
  const spellings = new Map<string, Spelling>();
  for (const slot of slots) {
    for (const name of slot.names) {
      spellings.set(name, { slot, value: slot.meta.hint === null ? true : null });
      if (slot.meta.negatable) spellings.set(`no-${name}`, { slot, value: false });
    }
  }
  return spellings;
}

/** A word that is no value: another flag was meant. `-` is standard input, and numbers may be negative. */
const looksLikeFlag = (word: string): boolean => /^-(-?[A-Za-z]|-$)/.test(word) && !/^-(inf|nan)/i.test(word);

/** What the words of a command line say, before any value is checked. */
class Collector {
  readonly raw = new Map<string, string | boolean>();
  readonly found: Diagnostic[] = [];
  readonly #free: string[] = [];
  readonly #spellings: ReadonlyMap<string, Spelling>;
  readonly #options: NonNullable<ParseArgsConfig["options"]>;

  constructor(slots: readonly Slot[]) {
    this.#spellings = spellingsOf(slots);
    this.#options = Object.fromEntries(
      [...this.#spellings].map(([name, { value }]) => [
        name,
        {
          type: value === null ? ("string" as const) : ("boolean" as const),
          ...(name.length === 1 ? { short: name } : {}),
        },
      ]),
    );
  }

  /** Sort words into values by key; reports flags that do not exist and values that are missing. */
  read(words: readonly string[]): void {
    const { tokens } = parseArgs({
      args: [...words],
      options: this.#options,
      tokens: true,
      strict: false,
      allowPositionals: true,
    });
    let unknownAt = Number.NaN;
    for (const token of tokens) {
      if (token.kind === "option-terminator") continue;
      if (token.kind === "positional") {
        // What follows an unknown flag is most likely its value, and not worth a second complaint.
        if (token.index !== unknownAt + 1) this.#free.push(token.value);
        continue;
      }
      const spelling = this.#spellings.get(token.name);
      if (spelling === undefined) {
        this.#unknown(token.name, token.rawName);
        if (token.inlineValue !== true) unknownAt = token.index;
        continue;
      }
      // `-o=DIR` means what `--out=DIR` does; node leaves the sign in.
      const short = token.inlineValue === true && !token.rawName.startsWith("--");
      const value = short ? token.value?.replace(/^=/, "") : token.value;
      const swallowed = this.#take(spelling, token.rawName, value, token.inlineValue === true);
      // The word taken for a value is the next flag: go on from there.
      if (swallowed) {
        this.read(words.slice(token.index + 1));
        return;
      }
    }
  }

  /** Give the free words to the positional arguments. */
  place(positionals: readonly string[]): void {
    for (const [i, value] of this.#free.entries()) {
      const key = positionals[i];
      if (key !== undefined) this.raw.set(key, value);
      else
        this.found.push(
          problemWith(codes.unexpectedArgument, value, `unexpected argument '${value}'`, {
            hint: "values follow their flag: --flag value",
          }),
        );
    }
  }

  #unknown(name: string, rawName: string): void {
    const near = nearest(name, this.#spellings.keys()).map((known) => spell(known));
    const hint = near.length === 0 ? "--help lists the flags" : `did you mean ${near.join(" or ")}?`;
    this.found.push(problemWith(codes.unknownFlag, rawName, `there is no flag ${rawName}`, { hint }));
  }

  /** Returns whether the word after the flag was taken for its value and is none. */
  #take({ slot, value }: Spelling, at: string, word: string | undefined, inline: boolean): boolean {
    if (this.raw.has(slot.key))
      this.found.push(
        problemWith(codes.conflict, at, `${nameOf(slot)} is given more than once`, {
          ...(slot.meta.hint?.includes(",…") ? { hint: "one flag, its values behind commas" } : {}),
        }),
      );
    if (value !== null) {
      const form = inline ? slot.meta.forms?.find((each) => each === word) : undefined;
      if (inline && form === undefined) {
        const forms = (slot.meta.forms ?? []).map((each) => `${at}=${each}`);
        const hint = forms.length === 0 ? {} : { hint: `${at}, or ${forms.join(", ")}` };
        this.found.push(
          problemWith(codes.badValue, at, `${at} is a switch and takes no value '${word}'`, hint),
        );
      }
      this.raw.set(slot.key, form ?? value);
      return false;
    }
    const swallowed = word !== undefined && !inline && looksLikeFlag(word);
    if (word === undefined || swallowed)
      this.found.push(
        problemWith(codes.badValue, nameOf(slot), `${at} needs a value: ${at} ${slot.meta.hint ?? ""}`),
      );
    this.raw.set(slot.key, swallowed ? "" : (word ?? ""));
    return swallowed;
  }
}

type AnyObject = z.ZodObject;

/** What a schema says about raw values, each issue once and under the name that the user typed. */
function issuesOf(
  error: z.ZodError | undefined,
  slots: readonly Slot[],
  raw: ReadonlyMap<string, unknown>,
  reported: ReadonlySet<string>,
): Diagnostic[] {
  const found: Diagnostic[] = [];
  for (const issue of error?.issues ?? []) {
    const key = String(issue.path[0] ?? "");
    const slot = slots.find((candidate) => candidate.key === key);
    const at = slot === undefined ? "arguments" : nameOf(slot);
    if (reported.has(at)) continue;
    if (slot === undefined) found.push(problemWith(codes.conflict, at, issue.message));
    else if (raw.has(key)) found.push(problemWith(codes.badValue, at, issue.message));
    else found.push(problemWith(codes.missing, at, `${at} is needed: ${slot.meta.summary}`));
  }
  return found;
}

/** The arguments that parse, each by itself. */
function partsOf<S extends AnyObject>(schema: S, raw: ReadonlyMap<string, unknown>): Partial<z.output<S>> {
  const parts = Object.entries(schema.shape).map(
    ([key, field]) => [key, (field as z.ZodType).safeParse(raw.get(key)).data] as const,
  );
  return Object.fromEntries(parts) as Partial<z.output<S>>;
}

/** What else is wrong with arguments of which some, `failed`, did not parse. */
export type Further<S extends AnyObject> = (
  args: Partial<z.output<S>>,
  failed: ReadonlySet<string>,
) => readonly Diagnostic[];

/**
 * Parse the arguments of a command against its own schema and that of the flags all commands share.
 * `defaults`: what flags are that nobody gave, by the keys of those that were. All errors at once, with what is wrong `further`; a flag that already failed to tokenise is not reported twice.
 */
export function parseArguments<S extends AnyObject, C extends AnyObject>(
  argv: readonly string[],
  own: S,
  common: C,
  positionals: readonly string[] = [],
  defaults: (given: ReadonlySet<string>) => Readonly<Record<string, string>> = () => ({}),
  further: Further<S> = () => [],
): Checked<{ readonly own: z.output<S>; readonly common: z.output<C> }> {
  const slots = [...slotsOf(own, positionals), ...slotsOf(common, [])];
  const collector = new Collector(slots);
  collector.read(argv);
  collector.place(positionals);
  const { raw, found } = collector;
  for (const [key, value] of Object.entries(defaults(new Set(raw.keys()))))
    if (!raw.has(key) && slots.some((slot) => slot.key === key)) raw.set(key, value);
  const pick = (schema: AnyObject) =>
    Object.fromEntries([...raw].filter(([key]) => Object.hasOwn(schema.shape, key)));
  const parsedOwn = own.safeParse(pick(own));
  const parsedCommon = common.safeParse(pick(common));
  const reported = new Set(found.map((d) => d.at));
  for (const { error } of [parsedOwn, parsedCommon]) found.push(...issuesOf(error, slots, raw, reported));
  if (found.length > 0 || !parsedOwn.success || !parsedCommon.success) {
    const told = new Set(found.map(({ at }) => at));
    const failed = new Set(slots.filter((slot) => told.has(nameOf(slot))).map(({ key }) => key));
    const others = new Map([...raw].filter(([key]) => !failed.has(key)));
    // What seems to be missing may be what an unknown word was to be.
    const unread = found.some(
      ({ code }) => code === codes.unknownFlag.code || code === codes.unexpectedArgument.code,
    );
    const more = further(partsOf(own, others), failed);
    return err([...found, ...more.filter(({ code }) => !unread || code !== codes.missing.code)]);
  }
  return ok({ own: parsedOwn.data, common: parsedCommon.data });
}
