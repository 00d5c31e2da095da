/**
 * The table's notation as TypeScript types: `OperandsOf<"ld.global.v4.f32">` is the tuple of operands that the builder takes.
 *
 * Types are computed from the opcode's rows, the last type among the modifiers (T), the one before (D) and `.vN`.
 * Which modifiers may stand together is checked at run time by the same rows: a union of every legal mnemonic would
 * have millions of members.
 */
import type {
  AddressOperand,
  FloatOperand,
  IntegerOperand,
  ListOperand,
  NotOperand,
  Operand,
  PairOperand,
  RegisterOperand,
  ScalarType,
  SinkOperand,
  SpecialOperand,
  SymbolOperand,
  TensorAddressOperand,
  VectorOperand,
} from "./ast.ts";
import type { Opcode, TableRow } from "./table/index.ts";
import type { OperandType, operandTypes, widened } from "./table/row.ts";

/** A declared register of a known type. */
export type Reg<T extends ScalarType = ScalarType> = RegisterOperand<T>;

type Words<S extends string> = S extends `${infer Head}.${infer Rest}` ? [Head, ...Words<Rest>] : [S];

/** The longest opcode that starts the mnemonic. */
type OpcodeOf<M extends string> = M extends `${infer A}.${infer B}.${infer C}.${infer D}.${infer E}`
  ? First<[`${A}.${B}.${C}.${D}.${Until<E>}`, `${A}.${B}.${C}.${D}`, `${A}.${B}.${C}`, `${A}.${B}`, A]>
  : M extends `${infer A}.${infer B}.${infer C}.${infer D}`
    ? First<[`${A}.${B}.${C}.${D}`, `${A}.${B}.${C}`, `${A}.${B}`, A]>
    : M extends `${infer A}.${infer B}.${infer C}`
      ? First<[`${A}.${B}.${C}`, `${A}.${B}`, A]>
      : M extends `${infer A}.${infer B}`
        ? First<[`${A}.${B}`, A]>
        : First<[M]>;
type Until<S extends string> = S extends `${infer Head}.${string}` ? Head : S;
type First<C extends readonly string[]> = C extends readonly [infer H, ...infer R extends readonly string[]]
  ? H extends Opcode
    ? H
    : First<R>
  : never;

/** The last operand type among the words, and the one before it. */
type TypesIn<W extends readonly string[]> = W extends readonly [infer H, ...infer R extends readonly string[]]
  ? H extends OperandType
    ? [H, ...TypesIn<R>]
    : TypesIn<R>
  : [];
type Last<L extends readonly unknown[]> = L extends readonly [...unknown[], infer T] ? T : never;
type Destination<L extends readonly unknown[]> = L extends readonly [...unknown[], infer D, unknown]
  ? D
  : Last<L>;

interface Mnemonic {
  readonly words: readonly string[];
  readonly type: unknown;
  readonly destination: unknown;
}
type Analyse<M extends string> =
  Words<M> extends infer W extends readonly string[]
    ? { readonly words: W; readonly type: Last<TypesIn<W>>; readonly destination: Destination<TypesIn<W>> }
    : never;

/** Registers that an operand of a type takes. */
type RegisterFor<T> = T extends OperandType ? Reg<(typeof operandTypes)[T]["registers"][number]> : Reg;
/** The same where wider registers are taken. */
type RelaxedFor<T> = T extends "f16" | "f32" | "f64" | "bf16"
  ? RegisterFor<T> | Reg<"b32" | "b64">
  :
      | RegisterFor<T>
      | Reg<Exclude<ScalarType, "pred" | "f16" | "f16x2" | "bf16" | "bf16x2" | "f32" | "f64" | "b128">>;
type ConstantFor<T> = T extends "f16" | "bf16" | "f32" | "f64" | "tf32"
  ? FloatOperand
  : T extends "pred" | "f16x2" | "bf16x2" | "u16x2" | "s16x2" | "f32x2" | `${string}x2` | `${string}x4`
    ? never
    : T extends `b${number}`
      ? IntegerOperand | FloatOperand
      : IntegerOperand;
type Widen<T> = T extends keyof typeof widened ? (typeof widened)[T] : never;
type Named<S extends string, M extends Mnemonic> = S extends "T"
  ? M["type"]
  : S extends "D"
    ? M["destination"]
    : S extends "W"
      ? Widen<M["type"]>
      : S;

type Registers<S extends string, M extends Mnemonic> = S extends `${infer R}%${string}`
  ? Registers<R, M>
  : S extends `!${infer R}`
    ? Registers<R, M> | NotOperand
    : S extends `r:${infer R}` | `s:${infer R}`
      ? Registers<R, M>
      : S extends `${infer R}/imm` | `${infer R}/s`
        ? Registers<R, M>
        : S extends `${infer R}~`
          ? RelaxedFor<Named<R, M>>
          : RegisterFor<Named<S, M>>;
type Constants<S extends string, M extends Mnemonic> = S extends `${infer R}%${string}`
  ? Constants<R, M>
  : S extends `!${infer R}`
    ? Constants<R, M>
    : S extends `r:${string}`
      ? never
      : S extends `s:${infer R}`
        ? Constants<R, M> | SymbolOperand | SpecialOperand
        : S extends `${string}/imm`
          ? IntegerOperand
          : S extends `${string}/s`
            ? IntegerOperand | SpecialOperand
            : S extends `${infer R}~`
              ? ConstantFor<Named<R, M>>
              : ConstantFor<Named<S, M>>;

/** Written operands: registers only. `X` adds what else is taken (the sink). */
type Written<S extends string, M extends Mnemonic, X extends Operand> = S extends `V:${infer E}`
  ? Extract<M["words"][number], "v2" | "v4" | "v8"> extends never
    ? Registers<E, M> | X
    : VectorOperand<Registers<E, M> | X>
  : S extends `${infer E}*1`
    ? VectorOperand<Registers<E, M> | X> | Registers<E, M>
    : S extends `${infer E}*${string}`
      ? VectorOperand<Registers<E, M> | X>
      : S extends `${string}&${string}`
        ? PairOperand
        : S extends `${infer A}|${string}`
          ? Registers<A, M> | PairOperand | X
          : Registers<S, M> | X;

type Read<S extends string, M extends Mnemonic> = S extends "[tensor]"
  ? TensorAddressOperand
  : S extends `[${string}`
    ? AddressOperand
    : S extends "imm" | `imm:${string}`
      ? IntegerOperand
      : S extends "sink"
        ? SinkOperand
        : S extends "label" | "targets" | "callee" | "prototype"
          ? SymbolOperand
          : S extends "list"
            ? ListOperand
            : S extends `V:${infer E}`
              ? Extract<M["words"][number], "v2" | "v4" | "v8"> extends never
                ? Registers<E, M> | Constants<E, M>
                : VectorOperand<Registers<E, M> | Constants<E, M>>
              : S extends `${infer E}*1`
                ? VectorOperand<Registers<E, M> | Constants<E, M>> | Registers<E, M>
                : S extends `${infer E}*${string}`
                  ? VectorOperand<Registers<E, M> | Constants<E, M>>
                  : Registers<S, M> | Constants<S, M>;

type One<S extends string, M extends Mnemonic> = S extends `=_${infer B}` | `+_${infer B}`
  ? Written<B, M, SinkOperand>
  : S extends `=${infer B}` | `+${infer B}`
    ? Written<B, M, never>
    : Read<S, M>;

/** Is a conditional operand (`@a|b`) there? */
type Present<Wanted extends string, M extends Mnemonic> = Wanted extends `${infer A}|${infer B}`
  ? A extends M["words"][number]
    ? true
    : Present<B, M>
  : Wanted extends M["words"][number]
    ? true
    : false;

type Tuple<A extends readonly string[], M extends Mnemonic> = A extends readonly [
  infer H extends string,
  ...infer R extends readonly string[],
]
  ? H extends `${infer S}@${infer Wanted}`
    ? Present<Wanted, M> extends true
      ? [One<S, M>, ...Tuple<R, M>]
      : Tuple<R, M>
    : H extends `${infer S}?`
      ? [One<S, M>, ...Tuple<R, M>] | Tuple<R, M>
      : [One<H, M>, ...Tuple<R, M>]
  : [];

/** A row with a double-width operand is meant exactly where the mnemonic says `.wide`. */
type Fits<A extends readonly string[], M extends Mnemonic> =
  Extract<A[number], "W" | "=W"> extends never
    ? Extract<M["words"][number], "wide"> extends never
      ? true
      : false
    : Extract<M["words"][number], "wide"> extends never
      ? false
      : true;

type RowTuples<O, M extends Mnemonic> = TableRow extends infer R
  ? R extends { readonly opcode: O; readonly args: infer A extends readonly string[] }
    ? Fits<A, M> extends true
      ? Tuple<A, M>
      : never
    : never
  : never;

/** What the compiler shows for an instruction that the table does not have. */
export interface UnknownInstruction<M extends string> {
  readonly unknownInstruction: M;
}

/**
 * The operands that a mnemonic takes, as a union of tuples (one for each form of the opcode).
 * For a mnemonic that is only known at run time it is any list of operands.
 */
export type OperandsOf<M extends string> = string extends M
  ? readonly Operand[]
  : [OpcodeOf<M>] extends [never]
    ? [UnknownInstruction<M>]
    : RowTuples<OpcodeOf<M>, Analyse<M>>;
