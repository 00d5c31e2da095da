/**
 * The text of an expression:
 *
 *     sum     := product (("+" | "-") product)*
 *     product := sign (("*" | "/") sign)*
 *     sign    := "-" sign | NUMBER | NAME "(" sum ("," sum)* ")" | operand | "(" sum ")"
 *
 * What an operand looks like is said by who parses (`Names`).
 */
import type { Checked, Diagnostic } from "../diagnostics.ts";
import { err, ok } from "../ids.ts";
import { didYouMean } from "../nearest.ts";
import { calls, type Expression, type FunctionName } from "./tree.ts";

interface Token {
  readonly kind: "number" | "name" | "sign" | "other" | "end";
  readonly text: string;
  /** 0-based. */
  readonly column: number;
}

/** The tokens after a name, for operands with brackets and the like. */
export interface Cursor {
  /** Whether the next token is this one; it is then taken. */
  take(text: string): boolean;
  /** The next name or number; null where another token stands. */
  word(): string | null;
  /** Of the next token, 0-based. */
  column(): number;
  fault(message: string, hint: string, column?: number): void;
}

export interface Names<Leaf> {
  /** Names of leaves, for suggestions. */
  readonly known: readonly string[];
  /** The leaf that a name begins, 0-based `column`; null where there is none: the parser then reports it. Its own faults go to the cursor. */
  leaf(name: string, cursor: Cursor, column: number): Leaf | null;
}

/** Deeper texts are refused: everything that walks a tree does so by recursion. */
const MOST_DEPTH = 100;
const MOST_LENGTH = 4096;
const signs = "+-*/(),:[]";

function tokens(source: string): readonly Token[] {
  const found: Token[] = [];
  const pattern = /\s*(?:((?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)|([a-z_$][\w$]*)|(\S))/giy;
  for (let match = pattern.exec(source); match !== null; match = pattern.exec(source)) {
    const text = match[1] ?? match[2] ?? match[3] ?? "";
    const kind =
      match[1] !== undefined
        ? "number"
        : match[2] !== undefined
          ? "name"
          : signs.includes(text)
            ? "sign"
            : "other";
    found.push({ kind, text, column: pattern.lastIndex - text.length });
  }
  return [...found, { kind: "end", text: "", column: source.length }];
}

/** Part of the text around a column, with a caret below it. */
function excerpt(source: string, column: number): string {
  const from = Math.max(0, column - 40);
  const part = source.slice(from, column + 40).replace(/\s/g, " ");
  return `${from > 0 ? "…" : ""}${part}\n${" ".repeat(column - from + (from > 0 ? 1 : 0))}^`;
}

/** Thrown inside the parser only: there is no way to go on. */
class Stop extends Error {}

class Parser<Leaf> implements Cursor {
  readonly #faults: (readonly [column: number, fault: Diagnostic])[] = [];
  readonly #tokens: readonly Token[];
  #next = 0;
  #depth = 0;
  readonly #source: string;
  readonly #names: Names<Leaf>;
  readonly #code: Diagnostic["code"];
  readonly #at: string;

  constructor(source: string, names: Names<Leaf>, code: Diagnostic["code"], at: string) {
    this.#source = source;
    this.#tokens = tokens(source);
    this.#names = names;
    this.#code = code;
    this.#at = at;
  }

  fault(message: string, hint: string, column = this.#peek().column): void {
    this.#faults.push([
      column,
      {
        code: this.#code,
        kind: "invalid",
        at: `${this.#at}, column ${column + 1}`,
        message: `${message}\n${excerpt(this.#source, column)}`,
        hint,
      },
    ]);
  }

  /** In the order of the text. */
  faults(): readonly Diagnostic[] {
    return this.#faults.sort(([x], [y]) => x - y).map(([, fault]) => fault);
  }

  column = (): number => this.#peek().column;

  take(text: string): boolean {
    if (this.#peek().text !== text || this.#peek().kind === "end") return false;
    this.#next += 1;
    return true;
  }

  word(): string | null {
    const { kind, text } = this.#peek();
    if (kind !== "name" && kind !== "number") return null;
    this.#next += 1;
    return text;
  }

  /** The whole text. */
  parse(): Expression<Leaf> | null {
    try {
      if (this.#source.length > MOST_LENGTH)
        this.#stop(
          `an expression has at most ${MOST_LENGTH} characters`,
          "split it into steps joined by |",
          0,
        );
      const made = this.#sum();
      if (this.#peek().kind !== "end")
        this.#stop(`unexpected '${this.#peek().text}'`, "write an operator between two values: + - * /");
      return made;
    } catch (stop) {
      if (stop instanceof Stop) return null;
      throw stop;
    }
  }

  #peek(): Token {
    return this.#tokens[this.#next] ?? { kind: "end", text: "", column: this.#source.length };
  }

  #stop(message: string, hint: string, column?: number): never {
    this.fault(message, hint, column);
    throw new Stop();
  }

  #sum(): Expression<Leaf> {
    return this.#chain({ "+": "add", "-": "sub" }, () =>
      this.#chain({ "*": "mul", "/": "div" }, () => this.#sign()),
    );
  }

  #chain(operators: Readonly<Record<string, FunctionName>>, part: () => Expression<Leaf>): Expression<Leaf> {
    if (++this.#depth > MOST_DEPTH)
      this.#stop(`nested more than ${MOST_DEPTH / 2} deep`, "split it into steps joined by |");
    let made = part();
    for (let terms = 0; ; terms++) {
      const fn = Object.hasOwn(operators, this.#peek().text) ? operators[this.#peek().text] : undefined;
      if (fn === undefined) break;
      if (terms >= MOST_DEPTH) this.#stop(`more than ${MOST_DEPTH} terms`, "split it into steps joined by |");
      this.#next += 1;
      made = { kind: "apply", fn, args: [made, part()] };
    }
    this.#depth -= 1;
    return made;
  }

  #sign(): Expression<Leaf> {
    let negative = false;
    while (this.take("-")) negative = !negative;
    const made = this.#value();
    if (!negative) return made;
    return made.kind === "number"
      ? { kind: "number", value: -made.value }
      : { kind: "apply", fn: "neg", args: [made] };
  }

  #value(): Expression<Leaf> {
    const token = this.#peek();
    if (this.take("(")) {
      const made = this.#sum();
      this.#close();
      return made;
    }
    if (token.kind !== "number" && token.kind !== "name")
      this.#stop(
        token.kind === "end" ? "a value is missing at the end" : `a value is missing before '${token.text}'`,
        "values are numbers, acc, operands (bias[n], gate[m,n]) and functions of them",
      );
    this.#next += 1;
    if (token.kind === "number") {
      const value = Number(token.text);
      if (!Number.isFinite(Math.fround(value)))
        this.fault(`${token.text} is not finite in f32`, "constants are f32", token.column);
      return { kind: "number", value };
    }
    if (this.take("(")) return this.#call(token);
    const leaf = this.#names.leaf(token.text, this, token.column);
    if (leaf !== null) return { kind: "leaf", leaf };
    this.fault(
      `there is no value '${token.text}'`,
      didYouMean(
        token.text,
        this.#names.known,
        `values: ${this.#names.known.join(", ")}; operands have brackets: ${token.text}[n]`,
      ),
      token.column,
    );
    return { kind: "number", value: 1 };
  }

  #call(name: Token): Expression<Leaf> {
    const args = [this.#sum()];
    while (this.take(",")) args.push(this.#sum());
    this.#close();
    const arity = Object.hasOwn(calls, name.text) ? calls[name.text] : undefined;
    if (arity === undefined)
      this.fault(
        `there is no function '${name.text}'`,
        didYouMean(name.text, Object.keys(calls), `functions: ${Object.keys(calls).join(", ")}`),
        name.column,
      );
    else if (arity !== args.length)
      this.fault(
        `${name.text} takes ${arity} ${arity === 1 ? "argument" : "arguments"}, not ${args.length}`,
        name.text === "clamp"
          ? "write clamp(x, low, high)"
          : `write ${name.text}(${arity === 1 ? "x" : "x, y"})`,
        name.column,
      );
    const [x, low, high] = args;
    if (name.text === "clamp" && x && low && high)
      return { kind: "apply", fn: "min", args: [{ kind: "apply", fn: "max", args: [x, low] }, high] };
    return { kind: "apply", fn: name.text as FunctionName, args };
  }

  #close(): void {
    if (!this.take(")"))
      this.#stop(
        this.#peek().kind === "end"
          ? "a ) is missing at the end"
          : `a ) is missing before '${this.#peek().text}'`,
        "close what ( opened",
      );
  }
}

/**
 * An expression from its text. `code` and `at` are those of the faults, each with its column (in `at`, 1-based) and an excerpt with a caret. A syntax error ends
 * the text; unknown names and wrong numbers of arguments are all reported.
 */
export function parseExpression<Leaf>(
  source: string,
  names: Names<Leaf>,
  code: Diagnostic["code"],
  at: string,
): Checked<Expression<Leaf>> {
  const parser = new Parser(source, names, code, at);
  const made = parser.parse();
  const faults = parser.faults();
  return made === null || faults.length > 0 ? err(faults) : ok(made);
}
