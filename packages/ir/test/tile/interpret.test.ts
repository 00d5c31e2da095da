import { type Diagnostic, fmaF32, formatDiagnostic } from "@tilewright/core";
import { describe, expect, it } from "vitest";
import {
  type InterpretInputs,
  type InterpretOptions,
  interpret,
  type Stage,
  type TileProgram,
  verifyChunkCounts,
  verifyProgram,
} from "../../src/index.ts";
import { edit, fixture, parse, type Variant } from "./support/fixtures.ts";
import { at, build, operands, problem, reference, target } from "./support/pipelines.ts";

const inputsOf = (p: TileProgram, integers = true) => operands(p.problem, 7, integers);

function run(p: TileProgram, inputs: InterpretInputs = inputsOf(p), options: InterpretOptions = {}) {
  const result = interpret(p, inputs, options);
  if (!result.ok) throw new Error(result.error.map(formatDiagnostic).join("\n"));
  return result.value;
}

describe("the interpreter", () => {
  it("accumulates f32 by exact fma in ascending k, at every stage", () => {
    const p = parse(fixture("bound"));
    const inputs = inputsOf(p, false);
    const { d } = run(p, inputs);
    const { problem: q } = p;
    for (let r = 0; r < q.m; r++)
      for (let c = 0; c < q.n; c++) {
        let sum = 0;
        for (let k = 0; k < q.k; k++) sum = fmaF32(at(inputs.a, q.a, r, k), at(inputs.b, q.b, k, c), sum);
        const expected = fmaF32(2, at(inputs.c ?? [], q.c ?? q.d, r, c), sum);
        expect(at(d, q.d, r, c)).toBe(expected);
      }
  });

  it("leaves the gaps of D's leading dimension alone", () => {
    const q = problem({ m: 3, n: 5, k: 4, dtype: "f32", d: { ld: 8 } });
    const p = build({
      problem: q,
      warps: [1, 1],
      lanes: [4, 8],
      thread: [1, 1],
      strip: [1, 1],
      tileK: 4,
      directives: [],
    });
    const before = Float32Array.from({ length: 24 }, (_, i) => -i);
    const { d } = run(p, { ...inputsOf(p), d: before });
    expect([...d].filter((_, i) => i % 8 >= 5)).toEqual([...before].filter((_, i) => i % 8 >= 5));
  });

  it("runs a strided batch", () => {
    const q = problem({ m: 3, n: 2, k: 5, dtype: "f32", batch: { kind: "strided", count: 3, strideB: 0 } });
    const p = build({
      problem: q,
      warps: [1, 1],
      lanes: [4, 8],
      thread: [1, 1],
      strip: [1, 1],
      tileK: 4,
      directives: [],
    });
    const a = Float32Array.from({ length: 45 }, (_, i) => (i % 7) - 3);
    const b = Float32Array.from({ length: 10 }, (_, i) => (i % 5) - 2);
    const { d } = run(p, { a, b });
    for (let batch = 0; batch < 3; batch++)
      for (let r = 0; r < 3; r++)
        for (let c = 0; c < 2; c++) {
          const inputs = { a: a.slice(batch * 15), b };
          expect(d[batch * 6 + r * 2 + c]).toBe(reference(q, inputs, r, c) + 0);
        }
  });

  it("takes alpha and beta from the launch where the problem leaves them open", () => {
    const q = problem({ m: 2, n: 2, k: 2, dtype: "f32", alpha: "runtime", beta: "runtime" });
    const p = build({
      problem: q,
      warps: [1, 1],
      lanes: [4, 8],
      thread: [1, 1],
      strip: [1, 1],
      tileK: 2,
      directives: [],
    });
    const { d } = run(p, { a: [1, 2, 3, 4], b: [1, 0, 0, 1], c: [10, 20, 30, 40] }, { alpha: 3, beta: 0.5 });
    expect([...d]).toEqual([8, 16, 24, 32]);
  });

  it("applies every step of an epilogue in order", () => {
    const q = problem({
      m: 2,
      n: 3,
      k: 1,
      dtype: "f32",
      epilogue: [
        { kind: "bias", along: "n", dtype: "f32" },
        { kind: "scale", by: "m", dtype: "f32" },
        { kind: "activation", fn: "relu" },
        { kind: "clamp", min: 0, max: 50 },
        { kind: "output", operand: { dtype: "f32", layout: "col", ld: 2, align: 16 } },
        { kind: "residual", operand: { dtype: "f32", layout: "row", ld: 3, align: 16 } },
        { kind: "gate", operand: { dtype: "f32", layout: "row", ld: 3, align: 16 } },
        { kind: "reduce", op: "amax", over: "n", dtype: "f32" },
        { kind: "reduce", op: "sum", over: "m", dtype: "f32" },
        { kind: "cast", dtype: "e4m3", saturate: true },
      ],
    });
    const p = build({
      problem: q,
      warps: [1, 1],
      lanes: [4, 8],
      thread: [1, 1],
      strip: [1, 1],
      tileK: 1,
      directives: [],
    });
    const { d, outputs } = run(p, {
      a: [1, 2],
      b: [3, -4, 5],
      epilogue: [
        [1, 1, 1],
        [10, 100],
        undefined,
        undefined,
        undefined,
        [1, 1, 1, 2, 2, 2],
        [1, 1, 2, 1, 1, 100],
      ],
    });
    // A.B = [3 -4 5; 6 -8 10]; + 1, * [10; 100]: [40 -30 60; 700 -700 1100]; relu, clamp: [40 0 50; 50 0 50].
    expect([...(outputs[0]?.[4] ?? [])]).toEqual([40, 50, 0, 0, 50, 50]);
    // + residual, * gate: [41 1 102; 52 2 5200]
    expect([...(outputs[0]?.[7] ?? [])]).toEqual([102, 5200]);
    expect([...(outputs[0]?.[8] ?? [])]).toEqual([93, 3, 5302]);
    // e4m3 has three bits after the point and ends at 448.
    expect([...d]).toEqual([40, 1, 104, 52, 2, 448]);
  });

  it.each([
    ["gelu", 1, 0.8413447460685429],
    ["gelu", -3, -0.00404969409489031],
    ["gelu_tanh", 1, 0.8411919906082768],
    ["silu", 2, 1.7615941559557646],
    ["sigmoid", 0.5, 0.6224593312018546],
    ["tanh", 0.25, 0.24491866240370913],
    ["relu", Number.NaN, Number.NaN],
    ["gelu", Number.NaN, Number.NaN],
  ] as const)("%s(%d) is %d", (fn, x, value) => {
    const q = problem({ m: 1, n: 1, k: 1, dtype: "f32", epilogue: [{ kind: "activation", fn }] });
    const p = build({
      problem: q,
      warps: [1, 1],
      lanes: [4, 8],
      thread: [1, 1],
      strip: [1, 1],
      tileK: 1,
      directives: [],
    });
    expect(run(p, { a: [x], b: [1] }).d[0]).toBe(Math.fround(value));
  });
});

interface Faulty {
  readonly code: Diagnostic["code"];
  readonly message: string;
  readonly what: string;
  readonly stage: Stage;
  readonly variant?: Variant;
  readonly edits: readonly (readonly [string, string])[];
}

const faulty: readonly Faulty[] = [
  {
    what: "tail without a guard",
    code: "TW3302",
    message: "columns 20 to 23 of %A, which has 21",
    stage: "staged",
    edits: [
      ["%kt * 4 : 4] transport cp.async guard(rows, cols)", "%kt * 4 : 4] transport cp.async guard(rows)"],
    ],
  },
  {
    what: "slot that does not exist",
    code: "TW3302",
    message: "slot 3 of %sA, which has 3",
    stage: "pipelined",
    edits: [["copy %fA <- %sA[slot %kt % 3;", "copy %fA <- %sA[slot %kt % 4;"]],
  },
  {
    what: "accumulator that is not cleared",
    code: "TW3303",
    message: "element (0, 0) of slot 0 of %acc is read before it is written",
    stage: "nest",
    edits: [["    fill %acc = 0\n", ""]],
  },
  {
    what: "part of a tile that is not copied",
    code: "TW3303",
    message: "element (8, 0) of slot 0 of %sA is read before it is written",
    stage: "staged",
    edits: [
      [
        "copy %sA <- %A[%mt * 16 : 16, %kt * 4 : 4]",
        "copy %sA[0 : 8, 0 : 4] <- %A[%mt * 16 : 8, %kt * 4 : 4]",
      ],
    ],
  },
  {
    what: "wait that lets its chunk be in flight",
    code: "TW3304",
    message: "waits for chunk 0 of %ring with pending 2, which lets it be still in flight",
    stage: "pipelined",
    edits: [["pending 1", "pending 2"]],
  },
  {
    what: "copy outside acquire and commit",
    code: "TW3304",
    message: "writes slot 0 of ring %ring outside acquire and commit (acquired up to -1, committed up to -1)",
    stage: "pipelined",
    edits: [["      acquire %ring @ %pt\n", ""]],
  },
  {
    what: "slot that is never released",
    code: "TW3305",
    message: "deadlock: block stands at acquire of chunk 3 of %ring, whose slot still holds chunk 0",
    stage: "pipelined",
    edits: [["      release %ring @ %kt\n", ""]],
  },
  {
    what: "chunk that nobody waits for",
    code: "TW3306",
    message: "chunk 5 of %ring is still in flight when the block ends",
    stage: "pipelined",
    edits: [["for %kt = 0 .. 6 {", "for %kt = 0 .. 5 {"]],
  },
  {
    what: "columns that no tile writes",
    code: "TW3307",
    message: "element (0, 16) of %D is never written",
    stage: "nest",
    edits: [["%nt < 2", "%nt < 1"]],
  },
];

describe("faults while running", () => {
  it.each(faulty)("$code: $what", ({ code, message, stage, variant, edits }) => {
    const p = parse(edits.reduce((text, [from, to]) => edit(text, from, to), fixture(stage, variant)));
    for (const order of ["eager", "lazy", "random"] as const) {
      const result = interpret(p, inputsOf(p), { order });
      expect(result.ok).toBe(false);
      if (!result.ok) expect(result.error.map((d) => [d.code, d.message])).toEqual([[code, message]]);
    }
  });

  it("an operand that is too short is named", () => {
    const p = parse(fixture("nest"));
    const result = interpret(p, { a: [1], b: [] });
    if (result.ok) throw new Error("should fail");
    expect(result.error.map(formatDiagnostic)).toEqual([
      "TW3301 (invalid) at inputs.a: has 1 values where the layout spans 420\n  hint: pass the whole matrix in its memory layout",
    ]);
  });
});

/** Two producer and two consumer warps of the `single` program, meeting at mbarriers. */
const rolesText = (): string =>
  [
    ["threads=64", "threads=128"],
    ["empty barrier:0", "empty mbarrier:64"],
    ["full barrier:0", "full mbarrier:64"],
    ["    fill %acc = 0\n    for %kt = 0 .. 6 {", "    role load first 0 warps 2 {\n    for %kt = 0 .. 6 {"],
    [
      "      wait %ring @ %kt",
      "    }\n    }\n    role math first 2 warps 2 {\n    fill %acc = 0\n    for %kt = 0 .. 6 {\n      wait %ring @ %kt",
    ],
    ["    epilogue", "    }\n    epilogue"],
  ].reduce((text, [from = "", to = ""]) => edit(text, from, to), fixture("specialised", "single"));

describe("roles", () => {
  it("run at the same time and give the block's result, in any order", () => {
    const p = parse(rolesText());
    expect(verifyProgram(p, target("sm_80"))).toEqual([]);
    expect(verifyChunkCounts(p)).toEqual([]);
    const expected = run(parse(fixture("nest"))).d;
    for (const order of ["eager", "lazy"] as const)
      expect(run(p, inputsOf(p), { order }).d).toEqual(expected);
    for (let seed = 0; seed < 10; seed++)
      expect(run(p, inputsOf(p), { order: "random", seed }).d).toEqual(expected);
  });

  it("that wait for each other are reported with what each waits for", () => {
    const p = parse(edit(rolesText(), "      commit %ring @ %kt\n", ""));
    const result = interpret(p, inputsOf(p));
    if (result.ok) throw new Error("should fail");
    expect(result.error.map((d) => [d.code, d.message])).toEqual([
      [
        "TW3305",
        "deadlock: load stands at acquire of chunk 1 of %ring, whose slot still holds chunk 0; math stands at wait for chunk 0 of %ring, which nobody has committed",
      ],
    ]);
  });

  it("cannot be ordered by an implied edge", () => {
    const p = parse(edit(rolesText(), "empty mbarrier:64", "empty implied"));
    expect(verifyProgram(p, target("sm_80")).map((d) => d.message)).toEqual([
      "the release of chunk 0 of %ring is in role math, and the edge to it is implied",
    ]);
  });
});
