/** Characters to tokens, on demand: some lines (`problem`, `directive`) are raw text with a grammar of their own. */
import type { SourceLocation } from "@tilewright/core";

/**
 * `word`: keywords and values such as `cp.async`, `snake-rows`; `name`: `%As`; `entry`: `@gemm`; text holds the bare name.
 * `punct`: one of the operators below. `stray`: a character that starts no token.
 */
export interface Token {
  readonly kind: "word" | "name" | "entry" | "number" | "string" | "punct" | "stray" | "end";
  readonly text: string;
  readonly offset: number;
  /** Offset after the token. */
  readonly end: number;
  /** Whether a line end lies between the previous token and this one. */
  readonly startsLine: boolean;
}

/** Longest first; `%` is the modulus where no name follows. */
const puncts = ["..", "<-", "<=", ">=", "==", "!=", "+=", ..."{}[]():;,@=<>+-*/%"] as const;

const rules = [
  { kind: "name", pattern: /%([A-Za-z_]\w*)/y },
  { kind: "entry", pattern: /@([A-Za-z_$][\w$]*)/y },
  { kind: "number", pattern: /(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)/y },
  { kind: "word", pattern: /([A-Za-z_]\w*(?:[.-][A-Za-z0-9_]+)*)/y },
  { kind: "string", pattern: /("(?:[^"\\\n]|\\.)*")/y },
] as const;

const blank = /(?:\s|\/\/[^\n]*)*/y;

export class Scanner {
  readonly text: string;
  #offset = 0;
  #peeked: Token | null = null;
  /** Offsets at which lines begin. */
  #lines: readonly number[] | null = null;

  constructor(text: string) {
    this.text = text;
  }

  /** The next token, without taking it. */
  peek(): Token {
    this.#peeked ??= this.#scan();
    return this.#peeked;
  }

  /** Take the next token. */
  next(): Token {
    const token = this.peek();
    this.#peeked = null;
    this.#offset = token.end;
    return token;
  }

  /** Take raw text up to (not including) `stop`, a comment or the line's end; trimmed. Returns where it began. */
  raw(stop: string | null): { readonly text: string; readonly offset: number } {
    this.#peeked = null;
    const rest = this.text.slice(this.#offset);
    const lead = /^[^\S\n]*/.exec(rest)?.[0].length ?? 0;
    const line = /^[^\n]*/.exec(rest.slice(lead))?.[0] ?? "";
    const ends = [line.indexOf("//"), stop === null ? -1 : line.indexOf(stop)].filter((i) => i >= 0);
    const text = line.slice(0, Math.min(line.length, ...ends));
    const offset = this.#offset + lead;
    this.#offset = offset + text.length;
    return { text: text.trimEnd(), offset };
  }

  /** Take the text that a sticky pattern matches at the next token, or nothing. */
  match(pattern: RegExp): string | null {
    pattern.lastIndex = this.peek().offset;
    const text = pattern.exec(this.text)?.[0];
    if (text === undefined) return null;
    this.#offset = pattern.lastIndex;
    this.#peeked = null;
    return text;
  }

  /** Line and column, both from 1. */
  locate(offset: number): SourceLocation {
    this.#lines ??= [0, ...[...this.text.matchAll(/\n/g)].map(({ index }) => index + 1)];
    let [line, after] = [0, this.#lines.length];
    while (after - line > 1) {
      const middle = (line + after) >> 1;
      if ((this.#lines[middle] ?? 0) <= offset) line = middle;
      else after = middle;
    }
    return { line: line + 1, column: offset - (this.#lines[line] ?? 0) + 1 };
  }

  #scan(): Token {
    blank.lastIndex = this.#offset;
    const skipped = blank.exec(this.text)?.[0] ?? "";
    const offset = this.#offset + skipped.length;
    const startsLine = this.#offset === 0 || skipped.includes("\n");
    const token = (kind: Token["kind"], text: string, length: number): Token => ({
      kind,
      text,
      offset,
      end: offset + length,
      startsLine,
    });
    if (offset >= this.text.length) return token("end", "end of text", 0);
    for (const { kind, pattern } of rules) {
      pattern.lastIndex = offset;
      const match = pattern.exec(this.text);
      if (match?.[1] !== undefined) return token(kind, match[1], match[0].length);
    }
    const punct = puncts.find((p) => this.text.startsWith(p, offset));
    if (punct !== undefined) return token("punct", punct, punct.length);
    return token("stray", String.fromCodePoint(this.text.codePointAt(offset) ?? 0), 1);
  }
}
