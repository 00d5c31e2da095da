import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  add,
  asLinear,
  cond,
  div,
  type Expr,
  equalExpr,
  evaluateCond,
  evaluateExpr,
  foldCond,
  freeVars,
  lit,
  mod,
  mul,
  printExpr,
  sameValue,
  simplify,
  sub,
  substituteExpr,
  v,
} from "../../src/index.ts";
import { counterexample, narrow, rangeOf } from "../../src/tile/ranges.ts";

const names = ["x", "y", "z"] as const;
const env = fc
  .tuple(...names.map(() => fc.integer({ min: 0, max: 40 })))
  .map((values) => new Map<string, number>(names.map((name, i) => [name, values[i] ?? 0])));

/** Trees made by hand, unsimplified. */
const raw: fc.Arbitrary<Expr> = fc.letrec<{ e: Expr }>((tie) => ({
  e: fc.oneof(
    { maxDepth: 4 },
    fc.integer({ min: -20, max: 40 }).map((value): Expr => ({ kind: "const", value })),
    fc.constantFrom(...names).map((name): Expr => ({ kind: "var", name })),
    fc.tuple(tie("e"), tie("e")).map(([lhs, rhs]): Expr => ({ kind: "add", lhs, rhs })),
    fc.tuple(tie("e"), tie("e")).map(([lhs, rhs]): Expr => ({ kind: "sub", lhs, rhs })),
    fc
      .tuple(tie("e"), fc.integer({ min: -5, max: 9 }))
      .map(([lhs, factor]): Expr => ({ kind: "mul", lhs, factor })),
    fc
      .tuple(tie("e"), fc.integer({ min: 1, max: 9 }))
      .map(([lhs, divisor]): Expr => ({ kind: "div", lhs, divisor })),
    fc
      .tuple(tie("e"), fc.integer({ min: 1, max: 9 }))
      .map(([lhs, divisor]): Expr => ({ kind: "mod", lhs, divisor })),
  ),
})).e;

/** The same tree by the constructors. */
function built(e: Expr): Expr {
  switch (e.kind) {
    case "const":
      return lit(e.value);
    case "var":
      return v(e.name);
    case "add":
      return add(built(e.lhs), built(e.rhs));
    case "sub":
      return sub(built(e.lhs), built(e.rhs));
    case "mul":
      return mul(built(e.lhs), e.factor);
    case "div":
      return div(built(e.lhs), e.divisor);
    case "mod":
      return mod(built(e.lhs), e.divisor);
  }
}

describe("expressions", () => {
  it("keep their value through constructors, simplification and substitution", () => {
    fc.assert(
      fc.property(raw, env, fc.integer({ min: 0, max: 9 }), (e, at, x) => {
        const value = evaluateExpr(e, at);
        expect(evaluateExpr(built(e), at)).toBe(value);
        expect(evaluateExpr(simplify(e), at)).toBe(value);
        expect(sameValue(e, simplify(e))).toBe(true);
        expect(evaluateExpr(substituteExpr(e, new Map([["x", x]])), at)).toBe(
          evaluateExpr(e, new Map([...at, ["x", x]])),
        );
        expect(freeVars(substituteExpr(e, new Map([["x", x]]))).has("x")).toBe(false);
      }),
      { numRuns: 1000 },
    );
  });

  it("have one normal form: what is simplified stays", () => {
    fc.assert(
      fc.property(raw, (e) => {
        const once = simplify(e);
        expect(printExpr(simplify(once))).toBe(printExpr(once));
      }),
      { numRuns: 1000 },
    );
  });

  it("have an affine form exactly where no division of a variable remains", () => {
    fc.assert(
      fc.property(raw, env, (e, at) => {
        const linear = asLinear(e);
        if (linear === null) {
          expect(printExpr(simplify(e))).toMatch(/[/] |% \d/);
          return;
        }
        const sum = [...linear.terms].reduce((s, [name, c]) => s + c * (at.get(name) ?? 0), linear.constant);
        expect(sum + 0).toBe(evaluateExpr(e, at) + 0);
        for (const c of linear.terms.values()) expect(c).not.toBe(0);
      }),
      { numRuns: 1000 },
    );
  });

  it.each([
    [add(add(v("x"), 1), 2), "%x + 3"],
    [add(v("x"), -2), "%x - 2"],
    [add(3, v("x")), "%x + 3"],
    [sub(v("x"), v("x")), "0"],
    [mul(add(v("x"), 1), 8), "%x * 8 + 8"],
    [mul(mul(v("x"), 2), 3), "%x * 6"],
    [mul(v("x"), 0), "0"],
    [div(mul(v("x"), 8), 4), "%x * 2"],
    [div(div(v("x"), 2), 3), "%x / 6"],
    [div(mod(v("x"), 4), 4), "0"],
    [mod(mul(v("x"), 8), 4), "0"],
    [mod(mod(v("x"), 8), 4), "%x % 4"],
    [simplify(mod(add(mul(v("x"), 8), 9), 4)), "1"],
    [simplify(div(add(mul(v("x"), 8), v("y")), 8)), "%y / 8 + %x"],
    [simplify(sub(add(v("x"), v("y")), v("x"))), "%y"],
    [{ kind: "mul", lhs: add(v("x"), v("y")), factor: 2 } satisfies Expr, "(%x + %y) * 2"],
    [sub(v("x"), sub(v("y"), v("z"))), "%x - (%y - %z)"],
  ])("folds to %s", (e, text) => {
    expect(printExpr(e)).toBe(text);
  });

  it("compare by structure and by value", () => {
    expect(equalExpr(add(v("x"), 1), add(v("x"), 1))).toBe(true);
    expect(equalExpr(add(v("x"), v("y")), add(v("y"), v("x")))).toBe(false);
    expect(sameValue(add(v("x"), v("y")), add(v("y"), v("x")))).toBe(true);
    expect(sameValue(v("x"), v("y"))).toBe(false);
  });

  it("refuse what they cannot mean", () => {
    expect(() => lit(1.5)).toThrow("not an integer: 1.5");
    expect(() => div(v("x"), 0)).toThrow("not a positive divisor: 0");
    expect(() => evaluateExpr(v("q"), new Map())).toThrow("no value for %q");
  });
});

describe("conditions", () => {
  const op = fc.constantFrom("<", "<=", "==", "!=", ">=", ">") as fc.Arbitrary<
    "<" | "==" | "!=" | ">=" | "<=" | ">"
  >;

  it("fold only to their truth", () => {
    fc.assert(
      fc.property(raw, op, raw, env, (lhs, o, rhs, at) => {
        const c = cond(lhs, o, rhs);
        const truth = evaluateCond(c, at);
        const folded = foldCond(c);
        if (folded !== null) expect(folded).toBe(truth);
      }),
      { numRuns: 500 },
    );
    expect(foldCond(cond(add(v("x"), 1), ">", v("x")))).toBe(true);
    expect(foldCond(cond(v("x"), "<", 3))).toBe(null);
  });
});

describe("ranges", () => {
  const ranges = new Map(names.map((name) => [name, [0, 40] as const]));

  it("hold every value", () => {
    fc.assert(
      fc.property(raw, env, (e, at) => {
        const [low, high] = rangeOf(e, ranges);
        const value = evaluateExpr(e, at);
        expect(value).toBeGreaterThanOrEqual(low);
        expect(value).toBeLessThanOrEqual(high);
      }),
      { numRuns: 500 },
    );
  });

  it("narrowed by a condition hold every value for which it is true", () => {
    const op = fc.constantFrom("<", "<=", "==", "!=", ">=", ">") as fc.Arbitrary<"<">;
    fc.assert(
      fc.property(raw, op, raw, env, (lhs, o, rhs, at) => {
        const c = cond(lhs, o, rhs);
        if (!evaluateCond(c, at)) return;
        for (const [name, [low, high]] of narrow(c, ranges)) {
          expect(at.get(name)).toBeGreaterThanOrEqual(low);
          expect(at.get(name)).toBeLessThanOrEqual(high);
        }
      }),
      { numRuns: 500 },
    );
    expect(narrow(cond(add(v("x"), 1), "<", 10), ranges).get("x")).toEqual([0, 8]);
    expect(narrow(cond(5, "<=", v("x")), ranges).get("x")).toEqual([5, 40]);
  });

  it("search finds what intervals cannot, within the loops and conditions around", () => {
    const loop = { kind: "for", var: "x", from: lit(0), to: lit(10), unroll: false, body: [] } as const;
    const wrong = (limit: number) =>
      counterexample([loop], cond(v("x"), "!=", 7), [v("x")], (at) => evaluateExpr(v("x"), at) * 2 > limit);
    expect(wrong(18)).toBe(null);
    expect(wrong(15)).toEqual(new Map([["x", 8]]));
    const many = [loop, { ...loop, var: "y", to: lit(1000) }, { ...loop, var: "z", to: lit(1000) }];
    expect(counterexample(many, null, [v("x"), v("y"), v("z")], () => false)).toBe("unknown");
  });
});
