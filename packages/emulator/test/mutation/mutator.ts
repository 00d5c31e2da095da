/** What a mutator is: one kind of fault, the instructions it may be planted in, and who may find it. */
import type { Opcode, Statement } from "@tilewright/ptx";
import type { RuleId } from "../../src/index.ts";
import type { Site } from "./edit.ts";

/** The kinds of fault that docs/hazards/mutation.md counts. */
export const faultClasses = [
  "dropped wait",
  "wait for too little",
  "dropped fence",
  "weaker memory order",
  "dropped arrival or commit",
  "doubled arrival or commit",
  "wrong parity",
  "wrong count",
  "wrong byte count",
  "wrong mask or peer",
  "wrong threads",
  "matrix descriptor",
  "instruction descriptor",
  "tensor map and coordinates",
  "address",
  "fragment or register",
  "early release",
  "missing cluster barrier",
  "setmaxnreg",
  "tensor memory",
  "cluster launch control",
  "dropped work",
] as const;
export type FaultClass = (typeof faultClasses)[number];

/** A rule of the emulator, or `numbers`: the launch ended and C is not the product. */
export type Finder = RuleId | "numbers";

export interface Mutator {
  readonly fault: string;
  readonly class: FaultClass;
  /** Opcodes of the instruction table. */
  readonly on: readonly Opcode[];
  /** The faulty body; null where the precondition does not hold. */
  readonly edit: (site: Site) => readonly Statement[] | null;
  /** Who should find it; any other finding does not count. */
  readonly finds: readonly Finder[];
  /** Mutants per subject, spread over the sites: 2 unless given. */
  readonly most?: number;
}

// Groups of rules that answer the same question.

/** Two agents touch shared memory in no order. */
export const races = ["H009", "H010", "H011", "H012"] as const;
/** Data of an asynchronous operation is used too early, or its place is used again too early. */
export const early = ["H013", "H014", "H015", "H034", "H035"] as const;
/** The same in tensor memory. */
export const tensorOrder = ["H083", "H084", "H085"] as const;
/** A protocol of arrivals does not come out even: somebody waits forever, or there are more than expected. */
export const uneven = ["H030", "H041"] as const;
