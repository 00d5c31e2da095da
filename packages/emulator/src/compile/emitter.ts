/**
 * Writes JavaScript for one lane of a run of instructions. Registers become local variables of the generated function:
 * loaded from the register file where their value comes from before the run, stored behind it where it lives on.
 *
 * Values have four shapes (see RegisterClass); an operand can be read in any of them, and a register of another class is
 * converted bit for bit.
 */
import { f32Bits, f32FromBits, f64Bits, f64FromBits, InternalError } from "@tilewright/core";
import { specialRegisters } from "../isa/special.ts";
import type { Instruction, Operand, Register } from "../load/types.ts";
import { globalTag } from "../memory/arena.ts";
import { handsOnDoubt } from "./liveness.ts";

/** What the checks of a launch change in generated code. */
export interface CompileOptions {
  readonly race: boolean;
  /** Follow accesses of global memory as well. */
  readonly global: boolean;
  readonly uninitialised: boolean;
  /** Tell the host of each access of global and shared memory. */
  readonly observe: boolean;
  /** Atomics add floating-point numbers exactly (exact-sums.ts). */
  readonly exactSums: boolean;
}

const wide = (register: Register): boolean => register.cls === "i64" || register.cls === "f64";

/** A JavaScript literal of a number; parenthesised when it could join with an operator before it. */
export function literal(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (value === Number.POSITIVE_INFINITY) return "Infinity";
  if (value === Number.NEGATIVE_INFINITY) return "(-Infinity)";
  if (Object.is(value, -0)) return "(-0)";
  return value < 0 ? `(${value})` : String(value);
}

/** An immediate as f32. */
export function numberOf({ float, bits }: Operand & { readonly kind: "immediate" }): number {
  if (float === "f32") return f32FromBits(Number(BigInt.asUintN(32, bits)));
  return float === null ? f32FromBits(words(bits)[0]) : Math.fround(f64FromBits(bits));
}

const words = (bits: bigint): readonly [number, number] => [
  Number(BigInt.asIntN(32, bits)),
  Number(BigInt.asIntN(32, bits >> 32n)),
];

export class LaneEmitter {
  readonly options: CompileOptions;
  readonly polls: boolean;
  /** Reads of shared memory are among them: the order of the lanes' accesses makes no difference there. */
  readonly gathersReads: boolean;
  /** Registers that have a local variable in this run, and whether it starts from the register file. */
  readonly #locals = new Map<Register, { load: boolean; dirty: boolean }>();
  #prefix = "";
  /** Marks of the operands that the instruction being emitted has read, where it hands their doubt on; null where it reports. */
  #doubts: Set<string> | null = null;
  #temporaries = 0;
  #instruction: Instruction | null = null;
  /** Shared accesses whose addresses are recorded for the bank counters: instruction and bytes. */
  readonly sampled: { readonly index: number; readonly bytes: number }[] = [];

  /** Accesses that the race checker is told of at the end of the run, for all lanes at once: `mode` as in access.ts; `old` is the place of what a write replaces, 32 entries for each word of a lane's; `some`: lanes of the warp may leave it out. */
  readonly followed: {
    readonly space: "global" | "shared";
    readonly index: number;
    readonly size: number;
    readonly mode: number;
    readonly strong: number;
    readonly old: number;
    readonly some: boolean;
  }[] = [];
  /** Words so far that writes replace. */
  replacedWords = 0;

  /** @param polls the run belongs to a loop that polls. */
  constructor(options: CompileOptions, polls = false, gathersReads = false) {
    this.options = options;
    this.polls = polls;
    this.gathersReads = gathersReads;
  }

  /** The instruction being emitted. */
  get instruction(): Instruction {
    if (this.#instruction === null) throw new InternalError("no instruction is being emitted");
    return this.#instruction;
  }

  /** A name for a temporary that no other instruction of the run uses. */
  temporary(): string {
    return `t${this.#temporaries++}`;
  }

  // ---------------------------------------------------------------- one instruction

  /** Statements of one lane instruction, its guard included; `extra` runs with it where the guard holds. */
  statement(instruction: Instruction, extra = ""): string {
    const { operation, guard } = instruction;
    if (operation.kind !== "lane") throw new InternalError(`${instruction.text} is no lane operation`);
    this.#instruction = instruction;
    this.#prefix = "";
    let test = "";
    if (guard !== null) {
      test = this.#read(guard.register);
      // A guarded write keeps the old value in the lanes it skips.
      for (const register of instruction.defs) {
        this.#touch(register);
        if (register.written !== null) this.#touch(register.written);
      }
    }
    const guardChecks = this.#prefix;
    this.#prefix = "";
    this.#doubts = handsOnDoubt(instruction) ? new Set() : null;
    const body = operation.emit(this);
    let marks = "";
    if (instruction.defs.some(({ written }) => written !== null)) {
      const doubts = [...(this.#doubts ?? [])].join("&");
      const said = operation.defined?.(this) ?? (doubts === "" ? "255" : `(${doubts})===255?255:0`);
      // Before the results: an operand may be one of them.
      const values = (typeof said === "string" ? [said] : said).map((expression) => {
        const value = this.temporary();
        this.#prefix += `const ${value}=${expression};`;
        return value;
      });
      marks = instruction.defs
        .map(({ written }, k) =>
          written === null ? "" : `${this.#write(written)}=${values[k] ?? values[0]};`,
        )
        .join("");
    }
    this.#doubts = null;
    const all = this.#prefix + extra + body + marks;
    this.#instruction = null;
    if (guard === null) return all;
    return `${guardChecks}if(${test}${guard.negated ? "===" : "!=="}0){${all}}`;
  }

  #touch(register: Register): void {
    if (!this.#locals.has(register)) this.#locals.set(register, { load: true, dirty: false });
  }

  /** @param bytes of the register that matter, as a mask: the low ones of a narrow store. */
  #read(register: Register, bytes = 255): string {
    this.#touch(register);
    const { written } = register;
    if (written !== null && this.options.uninitialised) {
      this.#touch(written);
      if (this.#doubts !== null) this.#doubts.add(`r${written.id}`);
      else
        this.#prefix += `if((r${written.id}&${bytes})!==${bytes})readUnwritten(w,l,${this.instruction.index},${register.id});`;
    }
    return `r${register.id}`;
  }

  /** Which bytes of an operand's value are defined: an expression of a mask, 255 for all. */
  defined(operand: Operand): string {
    if (operand.kind !== "register" || operand.register.written === null || !this.options.uninitialised)
      return "255";
    this.#touch(operand.register.written);
    return `r${operand.register.written.id}`;
  }

  #write(register: Register): string {
    const known = this.#locals.get(register);
    if (known === undefined) this.#locals.set(register, { load: false, dirty: true });
    else known.dirty = true;
    return `r${register.id}`;
  }

  // ---------------------------------------------------------------- reading

  /** The low 32 bits as a signed integer, of which `bytes` (a mask) have to be defined. */
  int(operand: Operand, bytes = 255): string {
    switch (operand.kind) {
      case "immediate": {
        if (operand.float === "decimal") return literal(f32Bits(f64FromBits(operand.bits)) | 0);
        return literal(words(operand.bits)[0]);
      }
      case "special":
        return this.#special(operand.name).low;
      case "symbol": {
        const { variable, offset } = operand;
        return variable.space === "shared"
          ? `(ab+${variable.offset + offset}|0)`
          : literal((variable.offset + offset) | 0);
      }
      case "register": {
        const name = this.#read(operand.register, bytes);
        switch (operand.register.cls) {
          case "i32":
            return operand.negated ? `(${name}^1)` : name;
          case "f32":
            return `floatBits(${name})`;
          case "i64":
            return `${name}l`;
          case "f64":
            return `doubleLow(${name})`;
        }
        break;
      }
      default:
        break;
    }
    throw new InternalError(`operand ${operand.kind} has no value in ${this.instruction.text}`);
  }

  /** The low 32 bits as an unsigned integer. */
  uint(operand: Operand): string {
    if (operand.kind === "immediate" && operand.float === null) return String(words(operand.bits)[0] >>> 0);
    return `(${this.int(operand)}>>>0)`;
  }

  /** The low `bits` (8, 16 or 32) as a signed or unsigned integer. */
  narrow(operand: Operand, bits: number, signed: boolean): string {
    if (bits >= 32) return signed ? this.int(operand) : this.uint(operand);
    if (operand.kind === "immediate" && operand.float === null)
      return literal(Number(signed ? BigInt.asIntN(bits, operand.bits) : BigInt.asUintN(bits, operand.bits)));
    const shift = 32 - bits;
    return signed ? `(${this.int(operand)}<<${shift}>>${shift})` : `(${this.int(operand)}&${2 ** bits - 1})`;
  }

  /** Low and high word of a 64-bit value; a 32-bit register is zero-extended. */
  pair(operand: Operand): readonly [string, string] {
    switch (operand.kind) {
      case "immediate": {
        const bits = operand.float === "f32" ? f64Bits(f32FromBits(Number(operand.bits))) : operand.bits;
        const [low, high] = words(bits);
        return [literal(low), literal(high)];
      }
      case "special": {
        const special = this.#special(operand.name);
        return [special.low, special.high];
      }
      case "symbol": {
        const { space } = operand.variable;
        return [this.int(operand), space === "global" || space === "const" ? String(globalTag) : "0"];
      }
      case "register": {
        if (!wide(operand.register)) return [this.int(operand), "0"];
        const name = this.#read(operand.register);
        return operand.register.cls === "i64"
          ? [`${name}l`, `${name}h`]
          : [`doubleLow(${name})`, `doubleHigh(${name})`];
      }
      default:
        throw new InternalError(`operand ${operand.kind} has no value in ${this.instruction.text}`);
    }
  }

  /** A number that is exact in f32. */
  f32(operand: Operand): string {
    if (operand.kind === "immediate") return literal(numberOf(operand));
    if (operand.kind === "register" && operand.register.cls === "f32") return this.#read(operand.register);
    return `bitsFloat(${this.int(operand)})`;
  }

  f64(operand: Operand): string {
    if (operand.kind === "immediate") {
      if (operand.float === "f32") return literal(f32FromBits(Number(BigInt.asUintN(32, operand.bits))));
      return literal(f64FromBits(BigInt.asUintN(64, operand.bits)));
    }
    if (operand.kind === "register" && operand.register.cls === "f64") return this.#read(operand.register);
    const [low, high] = this.pair(operand);
    return `bitsDouble(${low},${high})`;
  }

  #special(name: string): { readonly low: string; readonly high: string } {
    const special = specialRegisters[name];
    if (special === undefined) throw new InternalError(`special register ${name} passed the loader`);
    return special;
  }

  // ---------------------------------------------------------------- writing

  /** Statement that writes a 32-bit integer; `expression` must be a signed 32-bit integer. */
  setInt(operand: Operand, expression: string): string {
    if (operand.kind === "sink") return "";
    const register = this.#target(operand);
    const name = this.#write(register);
    switch (register.cls) {
      case "i32":
        return `${name}=${expression};`;
      case "f32":
        return `${name}=bitsFloat(${expression});`;
      case "i64":
        return `${name}l=${expression};${name}h=0;`;
      case "f64":
        return `${name}=bitsDouble(${expression},0);`;
    }
  }

  /** Writes the low `bits` of an integer expression, zero-extended in its word (8- and 16-bit results). */
  setNarrow(operand: Operand, bits: number, expression: string): string {
    return this.setInt(operand, bits >= 32 ? `(${expression})|0` : `(${expression})&${2 ** bits - 1}`);
  }

  /** Writes 64 bits given as two signed 32-bit integers. The high expression may use what the low one left in `HI`. */
  setPair(operand: Operand, low: string, high: string): string {
    if (operand.kind === "sink") return "";
    const register = this.#target(operand);
    const a = this.temporary();
    const b = this.temporary();
    const name = this.#write(register);
    const values = `const ${a}=${low},${b}=${high};`;
    switch (register.cls) {
      case "i64":
        return `${values}${name}l=${a};${name}h=${b};`;
      case "f64":
        return `${values}${name}=bitsDouble(${a},${b});`;
      case "i32":
        return `${name}=${low};`;
      case "f32":
        return `${name}=bitsFloat(${low});`;
    }
  }

  /** Writes a number that is exact in f32. */
  setF32(operand: Operand, expression: string): string {
    if (operand.kind === "sink") return "";
    const register = this.#target(operand);
    const name = this.#write(register);
    if (register.cls === "f32") return `${name}=${expression};`;
    if (register.cls === "i32") return `${name}=floatBits(${expression});`;
    return `${name}l=floatBits(${expression});${name}h=0;`;
  }

  setF64(operand: Operand, expression: string): string {
    if (operand.kind === "sink") return "";
    const register = this.#target(operand);
    const name = this.#write(register);
    if (register.cls === "f64") return `${name}=${expression};`;
    const value = this.temporary();
    return `const ${value}=${expression};${name}l=doubleLow(${value});${name}h=doubleHigh(${value});`;
  }

  /** Bit-for-bit copy of 32 bits or fewer, in the class of the destination where the source has it too. */
  copy32(to: Operand, from: Operand, bits: number): string {
    if (to.kind === "register" && to.register.cls === "f32") return this.setF32(to, this.f32(from));
    return this.setInt(to, bits >= 32 ? this.int(from) : this.narrow(from, bits, false));
  }

  copy64(to: Operand, from: Operand): string {
    if (to.kind === "register" && to.register.cls === "f64") return this.setF64(to, this.f64(from));
    const [low, high] = this.pair(from);
    return this.setPair(to, low, high);
  }

  #target(operand: Operand): Register {
    if (operand.kind !== "register")
      throw new InternalError(`${this.instruction.text} writes a ${operand.kind}`);
    return operand.register;
  }

  // ---------------------------------------------------------------- the frame of the run

  /** Declarations before the statements and stores behind them. `liveAfter` says which registers are read later. */
  frame(liveAfter: (register: Register) => boolean): { readonly before: string; readonly after: string } {
    let before = "";
    let after = "";
    for (const [register, { load, dirty }] of this.#locals) {
      const name = `r${register.id}`;
      const at = `b+${register.slot * 32}`;
      const store = dirty && liveAfter(register);
      switch (register.cls) {
        case "i32":
          before += `let ${name}=${load ? `R[${at}]` : "0"};`;
          if (store) after += `R[${at}]=${name};`;
          break;
        case "f32":
          before += `let ${name}=${load ? `F[${at}]` : "0.5"};`;
          if (store) after += `F[${at}]=${name};`;
          break;
        case "i64":
          before += `let ${name}l=${load ? `R[${at}]` : "0"},${name}h=${load ? `R[${at}+32]` : "0"};`;
          if (store) after += `R[${at}]=${name}l;R[${at}+32]=${name}h;`;
          break;
        case "f64": {
          // Doubles of a slot pair stand side by side: word 2*lane of the 64 words.
          const index = `((rb+${register.slot * 32})>>1)+l`;
          before += `let ${name}=${load ? `D[${index}]` : "0.5"};`;
          if (store) after += `D[${index}]=${name};`;
          break;
        }
        default:
          register.cls satisfies never;
      }
    }
    return { before, after };
  }
}
