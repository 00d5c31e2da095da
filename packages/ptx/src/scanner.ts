/** Characters to words: positions, blanks and comments, names, numbers, constant expressions. */
import type { SourceLocation } from "@tilewright/core";
import type { FloatOperand, IntegerOperand } from "./ast.ts";

/** A fault in the text at an offset. Thrown inside the parser only, which turns it into a diagnostic and goes on. */
export class Fault extends Error {
  readonly code: `TW${string}`;
  readonly offset: number;
  readonly hint: string | undefined;
  /** Nothing behind it can be read. */
  readonly ends: boolean;
  constructor(code: `TW${string}`, offset: number, message: string, hint?: string, ends = false) {
    super(message);
    this.code = code;
    this.offset = offset;
    this.hint = hint;
    this.ends = ends;
  }
}

const NAME = /[A-Za-z_$%][\w$]*/y;
const MNEMONIC = /[A-Za-z]\w*(?:(?:\.|::)\w+)*/y;
const NUMBER =
  /0[fF][0-9a-fA-F]{8}(?![\w])|0[dD][0-9a-fA-F]{16}(?![\w])|0[xX][0-9a-fA-F]+U?(?![\w])|0[bB][01]+U?(?![\w])|\d+\.\d*(?:[eE][+-]?\d+)?(?![\w])|\.\d+(?:[eE][+-]?\d+)?(?![\w])|\d+[eE][+-]?\d+(?![\w])|\d+U?(?![\w])/y;

/** Brackets within brackets; compilers stay below ten. */
const DEPTH_LIMIT = 500;

/** Binary operators of constant expressions by precedence, loosest first (PTX ISA §4.6.6). */
const OPERATORS: readonly (readonly string[])[] = [
  ["|"],
  ["^"],
  ["&"],
  ["<<", ">>"],
  ["+", "-"],
  ["*", "/", "%"],
];

export class Scanner {
  readonly text: string;
  readonly file: string | undefined;
  pos = 0;
  private depth = 0;
  /** Offsets at which lines start. */
  private readonly lines: number[] = [0];

  constructor(text: string, file?: string) {
    this.text = text;
    this.file = file;
    for (let i = text.indexOf("\n"); i >= 0; i = text.indexOf("\n", i + 1)) this.lines.push(i + 1);
  }

  /** Line and column of an offset, both from 1. */
  locate(offset: number): SourceLocation {
    let low = 0;
    let high = this.lines.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.lines[middle] ?? 0) <= offset) low = middle;
      else high = middle - 1;
    }
    const at = { line: low + 1, column: offset - (this.lines[low] ?? 0) + 1 };
    return this.file === undefined ? at : { ...at, file: this.file };
  }

  /** Skip blanks and comments. */
  skip(): void {
    const text = this.text;
    for (;;) {
      const c = text.charCodeAt(this.pos);
      if (c === 32 || (c >= 9 && c <= 13)) {
        this.pos++;
      } else if (c === 47 && text.charCodeAt(this.pos + 1) === 47) {
        const end = text.indexOf("\n", this.pos);
        this.pos = end < 0 ? text.length : end;
      } else if (c === 47 && text.charCodeAt(this.pos + 1) === 42) {
        const end = text.indexOf("*/", this.pos + 2);
        if (end < 0) throw new Fault("TW4001", this.pos, "comment is not closed");
        this.pos = end + 2;
      } else return;
    }
  }

  /** The next character after blanks, "" at the end. */
  peek(): string {
    this.skip();
    return this.text[this.pos] ?? "";
  }

  /** Take a punctuation mark if it comes next. */
  take(mark: string): boolean {
    this.skip();
    if (!this.text.startsWith(mark, this.pos)) return false;
    this.pos += mark.length;
    return true;
  }

  expect(mark: string, after: string): void {
    if (!this.take(mark)) throw this.unexpected(`"${mark}" is due after ${after}`);
  }

  private match(pattern: RegExp): string | null {
    this.skip();
    pattern.lastIndex = this.pos;
    const found = pattern.exec(this.text);
    if (!found) return null;
    this.pos = pattern.lastIndex;
    return found[0];
  }

  /** `name`, `%r1`, `$L__BB0_1`, `_`; null if none comes next. */
  name(): string | null {
    return this.match(NAME);
  }

  /** `ld.global.L2::128B.v4.f32`; null if none comes next. */
  mnemonic(): string | null {
    return this.match(MNEMONIC);
  }

  /** The word after a dot (`.reg` gives `reg`), with `::` inside; null if no dot comes next. */
  dotted(): string | null {
    if (this.peek() !== ".") return null;
    const start = this.pos;
    this.pos++;
    const word = this.match(/\w+(?:::\w+)*/y);
    if (word === null) {
      this.pos = start;
      throw this.unexpected("a directive or type is due after the dot");
    }
    return word;
  }

  /** Look at the word after a dot without taking it. */
  peekDotted(): string | null {
    const start = this.pos;
    const word = this.peek() === "." ? this.dotted() : null;
    this.pos = start;
    return word;
  }

  string(what: string): string {
    if (this.peek() !== '"') throw this.unexpected(`a string is due as ${what}`);
    const end = this.text.indexOf('"', this.pos + 1);
    if (end < 0) throw new Fault("TW4001", this.pos, "string is not closed");
    const value = this.text.slice(this.pos + 1, end);
    this.pos = end + 1;
    return value;
  }

  /** A number that fits a double exactly: counts, alignments, line numbers. */
  count(what: string): number {
    const start = this.pos;
    const value = this.constant();
    if (value?.kind !== "integer" || value.value < 0n || value.value > BigInt(Number.MAX_SAFE_INTEGER)) {
      this.pos = start;
      throw this.unexpected(`a number is due as ${what}`);
    }
    return Number(value.value);
  }

  /** A constant or constant expression, null if the text has none here. */
  constant(level = 0): IntegerOperand | FloatOperand | null {
    const operators = OPERATORS[level];
    if (operators === undefined) return this.unary();
    let left = this.constant(level + 1);
    if (left === null || left.kind === "float") return left;
    for (;;) {
      this.skip();
      const operator = operators.find((o) => this.text.startsWith(o, this.pos));
      if (operator === undefined) return left;
      const start = this.pos;
      this.pos += operator.length;
      const right = this.constant(level + 1);
      if (right?.kind !== "integer") throw new Fault("TW4001", start, `an integer is due after ${operator}`);
      left = { kind: "integer", value: this.apply(operator, left.value, right.value, start) };
    }
  }

  private apply(operator: string, a: bigint, b: bigint, at: number): bigint {
    switch (operator) {
      case "|":
        return a | b;
      case "^":
        return a ^ b;
      case "&":
        return a & b;
      case "<<":
      case ">>":
        if (b < 0n || b > 63n) throw new Fault("TW4001", at, `shift by ${b} in a constant`);
        return operator === "<<" ? a << b : a >> b;
      case "+":
        return a + b;
      case "-":
        return a - b;
      case "*":
        return a * b;
      default:
        if (b === 0n) throw new Fault("TW4001", at, "division by zero in a constant");
        return operator === "/" ? a / b : a % b;
    }
  }

  private unary(): IntegerOperand | FloatOperand | null {
    const c = this.peek();
    const start = this.pos;
    if (c === "-" || c === "~" || c === "+") {
      this.pos++;
      const value = this.nested(() => this.unary());
      if (value === null) {
        this.pos = start;
        return null;
      }
      if (c === "+") return value;
      if (value.kind === "integer")
        return { kind: "integer", value: c === "-" ? -value.value : ~value.value };
      if (c === "~") throw new Fault("TW4001", start, "~ is for integers");
      return { ...value, bits: value.bits ^ (value.format === "f32" ? 1n << 31n : 1n << 63n) };
    }
    if (c === "(") {
      this.pos++;
      const value = this.nested(() => this.constant());
      if (value === null || !this.take(")")) throw this.unexpected("a constant and ) are due after (");
      return value;
    }
    if (this.text.startsWith("WARP_SZ", this.pos)) {
      this.pos += 7;
      return { kind: "integer", value: 32n };
    }
    const word = this.match(NUMBER);
    return word === null ? null : this.number(word, start);
  }

  private number(word: string, at: number): IntegerOperand | FloatOperand {
    if (/^0[fF]/.test(word)) return { kind: "float", format: "f32", bits: BigInt(`0x${word.slice(2)}`) };
    if (/^0[dD]/.test(word)) return { kind: "float", format: "f64", bits: BigInt(`0x${word.slice(2)}`) };
    const digits = word.endsWith("U") ? word.slice(0, -1) : word;
    if (!/^0[xX]/.test(digits) && /[.eE]/.test(digits)) {
      const value = Number(digits);
      if (!Number.isFinite(value)) throw new Fault("TW4001", at, `${word} is beyond the range of a double`);
      const view = new DataView(new ArrayBuffer(8));
      view.setFloat64(0, value);
      return { kind: "float", format: "decimal", bits: view.getBigUint64(0) };
    }
    // A leading 0 alone is octal.
    const octal = /^0\d+$/.test(digits);
    if (octal && /[89]/.test(digits)) throw new Fault("TW4001", at, `${word} is no octal number`);
    const value = BigInt(octal ? `0o${digits.slice(1)}` : digits);
    if (value >= 1n << 64n)
      throw new Fault(
        "TW4001",
        at,
        `${word.length > 40 ? `${word.slice(0, 40)}...` : word} does not fit 64 bits`,
      );
    return { kind: "integer", value };
  }

  /** Parse what stands inside brackets of any kind: a text may not nest them so deep that the stack runs out. */
  nested<T>(parse: () => T): T {
    if (this.depth >= DEPTH_LIMIT)
      throw new Fault("TW4001", this.pos, `nested deeper than ${DEPTH_LIMIT} levels`, undefined, true);
    this.depth += 1;
    try {
      return parse();
    } finally {
      this.depth -= 1;
    }
  }

  /** A fault at the next word, which it names. */
  unexpected(message: string): Fault {
    this.skip();
    const found =
      /^(?:[\w$%.:]+|.)/.exec(this.text.slice(this.pos, this.pos + 60))?.[0] ?? "the end of the text";
    return new Fault("TW4001", this.pos, `${message}, found ${found}`);
  }
}
