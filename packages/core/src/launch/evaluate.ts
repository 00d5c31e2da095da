/** Evaluation of a manifest's launch expressions and constraints. */
import type { Checked, Diagnostic, Verdict } from "../diagnostics.ts";
import { err, ok } from "../ids.ts";
import type { Constraint, KernelSpec, LaunchExpr, Manifest } from "../manifest.ts";
import { didYouMean } from "../nearest.ts";
import { packedStride } from "../problem/size.ts";
import { operandShape, type Problem } from "../problem.ts";

/** Values of the names that expressions may use. */
export type LaunchEnvironment = Readonly<Record<string, number>>;

/**
 * The names of a launch: sizes, leading dimensions and batch strides of the problem (elements), `numSms` of the device, and `alpha`,
 * `beta` (0 where the problem leaves them to the launch and none is given). Of a problem whose sizes come with the launch, its own: `problemAt` gives that
 * of a launch.
 */
export function launchEnvironment(
  problem: Problem,
  device: { readonly numSms: number },
  scalars: { readonly alpha?: number; readonly beta?: number } = {},
): LaunchEnvironment {
  const { a, b, c, d, batch } = problem;
  const packed = (which: "a" | "b" | "c" | "d"): number => {
    const operand = problem[which];
    return operand === null ? 0 : packedStride(operand, ...operandShape(problem, which));
  };
  const strides =
    batch.kind === "strided"
      ? batch
      : { strideA: packed("a"), strideB: packed("b"), strideC: packed("c"), strideD: packed("d") };
  return {
    m: problem.m,
    n: problem.n,
    k: problem.k,
    batch: batch.kind === "none" ? 1 : batch.count,
    lda: a.ld,
    ldb: b.ld,
    ldc: c?.ld ?? 0,
    ldd: d.ld,
    strideA: strides.strideA,
    strideB: strides.strideB,
    strideC: strides.strideC,
    strideD: strides.strideD,
    numSms: device.numSms,
    alpha: problem.alpha === "runtime" ? (scalars.alpha ?? 0) : problem.alpha,
    beta: problem.beta === "runtime" ? (scalars.beta ?? 0) : problem.beta,
  };
}

const infix: Partial<Record<Exclude<LaunchExpr, number | string>[0], string>> = {
  add: "+",
  sub: "-",
  mul: "*",
  mod: "%",
};

/** An expression for people: `ceilDiv(m, 128) * batch`. */
export function printLaunchExpr(expr: LaunchExpr): string {
  if (typeof expr !== "object") return String(expr);
  const [op, left, right] = expr;
  const sign = infix[op];
  if (sign === undefined) return `${op}(${printLaunchExpr(left)}, ${printLaunchExpr(right)})`;
  const inner = (part: LaunchExpr): string =>
    typeof part === "object" && infix[part[0]] !== undefined
      ? `(${printLaunchExpr(part)})`
      : printLaunchExpr(part);
  return `${inner(left)} ${sign} ${inner(right)}`;
}

const fault = (code: Diagnostic["code"], at: LaunchExpr, message: string, hint: string): Diagnostic => ({
  code,
  kind: "invalid",
  at: printLaunchExpr(at),
  message,
  hint,
});

function apply(expr: Exclude<LaunchExpr, number | string>, left: number, right: number): Checked<number> {
  const [op] = expr;
  if (op === "div" || op === "ceilDiv" || op === "mod") {
    if (!Number.isSafeInteger(left) || !Number.isSafeInteger(right) || right <= 0)
      return err([
        fault("TW1302", expr, `${op} of ${left} by ${right}`, "it takes an integer and a positive integer"),
      ]);
    // Through the remainder: left / right itself may round.
    const rest = ((left % right) + right) % right;
    const down = (left - rest) / right;
    return ok(op === "mod" ? rest : op === "div" ? down : down + (rest > 0 ? 1 : 0));
  }
  const value = {
    add: left + right,
    sub: left - right,
    mul: left * right,
    min: Math.min(left, right),
    max: Math.max(left, right),
  }[op];
  return Number.isInteger(left) && Number.isInteger(right) && !Number.isSafeInteger(value)
    ? err([fault("TW1303", expr, `${value} is beyond exact integers`, "sizes must keep this below 2^53")])
    : ok(value);
}

/**
 * The value of an expression. Errors, all at once: TW1301 a name that the environment lacks, TW1302 a division that is none,
 * TW1303 a result beyond 2^53.
 */
export function evaluateLaunchExpr(expr: LaunchExpr, env: LaunchEnvironment): Checked<number> {
  if (typeof expr === "number") return ok(expr);
  if (typeof expr === "string") {
    const value = Object.hasOwn(env, expr) ? env[expr] : undefined;
    if (value !== undefined) return ok(value);
    const names = Object.keys(env);
    return err([
      fault(
        "TW1301",
        expr,
        `'${expr}' has no value in this launch`,
        didYouMean(expr, names, `names: ${names.join(", ")}`),
      ),
    ]);
  }
  const left = evaluateLaunchExpr(expr[1], env);
  const right = evaluateLaunchExpr(expr[2], env);
  if (!left.ok || !right.ok) return err([...(left.ok ? [] : left.error), ...(right.ok ? [] : right.error)]);
  return apply(expr, left.value, right.value);
}

const comparisons: Readonly<
  Record<Constraint[0], { readonly sign: string; readonly holds: (x: number, y: number) => boolean }>
> = {
  eq: { sign: "==", holds: (x, y) => x === y },
  ne: { sign: "!=", holds: (x, y) => x !== y },
  lt: { sign: "<", holds: (x, y) => x < y },
  le: { sign: "<=", holds: (x, y) => x <= y },
  gt: { sign: ">", holds: (x, y) => x > y },
  ge: { sign: ">=", holds: (x, y) => x >= y },
};

/** Whether a launch meets every constraint. Each one that it breaks is TW1304 (unsupported) with the values of its sides. */
export function evaluateConstraints(constraints: readonly Constraint[], env: LaunchEnvironment): Verdict {
  const faults = constraints.flatMap(([op, left, right]): readonly Diagnostic[] => {
    const x = evaluateLaunchExpr(left, env);
    const y = evaluateLaunchExpr(right, env);
    if (!x.ok || !y.ok) return [...(x.ok ? [] : x.error), ...(y.ok ? [] : y.error)];
    const { sign, holds } = comparisons[op];
    if (holds(x.value, y.value)) return [];
    const here = [
      { side: left, value: x.value },
      { side: right, value: y.value },
    ].flatMap(({ side, value }) =>
      typeof side === "number" ? [] : [`${printLaunchExpr(side)} is ${value}`],
    );
    return [
      {
        code: "TW1304",
        kind: "unsupported",
        at: "launch",
        message: `this kernel needs ${printLaunchExpr(left)} ${sign} ${printLaunchExpr(right)}; here ${here.join(" and ")}`,
        hint: "compile a kernel for this problem",
      },
    ];
  });
  return faults.length === 0 ? ok(true) : err(faults);
}

/** Launch geometry with numbers. */
export interface ResolvedLaunch {
  readonly grid: readonly [number, number, number];
  readonly block: readonly [number, number, number];
  readonly cluster: readonly [number, number, number];
  readonly dynamicSmem: number;
  readonly workspaceBytes: number;
}

/** x, y, z: limits of a CUDA grid. */
const gridLimits = [2 ** 31 - 1, 65535, 65535] as const;

/** Grid and workspace of a kernel. Errors: those of the expressions, and TW1305 for a grid that no GPU launches or a workspace of no size. */
export function resolveLaunch(kernel: KernelSpec, env: LaunchEnvironment): Checked<ResolvedLaunch> {
  const faults: Diagnostic[] = [];
  const count = (expr: LaunchExpr, what: string, least: number, most: number): number => {
    const value = evaluateLaunchExpr(expr, env);
    if (!value.ok) {
      faults.push(...value.error);
      return least;
    }
    if (Number.isInteger(value.value) && value.value >= least && value.value <= most) return value.value;
    faults.push(
      fault(
        "TW1305",
        expr,
        `${what} of ${kernel.entry} is ${value.value}`,
        `it must be an integer from ${least} to ${most}`,
      ),
    );
    return least;
  };
  const { grid, block, cluster, dynamicSmem } = kernel.launch;
  const resolved = {
    grid: [
      count(grid[0], "grid.x", 1, gridLimits[0]),
      count(grid[1], "grid.y", 1, gridLimits[1]),
      count(grid[2], "grid.z", 1, gridLimits[2]),
    ],
    block,
    cluster,
    dynamicSmem,
    workspaceBytes: count(kernel.workspaceBytes, "workspace", 0, 2 ** 40),
  } as const;
  return faults.length === 0 ? ok(resolved) : err(faults);
}

/** Bytes of the workspace that the kernels of a manifest share: the largest that any of them wants. Errors: those of the expressions. */
export function workspaceBytes(
  { kernels, workspace }: Pick<Manifest, "kernels"> & Partial<Pick<Manifest, "workspace">>,
  env: LaunchEnvironment,
): Checked<number> {
  let most = 0;
  for (const expr of [workspace?.bytes ?? 0, ...kernels.map((kernel) => kernel.workspaceBytes)]) {
    const bytes = evaluateLaunchExpr(expr, env);
    if (!bytes.ok) return bytes;
    most = Math.max(most, bytes.value);
  }
  return ok(most);
}
