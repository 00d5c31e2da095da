/** One instruction from syntax to what it does: names resolved, modifiers and operands handed to the table's row. */
import { entryOf, type SourceLocation } from "@tilewright/core";
import {
  isOperandType,
  type OperandType,
  type Instruction as PtxInstruction,
  type Operand as PtxOperand,
  printInstruction,
  rowsByOpcode,
} from "@tilewright/ptx";
import { type Decoder, registersOf, type View } from "../isa/row.ts";
import { specialRegisters } from "../isa/special.ts";
import { instructionTable } from "../isa/table.ts";
import { makeRegister } from "./flatten.ts";
import { reservedSharedName } from "./layout.ts";
import { Refusal } from "./refusal.ts";
import type { Scope } from "./scope.ts";
import type {
  AddressOperand,
  Guard,
  Instruction,
  Operand,
  Register,
  TensorOperand,
  Traffic,
  Variable,
  Vote,
} from "./types.ts";

/** What decoding one kernel gathers. */
export interface DecodeContext {
  readonly registers: Register[];
  /** The carry flag of add.cc and its kin, made when first used. */
  carry: Register | null;
  /** Variables that some instruction names. */
  readonly used: Set<Variable>;
  /** Special registers that point into the shared memory which the system reserves: the offsets there. */
  readonly reserved: Readonly<Record<string, number>>;
}

const fixed = new Map<string, readonly string[]>();

/** Modifiers that all forms of an opcode have. */
function fixedWords(opcode: string): readonly string[] {
  return entryOf(fixed, opcode, () => {
    const [first = [], ...others] = (rowsByOpcode.get(opcode) ?? []).map(({ mods }) => mods.split(" "));
    return first.filter((word) => /^[^|?]+$/.test(word) && others.every((mods) => mods.includes(word)));
  });
}

/** Hints for caches change no value. */
const isHint = (word: string): boolean => /^L[12]::/.test(word);

/** The modifiers by which an instruction differs from others of its opcode. */
function decidingWords({ opcode, modifiers }: PtxInstruction): string[] {
  const words = modifiers.filter((word) => !isHint(word));
  for (const word of fixedWords(opcode)) if (words.includes(word)) words.splice(words.indexOf(word), 1);
  return words;
}

class InstructionDecoder implements Decoder {
  readonly mnemonic: string;
  readonly defs: Register[] = [];
  readonly uses: Register[] = [];
  readonly votes: Vote[] = [];
  readonly links: (readonly [Register, Register])[] = [];
  traffics: Traffic | null = null;
  isStrongRead = false;
  accesses = false;
  readonly #words: string[];
  #operands: readonly PtxOperand[];
  readonly #consumed = new Set<number>();
  readonly #scope: Scope;
  readonly #context: DecodeContext;

  constructor(syntax: PtxInstruction, scope: Scope, context: DecodeContext) {
    this.mnemonic = syntax.mnemonic;
    this.#words = decidingWords(syntax);
    this.#operands = syntax.operands;
    this.#scope = scope;
    this.#context = context;
    if (!syntax.modifiers.includes("L2::cache_hint")) return;
    // The policy is the last operand, but for the mask of a copy.
    const policy = this.#operands.length - (this.#words.includes("cp_mask") ? 2 : 1);
    this.use(policy, "int");
    this.#operands = this.#operands.toSpliced(policy, 1);
    this.#consumed.clear();
  }

  get operandCount(): number {
    return this.#operands.length;
  }

  flag(name: string): boolean {
    return this.option(name) !== null;
  }

  option<const T extends string>(...names: readonly T[]): T | null {
    for (const [k, word] of this.#words.entries()) {
      const name = names.find((n) => n === word);
      if (name === undefined) continue;
      this.#words.splice(k, 1);
      return name;
    }
    return null;
  }

  choice<const T extends string>(...names: readonly T[]): T {
    return this.option(...names) ?? this.refuse(`needs one of ${names.map((n) => `.${n}`).join(" ")}`);
  }

  type(): OperandType {
    const type = this.#words.find(isOperandType) ?? this.refuse("needs a type");
    return this.choice(type);
  }

  def(index: number, view: View = "any"): Operand {
    const operand = index < 0 ? this.#carry() : this.#operand(index);
    const registers = registersOf(operand);
    this.defs.push(...registers);
    this.#vote(registers, view);
    return operand;
  }

  use(index: number, view: View = "any"): Operand {
    const operand = index < 0 ? this.#carry() : this.#operand(index);
    const registers = registersOf(operand);
    this.uses.push(...registers);
    this.#vote(registers, view);
    return operand;
  }

  predicate(index: number): Operand {
    const operand = this.use(index, "int");
    return operand.kind === "immediate" ? { ...operand, bits: operand.bits === 0n ? 0n : 1n } : operand;
  }

  isAddress(index: number): boolean {
    return this.#operands[index]?.kind === "address";
  }

  address(index: number): AddressOperand {
    const operand = this.#operand(index);
    if (operand.kind !== "address") return this.refuse(`operand ${index + 1} has to be an address`);
    this.accesses = true;
    const registers = registersOf(operand);
    this.uses.push(...registers);
    this.#vote(registers, "int");
    return operand;
  }

  tensor(index: number): TensorOperand {
    const operand = this.#operand(index);
    if (operand.kind !== "tensor")
      return this.refuse(`operand ${index + 1} has to be a tensor map with coordinates`);
    const registers = registersOf(operand);
    this.uses.push(...registers);
    this.#vote(registers, "int");
    return operand;
  }

  literal(index: number): number {
    const operand = this.#operand(index);
    if (operand.kind !== "immediate") return this.refuse(`operand ${index + 1} has to be a number`);
    return Number(operand.bits);
  }

  link(to: Operand, from: Operand): void {
    if (to.kind === "register" && from.kind === "register") this.links.push([to.register, from.register]);
  }

  traffic(space: Traffic["space"], read: number, written: number): void {
    this.traffics = { space, read, written };
  }

  strongRead(): void {
    this.isStrongRead = true;
  }

  label(index: number): string {
    const operand = this.#operands[index];
    this.#consumed.add(index);
    return operand?.kind === "symbol" ? operand.name : this.refuse("needs a label");
  }

  branchTargets(index: number): readonly string[] {
    const entity = this.#scope.find(this.label(index));
    return entity?.kind === "targets"
      ? entity.labels
      : this.refuse("needs the name of a .branchtargets list");
  }

  refuse(reason: string): never {
    throw new Refusal("TW5011", `${this.mnemonic} is not emulated: ${reason}`);
  }

  /** Everything must have been read: what nobody consumed would be ignored silently. */
  finish(): void {
    const [word] = this.#words;
    if (word !== undefined)
      throw new Refusal("TW5011", `${this.mnemonic}: the modifier .${word} is not emulated here`);
    for (let k = 0; k < this.#operands.length; k++)
      if (!this.#consumed.has(k))
        throw new Refusal("TW5012", `${this.mnemonic}: operand ${k + 1} is one too many`);
  }

  #vote(registers: readonly Register[], view: View): void {
    if (view === "any") return;
    for (const register of registers) this.votes.push({ register, as: view });
  }

  #carry(): Operand {
    this.#context.carry ??= makeRegister(this.#context.registers, "%carry", "pred");
    return { kind: "register", register: this.#context.carry, negated: false };
  }

  #operand(index: number): Operand {
    const operand = this.#operands[index];
    if (operand === undefined)
      throw new Refusal("TW5012", `${this.mnemonic}: operand ${index + 1} is missing`);
    this.#consumed.add(index);
    return this.#resolve(operand);
  }

  #resolve(operand: PtxOperand): Operand {
    switch (operand.kind) {
      case "register":
        return this.#registerOperand(operand.name);
      case "not":
        return { kind: "register", register: this.#register(operand.operand.name), negated: true };
      case "special": {
        const offset = this.#context.reserved[operand.name];
        if (offset !== undefined)
          return { kind: "symbol", variable: this.#variable(reservedSharedName), offset };
        if (specialRegisters[operand.name] === undefined)
          throw new Refusal("TW5014", `the special register ${operand.name} is not emulated`);
        return { kind: "special", name: operand.name };
      }
      case "integer":
        return { kind: "immediate", bits: operand.value, float: null };
      case "float":
        return { kind: "immediate", bits: operand.bits, float: operand.format };
      case "symbol": {
        const entity = this.#scope.find(operand.name);
        if (entity?.kind === "function") return { kind: "immediate", bits: entity.address, float: null };
        return { kind: "symbol", variable: this.#variable(operand.name), offset: Number(operand.offset) };
      }
      case "address": {
        const base = this.#resolve(operand.base);
        const offset = Number(BigInt.asIntN(32, operand.offset));
        return { kind: "address", base, offset };
      }
      case "vector":
        return { kind: "vector", elements: operand.elements.map((x) => this.#resolve(x)) };
      case "pair":
        return { kind: "pair", first: this.#resolve(operand.first), second: this.#resolve(operand.second) };
      case "sink":
        return { kind: "sink" };
      case "tensor":
        return {
          kind: "tensor",
          base: this.#resolve(operand.base),
          offset: Number(BigInt.asIntN(32, operand.offset)),
          coordinates: operand.coordinates.map((x) => this.#resolve(x)),
        };
      case "list":
        throw new Refusal("TW5012", `${this.mnemonic}: operands of this kind are not emulated`);
    }
  }

  /** A 128-bit register is seen as its four words. */
  #registerOperand(name: string): Operand {
    const entity = this.#scope.find(name);
    if (entity?.kind !== "words") return { kind: "register", register: this.#register(name), negated: false };
    const elements = entity.registers.map(
      (register) => ({ kind: "register", register, negated: false }) as const,
    );
    return { kind: "vector", elements };
  }

  #register(name: string): Register {
    const entity = this.#scope.find(name);
    if (entity?.kind === "register") return entity.register;
    throw new Refusal("TW5012", `${name} is not declared`);
  }

  #variable(name: string): Variable {
    const entity = this.#scope.find(name);
    if (entity?.kind !== "variable")
      throw new Refusal(
        "TW5012",
        `${name} names no variable${entity === null ? "" : `, it is a ${entity.kind}`}`,
      );
    this.#context.used.add(entity.variable);
    return entity.variable;
  }
}

/** Registers of a list that a text shows in full. */
const shownElements = 8;

/** An instruction as reports quote it: of a long list of registers, as wgmma and tcgen05.ld have, the first and the last. */
const shortened = (text: string): string =>
  text.replace(/\{([^{}]*)\}/g, (whole, list: string) => {
    const elements = list.split(", ");
    return elements.length <= shownElements ? whole : `{${elements[0]}, ..., ${elements.at(-1)}}`;
  });

/** Throws `Refusal` for what the emulator does not execute. */
export function decodeInstruction(
  syntax: PtxInstruction,
  scope: Scope,
  index: number,
  context: DecodeContext,
  source: SourceLocation | null,
): Instruction {
  const { opcode } = syntax;
  const row = Object.hasOwn(instructionTable, opcode) ? instructionTable[opcode] : undefined;
  if (row === undefined) throw new Refusal("TW5010", `the instruction ${syntax.mnemonic} is not emulated`);
  const decoder = new InstructionDecoder(syntax, scope, context);
  const operation = row(decoder);
  decoder.finish();
  let guard: Guard | null = null;
  if (syntax.guard !== null) {
    const entity = scope.find(syntax.guard.register.name);
    if (entity?.kind !== "register")
      throw new Refusal("TW5012", `${syntax.guard.register.name} is not declared`);
    guard = { register: entity.register, negated: syntax.guard.negated };
    decoder.uses.push(entity.register);
  }
  return {
    index,
    mnemonic: syntax.mnemonic,
    text: shortened(printInstruction(syntax)),
    location: syntax.location,
    source,
    guard,
    operation,
    defs: decoder.defs,
    uses: decoder.uses,
    traffic: decoder.traffics,
    votes: decoder.votes,
    strongRead: decoder.isStrongRead,
    accesses: decoder.accesses,
    links: decoder.links,
  };
}
