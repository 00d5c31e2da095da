/**
 * The typed builder: what backends emit kernels with.
 *
 * Registers are declared as they are asked for, numbered per prefix, and declared compactly (`.reg .f32 %acc<64>;`) in order
 * of first use, so equal calls give equal text. Every instruction is checked against the table as it is emitted;
 * one that does not fit is a bug of the backend and throws InternalError.
 */
import { InternalError, type PtxVersion, type SourceLocation } from "@tilewright/core";
import type {
  FunctionDirective,
  Guard,
  Instruction,
  ModuleItem,
  NotOperand,
  Operand,
  ParamDecl,
  PtxFunction,
  PtxModule,
  RegisterDecl,
  ScalarType,
  Statement,
  StateSpace,
  SymbolOperand,
  VariableDecl,
} from "./ast.ts";
import { explainOperands, selectForm } from "./match.ts";
import { sym } from "./operands.ts";
import { resolveMnemonic } from "./resolve.ts";
import type { OperandsOf, Reg } from "./typing.ts";

// ---------------------------------------------------------------- module

export interface ModuleOptions {
  readonly version: PtxVersion;
  /** `sm_90a` */
  readonly target: string;
  readonly targetOptions?: readonly string[];
}

export interface VariableOptions {
  /** Bytes. */
  readonly align?: number;
  /** Element type, b8 unless given. */
  readonly type?: ScalarType;
  /** Elements; left out: `[]` for extern shared memory, a scalar otherwise. */
  readonly length?: number;
}

export interface ParamOptions {
  readonly name: string;
  readonly type: ScalarType;
  /** Bytes. */
  readonly align?: number;
  /** Makes it an array of so many elements, e.g. 128 of b8 for a tensor map. */
  readonly length?: number;
  /** What a pointer parameter points at: `.ptr .global .align 16`. */
  readonly pointer?: { readonly space?: StateSpace; readonly align?: number };
}

/** A constant of up to three dimensions, as .maxntid takes it. */
export type Dims = readonly [x: number, y?: number, z?: number];

export interface EntryOptions {
  readonly params?: readonly ParamOptions[];
  readonly maxntid?: Dims;
  readonly reqntid?: Dims;
  readonly minnctapersm?: number;
  readonly maxnreg?: number;
  /** `.reqnctapercluster`, preceded by `.explicitcluster`. */
  readonly cluster?: Dims;
  readonly maxclusterrank?: number;
}

/** A label of one entry; `place` says where it is. */
export type LabelRef = SymbolOperand;

export interface EntryBuilder {
  readonly name: string;
  /** A new register, `%prefix0`, `%prefix1` …; one prefix has one type. Without a prefix the type has its own. */
  reg<T extends ScalarType>(type: T, prefix?: string): Reg<T>;
  /** So many new registers of consecutive numbers. */
  regs<T extends ScalarType>(type: T, count: number, prefix?: string): readonly Reg<T>[];
  /** Append an instruction. Throws InternalError if the table has no form for it. */
  emit<const M extends string>(mnemonic: M, ...operands: OperandsOf<M>): void;
  /** The same under a predicate, `@p` or `@!p`. */
  emitIf<const M extends string>(
    guard: Reg<"pred"> | NotOperand,
    mnemonic: M,
    ...operands: OperandsOf<M>
  ): void;
  /** A new label, `name`, or `name_1` … where the name is taken. */
  label(name: string): LabelRef;
  place(label: LabelRef): void;
  /** A line of comment. */
  comment(text: string): void;
  /** Shared memory of this entry; the operand is its address. */
  shared(name: string, options: VariableOptions): SymbolOperand;
  /** Any other statement (`.pragma`, `.loc`, a scope). */
  append(statement: Statement): void;
}

export interface ModuleBuilder {
  /** `.extern .shared .align 1024 .b8 name[];` */
  externShared(name: string, options?: VariableOptions): SymbolOperand;
  /** A module-level shared variable. */
  shared(name: string, options: VariableOptions): SymbolOperand;
  entry(name: string, options?: EntryOptions): EntryBuilder;
  comment(text: string): void;
  /** The module. Labels that are used and not placed throw. */
  build(): PtxModule;
}

/** Default prefix of each register type; no two types share one. */
const PREFIX: Readonly<Record<ScalarType, string>> = {
  pred: "p",
  b8: "b",
  u8: "ub",
  s8: "sb",
  b16: "h",
  u16: "uh",
  s16: "sh",
  f16: "hf",
  bf16: "bf",
  b32: "r",
  u32: "u",
  s32: "s",
  f32: "f",
  f16x2: "hx",
  bf16x2: "bx",
  b64: "rd",
  u64: "ud",
  s64: "sd",
  f64: "fd",
  b128: "q",
};

/** Start a module. */
export function moduleBuilder(options: ModuleOptions): ModuleBuilder {
  const items: (ModuleItem | (() => PtxFunction))[] = [];
  const declare = (name: string, variable: VariableOptions, linkage: "extern" | null): SymbolOperand => {
    items.push(sharedVariable(name, variable, linkage));
    return sym(name);
  };
  return {
    externShared: (name, variable = {}) => declare(name, variable, "extern"),
    shared: (name, variable) => declare(name, variable, null),
    entry(name, entryOptions = {}) {
      const { builder, finish } = entryBuilder(name, entryOptions);
      items.push(finish);
      return builder;
    },
    comment: (text) => void items.push({ kind: "comment", text }),
    build: () => ({
      kind: "module",
      version: options.version,
      target: options.target,
      targetOptions: options.targetOptions ?? [],
      addressSize: 64,
      items: items.map((item) => (typeof item === "function" ? item() : item)),
    }),
  };
}

function sharedVariable(name: string, options: VariableOptions, linkage: "extern" | null): VariableDecl {
  const dims = options.length !== undefined ? [options.length] : linkage === "extern" ? [null] : [];
  return {
    kind: "variable",
    linkage,
    space: "shared",
    attributes: [],
    align: options.align ?? null,
    vector: 1,
    type: options.type ?? "b8",
    name,
    dims,
    initialiser: null,
    location: null,
  };
}

function paramDecl(options: ParamOptions): ParamDecl {
  return {
    space: "param",
    type: options.type,
    name: options.name,
    align: options.align ?? null,
    dims: options.length === undefined ? [] : [options.length],
    pointer: options.pointer
      ? { space: options.pointer.space ?? null, align: options.pointer.align ?? null }
      : null,
  };
}

function entryDirectives(options: EntryOptions): FunctionDirective[] {
  const directives: FunctionDirective[] = [];
  const add = (name: string, ...values: number[]): void =>
    void directives.push({ name, values, strings: [] });
  const dims = (d: Dims): number[] => d.filter((n) => n !== undefined);
  if (options.maxntid) add("maxntid", ...dims(options.maxntid));
  if (options.reqntid) add("reqntid", ...dims(options.reqntid));
  if (options.cluster) {
    add("explicitcluster");
    add("reqnctapercluster", ...dims(options.cluster));
  }
  if (options.maxclusterrank !== undefined) add("maxclusterrank", options.maxclusterrank);
  if (options.minnctapersm !== undefined) add("minnctapersm", options.minnctapersm);
  if (options.maxnreg !== undefined) add("maxnreg", options.maxnreg);
  return directives;
}

function entryBuilder(
  name: string,
  options: EntryOptions,
): { builder: EntryBuilder; finish: () => PtxFunction } {
  const body: Statement[] = [];
  const variables: VariableDecl[] = [];
  /** By prefix, in order of first use: that is the order of the declarations. */
  const files = new Map<string, { type: ScalarType; count: number }>();
  const labels = new Map<string, { placed: boolean; used: boolean }>();

  const reg = <T extends ScalarType>(type: T, prefix: string = PREFIX[type]): Reg<T> => {
    let file = files.get(prefix);
    if (!file) {
      // %a1<…> and %a<…> would both declare %a10.
      if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(prefix) || /\d$/.test(prefix)) {
        throw new InternalError(`register prefix ${prefix} must be a name that does not end in a digit`);
      }
      file = { type, count: 0 };
      files.set(prefix, file);
    } else if (file.type !== type) {
      throw new InternalError(`register prefix ${prefix} is .${file.type}, not .${type}`);
    }
    return { kind: "register", name: `%${prefix}${file.count++}`, type };
  };

  const push = (guard: Guard | null, mnemonic: string, operands: readonly Operand[]): void => {
    for (const operand of operands) {
      if (operand.kind !== "symbol") continue;
      const label = labels.get(operand.name);
      if (label) label.used = true;
    }
    body.push(makeInstruction(mnemonic, operands, guard));
  };

  const builder: EntryBuilder = {
    name,
    reg,
    regs: (type, count, prefix) => Array.from({ length: count }, () => reg(type, prefix)),
    emit: (mnemonic: string, ...operands: readonly unknown[]) =>
      push(null, mnemonic, operands as readonly Operand[]),
    emitIf: (guard: Reg<"pred"> | NotOperand, mnemonic: string, ...operands: readonly unknown[]) =>
      push(
        guard.kind === "not"
          ? { register: guard.operand, negated: true }
          : { register: guard, negated: false },
        mnemonic,
        operands as readonly Operand[],
      ),
    label(wanted) {
      let unique = wanted;
      for (let i = 1; labels.has(unique); i++) unique = `${wanted}_${i}`;
      labels.set(unique, { placed: false, used: false });
      return sym(unique);
    },
    place(label) {
      const entry = labels.get(label.name);
      if (!entry) throw new InternalError(`label ${label.name} is not of entry ${name}`);
      if (entry.placed) throw new InternalError(`label ${label.name} is placed twice`);
      entry.placed = true;
      body.push({ kind: "label", name: label.name, location: null });
    },
    comment: (text) => void body.push({ kind: "comment", text }),
    shared(variable, variableOptions) {
      variables.push(sharedVariable(variable, variableOptions, null));
      return sym(variable);
    },
    append: (statement) => void body.push(statement),
  };

  const finish = (): PtxFunction => {
    for (const [label, state] of labels) {
      if (state.used && !state.placed)
        throw new InternalError(`label ${label} of entry ${name} is used but not placed`);
    }
    const registers = [...files].map(
      ([prefix, file]): RegisterDecl => ({
        kind: "registers",
        type: file.type,
        vector: 1,
        names: [{ name: `%${prefix}`, count: file.count }],
        location: null,
      }),
    );
    return {
      kind: "function",
      entry: true,
      linkage: "visible",
      name,
      returns: [],
      params: (options.params ?? []).map(paramDecl),
      directives: entryDirectives(options),
      body: [...registers, ...variables, ...body],
      location: null,
    };
  };
  return { builder, finish };
}

/**
 * One instruction, checked against the table.
 * @throws InternalError when the table has no such instruction or no form for these operands.
 */
export function makeInstruction(
  mnemonic: string,
  operands: readonly Operand[],
  guard: Guard | null = null,
  location: SourceLocation | null = null,
): Instruction {
  const resolution = resolveMnemonic(mnemonic);
  if (!resolution.ok) {
    throw new InternalError(
      resolution.hint ? `${resolution.message} (${resolution.hint})` : resolution.message,
    );
  }
  if (resolution.mnemonic !== mnemonic) {
    throw new InternalError(`the modifiers of ${mnemonic} are out of order (write ${resolution.mnemonic})`);
  }
  if (!selectForm(resolution.forms, operands)) {
    const { message, hint } = explainOperands(resolution.forms, operands);
    throw new InternalError(`${message} (${hint})`);
  }
  return {
    kind: "instruction",
    mnemonic,
    opcode: resolution.opcode,
    modifiers: resolution.modifiers,
    guard,
    operands,
    location,
  };
}
