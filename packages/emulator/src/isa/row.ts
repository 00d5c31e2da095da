/**
 * The contract of the instruction table. A row reads the modifiers and operands of one instruction through `Decoder` and
 * returns what it does. Which modifiers and types there are, and go together, is said by the table of `@tilewright/ptx`, which the parser asks: a
 * row meets nothing that is not PTX, and does not see the modifiers that all forms of its opcode have, nor hints for caches with their operand.
 * Every other modifier has to be consumed by name and every operand read: what is left over refuses the module, so that a modifier can never be
 * dropped silently.
 */
import type { OperandType, ScalarType } from "@tilewright/ptx";
import type {
  AddressOperand,
  LaneOperation,
  Operand,
  Operation,
  Register,
  TensorOperand,
} from "../load/types.ts";
import type { Execution } from "../machine/state.ts";

/** How an operand's value is seen; decides the class of the register that holds it. `any` copies bits. */
export type View = "int" | "float" | "any";

export interface Decoder {
  readonly mnemonic: string;
  /** Take modifier `name` if it is there. */
  flag(name: string): boolean;
  /** Take the first modifier that is one of `names`; null when none is there. */
  option<const T extends string>(...names: readonly T[]): T | null;
  /** As `option`, but one must be there. */
  choice<const T extends string>(...names: readonly T[]): T;
  /** Take the next type modifier. */
  type(): OperandType;
  /** Number of operands. */
  readonly operandCount: number;
  /** Operand that is written. */
  def(index: number, view?: View): Operand;
  /** Operand that is read. */
  use(index: number, view?: View): Operand;
  /** Predicate that is read: of numbers all but zero are true, as ptxas has it. */
  predicate(index: number): Operand;
  /** Whether the operand is an address in brackets. */
  isAddress(index: number): boolean;
  /** Operand of type address. */
  address(index: number): AddressOperand;
  /** Operand that is a tensor map's address with coordinates. */
  tensor(index: number): TensorOperand;
  /** Operand that must be an integer literal. */
  literal(index: number): number;
  /** Note that `from` is copied to `to` bit for bit. */
  link(to: Operand, from: Operand): void;
  /** Bytes moved by one lane. */
  traffic(space: "global" | "shared" | "local", read: number, written: number): void;
  /** Mark the access as a strong read: it may be part of a spin loop. */
  strongRead(): void;
  /** Label operand, for branches. */
  label(index: number): string;
  /** Targets of a `.branchtargets` list. */
  branchTargets(index: number): readonly string[];
  /** Refuse the instruction, saying why. */
  refuse(reason: string): never;
}

export type Row = (decoder: Decoder) => Operation;
export type Table = Readonly<Record<string, Row>>;

/** What each lane does, as JavaScript. */
export const lane = (emit: LaneOperation["emit"]): LaneOperation => ({ kind: "lane", emit });

/** What a warp does at once for its active lanes, without waiting. */
export const onWarp = (run: (by: Execution, mask: number) => void): Operation => ({
  kind: "warp",
  bind: () => run,
});

type Operands<N extends 1 | 2 | 3> = readonly [
  to: Operand,
  ...{ 1: [Operand]; 2: [Operand, Operand]; 3: [Operand, Operand, Operand] }[N],
];

/** The result and the one, two or three operands behind it, all of one view. */
export const unary = (d: Decoder, view: View = "int"): Operands<1> => [d.def(0, view), d.use(1, view)];
export const binary = (d: Decoder, view: View = "int"): Operands<2> => [...unary(d, view), d.use(2, view)];
export const ternary = (d: Decoder): Operands<3> => [...binary(d), d.use(3, "int")];

/** Types that hold integers or plain bits, by width. */
export const bitsOf = (type: ScalarType | string): number => {
  if (type === "pred") return 1;
  if (type === "e4m3x2" || type === "e5m2x2") return 16;
  if (type === "tf32") return 32;
  const digits = /(\d+)(?:x(\d+))?$/.exec(type);
  if (digits === null) return 0;
  return Number(digits[1]) * Number(digits[2] ?? 1);
};

export const isSigned = (type: string): boolean => type.startsWith("s");

/** The registers an operand names. */
export function registersOf(operand: Operand): readonly Register[] {
  switch (operand.kind) {
    case "register":
      return [operand.register];
    case "vector":
      return operand.elements.flatMap(registersOf);
    case "pair":
      return [...registersOf(operand.first), ...registersOf(operand.second)];
    case "address":
      return registersOf(operand.base);
    case "tensor":
      return [...registersOf(operand.base), ...operand.coordinates.flatMap(registersOf)];
    case "immediate":
    case "special":
    case "symbol":
    case "sink":
      return [];
  }
}
