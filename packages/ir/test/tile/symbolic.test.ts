/** Programs whose sizes come with the launch: text, verification at many sizes, meaning, and what passes may conclude. */

import { problemAt, randomStorage, referenceGemm } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import {
  eachStmt,
  interpret,
  parseProgram,
  parseProgramWithLocations,
  printProgram,
  programAt,
  verifyProgram,
} from "../../src/index.ts";
import { boundSymbolic, sm80, symbolicNest, symbolicProblem } from "./support/symbolic.ts";

describe("text", () => {
  test("counts of tiles and chunks are expressions, and parse back", () => {
    for (const program of [symbolicNest(), boundSymbolic()]) {
      const text = printProgram(program);
      expect(text).toContain("tiles %mt < (%m + 31) / 32, %nt < (%n + 31) / 32");
      expect(text).toContain(".. (%k + 7) / 8");
      expect(parseProgram(text)).toEqual({ ok: true, value: program });
    }
  });

  test("a size that is fixed is no variable", () => {
    const text = printProgram(boundSymbolic(symbolicProblem({ symbolic: { m: { max: 1000 } } })));
    const parsed = parseProgram(text.replaceAll("%kt = 0 .. 10", "%kt = 0 .. (%k + 7) / 8"));
    expect(parsed.ok ? [] : parsed.error.map(({ message }) => message)).toEqual([
      "no loop variable %k is in scope",
    ]);
  });
});

describe("one program, many sizes", () => {
  const program = boundSymbolic();

  test.each([
    { m: 1, n: 4, k: 8 },
    { m: 33, n: 32, k: 16 },
    { m: 31, n: 36, k: 40 },
    { m: 64, n: 4, k: 24, lda: 32 },
  ])("is right at %o", (sizes) => {
    const at = problemAt(program.problem, sizes);
    if (!at.ok) throw new Error("these are the launch's");
    const problem = at.value;
    const a = randomStorage("f32", problem.m * problem.a.ld, { kind: "integers" }, 1);
    const b = randomStorage("f32", problem.k * problem.b.ld, { kind: "integers" }, 2);
    const run = interpret(programAt(program, problem), { a, b });
    if (!run.ok) throw new Error(run.error.map(({ message }) => message).join("\n"));
    const { d } = referenceGemm(problem, { a, b });
    expect(Array.from(run.value.d)).toEqual(Array.from(d.values));
  });

  test.each([
    ["%mt < (%m + 31) / 32", "%mt < 10", "tiles for its own m"],
    ["(%n + 31) / 32", "%n / 32", "tiles that leave out a rest"],
  ])("is verified at other sizes than its own: %s -> %s, %s", (right, wrong) => {
    const parsed = parseProgramWithLocations(printProgram(program).replace(right, wrong));
    if (!parsed.ok) throw new Error("it parses");
    const found = verifyProgram(parsed.value.program, sm80, parsed.value.locations);
    expect(found.length).toBeGreaterThan(0);
    for (const { message, location } of found) {
      expect(message).toMatch(/\(m = \d+, n = \d+, k = \d+\)$/);
      expect(location?.line).toBeGreaterThan(1);
    }
  });
});

describe("what passes conclude", () => {
  const guards = (symbolic: object, more: object = {}): string =>
    eachStmt(boundSymbolic(symbolicProblem({ symbolic, ...more })).body)
      .flatMap((stmt) => (stmt.kind === "copy" && stmt.transport === "cp.async" ? [stmt] : []))
      .map(({ guard, dist }) => `${guard.map((g) => (g ? "g" : "-")).join("")}${dist?.vector}`)
      .join(" ");

  test("guards stay where divisibility does not rule them out", () => {
    expect(guards({ m: {}, n: {}, k: {} })).toBe("gg1 gg1 gg1 gg1");
    expect(guards({ m: {}, n: { multiple: 4 }, k: { multiple: 8 } })).toBe("g-1 -g4 g-1 -g4");
    expect(
      guards({ m: { multiple: 32 }, n: { multiple: 64 }, k: { multiple: 16 } }, { m: 320, n: 192 }),
    ).toBe("--1 --4 --1 --4");
  });

  test("vectors need a leading dimension that promises them", () => {
    expect(guards({ k: { multiple: 8 }, lda: {} }, { b: { ld: 200 } })).toBe("g-1 -g4 g-1 -g4");
    expect(guards({ k: { multiple: 8 }, ldb: { multiple: 2 } })).toBe("g-1 -g2 g-1 -g2");
  });
});
