/** From the table's operand notation (row.ts) to data: a row with the modifiers of one mnemonic filled in. */

import type { ScalarType } from "./ast.ts";
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

/** Fill a row with a mnemonic's modifiers, which must fit its slots. */
export function makeForm(row: InstructionRow, mnemonic: string, modifiers: readonly string[]): Form {
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
  const registers = wide ? INT64 : space === "tmem" ? INT32 : space === "tmem:b32" ? UNTYPED32 : INT32_64;
  return { kind: "address", space: space.split(":", 1)[0] ?? space, registers };
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
