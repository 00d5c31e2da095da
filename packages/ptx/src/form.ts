/**
 * From the table's notation to matchers: a mnemonic is resolved once to the forms that fit its modifiers (and cached),
 * then operands are matched against the forms. Builder, parser and checks all go through here.
 */

import type { ScalarType } from "./ast.ts";
import { closest } from "./distance.ts";
import { rowsByOpcode } from "./table/index.ts";
import {
  type InstructionRow,
  isOperandType,
  type OperandType,
  operandTypes,
  type Requirement,
  widened,
} from "./table/row.ts";

export type Access = "read" | "write" | "readwrite";

/** A register of one of `registers`, or a constant where the form takes one. */
export interface ScalarSpec {
  readonly kind: "scalar";
  readonly type: OperandType;
  readonly registers: readonly ScalarType[];
  /** Which constants are taken when the operand is read. */
  readonly integer: boolean;
  readonly float: boolean;
  /** Symbols and special registers (mov, cvta, mapa). */
  readonly symbol: boolean;
  readonly negatable: boolean;
  /** Integer constants must be multiples of this. */
  readonly multiple: bigint;
}

/** Constants low, low + step, … up to high. */
export interface ImmediateRange {
  readonly low: bigint;
  readonly high: bigint;
  readonly step: bigint;
}

export type OperandSpec =
  | ScalarSpec
  /** `count` null: any number of elements. */
  | { readonly kind: "vector"; readonly element: ScalarSpec; readonly count: number | null }
  /** `required`: the second half may not be left out. */
  | {
      readonly kind: "pair";
      readonly first: ScalarSpec;
      readonly second: ScalarSpec;
      readonly required: boolean;
    }
  | { readonly kind: "sink" }
  /** `registers`: of 64 bits for global and generic addresses, of 32 bits for tensor memory, any integer for the others. */
  | { readonly kind: "address"; readonly space: string; readonly registers: readonly ScalarType[] }
  | { readonly kind: "tensor"; readonly coordinates: number }
  | { readonly kind: "immediate"; readonly ranges: readonly ImmediateRange[] }
  | { readonly kind: "label" | "targets" | "callee" | "list" | "prototype" };

export interface Argument {
  /** The row's notation, for messages. */
  readonly text: string;
  readonly access: Access;
  /** `_` is taken in place of a register that would be written. */
  readonly sink: boolean;
  readonly optional: boolean;
  readonly spec: OperandSpec;
}

/** A row with the modifiers of one mnemonic filled in. */
export interface Form {
  readonly row: InstructionRow;
  readonly mnemonic: string;
  readonly opcode: string;
  readonly modifiers: readonly string[];
  /** T and D of the row's notation; null where no modifier is a type. */
  readonly type: OperandType | null;
  readonly destinationType: OperandType | null;
  readonly arguments: readonly Argument[];
  /** The row's own requirement and those of the modifiers used, with the modifier's name. */
  readonly requirements: readonly { readonly what: string; readonly requirement: Requirement }[];
}

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
      if (order) return resolveMnemonic([opcode, ...order].join("."));
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
  const known = slotCache.get(row);
  if (known) return known;
  const slots = row.mods
    .split(" ")
    .filter((text) => text !== "")
    .map((text): Slot => {
      const optional = text.endsWith("?");
      return { optional, alternatives: (optional ? text.slice(0, -1) : text).split("|") };
    });
  slotCache.set(row, slots);
  return slots;
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
  return {
    ok: false,
    reason: "opcode",
    message: `unknown instruction ${mnemonic}`,
    ...(hint === undefined ? {} : { hint }),
  };
}

// ---------------------------------------------------------------- operands of a form

function makeForm(row: InstructionRow, mnemonic: string, modifiers: readonly string[]): Form {
  const types = modifiers.filter(isOperandType);
  const type = types.at(-1) ?? null;
  const destinationType = types.at(-2) ?? type;
  const requirements = [{ what: mnemonic, requirement: row as Requirement }];
  for (const [words, requirement] of Object.entries(row.needs ?? {})) {
    const present = words.split(".").every((word) => modifiers.includes(word));
    if (present) requirements.push({ what: `.${words} of ${row.opcode}`, requirement });
  }
  const context: Context = { row, modifiers, type, destinationType };
  return {
    row,
    mnemonic,
    opcode: row.opcode,
    modifiers,
    type,
    destinationType,
    arguments: row.args.flatMap((text) => parseArgument(text, context)),
    requirements,
  };
}

interface Context {
  readonly row: InstructionRow;
  readonly modifiers: readonly string[];
  readonly type: OperandType | null;
  readonly destinationType: OperandType | null;
}

function parseArgument(text: string, context: Context): readonly Argument[] {
  let rest = text;
  const at = rest.indexOf("@");
  if (at >= 0) {
    const wanted = rest.slice(at + 1).split("|");
    if (!wanted.some((m) => context.modifiers.includes(m))) return [];
    rest = rest.slice(0, at);
  }
  const optional = rest.endsWith("?");
  if (optional) rest = rest.slice(0, -1);
  const access: Access = rest.startsWith("=") ? "write" : rest.startsWith("+") ? "readwrite" : "read";
  if (access !== "read") rest = rest.slice(1);
  const sink = rest.startsWith("_");
  if (sink) rest = rest.slice(1);
  return [{ text, access, sink, optional, spec: parseSpec(rest, access, context) }];
}

const LABEL_KINDS = ["label", "targets", "callee", "list", "prototype"] as const;

function parseSpec(text: string, access: Access, context: Context): OperandSpec {
  const label = LABEL_KINDS.find((kind) => kind === text);
  if (label) return { kind: label };
  if (text === "sink") return { kind: "sink" };
  if (text === "[tensor]") return { kind: "tensor", coordinates: coordinatesOf(context.modifiers) };
  if (text.startsWith("[")) return parseAddress(text.slice(1, -1), context);
  if (text.startsWith("imm")) return { kind: "immediate", ranges: parseRanges(text.slice(4)) };
  if (text.startsWith("V:")) {
    const element = parseScalar(text.slice(2), access, context);
    const count = vectorLength(context.modifiers);
    return count === null ? element : { kind: "vector", element, count };
  }
  const star = text.indexOf("*");
  if (star >= 0) {
    const element = parseScalar(text.slice(0, star), access, context);
    return { kind: "vector", element, count: countOf(text.slice(star + 1), context.modifiers) };
  }
  const pair = /^([^|&]+)([|&])(.+)$/.exec(text);
  if (pair) {
    return {
      kind: "pair",
      first: parseScalar(pair[1] ?? "", access, context),
      second: parseScalar(pair[3] ?? "", access, context),
      required: pair[2] === "&",
    };
  }
  return parseScalar(text, access, context);
}

const INT32: readonly ScalarType[] = ["b32", "u32", "s32"];
const UNTYPED32: readonly ScalarType[] = ["b32"];
const INT64: readonly ScalarType[] = ["b64", "u64", "s64"];
const INT32_64: readonly ScalarType[] = [...INT32, ...INT64];

/** Opcodes whose `[]` is a generic or global address of 64 bits unless the modifiers name a window. */
const GENERIC = new Set(["ld", "st", "atom", "red", "prefetch", "prefetchu", "ldu"]);
const NARROW = [
  "shared",
  "shared::cta",
  "shared::cluster",
  "param",
  "param::entry",
  "param::func",
  "local",
  "const",
];

function parseAddress(space: string, context: Context): OperandSpec {
  const generic =
    (space === "" && GENERIC.has(context.row.opcode)) || context.row.opcode.startsWith("mbarrier.");
  const wide = space === "global" || (generic && !NARROW.some((name) => context.modifiers.includes(name)));
  const registers = wide ? INT64 : space === "tmem" ? INT32 : space === "tmem b32" ? UNTYPED32 : INT32_64;
  return { kind: "address", space: space.split(" ", 1)[0] ?? space, registers };
}

/** `2d` has two coordinates; gather4 and scatter4 have a column and four rows. */
function coordinatesOf(modifiers: readonly string[]): number {
  if (modifiers.includes("tile::gather4") || modifiers.includes("tile::scatter4")) return 5;
  return Number.parseInt(modifiers[0] ?? "0", 10);
}

function parseRanges(text: string): ImmediateRange[] {
  if (text === "") return [];
  if (text.includes(",")) return text.split(",").map((n) => ({ low: BigInt(n), high: BigInt(n), step: 1n }));
  const [low = "0", high = low, step = "1"] = text.split(":");
  return [{ low: BigInt(low), high: BigInt(high), step: BigInt(step) }];
}

function vectorLength(modifiers: readonly string[]): number | null {
  const v = modifiers.find((m) => m === "v2" || m === "v4" || m === "v8");
  return v === undefined ? null : Number(v.slice(1));
}

/**
 * `4`, `N/2`, `X`, `X*2`, `#` (any number); `L`, the words of an output-lane mask (128 lanes, 256 for a CTA pair);
 * `I`, the offsets of an im2col mode.
 */
function countOf(text: string, modifiers: readonly string[]): number | null {
  if (text === "#") return null;
  if (text === "L") return modifiers.includes("cta_group::2") ? 8 : 4;
  if (text === "I") return modifiers.includes("im2col") ? Number.parseInt(modifiers[0] ?? "0", 10) - 2 : 2;
  const match = /^(N|X|\d+)(?:([*/])(\d+))?$/.exec(text);
  if (!match) throw new RangeError(`bad count in the instruction table: ${text}`);
  const [, base, operator, factor] = match;
  const value =
    base === "N"
      ? Number(/n(\d+)/.exec(modifiers.find((m) => /^m\d+n\d+k\d+$/.test(m)) ?? "")?.[1])
      : base === "X"
        ? Number(modifiers.find((m) => /^x\d+$/.test(m))?.slice(1))
        : Number(base);
  const n = Number(factor ?? 1);
  return operator === "/" ? value / n : value * n;
}

const WIDER: Readonly<Record<number, readonly ScalarType[]>> = {
  8: ["b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "b64", "u64", "s64"],
  16: ["b16", "u16", "s16", "b32", "u32", "s32", "b64", "u64", "s64"],
  32: ["b32", "u32", "s32", "b64", "u64", "s64"],
  64: ["b64", "u64", "s64"],
};

function parseScalar(text: string, access: Access, context: Context): ScalarSpec {
  let rest = text;
  const negatable = rest.startsWith("!");
  if (negatable) rest = rest.slice(1);
  const relaxed = rest.endsWith("~");
  if (relaxed) rest = rest.slice(0, -1);
  const percent = rest.indexOf("%");
  const multiple = percent < 0 ? 1n : BigInt(rest.slice(percent + 1));
  if (percent >= 0) rest = rest.slice(0, percent);
  const registerOnly = rest.startsWith("r:");
  const symbol = rest.startsWith("s:") || rest.endsWith("/s");
  const constantPredicate = rest.endsWith("/imm") || rest.endsWith("/s");
  rest = rest.replace(/^[rs]:/, "").replace(/\/(imm|s)$/, "");
  const type = namedType(rest, context);
  const row = operandTypes[type];
  const constant = access === "read" && !registerOnly;
  return {
    kind: "scalar",
    type,
    registers: relaxed ? relaxedRegisters(type) : row.registers,
    integer:
      constant && (row.kind === "pred" ? constantPredicate : row.kind === "int" || row.kind === "bits"),
    float: constant && (row.kind === "float" || row.kind === "bits"),
    symbol,
    negatable,
    multiple,
  };
}

/** ld, st and cvt take registers wider than the type: integer types any integer, float types untyped ones (§9.4.1). */
function relaxedRegisters(type: OperandType): readonly ScalarType[] {
  const row = operandTypes[type];
  const wider = WIDER[row.bits] ?? [];
  const allowed =
    row.kind === "float" || row.kind === "packed" ? wider.filter((name) => name.startsWith("b")) : wider;
  return [...new Set<ScalarType>([...row.registers, ...allowed])];
}

function namedType(name: string, context: Context): OperandType {
  const resolved =
    name === "T"
      ? context.type
      : name === "D"
        ? context.destinationType
        : name === "W"
          ? widened[context.type as keyof typeof widened]
          : name;
  if (resolved === null || resolved === undefined || !isOperandType(resolved)) {
    throw new RangeError(
      `the instruction table has no type ${name} for ${context.row.opcode} ${context.row.mods}`,
    );
  }
  return resolved;
}
