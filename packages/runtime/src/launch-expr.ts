/** Values of a manifest's expressions at launch. */
import { type Checked, type Constraint, type Diagnostic, err, type LaunchExpr, ok } from "@tilewright/ir";
import { diagnose, fail } from "./diagnostics.ts";

/** Names of dimensions and attributes with their values: `m`, `n`, `k`, `batch`, `lda` … `ldd`, `numSms`, `alpha`, `beta`. */
export type LaunchEnv = Readonly<Record<string, number>>;

type Operation = Extract<LaunchExpr, readonly unknown[]>[0];

/** Integer arithmetic; null where the result is undefined. */
const operations: Readonly<Record<Operation, (a: number, b: number) => number | null>> = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  div: (a, b) => (b === 0 ? null : Math.floor(a / b)),
  ceilDiv: (a, b) => (b === 0 ? null : Math.ceil(a / b)),
  mod: (a, b) => (b === 0 ? null : a - b * Math.floor(a / b)),
  min: Math.min,
  max: Math.max,
};

/** The value of `expr`. `at`: the manifest field it stands in. Errors: an unknown name, a division by zero, a result beyond 2^53. */
export function evaluate(at: string, expr: LaunchExpr, env: LaunchEnv): Checked<number> {
  if (typeof expr === "number") return ok(expr);
  if (typeof expr === "string") {
    const value = Object.hasOwn(env, expr) ? env[expr] : undefined;
    if (value !== undefined) return ok(value);
    return fail(
      "expression",
      at,
      `the launch gives no value for ${expr}`,
      `it gives ${Object.keys(env).join(", ")}`,
    );
  }
  const [operation, left, right] = expr;
  const a = evaluate(at, left, env);
  const b = evaluate(at, right, env);
  if (!a.ok || !b.ok) return err([...(a.ok ? [] : a.error), ...(b.ok ? [] : b.error)]);
  const value = operations[operation](a.value, b.value);
  if (value !== null && Math.abs(value) <= Number.MAX_SAFE_INTEGER) return ok(value);
  return fail("expression", at, `${operation} of ${a.value} and ${b.value} has no value`);
}

const relations: Readonly<
  Record<Constraint[0], readonly [sign: string, holds: (a: number, b: number) => boolean]>
> = {
  eq: ["=", (a, b) => a === b],
  ne: ["≠", (a, b) => a !== b],
  lt: ["<", (a, b) => a < b],
  le: ["≤", (a, b) => a <= b],
  gt: [">", (a, b) => a > b],
  ge: ["≥", (a, b) => a >= b],
};

const show = (expr: LaunchExpr): string =>
  typeof expr === "object" ? `${expr[0]}(${show(expr[1])}, ${show(expr[2])})` : `${expr}`;

/** Every constraint that does not hold. */
export function checkConstraints(constraints: readonly Constraint[], env: LaunchEnv): readonly Diagnostic[] {
  return constraints.flatMap(([relation, left, right], index) => {
    const at = `constraints[${index}]`;
    const a = evaluate(at, left, env);
    const b = evaluate(at, right, env);
    if (!a.ok || !b.ok) return [...(a.ok ? [] : a.error), ...(b.ok ? [] : b.error)];
    const [sign, holds] = relations[relation];
    if (holds(a.value, b.value)) return [];
    const says = `the kernel needs ${show(left)} ${sign} ${show(right)}, here ${a.value} and ${b.value}`;
    return [diagnose("constraint", at, says, "compile a kernel for this problem")];
  });
}
