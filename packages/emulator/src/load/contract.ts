/**
 * What ptxas 13.0 makes of arithmetic where the PTX ISA leaves it open: a sum and a product without a rounding become one fma. The rule
 * was read off its machine code for random programs. It looks at a basic block of that code; sums come in order; a product is taken in only where
 * every use of it is a sum, and none of them a sum with another product that has no other use. Sums that take in a product of
 * the turn before, as unrolled loops have them, are left as they are.
 */
import { entryOf } from "@tilewright/core";
import { handsOnDoubt } from "../compile/liveness.ts";
import { makeRegister } from "./flatten.ts";
import type { Instruction, Operand, Product, Register } from "./types.ts";

/** A product that is computed in the block. */
interface Factor {
  readonly at: number;
  product: Product;
  /** Indices of the sums that use it, once for each use. */
  readonly uses: number[];
  /** Its value is needed: something else uses it. */
  needed: boolean;
  /** Operands that something writes before the last of its sums. */
  readonly overwritten: Set<Operand>;
}

interface Reading {
  readonly factor: Factor;
  readonly negated: boolean;
  /** Through `neg.ftz`, a sum to ptxas: what else uses its result does not use the product. */
  readonly apart: boolean;
}

const negation = /^neg(\.ftz)?\.(f32|f64|f16|f16x2)$/;

/** Registers that one `mov` of a number writes, and nothing else, keep it as their constant. */
export function findConstants(instructions: readonly Instruction[]): void {
  const written = new Set<Register>();
  for (const { operation, guard, defs } of instructions)
    for (const register of defs) {
      const from =
        operation.kind === "lane" && operation.vector?.op === "mov" ? operation.vector.from[0] : undefined;
      const number = from?.kind === "register" ? from.register.constant : from;
      const known = guard === null && number?.kind === "immediate" && !written.has(register);
      register.constant = known ? number : null;
      written.add(register);
    }
}

/** The instructions, sums that take in a product replaced by what they become. */
export function contract(instructions: readonly Instruction[], registers: Register[]): Instruction[] {
  const out = [...instructions];
  const starts = [...leaders(instructions)].sort((a, b) => a - b);
  const crossing = crossingRegisters(instructions, new Set(starts));
  const alive = liveInstructions(instructions);
  starts.forEach((start, k) => {
    const block = new BlockFactors(out, crossing);
    for (let at = start; at < (starts[k + 1] ?? out.length); at++) if (alive[at] === true) block.add(at);
    block.end();
    block.fuse(registers);
  });
  return out;
}

/** What becomes several blocks of machine code: quotients and roots with a slow path, and fences. */
const splitting =
  /^((div|rem)\.(?!u32|approx|full)|(rcp|sqrt)\.r|rsqrt\.approx\.f64|membar|fence\.(sc|acq_rel))/;

function leaders(instructions: readonly Instruction[]): ReadonlySet<number> {
  const starts = new Set([0]);
  instructions.forEach((instruction, k) => {
    const { operation, guard, mnemonic } = instruction;
    // Under a guard, what does more than compute is branched around.
    if ((guard !== null && !handsOnDoubt(instruction)) || splitting.test(mnemonic)) starts.add(k + 1);
    if (operation.kind === "branch") starts.add(k + 1).add(operation.target);
    if (operation.kind === "exit") starts.add(k + 1);
    if (operation.kind === "indexed-branch") for (const at of [k + 1, ...operation.targets]) starts.add(at);
  });
  return starts;
}

/** Registers that some block reads before it writes them: their values may come from another. */
function crossingRegisters(
  instructions: readonly Instruction[],
  starts: ReadonlySet<number>,
): ReadonlySet<Register> {
  const crossing = new Set<Register>();
  let written = new Set<Register>();
  instructions.forEach(({ uses, defs, guard }, k) => {
    if (starts.has(k)) written = new Set();
    for (const r of uses) if (!written.has(r)) crossing.add(r);
    // Under a guard the old value stays in some lanes.
    for (const r of defs)
      if (guard === null) written.add(r);
      else if (!written.has(r)) crossing.add(r);
  });
  return crossing;
}

/** Instructions that are there for something: ptxas drops the others first. */
function liveInstructions(instructions: readonly Instruction[]): readonly boolean[] {
  const writers = new Map<Register, number[]>();
  instructions.forEach(({ defs }, k) => {
    for (const r of defs) entryOf(writers, r, () => []).push(k);
  });
  const alive = instructions.map(
    ({ operation, accesses, defs }) => operation.kind !== "lane" || accesses || defs.length === 0,
  );
  const work = alive.flatMap((live, k) => (live ? [k] : []));
  for (let k = work.pop(); k !== undefined; k = work.pop())
    for (const r of instructions[k]?.uses ?? []) {
      for (const writer of writers.get(r) ?? [])
        if (alive[writer] !== true) {
          alive[writer] = true;
          work.push(writer);
        }
      // All of them are alive from now on.
      writers.delete(r);
    }
  return alive;
}

class BlockFactors {
  readonly #instructions: Instruction[];
  readonly #crossing: ReadonlySet<Register>;
  readonly #values = new Map<Register, Reading>();
  /** Operands of products whose registers have not been written since, by register. */
  readonly #operands = new Map<Register, (readonly [Factor, Operand])[]>();
  /** Products that each sum could take in, by its operand. */
  readonly #sums = new Map<number, readonly [Reading | null, Reading | null]>();

  constructor(instructions: Instruction[], crossing: ReadonlySet<Register>) {
    this.#instructions = instructions;
    this.#crossing = crossing;
  }

  add(at: number): void {
    const instruction = this.#instructions[at];
    if (instruction === undefined) return;
    const { operation, uses, defs, guard, mnemonic, links } = instruction;
    const { product = null, sum = null } = operation.kind === "lane" ? operation : {};
    const negated = negation.test(mnemonic);
    const from = negated ? uses[0] : mnemonic.startsWith("mov.") ? links[0]?.[1] : undefined;
    const copied = guard === null && from !== undefined ? this.#values.get(from) : undefined;
    const readings = (sum?.addends ?? []).map((addend) => {
      const reading = addend.kind === "register" ? this.#values.get(addend.register) : undefined;
      return reading !== undefined && reading.factor.product.form === sum?.form ? reading : null;
    });
    const [a = null, b = null] = readings;
    if (sum !== null) this.#sums.set(at, [a, b]);
    for (const reading of [a, b]) reading?.factor.uses.push(at);
    if (a !== null && a.factor === b?.factor) a.factor.needed = true;
    const used = new Set([a?.factor, b?.factor, copied?.factor]);
    for (const r of uses) {
      const other = this.#values.get(r);
      if (other !== undefined && !other.apart && !used.has(other.factor)) other.factor.needed = true;
    }
    for (const r of defs) this.#write(r, guard !== null);
    const [to] = defs;
    if (to === undefined || guard !== null) return;
    if (copied !== undefined) {
      const apart = negated && mnemonic.includes(".ftz");
      if (apart) copied.factor.uses.push(at);
      this.#values.set(to, {
        factor: copied.factor,
        negated: copied.negated !== negated,
        apart: apart || copied.apart,
      });
    } else if (product !== null) {
      const factor = { at, product, uses: [], needed: false, overwritten: new Set<Operand>() };
      for (const operand of product.operands)
        if (operand.kind === "register") {
          if (operand.register === to) factor.overwritten.add(operand);
          else entryOf(this.#operands, operand.register, () => []).push([factor, operand]);
        }
      this.#values.set(to, { factor, negated: false, apart: false });
    }
  }

  #write(register: Register, some: boolean): void {
    const old = this.#values.get(register);
    if (old !== undefined && some && !old.apart) old.factor.needed = true;
    this.#values.delete(register);
    for (const [{ overwritten }, operand] of this.#operands.get(register) ?? []) overwritten.add(operand);
    this.#operands.delete(register);
  }

  /** What lives on is needed. */
  end(): void {
    for (const [register, { factor, apart }] of this.#values)
      if (!apart && this.#crossing.has(register)) factor.needed = true;
  }

  fuse(registers: Register[]): void {
    const taken = new Map<number, Factor>();
    const single = (factor: Factor | undefined): boolean =>
      factor !== undefined && !factor.needed && factor.uses.length === 1;
    const fits = (factor: Factor): boolean =>
      !factor.needed &&
      factor.uses.every((at) => {
        const other = this.#sums.get(at)?.find((reading) => reading !== null && reading.factor !== factor);
        return taken.has(at) ? taken.get(at) === factor : single(factor) || !single(other?.factor);
      });
    for (const [at, readings] of this.#sums) {
      const choices = ([0, 1] as const).flatMap((k) => {
        const reading = readings[k];
        return reading !== null && fits(reading.factor) ? [{ ...reading, k }] : [];
      });
      const [first, second] = choices;
      if (first === undefined) continue;
      const fewer = second !== undefined && second.factor.uses.length < first.factor.uses.length;
      const { factor, negated, k } = fewer ? second : first;
      taken.set(at, factor);
      if (factor.overwritten.size > 0) this.#keep(factor, registers);
      this.#replace(at, factor.product, k, negated);
    }
  }

  #replace(at: number, product: Product, k: 0 | 1, negated: boolean): void {
    const old = this.#instructions[at];
    const sum = old?.operation.kind === "lane" ? old.operation.sum : undefined;
    if (old === undefined || sum === undefined) return;
    const read = [...product.operands, sum.addends[k === 0 ? 1 : 0]].flatMap((o) =>
      o.kind === "register" ? [o.register] : [],
    );
    const uses = [...read, ...(old.guard === null ? [] : [old.guard.register])];
    this.#instructions[at] = { ...old, operation: sum.fuse(product, k, negated), uses };
  }

  /** Copies of operands that are overwritten before the sum, made where the product is. */
  #keep(factor: Factor, registers: Register[]): void {
    const at = this.#instructions[factor.at];
    if (at?.operation.kind !== "lane") return;
    const { product, operation } = { product: factor.product, operation: at.operation };
    const copies = new Map<Operand, Operand>();
    for (const operand of factor.overwritten) {
      if (operand.kind !== "register") continue;
      const { name, type, bits } = operand.register;
      const register = makeRegister(registers, `${name} of ${product.form}`, bits === 16 ? "b16" : type);
      copies.set(operand, { kind: "register", register, negated: false });
    }
    factor.overwritten.clear();
    factor.product = {
      ...product,
      operands: product.operands.map((o) => copies.get(o) ?? o),
      factors: (read) => product.factors((o) => read(copies.get(o) ?? o)),
    };
    const stores = [...copies];
    const made = stores.flatMap(([, to]) => (to.kind === "register" ? [to.register] : []));
    this.#instructions[factor.at] = {
      ...at,
      defs: [...at.defs, ...made],
      operation: {
        kind: "lane",
        emit: (e) =>
          stores.map(([from, to]) => (wide(from) ? e.copy64(to, from) : e.copy32(to, from, 32))).join("") +
          operation.emit(e),
      },
    };
  }
}

const wide = (operand: Operand): boolean => operand.kind === "register" && operand.register.bits === 64;
