/** Sizes that come with the launch: the model, its text, the problem of one launch, and what a launch must meet. */

import {
  checkProblem,
  defineProblem,
  evaluateConstraints,
  fixedProblem,
  formatDiagnostic,
  launchEnvironment,
  type Problem,
  parseProblem,
  parseSymbolic,
  printProblem,
  problemAt,
  problemOfGroup,
  readProblem,
  symbolicSizes,
} from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { countOf } from "../../src/index.ts";
import { makeManifest } from "../../src/makeManifest.ts";
import { boundSymbolic, sm80 } from "../tile/support/symbolic.ts";

function problemOf(request: object): Problem {
  const made = defineProblem({ m: 300, n: 200, k: 80, ...request });
  if (!made.ok) throw new Error(made.error.map(formatDiagnostic).join("\n"));
  return made.value;
}

const faults = (request: object): readonly string[] => {
  const made = defineProblem({ m: 300, n: 200, k: 80, ...request });
  return made.ok ? [] : made.error.map(({ code, at, message }) => `${code} ${at}: ${message}`);
};

describe("the model", () => {
  test("rows along a symbolic extent have a leading dimension of the launch, with its divisibility", () => {
    const problem = problemOf({ symbolic: { k: { multiple: 8 }, n: {} }, b: { layout: "col" } });
    expect(symbolicSizes(problem)).toEqual(["n", "k", "lda", "ldb", "ldd"]);
    expect(problem.symbolic?.lda?.multiple).toBe(8);
    expect(problem.symbolic?.ldd?.multiple).toBe(1);
  });

  test("what a request gives stays fixed", () => {
    const problem = problemOf({ symbolic: { k: { max: 128 } }, a: { ld: 128 } });
    expect(symbolicSizes(problem)).toEqual(["k"]);
    expect(problem.a.ld).toBe(128);
  });

  test("batches and matrices of the epilogue follow", () => {
    const problem = problemOf({
      symbolic: { n: {} },
      batch: { kind: "strided", count: 2 },
      epilogue: [{ kind: "residual", operand: {} }],
    });
    expect(symbolicSizes(problem)).toEqual(["n", "ldb", "ldd", "ldepilogue0", "strideB", "strideD"]);
  });

  test.each([
    { symbolic: { m: {}, n: { multiple: 8 }, k: { min: 8, max: 4096, multiple: 8 } } },
    { symbolic: { lda: {} }, b: { layout: "col" } },
    { m: 1, n: 1, k: 1, symbolic: { m: {}, n: {}, k: {} } },
  ])("its text parses back: %o", (request) => {
    const problem = problemOf(request);
    expect(parseProblem(printProblem(problem))).toEqual({ ok: true, value: problem });
  });

  test("the short form of a flag", () => {
    expect(parseSymbolic("m, k:8..4096%8,lda%4")).toEqual({
      m: {},
      k: { min: 8, max: 4096, multiple: 8 },
      lda: { multiple: 4 },
    });
  });

  test("every fault at once, each with its place", () => {
    expect(
      faults({
        symbolic: { m: { multiple: 7 }, n: { min: 9, max: 8 }, k: { max: 40 }, ldc: {}, strideA: {} },
      }),
    ).toEqual([
      "TW1016 symbolic.m: the problem's own m, 300, is none of those that it leaves to the launch",
      "TW1016 symbolic.n: no multiple of 1 from 9 to 8",
      "TW1016 symbolic.k: the problem's own k, 80, is none of those that it leaves to the launch",
      "TW1016 symbolic.ldc: this problem has no size ldc",
      "TW1016 symbolic.strideA: this problem has no size strideA",
    ]);
    expect(faults({ symbolic: { q: {} } })).toEqual(["TW1016 symbolic.q: this problem has no size q"]);
  });

  test("groups have all sizes of their own, up to the problem's unless told otherwise", () => {
    const problem = problemOf({
      batch: { kind: "grouped", count: 2 },
      symbolic: { k: { multiple: 8, max: 160 } },
    });
    expect(problem.symbolic).toMatchObject({
      m: { min: 1, max: 300, multiple: 1 },
      k: { min: 8, max: 160, multiple: 8 },
      lda: { multiple: 8 },
      ldb: { multiple: 1 },
      ldd: { multiple: 1 },
    });
    const { symbolic: _, ...fixed } = problem;
    expect(readProblem(fixed)).toMatchObject({
      error: [{ code: "TW1016", message: "m, n, k, lda, ldb, ldd of a grouped problem come from its table" }],
    });
    expect(problemOfGroup(problem, { m: 5, n: 0, k: 16 })).toMatchObject({
      value: { m: 5, n: 0, k: 16, a: { ld: 16 }, batch: { kind: "none" } },
    });
  });
});

describe("the problem of a launch", () => {
  const problem = problemOf({ symbolic: { m: {}, n: {}, k: { multiple: 8 } } });

  test("has packed rows that keep their promise unless told otherwise", () => {
    const at = problemAt(problem, { m: 5, n: 7, k: 16 });
    expect(at.ok && [at.value.m, at.value.a.ld, at.value.b.ld, at.value.d.ld, at.value.symbolic]).toEqual([
      5,
      16,
      7,
      7,
      undefined,
    ]);
    const long = problemAt(problem, { n: 7, ldd: 9 });
    expect(long.ok && [long.value.m, long.value.d.ld]).toEqual([300, 9]);
  });

  test("its own sizes are a problem", () => expect(checkProblem(fixedProblem(problem))).toEqual([]));

  test("sizes that are compiled in are not given", () => {
    const at = problemAt(problemOf({ symbolic: { m: {} } }), { m: 3, k: 8, n: 200, lda: 90 });
    expect(at.ok ? [] : at.error.map(({ code, at: where }) => `${code} ${where}`)).toEqual([
      "TW1015 k",
      "TW1015 lda",
    ]);
  });

  test("counts of tiles", () => {
    expect(countOf(problem, "m", 128)).toMatchObject({ kind: "div", divisor: 128 });
    expect(countOf(fixedProblem(problem), "m", 128)).toEqual({ kind: "const", value: 3 });
  });
});

describe("constraints of a manifest", () => {
  const program = boundSymbolic();
  const manifest = makeManifest({
    backend: "test",
    version: "0",
    target: sm80,
    program,
    start: program,
    schedule: null,
    ptx: ".version 7.0",
    kernels: [
      {
        entry: program.name,
        role: "main",
        launch: {
          grid: [1, 1, 1],
          block: [64, 1, 1],
          cluster: [1, 1, 1],
          dynamicSmem: 0,
          staticSmem: 0,
          cooperative: false,
        },
        params: [],
        workspaceBytes: 0,
      },
    ],
    workspaceInit: "none",
  });
  const broken = (sizes: Parameters<typeof problemAt>[1]): readonly string[] => {
    const at = problemAt(program.problem, sizes);
    if (!at.ok) throw new Error("the sizes are the launch's");
    const verdict = evaluateConstraints(manifest.constraints, launchEnvironment(at.value, { numSms: 1 }));
    return verdict.ok ? [] : verdict.error.map(({ message }) => message);
  };

  test("hold at sizes within the ranges", () => {
    expect(broken({})).toEqual([]);
    expect(broken({ m: 1, n: 4, k: 8 })).toEqual([]);
    expect(broken({ m: 999, n: 1000, k: 64, lda: 72, ldd: 2000 })).toEqual([]);
  });

  test("name everything that a launch breaks", () => {
    expect(broken({ m: 1001, n: 6, k: 12, lda: 8 })).toEqual([
      "this kernel needs m <= 1000; here m is 1001",
      "this kernel needs n % 4 == 0; here n % 4 is 2",
      "this kernel needs k % 8 == 0; here k % 8 is 4",
      "this kernel needs lda >= k; here lda is 8 and k is 12",
    ]);
    expect(broken({ ldd: 202 })).toEqual(["this kernel needs ldd % 4 == 0; here ldd % 4 is 2"]);
  });
});
