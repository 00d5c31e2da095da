import { fc, test as property } from "@fast-check/vitest";
import { describe, expect, test } from "vitest";
import { formatDiagnostic } from "../../src/diagnostics.ts";
import {
  evaluateConstraints,
  evaluateLaunchExpr,
  launchEnvironment,
  printLaunchExpr,
  resolveLaunch,
} from "../../src/launch/evaluate.ts";
import type { KernelSpec, LaunchExpr } from "../../src/manifest.ts";
import { defineProblem } from "../../src/problem/request.ts";

const env = { m: 300, n: 200, k: 77, numSms: 132, alpha: 0.5 };
const value = (expr: LaunchExpr): unknown => {
  const result = evaluateLaunchExpr(expr, env);
  return result.ok ? result.value : result.error.map(formatDiagnostic);
};

test.each<[LaunchExpr, number]>([
  [7, 7],
  ["m", 300],
  ["alpha", 0.5],
  [["ceilDiv", "m", 128], 3],
  [["ceilDiv", 256, 128], 2],
  [["div", "m", 128], 2],
  [["mod", "k", 8], 5],
  [["mod", -3, 8], 5],
  [["div", -3, 8], -1],
  [["min", "numSms", ["mul", ["ceilDiv", "m", 128], ["ceilDiv", "n", 128]]], 6],
  [["max", ["sub", "n", "m"], ["add", 1, 2]], 3],
])("%j is %d", (expr, expected) => {
  expect(value(expr)).toBe(expected);
});

test("text for people", () => {
  expect(printLaunchExpr(["mul", ["ceilDiv", "m", 128], ["add", "n", 1]])).toBe("ceilDiv(m, 128) * (n + 1)");
});

test("refusals, all at once", () => {
  expect(value(["add", ["div", "m", 0], ["mul", "lad", ["mod", "alpha", 2]]])).toEqual([
    "TW1302 (invalid) at div(m, 0): div of 300 by 0\n  hint: it takes an integer and a positive integer",
    "TW1301 (invalid) at lad: 'lad' has no value in this launch\n  hint: names: m, n, k, numSms, alpha",
    "TW1302 (invalid) at alpha % 2: mod of 0.5 by 2\n  hint: it takes an integer and a positive integer",
  ]);
  expect(value(["mul", ["mul", 2 ** 30, 2 ** 20], 2 ** 10])).toEqual([expect.stringContaining("TW1303")]);
  // Names of the object prototype are no names of a launch.
  expect(value("toString")).toEqual([expect.stringContaining("TW1301")]);
});

property.prop([fc.integer({ min: -(2 ** 52), max: 2 ** 52 }), fc.integer({ min: 1, max: 2 ** 40 })])(
  "division is exact: x = div * d + mod, ceilDiv rounds up",
  (x, d) => {
    const [div, mod, ceil] = (["div", "mod", "ceilDiv"] as const).map((op) =>
      BigInt(Number(value([op, x, d]))),
    );
    expect((div ?? 0n) * BigInt(d) + (mod ?? 0n)).toBe(BigInt(x));
    expect(mod).toBeGreaterThanOrEqual(0n);
    expect(mod).toBeLessThan(BigInt(d));
    expect(ceil).toBe((div ?? 0n) + (mod === 0n ? 0n : 1n));
  },
);

describe("constraints", () => {
  test("all that fail are named with both values", () => {
    expect(
      evaluateConstraints(
        [
          ["eq", ["mod", "m", 4], 0],
          ["ge", "n", 1],
          ["ne", "m", "n"],
          ["lt", 1, 2],
          ["le", 2, 2],
          ["gt", 2, 1],
        ],
        env,
      ),
    ).toEqual({ ok: true, value: true });
    const broken = evaluateConstraints(
      [
        ["eq", ["mod", "k", 8], 0],
        ["ge", "n", 1],
        ["lt", "m", 256],
      ],
      env,
    );
    expect(broken.ok ? [] : broken.error.map(formatDiagnostic)).toEqual([
      "TW1304 (unsupported) at launch: this kernel needs k % 8 == 0; here k % 8 is 5\n  hint: compile a kernel for this problem",
      "TW1304 (unsupported) at launch: this kernel needs m < 256; here m is 300\n  hint: compile a kernel for this problem",
    ]);
    expect(evaluateConstraints([["eq", "q", 1]], env).ok).toBe(false);
  });
});

const kernel = (grid: KernelSpec["launch"]["grid"], workspaceBytes: LaunchExpr = 0): KernelSpec => ({
  entry: "gemm",
  role: "main",
  launch: {
    grid,
    block: [256, 1, 1],
    cluster: [1, 1, 1],
    dynamicSmem: 0,
    staticSmem: 8448,
    cooperative: false,
  },
  params: [],
  workspaceBytes,
});

describe("resolved launches", () => {
  const defined = defineProblem({
    m: 300,
    n: 200,
    k: 77,
    beta: "runtime",
    batch: { kind: "strided", count: 5 },
  });
  if (!defined.ok) throw new Error("problem");
  const names = launchEnvironment(defined.value, { numSms: 132 }, { beta: 2 });

  test("the environment has sizes, leading dimensions, strides and scalars", () => {
    expect(names).toEqual({
      m: 300,
      n: 200,
      k: 77,
      batch: 5,
      lda: 77,
      ldb: 200,
      ldc: 200,
      ldd: 200,
      strideA: 23100,
      strideB: 15400,
      strideC: 60000,
      strideD: 60000,
      numSms: 132,
      alpha: 1,
      beta: 2,
    });
  });

  test("grid and workspace become numbers", () => {
    expect(
      resolveLaunch(kernel([["ceilDiv", "n", 128], ["ceilDiv", "m", 128], "batch"], ["mul", "m", 4]), names),
    ).toMatchObject({
      ok: true,
      value: { grid: [2, 3, 5], block: [256, 1, 1], workspaceBytes: 1200 },
    });
  });

  test("a grid that no GPU launches", () => {
    const result = resolveLaunch(kernel([["div", "m", 301], 65536, "alpha"], ["sub", 0, "m"]), {
      ...names,
      alpha: 0.5,
    });
    expect(result.ok ? [] : result.error.map((d) => `${d.code} ${d.message}`)).toEqual([
      "TW1305 grid.x of gemm is 0",
      "TW1305 grid.y of gemm is 65536",
      "TW1305 grid.z of gemm is 0.5",
      "TW1305 workspace of gemm is -300",
    ]);
  });
});
