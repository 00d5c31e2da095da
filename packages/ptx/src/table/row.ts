/**
 * What an instruction does beyond writing registers.
 * - `pure`: result depends on the operands only (and on special registers read by mov);
 * - `read`, `write`, `readwrite`: memory, in program order (the space is a modifier, generic without one);
 * - `async`: starts work that another agent completes later; `wait`: waits for such work or tests it;
 * - `barrier`: waits for or signals threads; `fence`: orders memory; `collective`: exchanges registers in a warp;
 * - `control`: changes the program counter; `hint`: may be dropped without changing any result;
 * - `system`: changes or reads the state of the machine (setmaxnreg, trap, nanosleep, allocation).
 */
export type Effect =
  | "pure"
  | "read"
  | "write"
  | "readwrite"
  | "async"
  | "wait"
  | "barrier"
  | "fence"
  | "collective"
  | "control"
  | "hint"
  | "system";

/** PTX version (major, minor) and the least architecture, e.g. [7, 0, 80]; `only` lists the exact targets where not all above do. */
export interface Requirement {
  readonly since: readonly [major: number, minor: number, sm: number];
  readonly only?: readonly string[];
}

export interface InstructionRow extends Requirement {
  /** All leading words that are always there, e.g. `cp.async.bulk.tensor`; the longest opcode that fits a mnemonic wins. */
  readonly opcode: string;
  readonly mods: string;
  readonly args: readonly string[];
  /** Further requirements of a modifier, or of several together (`sys.b128`). */
  readonly needs?: Readonly<Record<string, Requirement>>;
  readonly effect: Effect;
}

type Since = Requirement["since"];
type Own = Partial<Requirement> & Pick<InstructionRow, "needs">;

/** What rows have in common: what they do, and what is required of all that say nothing else. */
type Common = Own & Pick<InstructionRow, "effect">;

/** A row: opcode and modifiers, operands, and since when, where it is not since the others. */
type Member<C> = C extends { readonly since: Since }
  ? readonly [form: string, operands: string, own?: Since | Own]
  : readonly [form: string, operands: string, own: Since | (Own & { readonly since: Since })];

type RowOf<O, A> = Omit<InstructionRow, "opcode" | "args"> & { readonly opcode: O; readonly args: A };
type OpcodeOf<F> = F extends `${infer O} ${string}` ? O : F;
type Words<S> = S extends "" ? [] : S extends `${infer W} ${infer R}` ? [W, ...Words<R>] : [S];

/** Rows that have the rest in common. Words of a form and of its operands stand between single spaces. */
export function family<const C extends Common, const M extends readonly Member<C>[]>(
  common: C,
  members: M,
): { readonly [K in keyof M]: RowOf<OpcodeOf<M[K][0]>, Words<M[K][1]>> } {
  const rows = members.map(([form, operands, own = {}]) => {
    const [opcode = "", ...mods] = form.split(" ");
    const args = operands === "" ? [] : operands.split(" ");
    return { ...common, opcode, mods: mods.join(" "), args, ...(Array.isArray(own) ? { since: own } : own) };
  });
  return rows as never;
}

/** Datacentre Blackwell, where tcgen05 and its companions are: family (`f`) and architecture (`a`) targets. */
export const BLACKWELL = [
  "sm_100a",
  "sm_100f",
  "sm_101a",
  "sm_101f",
  "sm_103a",
  "sm_103f",
  "sm_110a",
  "sm_110f",
] as const;

/** Consumer Blackwell. */
const BLACKWELL_120 = ["sm_120a", "sm_120f", "sm_121a", "sm_121f"] as const;

/** Architecture targets after Hopper taken together. */
export const BLACKWELL_ALL = [...BLACKWELL, ...BLACKWELL_120] as const;

export const HOPPER_AND_BLACKWELL = ["sm_90a", ...BLACKWELL_ALL] as const;

/** Operand types, the storage each takes and the register types it accepts (PTX ISA 9.0 §9.2, checked against ptxas 13.0). */
export const operandTypes = {
  pred: { bits: 1, kind: "pred", registers: ["pred"] },
  b8: { bits: 8, kind: "bits", registers: ["b8", "u8", "s8"] },
  u8: { bits: 8, kind: "int", registers: ["u8", "s8", "b8"] },
  s8: { bits: 8, kind: "int", registers: ["s8", "u8", "b8"] },
  b16: { bits: 16, kind: "bits", registers: ["b16", "u16", "s16", "f16", "bf16"] },
  u16: { bits: 16, kind: "int", registers: ["u16", "s16", "b16"] },
  s16: { bits: 16, kind: "int", registers: ["s16", "u16", "b16"] },
  f16: { bits: 16, kind: "float", registers: ["f16", "b16"] },
  bf16: { bits: 16, kind: "float", registers: ["bf16", "b16"] },
  e4m3x2: { bits: 16, kind: "packed", registers: ["b16"] },
  e5m2x2: { bits: 16, kind: "packed", registers: ["b16"] },
  ue8m0x2: { bits: 16, kind: "packed", registers: ["b16"] },
  e2m1x2: { bits: 8, kind: "packed", registers: ["b8"] },
  e2m3x2: { bits: 16, kind: "packed", registers: ["b16"] },
  e3m2x2: { bits: 16, kind: "packed", registers: ["b16"] },
  e2m1x4: { bits: 16, kind: "packed", registers: ["b16"] },
  e4m3x4: { bits: 32, kind: "packed", registers: ["b32"] },
  e5m2x4: { bits: 32, kind: "packed", registers: ["b32"] },
  e2m3x4: { bits: 32, kind: "packed", registers: ["b32"] },
  e3m2x4: { bits: 32, kind: "packed", registers: ["b32"] },
  b32: { bits: 32, kind: "bits", registers: ["b32", "u32", "s32", "f32", "f16x2", "bf16x2"] },
  u32: { bits: 32, kind: "int", registers: ["u32", "s32", "b32"] },
  s32: { bits: 32, kind: "int", registers: ["s32", "u32", "b32"] },
  f32: { bits: 32, kind: "float", registers: ["f32", "b32"] },
  tf32: { bits: 32, kind: "float", registers: ["b32"] },
  f16x2: { bits: 32, kind: "packed", registers: ["f16x2", "b32"] },
  bf16x2: { bits: 32, kind: "packed", registers: ["bf16x2", "b32"] },
  u16x2: { bits: 32, kind: "packed", registers: ["b32"] },
  s16x2: { bits: 32, kind: "packed", registers: ["b32"] },
  /** Packed values without a type of their own (bf16, tf32, fp8 fragments): untyped registers only. */
  word: { bits: 32, kind: "packed", registers: ["b32"] },
  b64: { bits: 64, kind: "bits", registers: ["b64", "u64", "s64", "f64"] },
  u64: { bits: 64, kind: "int", registers: ["u64", "s64", "b64"] },
  s64: { bits: 64, kind: "int", registers: ["s64", "u64", "b64"] },
  f64: { bits: 64, kind: "float", registers: ["f64", "b64"] },
  f32x2: { bits: 64, kind: "packed", registers: ["b64"] },
  b128: { bits: 128, kind: "bits", registers: ["b128"] },
} as const satisfies Record<
  string,
  { bits: number; kind: "pred" | "bits" | "int" | "float" | "packed"; registers: readonly string[] }
>;

export type OperandType = keyof typeof operandTypes;

/** `word` is of the notation, not a modifier. */
export const isOperandType = (text: string): text is OperandType => Object.hasOwn(operandTypes, text);

/** T at twice the width, what `W` stands for. */
export const widened = {
  u16: "u32",
  s16: "s32",
  u32: "u64",
  s32: "s64",
} as const satisfies Partial<Record<OperandType, OperandType>>;
