/** The decoded form of a kernel: what the loader makes of PTX syntax and the compiler and the scheduler run. */
import type { SourceLocation } from "@tilewright/core";
import type { ScalarType } from "@tilewright/ptx";
import type { Site } from "../checkers/findings.ts";
import type { RuleId } from "../checkers/rules.ts";
import type { LaneEmitter } from "../compile/emitter.ts";
import type { Execution, Group, Machine } from "../machine/state.ts";

/**
 * How a register is represented, in the register file and in generated code:
 * `i32` one 32-bit word (also predicates as 0 and 1, and 8- and 16-bit registers, zero-extended);
 * `f32` one word, a JavaScript number that is exact in f32; `i64` two words, low first, in two slots;
 * `f64` one double over two slots.
 */
type RegisterClass = "i32" | "f32" | "i64" | "f64";

export interface Register {
  /** Dense number in its kernel. */
  readonly id: number;
  readonly name: string;
  readonly type: ScalarType;
  readonly bits: 1 | 8 | 16 | 32 | 64;
  /** Chosen by how instructions use the register (compile/classes.ts), not by its declaration. */
  cls: RegisterClass;
  /** First slot in the register file: word `slot * 32 + lane` of the warp's file. */
  slot: number;
  /** Its value in every thread, where one `mov` of a number is all that writes it. */
  constant: Operand | null;
  /** Register that holds 1 where this one has been written, for registers that some path may read unwritten. */
  written: Register | null;
}

/** Where a variable lives. `offset` is relative to its window (shared, local, param) or absolute in the arena (global, const). */
export interface Variable {
  readonly name: string;
  readonly space: "global" | "const" | "shared" | "local" | "param";
  readonly size: number;
  readonly align: number;
  /** Extern shared arrays start where the static ones end; their size comes with the launch. */
  readonly dynamic: boolean;
  /** Bytes from its start on whose value is whatever lay there, and which may be read. */
  readonly given?: number;
  offset: number;
}

export type Operand =
  | { readonly kind: "register"; readonly register: Register; readonly negated: boolean }
  /** Two's complement in 64 bits; `float` is set for floating-point literals, whose format says how wide `bits` is. */
  | { readonly kind: "immediate"; readonly bits: bigint; readonly float: "f32" | "f64" | "decimal" | null }
  | { readonly kind: "special"; readonly name: string }
  | { readonly kind: "symbol"; readonly variable: Variable; readonly offset: number }
  | { readonly kind: "vector"; readonly elements: readonly Operand[] }
  | { readonly kind: "pair"; readonly first: Operand; readonly second: Operand }
  | AddressOperand
  /** A tensor map's address and the coordinates of a box. */
  | TensorOperand
  | { readonly kind: "sink" };

export interface AddressOperand {
  readonly kind: "address";
  readonly base: Operand;
  readonly offset: number;
}

export interface TensorOperand {
  readonly kind: "tensor";
  readonly base: Operand;
  readonly offset: number;
  readonly coordinates: readonly Operand[];
}

export interface Guard {
  readonly register: Register;
  readonly negated: boolean;
}

/** Plain f32 arithmetic, round to nearest even with subnormals: what runs as WebAssembly SIMD (compile/vector.ts). */
export interface VectorForm {
  readonly op: "mov" | "add" | "sub" | "mul" | "fma";
  readonly to: Operand;
  readonly from: readonly Operand[];
  /** Operands of an fma that enter with the other sign, by their number in `from`. */
  readonly negated?: readonly number[];
}

/** The two factors of a product as expressions; `read` gives an operand's value. */
export type Factors = (read: (operand: Operand) => string) => readonly [string, string];

/** A product without a rounding, which a sum may take in (load/contract.ts). */
export interface Product {
  /** Type and flushing: a sum has the same. */
  readonly form: string;
  readonly operands: readonly Operand[];
  readonly factors: Factors;
  /** The factors are the operands. */
  readonly plain: boolean;
}

/** A sum without a rounding. */
export interface Sum {
  readonly form: string;
  readonly addends: readonly [Operand, Operand];
  /** The operation with a product, or its negation, in the place of an addend. */
  readonly fuse: (product: Product, at: 0 | 1, negated: boolean) => LaneOperation;
}

/** Emits JavaScript for one lane; runs anywhere within a region. */
export interface LaneOperation {
  readonly kind: "lane";
  readonly emit: (emitter: LaneEmitter) => string;
  /** Which bytes of the results are defined (numerics/definedness.ts), where some may be although an operand is not: one expression for each, or for all. */
  readonly defined?: (emitter: LaneEmitter) => string | readonly string[];
  readonly vector?: VectorForm;
  readonly product?: Product;
  readonly sum?: Sum;
}

/** Runs once for the active lanes of a warp and never blocks; a cut point between regions. */
interface WarpOperation {
  readonly kind: "warp";
  /** Once for a launch; what it gives runs for each execution. */
  readonly bind: (machine: Machine) => (by: Execution, mask: number) => void;
}

/** May block; ends a basic block. Returns true when the group may go on; asked again otherwise. */
export interface WaitOperation {
  readonly kind: "wait";
  readonly bind: (machine: Machine) => (by: Execution, group: Group, mask: number) => boolean;
  /**
   * Lanes that have to be here before it is asked: `warp` all live lanes (`.aligned`), `none` only those that are, an operand
   * the live lanes of that member mask.
   */
  readonly members: "warp" | "none" | Operand;
  /** Registers that an engine goes on reading or writing after the instruction (machine/held-registers.ts). */
  readonly holds?: readonly Register[];
  /** The rule that is broken when the lanes never come together; H017 for `warp` and H020 for member masks unless given. */
  readonly divergence?: RuleId;
  /** Hands values on among lanes: a result is as defined as what its lane was given. */
  readonly handsOn?: true;
}

interface BranchOperation {
  readonly kind: "branch";
  /** `.uni`: all active lanes branch together. */
  readonly uniform: boolean;
  /** Index of the instruction branched to. */
  target: number;
  readonly label: string;
}

interface IndexedBranchOperation {
  readonly kind: "indexed-branch";
  readonly index: Operand;
  targets: number[];
  readonly labels: readonly string[];
}

interface ExitOperation {
  readonly kind: "exit";
  /** `trap` ends the whole launch. */
  readonly trap: boolean;
}

export type Operation =
  | LaneOperation
  | WarpOperation
  | WaitOperation
  | BranchOperation
  | IndexedBranchOperation
  | ExitOperation;

export interface Instruction extends Site {
  readonly index: number;
  readonly mnemonic: string;
  readonly text: string;
  readonly location: SourceLocation | null;
  /** The line of the program that was compiled, by `.loc`. */
  readonly source: SourceLocation | null;
  readonly guard: Guard | null;
  readonly operation: Operation;
  readonly defs: readonly Register[];
  readonly uses: readonly Register[];
  /** Bytes one lane moves, for the counters; null for instructions that touch no memory. */
  readonly traffic: Traffic | null;
  /** How operands are read and written, for choosing register classes. */
  readonly votes: readonly Vote[];
  /** The access is strong (volatile, relaxed, acquire, atomic) and reads: a loop of these may be waiting for another block. */
  readonly strongRead: boolean;
  /** It reaches memory through an address operand. */
  readonly accesses: boolean;
  /** Registers whose values are copied into one another unchanged: they had better be of one class. */
  readonly links: readonly (readonly [Register, Register])[];
}

export interface Traffic {
  readonly space: "global" | "shared" | "local";
  readonly read: number;
  readonly written: number;
}

export interface Vote {
  readonly register: Register;
  readonly as: "int" | "float";
}

/** A kernel ready to be compiled for a launch. */
export interface Kernel {
  readonly name: string;
  readonly parameters: readonly Variable[];
  readonly parameterTypes: readonly string[];
  readonly parameterBytes: number;
  readonly registers: readonly Register[];
  readonly instructions: readonly Instruction[];
  readonly staticShared: number;
  /** Bytes of it that the system reserves, before the others: of kernels that name their registers. */
  readonly reservedShared: number;
  /** Shared variables some of which may be read before they are written. */
  readonly givenShared: readonly Variable[];
  /** Offset of dynamic shared memory in the window. */
  readonly dynamicSharedOffset: number;
  readonly localBytes: number;
  readonly maxThreads: number | null;
  readonly requiredThreads: readonly number[] | null;
  /** Blocks per cluster along each axis that `.reqnctapercluster` fixes. */
  readonly requiredCluster: readonly [number, number, number] | null;
  /** `.explicitcluster`: the launch has to name a cluster unless the kernel does. */
  readonly explicitCluster: boolean;
  /** `.maxclusterrank`: most blocks of a cluster. */
  readonly maxClusterRank: number | null;
  /** `.maxnreg`. */
  readonly maxRegisters: number | null;
}

/** ` (line 12)` or ` (line 12, matmul.py:34)`, or nothing for an instruction without a place in the text. */
export function lineOf({ location, source }: Instruction): string {
  if (location === null) return "";
  return ` (line ${location.line}${source === null ? "" : `, ${source.file}:${source.line}`})`;
}
