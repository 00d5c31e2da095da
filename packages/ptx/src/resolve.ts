/**
 * A mnemonic is resolved once to the forms that fit its modifiers (and cached); then operands are matched against the forms.
 * Builder, parser and checks all go through here.
 */
import { entryOf } from "@tilewright/core";
import { closest } from "./distance.ts";
import { type Form, makeForm } from "./form.ts";
import { rowsByOpcode } from "./table/index.ts";
import { type InstructionRow, isOperandType } from "./table/row.ts";

export type Resolution =
  | {
      readonly ok: true;
      /** The mnemonic with its modifiers in the ISA's order; other than what was asked for where that was out of order. */
      readonly mnemonic: string;
      readonly opcode: string;
      readonly modifiers: readonly string[];
      readonly forms: readonly Form[];
    }
  | {
      readonly ok: false;
      readonly reason: "opcode" | "modifier";
      readonly message: string;
      readonly hint?: string;
    };

const resolutions = new Map<string, Resolution>();
/** Keeps the cache small whatever texts are parsed; a module has a few hundred mnemonics at most. */
const CACHE_LIMIT = 20_000;

/**
 * The forms that a mnemonic (`ld.global.v4.f32`) can be, or why it is none: an unknown opcode, or the first modifier that
 * does not fit, with the nearest known one. Results are cached by mnemonic.
 */
export function resolveMnemonic(mnemonic: string): Resolution {
  const known = resolutions.get(mnemonic);
  if (known) return known;
  const resolution = resolve(mnemonic);
  if (resolutions.size >= CACHE_LIMIT) resolutions.clear();
  resolutions.set(mnemonic, resolution);
  return resolution;
}

function resolve(mnemonic: string): Resolution {
  const words = mnemonic.split(".");
  // Longest opcode first; a shorter one is tried where it has the longer one's last word as a modifier.
  let failure: Resolution | null = null;
  for (let length = Math.min(words.length, 5); length > 0; length--) {
    const opcode = words.slice(0, length).join(".");
    const candidates = rowsByOpcode.get(opcode);
    if (!candidates) continue;
    const modifiers = words.slice(length);
    const forms = candidates
      .filter((row) => fits(slotsOf(row), modifiers))
      .map((row) => makeForm(row, mnemonic, modifiers));
    if (forms.length > 0) return { ok: true, mnemonic, opcode, modifiers, forms };
    // ptxas takes modifiers in any order, and nvcc writes some (`atom.global.sys.add.u32`) in an order of its own.
    for (const row of candidates) {
      const order = reordered(slotsOf(row), modifiers);
      if (order && sameTypes(order, modifiers)) return resolveMnemonic([opcode, ...order].join("."));
    }
    failure ??= explainModifiers(mnemonic, opcode, modifiers, candidates);
  }
  return failure ?? explainOpcode(mnemonic, words);
}

// ---------------------------------------------------------------- modifiers

export interface Slot {
  readonly alternatives: readonly string[];
  readonly optional: boolean;
}

const slotCache = new WeakMap<InstructionRow, readonly Slot[]>();

/** The modifier slots of a row, in order. */
export function slotsOf(row: InstructionRow): readonly Slot[] {
  return entryOf(slotCache, row, () =>
    row.mods
      .split(" ")
      .filter((text) => text !== "")
      .map((text): Slot => {
        const optional = text.endsWith("?");
        return { optional, alternatives: (optional ? text.slice(0, -1) : text).split("|") };
      }),
  );
}

/** How many modifiers from index m an alternative takes: 0 if it does not stand there. A composite (`xorsign.abs`) takes several. */
function taken(alternative: string, modifiers: readonly string[], m: number): number {
  if (modifiers[m] === alternative) return 1;
  if (!alternative.includes(".")) return 0;
  const words = alternative.split(".");
  return words.every((word, i) => modifiers[m + i] === word) ? words.length : 0;
}

function fits(slots: readonly Slot[], modifiers: readonly string[], s = 0, m = 0): boolean {
  const slot = slots[s];
  if (slot === undefined) return m === modifiers.length;
  if (m < modifiers.length) {
    for (const alternative of slot.alternatives) {
      const count = taken(alternative, modifiers, m);
      if (count > 0 && fits(slots, modifiers, s + 1, m + count)) return true;
    }
  }
  return slot.optional && fits(slots, modifiers, s + 1, m);
}

/** How many modifiers a row takes before the first that it does not. */
function accepted(
  slots: readonly Slot[],
  modifiers: readonly string[],
): { count: number; due: readonly string[] } {
  let m = 0;
  const due: string[] = [];
  for (const slot of slots) {
    const count = Math.max(...slot.alternatives.map((a) => taken(a, modifiers, m)));
    if (count > 0) {
      m += count;
      due.length = 0;
      continue;
    }
    due.push(...slot.alternatives);
    if (!slot.optional) break;
  }
  return { count: m, due };
}

/** The row's order for these modifiers, if only their order is wrong. Modifiers that fit the same slots (the two types of cvt) stay in order. */
function reordered(slots: readonly Slot[], modifiers: readonly string[]): readonly string[] | null {
  const walk = (s: number, left: readonly string[]): readonly string[] | null => {
    const slot = slots[s];
    if (slot === undefined) return left.length === 0 ? [] : null;
    for (const alternative of slot.alternatives) {
      const words = alternative.split(".");
      const rest = [...left];
      const found = words.every((word) => {
        const index = rest.indexOf(word);
        if (index >= 0) rest.splice(index, 1);
        return index >= 0;
      });
      const order = found ? walk(s + 1, rest) : null;
      if (order) return [...words, ...order];
    }
    return slot.optional ? walk(s + 1, left) : null;
  };
  return walk(0, modifiers);
}

/** Whether the types stand in one order in both: `cvt.s16.s8` and `cvt.s8.s16` are different instructions, not spellings of one. */
function sameTypes(a: readonly string[], b: readonly string[]): boolean {
  const types = (list: readonly string[]): string => list.filter(isOperandType).join(".");
  return types(a) === types(b);
}

function explainModifiers(
  mnemonic: string,
  opcode: string,
  modifiers: readonly string[],
  candidates: readonly InstructionRow[],
): Resolution {
  const known = new Set(
    candidates.flatMap((row) =>
      slotsOf(row).flatMap((slot) => slot.alternatives.flatMap((a) => a.split("."))),
    ),
  );
  const unknown = modifiers.find((m) => !known.has(m));
  if (unknown !== undefined) {
    const near = closest(unknown, known);
    return {
      ok: false,
      reason: "modifier",
      message: `${opcode} has no modifier .${unknown}`,
      ...(near === null ? {} : { hint: `did you mean .${near}?` }),
    };
  }
  const best = candidates
    .map((row) => accepted(slotsOf(row), modifiers))
    .reduce((a, b) => (b.count > a.count ? b : a));
  const wrong = modifiers[best.count];
  const due = best.due.slice(0, 8).map((m) => `.${m}`);
  const hint =
    due.length === 0
      ? {}
      : { hint: `due here: ${due.join(", ")}${best.due.length > due.length ? ", …" : ""}` };
  if (wrong === undefined) {
    return {
      ok: false,
      reason: "modifier",
      message: `${mnemonic} is not complete: a modifier is missing at the end`,
      ...hint,
    };
  }
  return {
    ok: false,
    reason: "modifier",
    message: `modifier .${wrong} does not stand here in ${mnemonic}`,
    ...hint,
  };
}

/** What PTX has and no row here: memory of several GPUs, textures and surfaces, video instructions with fields of one operand. */
const unsupported =
  /^(multimem|tex|tld4|txq|suld|sust|sured|suq|istypep|vadd|vsub|vabsdiff|vmin|vmax|vshl|vshr|vmad|vset|shfl\.(up|down|bfly|idx)|vote\.(all|any|uni|ballot))\b/;

function explainOpcode(mnemonic: string, words: readonly string[]): Resolution {
  const first = words[0] ?? mnemonic;
  const near = closest(
    first,
    new Set([...rowsByOpcode.keys()].map((opcode) => opcode.split(".", 1)[0] ?? opcode)),
  );
  const related = [...rowsByOpcode.keys()].filter((opcode) => opcode.startsWith(`${first}.`));
  const nearest = closest(mnemonic, rowsByOpcode.keys());
  const hint =
    related.length > 0
      ? `known: ${related.slice(0, 8).join(", ")}${related.length > 8 ? ", …" : ""}`
      : nearest !== null
        ? `did you mean ${nearest}?`
        : near !== null
          ? `did you mean ${near}?`
          : undefined;
  if (unsupported.test(mnemonic))
    return { ok: false, reason: "opcode", message: `${mnemonic} is PTX, but not supported here` };
  return {
    ok: false,
    reason: "opcode",
    message: `unknown instruction ${mnemonic}`,
    ...(hint === undefined ? {} : { hint }),
  };
}
