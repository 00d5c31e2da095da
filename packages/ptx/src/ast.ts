/**
 * PTX as data: the syntax tree that the parser and the builder make, and the printer, checks and emulator read.
 * Source of the facts: PTX ISA 9.0, chapters 4 (syntax), 5 (state spaces, types), 7 (operands), 11 (directives).
 *
 * Every node is a plain immutable object. Locations are 1-based and null on nodes that a builder made;
 * comments are kept only on nodes that a builder made (the parser skips them).
 */
import type { Diagnostic, PtxVersion, SourceLocation } from "@tilewright/core";

/** Types a register, parameter or variable may be declared with. */
export type ScalarType =
  | "pred"
  | "b8"
  | "b16"
  | "b32"
  | "b64"
  | "b128"
  | "u8"
  | "u16"
  | "u32"
  | "u64"
  | "s8"
  | "s16"
  | "s32"
  | "s64"
  | "f16"
  | "f16x2"
  | "bf16"
  | "bf16x2"
  | "f32"
  | "f64";

export type StateSpace = "shared" | "global" | "local" | "const" | "param";
export type Linkage = "visible" | "extern" | "weak" | "common";

// ---------------------------------------------------------------- module

export interface PtxModule {
  readonly kind: "module";
  /** `.version 8.0` is [8, 0]. */
  readonly version: PtxVersion;
  /** `sm_90a`. */
  readonly target: string;
  /** What follows the architecture in `.target`: `debug`, `texmode_independent` and the like. */
  readonly targetOptions: readonly string[];
  readonly addressSize: 32 | 64;
  readonly items: readonly ModuleItem[];
}

export type ModuleItem =
  | PtxFunction
  | VariableDecl
  | FileDirective
  | PragmaDirective
  | SectionDirective
  | AliasDirective
  | CommentNode;

/** An `.entry` (kernel) or `.func` (device function). */
export interface PtxFunction {
  readonly kind: "function";
  readonly entry: boolean;
  readonly linkage: Linkage | null;
  readonly name: string;
  /** Result parameters; always empty for an entry. */
  readonly returns: readonly ParamDecl[];
  readonly params: readonly ParamDecl[];
  /** Performance and ABI directives in source order. */
  readonly directives: readonly FunctionDirective[];
  /** Null for a prototype. */
  readonly body: readonly Statement[] | null;
  /** Instructions of the body that the table does not know, which it lacks therefore (`ParseOptions.keep`). */
  readonly faults?: readonly Diagnostic[];
  readonly location: SourceLocation | null;
}

/** `.maxntid 128, 1, 1`, `.explicitcluster`, `.noreturn`, `.pragma "nounroll"` … */
export interface FunctionDirective {
  /** Without the dot. */
  readonly name: string;
  readonly values: readonly number[];
  /** Strings of `.pragma`; empty for the others. */
  readonly strings: readonly string[];
}

export interface ParamDecl {
  /** `reg` only in parameters of a `.func`. */
  readonly space: "param" | "reg";
  readonly type: ScalarType;
  readonly name: string;
  /** `.align` in bytes, null when not given. */
  readonly align: number | null;
  /** Array dimensions in elements; null where the brackets are empty; [] for a scalar. */
  readonly dims: readonly (number | null)[];
  /** `.ptr .global .align 16`: what the parameter points at. */
  readonly pointer: { readonly space: StateSpace | null; readonly align: number | null } | null;
}

/** A variable in a state space, at module level or in a body (also `.param` arrays of calls). */
export interface VariableDecl {
  readonly kind: "variable";
  readonly linkage: Linkage | null;
  readonly space: StateSpace;
  /** `.attribute(.managed)` gives `managed`. */
  readonly attributes: readonly string[];
  readonly align: number | null;
  /** Elements per vector: `.v4 .f32` is 4. */
  readonly vector: 1 | 2 | 4;
  readonly type: ScalarType;
  readonly name: string;
  /** In elements, outermost first; null where the brackets are empty (extern shared); [] for a scalar. */
  readonly dims: readonly (number | null)[];
  readonly initialiser: Initialiser | null;
  readonly location: SourceLocation | null;
}

export type Initialiser =
  | { readonly kind: "list"; readonly elements: readonly Initialiser[] }
  | { readonly kind: "value"; readonly value: IntegerOperand | FloatOperand | SymbolOperand }
  /** `generic(symbol)`: the generic address of a variable. */
  | { readonly kind: "generic"; readonly value: SymbolOperand }
  /** `0xFF(symbol)`: one byte of an address. */
  | { readonly kind: "masked"; readonly mask: bigint; readonly value: SymbolOperand };

export interface FileDirective {
  readonly kind: "file";
  readonly index: number;
  readonly name: string;
  /** Time stamp and size, where given. */
  readonly extra: readonly number[];
}

export interface PragmaDirective {
  readonly kind: "pragma";
  readonly strings: readonly string[];
}

/** A debug section: `.section .debug_str { … }`. Its lines are kept as they are, they have no meaning for execution. */
export interface SectionDirective {
  readonly kind: "section";
  /** `.debug_str` */
  readonly name: string;
  readonly lines: readonly SectionLine[];
}
export interface SectionLine {
  /** Labels that stand before the data. */
  readonly label: string | null;
  /** `b8` … `b64`, or null where a line is a label only. */
  readonly type: ScalarType | null;
  /** Numbers, symbols and `symbol+offset` as written. */
  readonly values: readonly string[];
}

/** `.alias f, g;` */
export interface AliasDirective {
  readonly kind: "alias";
  readonly name: string;
  readonly target: string;
}

/** `// text`; made by builders only. */
export interface CommentNode {
  readonly kind: "comment";
  readonly text: string;
}

// ---------------------------------------------------------------- body

export type Statement =
  | Instruction
  | Label
  | RegisterDecl
  | VariableDecl
  | Scope
  | LocDirective
  | PragmaDirective
  | BranchTargets
  | CallTargets
  | CallPrototype
  | CommentNode;

/** `.reg .b32 %r<10>, %x;` */
export interface RegisterDecl {
  readonly kind: "registers";
  readonly type: ScalarType;
  readonly vector: 1 | 2 | 4;
  /** `%r<10>` is { name: "%r", count: 10 } and declares %r0 to %r9; `%x` has count null. */
  readonly names: readonly { readonly name: string; readonly count: number | null }[];
  readonly location: SourceLocation | null;
}

export interface Label {
  readonly kind: "label";
  readonly name: string;
  readonly location: SourceLocation | null;
}

/** `{ … }`: registers, variables and labels declared inside are not seen outside. */
export interface Scope {
  readonly kind: "scope";
  readonly body: readonly Statement[];
}

/** `.loc 1 20 5` with what inlining added. */
export interface LocDirective {
  readonly kind: "loc";
  readonly file: number;
  readonly line: number;
  readonly column: number;
  readonly inlined: {
    readonly functionName: { readonly label: string; readonly offset: number };
    readonly file: number;
    readonly line: number;
    readonly column: number;
  } | null;
}

/** `name: .branchtargets a, b;` for `brx.idx`. */
export interface BranchTargets {
  readonly kind: "branchtargets";
  readonly name: string;
  readonly targets: readonly string[];
  readonly location: SourceLocation | null;
}

/** `name: .calltargets f, g;` */
export interface CallTargets {
  readonly kind: "calltargets";
  readonly name: string;
  readonly targets: readonly string[];
  readonly location: SourceLocation | null;
}

/** `name: .callprototype (.param .b32 _) _ (.param .b64 _);` */
export interface CallPrototype {
  readonly kind: "callprototype";
  readonly name: string;
  readonly returns: readonly ParamDecl[];
  readonly params: readonly ParamDecl[];
  readonly noreturn: boolean;
  readonly location: SourceLocation | null;
}

/** `@p` or `@!p`. */
export interface Guard {
  readonly register: RegisterOperand;
  readonly negated: boolean;
}

/**
 * One instruction. Invariant: `mnemonic` is `[opcode, ...modifiers].join(".")`.
 * The opcode is the table's name of the instruction and may have several words (`cp.async.bulk.tensor`, `bar.sync`,
 * `mbarrier.try_wait`, `tcgen05.mma`, `setp`); modifiers are the rest, without dots, always in the ISA's order (the parser
 * puts them there: ptxas takes any order and nvcc uses that).
 */
export interface Instruction {
  readonly kind: "instruction";
  readonly mnemonic: string;
  readonly opcode: string;
  readonly modifiers: readonly string[];
  readonly guard: Guard | null;
  readonly operands: readonly Operand[];
  readonly location: SourceLocation | null;
}

// ---------------------------------------------------------------- operands

export type Operand =
  | RegisterOperand
  | SpecialOperand
  | IntegerOperand
  | FloatOperand
  | SymbolOperand
  | AddressOperand
  | TensorAddressOperand
  | VectorOperand
  | PairOperand
  | NotOperand
  | SinkOperand
  | ListOperand;

/** A declared register; its name as written (`%r1`, `p`), its type as declared in the scope that was in force. */
export interface RegisterOperand<T extends ScalarType = ScalarType> {
  readonly kind: "register";
  readonly name: string;
  readonly type: T;
}

/** `%tid.x`, `%clock64`, `%cluster_ctarank`. */
export interface SpecialOperand {
  readonly kind: "special";
  readonly name: string;
}

/** An integer as written: `-1` is -1n, `0xffffffff` is 4294967295n. The instruction's type says how many bits count. */
export interface IntegerOperand {
  readonly kind: "integer";
  readonly value: bigint;
}

/**
 * A floating-point constant. `f32`: `0f3F800000`, bits are 32 wide. `f64`: `0d…`. `decimal`: `1.5`, a double that takes
 * the instruction's type; bits are the double's.
 */
export interface FloatOperand {
  readonly kind: "float";
  readonly format: "f32" | "f64" | "decimal";
  readonly bits: bigint;
}

/** A label, variable, parameter, function or prototype by name; `smem+16` has offset 16n (bytes). */
export interface SymbolOperand {
  readonly kind: "symbol";
  readonly name: string;
  readonly offset: bigint;
}

/** `[%rd1+16]`, `[smem]`, `[param_0+4]`, `[1024]`: offset in bytes, 0n when not written. */
export interface AddressOperand {
  readonly kind: "address";
  readonly base: RegisterOperand | SymbolOperand | IntegerOperand;
  readonly offset: bigint;
}

/** `[%rd1, {%r1, %r2}]`: a tensor map's address and coordinates. */
export interface TensorAddressOperand {
  readonly kind: "tensor";
  readonly base: RegisterOperand | SymbolOperand;
  readonly offset: bigint;
  readonly coordinates: readonly Operand[];
}

/** `{%f0, %f1}` */
export interface VectorOperand<E extends Operand = Operand> {
  readonly kind: "vector";
  readonly elements: readonly E[];
}

/** `%p|%q`, `%r|%p`, `_|%p` */
export interface PairOperand {
  readonly kind: "pair";
  readonly first: Operand;
  readonly second: Operand;
}

/** `!%p` */
export interface NotOperand {
  readonly kind: "not";
  readonly operand: RegisterOperand;
}

/** `_`: the result is not wanted. */
export interface SinkOperand {
  readonly kind: "sink";
}

/** `(a, b)`: arguments or results of `call`. */
export interface ListOperand {
  readonly kind: "list";
  readonly elements: readonly Operand[];
}
