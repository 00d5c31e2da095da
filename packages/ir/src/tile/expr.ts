/**
 * Integer expressions over loop variables: constructors that fold and canonicalise, evaluation, substitution, and the
 * affine form that passes and backends match on. Trees made only by these constructors have no constant subtrees, no
 * neutral elements, and constants on the right; the parser keeps what a person wrote, so match on `asLinear`, never on shape.
 */
import type { Expr } from "./types.ts";

/** Values of loop variables. */
export type Env = ReadonlyMap<string, number>;

/** An integer constant. Throws (a bug) on a fraction or beyond 2^53. */
export function lit(value: number): Expr {
  if (!Number.isSafeInteger(value)) throw new RangeError(`not an integer: ${value}`);
  return { kind: "const", value: value === 0 ? 0 : value };
}

/** A loop variable, by its name without the `%`. */
export const v = (name: string): Expr => ({ kind: "var", name });

/** A number stands for its constant. */
export type ExprLike = Expr | number;
const expr = (e: ExprLike): Expr => (typeof e === "number" ? lit(e) : e);

/** lhs + rhs; constants gather on the right: (x + 1) + 2 is x + 3, x + -2 is x - 2. */
export function add(lhs: ExprLike, rhs: ExprLike): Expr {
  const a = expr(lhs);
  const b = expr(rhs);
  if (a.kind === "const") return b.kind === "const" ? lit(a.value + b.value) : add(b, a);
  if (b.kind === "const") return addConstant(a, b.value);
  const [x, p] = splitConstant(a);
  const [y, q] = splitConstant(b);
  return addConstant({ kind: "add", lhs: x, rhs: y }, p + q);
}

/** lhs - rhs; x - x is 0. */
export function sub(lhs: ExprLike, rhs: ExprLike): Expr {
  const a = expr(lhs);
  const b = expr(rhs);
  if (b.kind === "const") return add(a, -b.value);
  const [x, p] = splitConstant(a);
  const [y, q] = splitConstant(b);
  if (equalExpr(x, y)) return lit(p - q);
  return addConstant({ kind: "sub", lhs: x, rhs: y }, p - q);
}

/** lhs * factor; distributes over a constant summand: (x + 1) * 8 is x * 8 + 8. */
export function mul(lhs: ExprLike, factor: number): Expr {
  const a = expr(lhs);
  if (factor === 0) return lit(0);
  if (factor === 1) return a;
  if (a.kind === "const") return lit(a.value * factor);
  if (a.kind === "mul") return mul(a.lhs, a.factor * factor);
  const [x, p] = splitConstant(a);
  return addConstant({ kind: "mul", lhs: x, factor }, p * factor);
}

/** Floor division by a positive constant; (x * 8) / 4 is x * 2. Throws (a bug) when the divisor is not positive. */
export function div(lhs: ExprLike, divisor: number): Expr {
  const a = expr(lhs);
  checkDivisor(divisor);
  if (divisor === 1) return a;
  if (a.kind === "const") return lit(Math.floor(a.value / divisor));
  if (a.kind === "div") return div(a.lhs, a.divisor * divisor);
  if (a.kind === "mul" && a.factor % divisor === 0) return mul(a.lhs, a.factor / divisor);
  if (a.kind === "mod" && a.divisor <= divisor) return lit(0);
  return { kind: "div", lhs: a, divisor };
}

/** Modulus by a positive constant, in 0 .. divisor-1; (x * 8) % 4 is 0. Throws (a bug) when the divisor is not positive. */
export function mod(lhs: ExprLike, divisor: number): Expr {
  const a = expr(lhs);
  checkDivisor(divisor);
  if (divisor === 1) return lit(0);
  if (a.kind === "const") return lit(floorMod(a.value, divisor));
  if (a.kind === "mul" && a.factor % divisor === 0) return lit(0);
  if (a.kind === "mod" && a.divisor % divisor === 0) return mod(a.lhs, divisor);
  if (a.kind === "mod" && a.divisor <= divisor) return a;
  return { kind: "mod", lhs: a, divisor };
}

/** x - divisor * floor(x / divisor). */
export const floorMod = (x: number, divisor: number): number => {
  const r = x % divisor;
  return r < 0 ? r + divisor : r === 0 ? 0 : r;
};

function checkDivisor(divisor: number): void {
  if (!Number.isInteger(divisor) || divisor <= 0) throw new RangeError(`not a positive divisor: ${divisor}`);
}

/** e as x + constant, where x has no constant summand at its root. */
function splitConstant(e: Expr): readonly [Expr, number] {
  if (e.kind === "add" && e.rhs.kind === "const") return [e.lhs, e.rhs.value];
  if (e.kind === "sub" && e.rhs.kind === "const") return [e.lhs, -e.rhs.value];
  return [e, 0];
}

function addConstant(e: Expr, value: number): Expr {
  const [x, p] = splitConstant(e);
  const sum = p + value;
  if (sum === 0) return x;
  return sum > 0 ? { kind: "add", lhs: x, rhs: lit(sum) } : { kind: "sub", lhs: x, rhs: lit(-sum) };
}

/** Of positive integers. */
export function leastCommonMultiple(a: number, b: number): number {
  let [divisor, rest] = [a, b];
  while (rest > 0) [divisor, rest] = [rest, divisor % rest];
  return (a / divisor) * b;
}

/** Structural equality; `sameValue` compares meaning. */
export function equalExpr(a: Expr, b: Expr): boolean {
  switch (a.kind) {
    case "const":
      return b.kind === "const" && a.value === b.value;
    case "var":
      return b.kind === "var" && a.name === b.name;
    case "add":
    case "sub":
      return b.kind === a.kind && equalExpr(a.lhs, b.lhs) && equalExpr(a.rhs, b.rhs);
    case "mul":
      return b.kind === "mul" && a.factor === b.factor && equalExpr(a.lhs, b.lhs);
    case "div":
    case "mod":
      return b.kind === a.kind && a.divisor === b.divisor && equalExpr(a.lhs, b.lhs);
  }
}

/** The value of an expression. Throws (a bug) on a variable without a value. */
export function evaluateExpr(e: Expr, env: Env): number {
  switch (e.kind) {
    case "const":
      return e.value;
    case "var": {
      const value = env.get(e.name);
      if (value === undefined) throw new RangeError(`no value for %${e.name}`);
      return value;
    }
    case "add":
      return evaluateExpr(e.lhs, env) + evaluateExpr(e.rhs, env);
    case "sub":
      return evaluateExpr(e.lhs, env) - evaluateExpr(e.rhs, env);
    case "mul":
      // + 0 turns -0 into the only zero that integers have.
      return evaluateExpr(e.lhs, env) * e.factor + 0;
    case "div":
      return Math.floor(evaluateExpr(e.lhs, env) / e.divisor);
    case "mod":
      return floorMod(evaluateExpr(e.lhs, env), e.divisor);
  }
}

/** Replace variables by expressions and fold; variables that the map lacks stay. */
export function substituteExpr(e: Expr, values: ReadonlyMap<string, ExprLike>): Expr {
  switch (e.kind) {
    case "const":
      return e;
    case "var": {
      const value = values.get(e.name);
      return value === undefined ? e : expr(value);
    }
    case "add":
      return add(substituteExpr(e.lhs, values), substituteExpr(e.rhs, values));
    case "sub":
      return sub(substituteExpr(e.lhs, values), substituteExpr(e.rhs, values));
    case "mul":
      return mul(substituteExpr(e.lhs, values), e.factor);
    case "div":
      return div(substituteExpr(e.lhs, values), e.divisor);
    case "mod":
      return mod(substituteExpr(e.lhs, values), e.divisor);
  }
}

/** Names of the variables of an expression, in order of first use. */
export function freeVars(e: Expr, into: Set<string> = new Set()): Set<string> {
  switch (e.kind) {
    case "const":
      break;
    case "var":
      into.add(e.name);
      break;
    case "add":
    case "sub":
      freeVars(e.lhs, into);
      freeVars(e.rhs, into);
      break;
    case "mul":
    case "div":
    case "mod":
      freeVars(e.lhs, into);
      break;
    default:
      e satisfies never;
  }
  return into;
}

/** constant + sum over variables of coefficient * variable; no coefficient is 0. */
export interface Linear {
  readonly constant: number;
  readonly terms: ReadonlyMap<string, number>;
}

/** The affine form of an expression; null when a division or modulus of a variable remains after folding. */
export function asLinear(e: Expr): Linear | null {
  const sum = toSum(e);
  const terms = new Map<string, number>();
  for (const { atom, coefficient } of sum.terms.values()) {
    if (atom.kind !== "var") return null;
    terms.set(atom.name, coefficient);
  }
  return { constant: sum.constant, terms };
}

/** The expression with remainders of a variable and a constant as variables of their own, as `named` calls them; null leaves one as it is. */
export function namedRemainders(
  e: Expr,
  named: (name: string, constant: number, divisor: number) => string | null,
): Expr {
  switch (e.kind) {
    case "const":
    case "var":
    case "div":
      return e;
    case "add":
    case "sub":
      return { ...e, lhs: namedRemainders(e.lhs, named), rhs: namedRemainders(e.rhs, named) };
    case "mul":
      return { ...e, lhs: namedRemainders(e.lhs, named) };
    case "mod": {
      const { constant, terms } = asLinear(e.lhs) ?? { constant: 0, terms: new Map<string, number>() };
      const [term, more] = [...terms];
      if (term === undefined || more !== undefined || term[1] !== 1) return e;
      const name = named(term[0], constant, e.divisor);
      return name === null ? e : v(name);
    }
  }
}

/** A sum over opaque atoms (variables, divisions, moduli), keyed by structure, in order of first use. */
interface Sum {
  constant: number;
  readonly terms: Map<string, { readonly atom: Expr; readonly coefficient: number }>;
}

function toSum(e: Expr): Sum {
  const sum: Sum = { constant: 0, terms: new Map() };
  accumulate(e, 1, sum);
  return sum;
}

function accumulate(e: Expr, scale: number, sum: Sum): void {
  switch (e.kind) {
    case "const":
      sum.constant += scale * e.value;
      return;
    case "add":
      accumulate(e.lhs, scale, sum);
      accumulate(e.rhs, scale, sum);
      return;
    case "sub":
      accumulate(e.lhs, scale, sum);
      accumulate(e.rhs, -scale, sum);
      return;
    case "mul":
      accumulate(e.lhs, scale * e.factor, sum);
      return;
    case "var":
      addTerm(e, scale, sum);
      return;
    case "div":
    case "mod": {
      const folded = divideSum(e.kind, toSum(e.lhs), e.divisor);
      if (folded.kind === e.kind) addTerm(folded, scale, sum);
      else accumulate(folded, scale, sum);
      return;
    }
  }
}

function addTerm(atom: Expr, coefficient: number, sum: Sum): void {
  const key = atom.kind === "var" ? atom.name : JSON.stringify(atom);
  const total = (sum.terms.get(key)?.coefficient ?? 0) + coefficient;
  if (total === 0) sum.terms.delete(key);
  else sum.terms.set(key, { atom, coefficient: total });
}

/** Division and modulus of a sum: multiples of the divisor leave the operation (exact for floor semantics of either sign). */
function divideSum(kind: "div" | "mod", whole: Sum, divisor: number): Expr {
  const sum = kind === "mod" ? withoutModuli(whole, divisor) : whole;
  const outside: Sum = { constant: Math.floor(sum.constant / divisor), terms: new Map() };
  const inside: Sum = { constant: floorMod(sum.constant, divisor), terms: new Map() };
  for (const [key, term] of sum.terms) {
    if (term.coefficient % divisor === 0)
      outside.terms.set(key, { atom: term.atom, coefficient: term.coefficient / divisor });
    else inside.terms.set(key, term);
  }
  const rest = fromSum(inside);
  return kind === "div" ? add(div(rest, divisor), fromSum(outside)) : mod(rest, divisor);
}

/** A congruent sum: `c * (x % d)` counts as `c * x` where the divisor divides `c * d`. */
function withoutModuli(sum: Sum, divisor: number): Sum {
  const congruent: Sum = { constant: sum.constant, terms: new Map() };
  let found = false;
  for (const { atom, coefficient } of sum.terms.values()) {
    if (atom.kind === "mod" && (coefficient * atom.divisor) % divisor === 0) {
      accumulate(atom.lhs, coefficient, congruent);
      found = true;
    } else addTerm(atom, coefficient, congruent);
  }
  return found ? withoutModuli(congruent, divisor) : sum;
}

function fromSum(sum: Sum): Expr {
  const terms = [...sum.terms.values()];
  // Positive terms first: a leading negative one would need a multiplication by -1.
  const ordered = [...terms.filter((t) => t.coefficient > 0), ...terms.filter((t) => t.coefficient < 0)];
  let total: Expr = lit(0);
  for (const { atom, coefficient } of ordered) {
    const constant = total.kind === "const";
    if (coefficient > 0 || constant) total = add(total, mul(atom, coefficient));
    else total = sub(total, mul(atom, -coefficient));
  }
  return add(total, sum.constant);
}

/** An equal expression in normal form: terms gathered, multiples of a divisor taken out of `/` and `%`. */
export const simplify = (e: Expr): Expr => fromSum(toSum(e));

/** True when the difference folds to 0; false means "not proven equal". */
export function sameValue(a: Expr, b: Expr): boolean {
  const difference = simplify({ kind: "sub", lhs: a, rhs: b });
  return difference.kind === "const" && difference.value === 0;
}

/** Whether the form of an expression alone makes it a multiple of `width`, whatever its variables are. */
export function isMultiple(e: Expr, width: number): boolean {
  const linear = asLinear(e);
  if (linear !== null) return [linear.constant, ...linear.terms.values()].every((c) => c % width === 0);
  const factor = (x: Expr): boolean => isMultiple(x, width);
  switch (e.kind) {
    case "add":
    case "sub":
      return factor(e.lhs) && factor(e.rhs);
    case "mul":
      return e.factor % width === 0 || factor(e.lhs);
    case "mod":
      return e.divisor % width === 0 && factor(e.lhs);
    case "div":
    case "const":
    case "var":
      return false;
  }
}
