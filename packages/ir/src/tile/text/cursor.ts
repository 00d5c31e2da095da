/** A scanner with expectations: what the parsers of expressions, clauses and statements are written against. */
import type { Diagnostic, Problem, SourceLocation } from "@tilewright/core";
import type { Buffer, Ring } from "../types.ts";
import { nearestHint } from "./nearest.ts";
import { Scanner, type Token } from "./scanner.ts";

/** Codes of the parser; the table in ../README.md says what each means. */
export const parseCodes = {
  syntax: "TW3001",
  unknownWord: "TW3002",
  unknownName: "TW3003",
  badValue: "TW3004",
  repeated: "TW3005",
  version: "TW3006",
} as const;

/**
 * Unwinds to the nearest statement or declaration, where parsing resumes; never leaves the parser.
 * Without a diagnostic where the cause has been reported already.
 */
export class ParseFailure extends Error {
  readonly diagnostic: Diagnostic | null;
  constructor(diagnostic: Diagnostic | null) {
    super(diagnostic?.message ?? "follows from an earlier error");
    this.diagnostic = diagnostic;
  }
}

/** Where nothing that follows can be read with sense: ends the parse. */
export class ParseEnd extends ParseFailure {}

/** Largest number of a text: sizes of problems end there (TW1002), and so do the kernel's own counters. */
const MOST = 2 ** 31 - 1;
/** Most blocks, and most parentheses, within each other: programs have about ten. */
export const MOST_DEEP = 64;
/** Most errors that are told of one text. */
const MOST_ERRORS = 100;

/** How a token is called in a message. */
export function describe(token: Token): string {
  if (token.kind === "end") return "the end of the text";
  if (token.kind === "name") return `'%${token.text}'`;
  if (token.kind === "entry") return `'@${token.text}'`;
  return `'${token.text}'`;
}

export class Cursor {
  readonly scanner: Scanner;
  readonly diagnostics: Diagnostic[] = [];
  /** The problem line, once it has been read. */
  problem: Problem | null = null;
  readonly buffers = new Map<string, Buffer>();
  readonly rings = new Map<string, Ring>();
  /** Keywords of declarations that have been met, well formed or not. */
  readonly seen = new Set<string>();
  /** Names on declaration lines that failed: their uses are no errors of their own. */
  readonly suspects = new Set<string>();
  /** Loop variables in scope, innermost last. */
  readonly vars: string[] = [];
  /** Where each statement, buffer and ring began. */
  readonly locations = new Map<object, SourceLocation>();

  #depth = 0;

  constructor(text: string) {
    this.scanner = new Scanner(text);
  }

  peek(): Token {
    return this.scanner.peek();
  }

  next(): Token {
    return this.scanner.next();
  }

  /** Whether the next token is this word or operator. */
  at(text: string): boolean {
    const token = this.peek();
    return (token.kind === "punct" || token.kind === "word") && token.text === text;
  }

  /** Take the word or operator if it is next. */
  eat(text: string): boolean {
    if (!this.at(text)) return false;
    this.next();
    return true;
  }

  expect(text: string, context: string): void {
    if (this.eat(text)) return;
    const token = this.peek();
    const hint = token.kind === "word" && /^\w/.test(text) ? nearestHint(token.text, [text]) : null;
    this.fail(
      token,
      parseCodes.syntax,
      `expected '${text}' ${context}, found ${describe(token)}`,
      hint ?? `write '${text}' here`,
    );
  }

  /** A word out of a list. */
  oneOf<T extends string>(words: readonly T[], what: string): T {
    const token = this.peek();
    const found = token.kind === "word" ? words.find((w) => w === token.text) : undefined;
    if (found === undefined)
      this.fail(
        token,
        parseCodes.unknownWord,
        `${describe(token)} is no ${what}`,
        (token.kind === "word" ? nearestHint(token.text, words) : null) ?? `one of: ${words.join(", ")}`,
      );
    this.next();
    return found;
  }

  /** Any word. */
  word(what: string): string {
    return this.#take("word", what).text;
  }

  /** `%name`, without the sign. */
  name(what: string): string {
    return this.#take("name", `${what}, written %name`).text;
  }

  /** `@name` of a kernel, without the sign. */
  entry(): string {
    const token = this.peek();
    if (token.kind === "entry") return this.next().text;
    return this.fail(
      token,
      parseCodes.syntax,
      `expected the kernel's name, found ${describe(token)}`,
      "write @name",
    );
  }

  /** An integer from `min` to `max`. */
  integer(what: string, min = -MOST - 1, max = MOST): number {
    const token = this.peek();
    const value = this.number(what);
    if (!Number.isSafeInteger(value) || value < min || value > max) {
      const least = min === -MOST - 1 ? "" : ` of at least ${min}`;
      const bound = `an integer${value > max ? ` of at most ${max}` : least}`;
      this.bad(token, `${what} must be ${bound}, found ${value}`, `write ${bound}`);
    }
    return value;
  }

  /** Report an error and go on; the hundredth ends the parse. */
  report(diagnostic: Diagnostic): void {
    if (this.diagnostics.length >= MOST_ERRORS - 1)
      throw new ParseEnd({
        ...diagnostic,
        message: `${diagnostic.message}; the errors after ${MOST_ERRORS} are not told`,
      });
    this.diagnostics.push(diagnostic);
  }

  /** What `parse` reads, one level further in. */
  within<T>(what: string, parse: () => T): T {
    if (this.#depth === MOST_DEEP) {
      const at = this.diagnostic(
        this.peek().offset,
        describe(this.peek()),
        parseCodes.badValue,
        `${what} within each other are at most ${MOST_DEEP}`,
        "write fewer",
      );
      throw new ParseEnd(at);
    }
    this.#depth++;
    try {
      return parse();
    } finally {
      this.#depth--;
    }
  }

  /** A number, `inf` or `nan`, with an optional minus sign. */
  number(what: string): number {
    const token = this.peek();
    const sign = this.eat("-") ? -1 : 1;
    if (this.eat("inf")) return sign * Number.POSITIVE_INFINITY;
    if (this.eat("nan")) return Number.NaN;
    if (this.peek().kind !== "number")
      this.fail(
        token,
        parseCodes.syntax,
        `expected a number for ${what}, found ${describe(token)}`,
        "write a number",
      );
    return sign * Number(this.next().text);
  }

  /** What `read` reads, with its place in the text. */
  located<T extends object>(read: () => T): T {
    const { offset } = this.peek();
    const value = read();
    this.locations.set(value, this.scanner.locate(offset));
    return value;
  }

  /** The same, among others of its kind: none of them has its name. */
  declare<T extends { readonly name: string }>(
    read: () => T,
    among: Pick<T[], "some" | "push">,
    taken: (name: string) => readonly [message: string, hint: string],
  ): T {
    const token = this.peek();
    const value = this.located(read);
    if (among.some(({ name }) => name === value.name))
      this.fail(token, parseCodes.repeated, ...taken(value.name));
    among.push(value);
    return value;
  }

  /** `@16384`: where something begins. */
  place(): number {
    this.expect("@", "before the place");
    return this.integer("the place", 0);
  }

  /** Items between parentheses, separated by commas. */
  list<T>(what: string, item: () => T): T[] {
    this.expect("(", `before ${what}`);
    const items: T[] = [];
    if (this.eat(")")) return items;
    do items.push(item());
    while (this.eat(","));
    this.expect(")", `after ${what}`);
    return items;
  }

  buffer(): Buffer {
    return this.#known(this.buffers, "buffer");
  }

  ring(): Ring {
    return this.#known(this.rings, "ring");
  }

  fail(token: Token, code: Diagnostic["code"], message: string, hint: string | null): never {
    throw new ParseFailure(this.diagnostic(token.offset, describe(token), code, message, hint));
  }

  /** Refuses a value that stands where values of its kind may. */
  bad(token: Token, message: string, hint: string | null): never {
    return this.fail(token, parseCodes.badValue, message, hint);
  }

  diagnostic(
    offset: number,
    at: string,
    code: Diagnostic["code"],
    message: string,
    hint: string | null,
  ): Diagnostic {
    const base = { code, kind: "invalid", at, message, location: this.scanner.locate(offset) } as const;
    return hint === null ? base : { ...base, hint };
  }

  #take(kind: Token["kind"], what: string): Token {
    const token = this.peek();
    if (token.kind !== kind)
      this.fail(token, parseCodes.syntax, `expected ${what}, found ${describe(token)}`, `write ${what} here`);
    return this.next();
  }

  #known<T>(table: ReadonlyMap<string, T>, what: string): T {
    const token = this.peek();
    const name = this.name(`a ${what}`);
    const found = table.get(name);
    if (found !== undefined) return found;
    if (this.suspects.has(name)) throw new ParseFailure(null);
    const names = [...table.keys()];
    const hint =
      nearestHint(name, names, "%") ??
      (names.length > 0 ? `one of: ${names.map((n) => `%${n}`).join(", ")}` : `declare the ${what} above`);
    return this.fail(token, parseCodes.unknownName, `no ${what} is called %${name}`, hint);
  }
}
