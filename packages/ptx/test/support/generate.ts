/** Random legal instructions of a table row, for the round-trip property and for ptxas. */
import type { Operand, ScalarType } from "../../src/ast.ts";
import { makeInstruction } from "../../src/builder.ts";
import type { Argument, ScalarSpec } from "../../src/form.ts";
import { matchOperands } from "../../src/match.ts";
import { resolveMnemonic, slotsOf } from "../../src/resolve.ts";
import type { InstructionRow } from "../../src/table/row.ts";

/** Next number of a stream, uniform in [0, 1). */
export type Random = () => number;

/** A small deterministic generator (mulberry32). */
export function random(seed: number): Random {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = a;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const pick = <T>(list: readonly T[], rnd: Random): T => {
  const value = list[Math.floor(rnd() * list.length)];
  if (value === undefined) throw new Error("nothing to pick from");
  return value;
};

/** Registers that `declarations` declares: %b32_0 to %b32_511 and so on. */
const REGISTERS = 512;
const DECLARED: readonly ScalarType[] = [
  "pred",
  "b8",
  "u8",
  "s8",
  "b16",
  "u16",
  "s16",
  "f16",
  "b32",
  "u32",
  "s32",
  "f32",
  "f16x2",
  "b64",
  "u64",
  "s64",
  "f64",
  "b128",
];
export const declarations = DECLARED.map((t) => `.reg .${t} %${t}_<${REGISTERS}>;`).join("\n");

export interface Generated {
  readonly mnemonic: string;
  readonly operands: readonly Operand[];
}

/** A random mnemonic of the row. */
function generateMnemonic(row: InstructionRow, rnd: Random): string {
  const words = [row.opcode];
  for (const slot of slotsOf(row)) {
    if (slot.optional && rnd() < 0.6) continue;
    words.push(pick(slot.alternatives, rnd));
  }
  return words.join(".");
}

/** A random instruction of the row; null where the random modifiers belong to other rows. */
export function generateInstruction(row: InstructionRow, rnd: Random, constants = true): Generated | null {
  const mnemonic = generateMnemonic(row, rnd);
  const resolution = resolveMnemonic(mnemonic);
  if (!resolution.ok) throw new Error(`${mnemonic}: ${resolution.message}`);
  const form = resolution.forms.find((f) => f.row === row);
  if (!form) return null;
  const counter = { next: 0 };
  const operands: Operand[] = [];
  for (const argument of form.arguments) {
    if (argument.optional && rnd() < 0.5) continue;
    operands.push(operand(argument, rnd, counter, constants));
  }
  if (!matchOperands(form, operands).ok) throw new Error(`${mnemonic}: generated operands do not fit`);
  makeInstruction(mnemonic, operands);
  return { mnemonic, operands };
}

interface Counter {
  next: number;
}

function register(types: readonly ScalarType[], counter: Counter): Operand {
  const type = types.find((t) => DECLARED.includes(t));
  if (type === undefined) throw new Error(`no register for ${types.join()}`);
  counter.next = (counter.next + 1) % REGISTERS;
  return { kind: "register", name: `%${type}_${counter.next}`, type };
}

function scalar(spec: ScalarSpec, read: boolean, rnd: Random, counter: Counter, constants: boolean): Operand {
  if (read && constants && rnd() < 0.25) {
    if (spec.integer && spec.type !== "pred" && !spec.registers[0]?.startsWith("f"))
      return { kind: "integer", value: BigInt(Math.floor(rnd() * 8)) * spec.multiple };
    if (spec.float && spec.type === "f32") return { kind: "float", format: "f32", bits: 0x3f800000n };
    if (spec.float && spec.type === "f64") return { kind: "float", format: "f64", bits: 0x3ff0000000000000n };
  }
  const value = register(pickOrder(spec.registers, rnd), counter);
  if (spec.negatable && read && value.kind === "register" && value.type === "pred" && rnd() < 0.3) {
    return { kind: "not", operand: value };
  }
  return value;
}

/** The accepted types in a random order, so that every accepted register type turns up. */
const pickOrder = (types: readonly ScalarType[], rnd: Random): ScalarType[] =>
  types
    .map((type) => ({ type, key: rnd() }))
    .sort((a, b) => a.key - b.key)
    .map(({ type }) => type);

function operand(argument: Argument, rnd: Random, counter: Counter, constants: boolean): Operand {
  const spec = argument.spec;
  const read = argument.access === "read";
  switch (spec.kind) {
    case "scalar":
      return scalar(spec, read, rnd, counter, constants);
    case "vector": {
      // All registers of a vector have one type.
      const registers = pickOrder(spec.element.registers, rnd)
        .filter((t) => DECLARED.includes(t))
        .slice(0, 1);
      const element = { ...spec.element, registers };
      const elements = Array.from({ length: spec.count ?? 4 }, () =>
        scalar(element, read, rnd, counter, constants && spec.count !== null && spec.count <= 8),
      );
      return { kind: "vector", elements };
    }
    case "pair": {
      const first = scalar(spec.first, read, rnd, counter, constants);
      if (!spec.required && rnd() < 0.5) return first;
      return { kind: "pair", first, second: scalar(spec.second, read, rnd, counter, constants) };
    }
    case "address": {
      const offset = BigInt(Math.floor(rnd() * 4) * 64);
      if (rnd() < 0.3 && spec.space === "shared") {
        return { kind: "address", base: { kind: "symbol", name: "smem", offset: 0n }, offset };
      }
      const base = register(pickOrder(spec.registers, rnd), counter);
      if (base.kind !== "register") throw new Error("unreachable");
      return { kind: "address", base, offset };
    }
    case "tensor": {
      const base = register(["b64"], counter);
      if (base.kind !== "register") throw new Error("unreachable");
      const coordinates = Array.from({ length: spec.coordinates }, () => register(["b32"], counter));
      return { kind: "tensor", base, offset: 0n, coordinates };
    }
    case "immediate": {
      const range = spec.ranges.length === 0 ? null : pick(spec.ranges, rnd);
      if (range === null) return { kind: "integer", value: 1n };
      const steps = Number((range.high - range.low) / range.step);
      return { kind: "integer", value: range.low + range.step * BigInt(Math.floor(rnd() * (steps + 1))) };
    }
    case "label":
      return { kind: "symbol", name: "LABEL", offset: 0n };
    case "targets":
      return { kind: "symbol", name: "TARGETS", offset: 0n };
    case "callee":
      return { kind: "symbol", name: "callee", offset: 0n };
    case "prototype":
      return { kind: "symbol", name: "PROTO", offset: 0n };
    case "sink":
      return { kind: "sink" };
    case "list":
      return { kind: "list", elements: [] };
    default:
      return spec satisfies never;
  }
}
