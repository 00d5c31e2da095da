/**
 * The shape of the instruction table: one row per instruction form.
 *
 * A row is data, written in two small notations so that a page of rows reads like the ISA's syntax boxes.
 *
 * Modifiers (`mods`): slots separated by blanks, in the ISA's order; `a|b|c` are alternatives, a trailing `?` makes the
 * slot optional; an alternative of several words (`xorsign.abs`) is all of them or none. `"rn|rz|rm|rp ftz? sat? f32"` is `.rn/.rz/.rm/.rp{.ftz}{.sat}.f32`.
 *
 * Operands (`args`): one string each.
 *
 * | notation | operand |
 * |---|---|
 * | `u32`, `b64`, `pred` … | register of that type; when read, also an immediate |
 * | `T` | the instruction's type: the last type among the modifiers |
 * | `D` | the type before that (`cvt.D.T`, `set.D.T`), or T where there is one type |
 * | `W` | T at twice the width (`mul.wide.u32` writes 64 bits) |
 * | `T~` | register may be wider than the type (ld, st, cvt) |
 * | `s:T` | also a symbol or a special register (mov) |
 * | `r:b64` | register only, no immediate |
 * | `V:T~` | a vector of as many registers as `.v2`, `.v4`, `.v8` says; one register without it |
 * | `b32*4` | a vector of exactly four; `*1` may be written without braces |
 * | `f32*N/2`, `b32*X*2` | counted by N of `mMnNkK` or X of `.xX` |
 * | `!pred` | a predicate that may be negated |
 * | `!pred/imm` | the same, or an integer |
 * | `pred|pred`, `T|pred` | the second half is optional: `p` or `p|q` |
 * | `T&pred` | the second half is always there |
 * | `u32%16` | a constant must be a multiple of 16 |
 * | `sink` | `_` and nothing else |
 * | `r:u32*L`, `r:u16*I` | as many as an output-lane mask, an im2col mode needs |
 * | `[]` | memory; `[global]`, `[shared]`, `[tmem]`, `[tmem b32]` say which space, which decides the address register |
 * | `[tensor]` | `[map, {c0, c1}]` |
 * | `imm`, `imm:0:255`, `imm:24:256:8`, `imm:4,8,16` | an integer constant: any, in a range, in steps, one of a list |
 * | `label`, `targets`, `callee`, `list`, `prototype` | what bra, brx.idx and call name |
 *
 * A leading `=` marks what is written, `+` what is read and written, `=_` and `+_` also take the sink `_`.
 * A trailing `?` marks an operand that may be left out; `@m` one that is there exactly when modifier `m` is, `@a|b` when any is.
 */
import type { PtxVersion } from "@tilewright/ir";

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

export const versionOf = (r: Requirement): PtxVersion => [r.since[0], r.since[1]];

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
export const BLACKWELL_120 = ["sm_120a", "sm_120f", "sm_121a", "sm_121f"] as const;

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
