import {
  type EpilogueStep,
  err,
  formatDiagnostic,
  ok,
  type Problem,
  printManifest,
  readManifest,
  type Schedule,
  sha256,
} from "@tilewright/core";
import { describe, expect, it } from "vitest";
import { type Backend, type CompileInput, coreFields, createCompiler } from "../src/index.ts";
import { edit, fixture, parse } from "./tile/support/fixtures.ts";
import { build, passes, problem, target } from "./tile/support/pipelines.ts";

const sm80 = target("sm_80");
const square = problem({ m: 20, n: 24, k: 21, dtype: "f32" });

/** A backend over the shared passes whose "PTX" is a stub: what the compiler does with it is what counts. */
const backend = (id: string, over: Partial<Backend> = {}): Backend => ({
  id,
  summary: "for tests",
  schedule: { fields: [coreFields.stages] },
  showcase: { arch: "sm_80", dtype: "f32" },
  supports: (t) => (t.major >= 8 ? ok(true) : err([refusal("target.arch", `needs sm_80, not ${t.arch}`)])),
  accepts: (p) => (p.acc === "f32" ? ok(true) : err([refusal("problem.acc", `not in ${p.acc}`)])),
  *schedules() {
    yield { stages: 2 };
    yield { stages: 1 };
  },
  check: (_p, s) => (Number(s.stages) <= 4 ? [] : [refusal("schedule.stages", "too many stages")]),
  tile: (p: Problem, s: Schedule) =>
    build({
      problem: p,
      warps: [1, 1],
      lanes: [4, 8],
      thread: [2, 2],
      strip: [2, 2],
      tileK: 4,
      directives: [
        { name: "stage", args: { operands: "ab", transport: "direct" } },
        { name: "fragment", args: { step: 1 } },
        { name: "ring", args: { slots: Number(s.stages), registerPrefetch: 0 } },
      ],
    }),
  passes,
  lower: (program) =>
    ok({
      ptx: `.version 7.1\n.target sm_80\n// ${program.name}\n`,
      kernel: {
        entry: program.name,
        role: "main",
        launch: {
          grid: [2, 3, 1],
          block: [32, 1, 1],
          cluster: [1, 1, 1],
          dynamicSmem: 0,
          staticSmem: 0,
          cooperative: false,
        },
        params: [],
        workspaceBytes: 0,
      },
    }),
  ...over,
});

const refusal = (at: string, message: string) =>
  ({ code: "TW1899", kind: "unsupported", at, message, hint: "try another" }) as const;

const compiler = createCompiler({ backends: [backend("first"), backend("second")], version: "1.2.3" });

const compile = (input: CompileInput) => {
  const result = compiler.compile(input);
  if (!result.ok) throw new Error(result.error.map(formatDiagnostic).join("\n"));
  return result.value;
};

describe("createCompiler", () => {
  it("is frozen", () => {
    expect(Object.isFrozen(compiler)).toBe(true);
    expect(Object.isFrozen(compiler.backends)).toBe(true);
  });

  it("takes the first backend that can, with its best schedule", () => {
    const a = compile({ problem: square, target: sm80 });
    expect([a.backend, a.schedule]).toEqual(["first", "stages=2"]);
    expect(a.program.stage).toBe("machine");
    expect(a.trace[0]?.pass).toBe("tile");
    expect(a.trace.slice(1).map((s) => s.pass)).toEqual(passes.map((p) => p.name));
    expect(a.trace.filter((s) => !s.changed).map((s) => s.pass)).toContain("rotateFragments");
    expect(a.textAt("pipelined")).toContain("ring %ring slots 2");
  });

  it("goes on to the next backend where one refuses", () => {
    const picky = backend("picky", { accepts: () => err([refusal("problem.m", "not this one")]) });
    const both = createCompiler({ backends: [picky, backend("other")] });
    const result = both.compile({ problem: square, target: sm80 });
    expect(result.ok && result.value.backend).toBe("other");
    expect(both.verdicts(square, sm80).map(({ backend: b, verdict }) => [b.id, verdict.ok])).toEqual([
      ["picky", false],
      ["other", true],
    ]);
  });

  it("takes a backend behind it that claims the problem, unless it refuses it or a schedule is given", () => {
    const claiming = backend("claiming", { claims: ({ m }) => (m <= 20 ? "few rows" : null) });
    const both = createCompiler({ backends: [backend("ahead"), claiming] });
    const chosen = (input: Partial<CompileInput> & { problem: Problem }) => {
      const result = both.compile({ target: sm80, ...input });
      return result.ok && result.value.backend;
    };
    expect(chosen({ problem: square })).toBe("claiming");
    expect(chosen({ problem: problem({ m: 21, n: 24, k: 21, dtype: "f32" }) })).toBe("ahead");
    expect(chosen({ problem: square, schedule: "stages=2" })).toBe("ahead");
    expect(chosen({ problem: square, backend: "ahead" })).toBe("ahead");
    const plans = both.plan(square, sm80);
    expect(plans.ok && plans.value.map(({ backend: { id } }) => id)).toEqual(["claiming", "ahead"]);
    const refusing = backend("refusing", {
      claims: () => "all",
      accepts: () => err([refusal("problem.m", "not this one")]),
    });
    const result = createCompiler({ backends: [backend("ahead"), refusing] }).compile({
      problem: square,
      target: sm80,
    });
    expect(result.ok && result.value.backend).toBe("ahead");
  });

  it("takes the user's schedule as text or record, and refuses an illegal one with the backend's reasons", () => {
    expect(compile({ problem: square, target: sm80, schedule: "stages=3" }).schedule).toBe("stages=3");
    expect(compile({ problem: square, target: sm80, schedule: { stages: 1 } }).schedule).toBe("stages=1");
    const result = compiler.compile({
      problem: square,
      target: sm80,
      schedule: "stages=9",
      backend: "second",
    });
    expect(result.ok ? [] : result.error.map((d) => d.message)).toEqual([
      "too many stages",
      "as a whole it is not legal for this problem on sm_80",
    ]);
    expect(result.ok ? "" : result.error.at(-1)?.hint).toMatch(/^nearest legal schedule: stages=\d+$/);
  });

  it("gives the reasons of all backends, each with its name", () => {
    const result = compiler.compile({ problem: square, target: target("sm_70") });
    expect(result.ok ? [] : result.error.map((d) => d.message)).toEqual([
      "first: needs sm_80, not sm_70",
      "second: needs sm_80, not sm_70",
    ]);
  });

  it.each([
    [
      "a misspelt backend",
      { problem: square, target: sm80, backend: "secnod" },
      "TW1901",
      "did you mean second?",
    ],
    ["a text that does not parse", { from: "tile.ir 6\ntile.kernel", target: sm80 }, "TW3001", "write @name"],
  ] as const)("refuses %s", (_what, input, code, hint) => {
    const result = compiler.compile(input);
    if (result.ok) throw new Error("should be refused");
    expect(result.error[0]?.code).toBe(code);
    expect(result.error[0]?.hint).toBe(hint);
  });

  it("says so when no schedule fits, and when there are no backends", () => {
    const none = createCompiler({ backends: [backend("none", { *schedules() {} })] });
    const result = none.compile({ problem: square, target: sm80 });
    expect(result.ok ? [] : result.error.map((d) => d.code)).toEqual(["TW1903"]);
    const empty = createCompiler({ backends: [] }).compile({ problem: square, target: sm80 });
    expect(empty.ok ? [] : empty.error.map((d) => d.code)).toEqual(["TW1902"]);
  });

  it("plans: the best schedules of every backend that serves the problem", () => {
    const plans = compiler.plan(square, sm80, { count: 2 });
    expect(plans.ok && plans.value.map((p) => `${p.backend.id} ${p.text}`)).toEqual([
      "first stages=2",
      "first stages=1",
      "second stages=2",
      "second stages=1",
    ]);
  });

  it.each(["nest", "staged", "pipelined", "specialised", "bound", "machine"] as const)(
    "goes on from an edited text of stage %s and ends in the edited kernel",
    (stage) => {
      const thrice = (t: string) => edit(edit(t, "alpha=1 ", "alpha=3 "), "alpha 1 ", "alpha 3 ");
      const text = thrice(fixture(stage));
      const a = compile({ from: text, target: sm80 });
      expect(a.schedule).toBe(null);
      expect(a.trace[0]?.pass).toBe("from");
      expect(a.textAt("machine")).toBe(thrice(fixture("machine")));
      expect(a.manifest.plan.schedule).toBe(`from=${stage}:${sha256(text).slice(0, 16)}`);
    },
  );

  it("puts lines of the given text into the verifier's diagnostics", () => {
    const text = edit(fixture("staged"), "%kk : 1]", "%kk + 1 : 1]");
    const line = text.split("\n").findIndex((l) => l.includes("%kk + 1 : 1]")) + 1;
    const result = compiler.compile({ from: text, target: sm80 });
    if (result.ok) throw new Error("should be refused");
    expect(result.error.map((d) => [d.code, d.location?.line])).toEqual([["TW3106", line]]);
  });

  it.each([
    [
      "a directive of another backend's passes",
      ["directive fragment step=1", "directive fragment step=1\n  directive pair blocks=2"],
      ["TW1904", "TW3108"],
      "pass elideGuards made an invalid program",
    ],
    [
      "a step that does not divide the chunk",
      ["fragment step=1", "fragment step=3"],
      ["TW1904"],
      "pass loadFragments failed: not an integer: 1.3333333333333333",
    ],
  ] as const)("says which pass cannot go on from %s", (_what, [from, to], codes, message) => {
    const result = compiler.compile({ from: edit(fixture("nest"), from, to), target: sm80 });
    if (result.ok) throw new Error("should be refused");
    expect(result.error.map((d) => d.code)).toEqual(codes);
    expect(result.error[0]?.message).toBe(message);
  });

  it("accepts a program object", () => {
    const machine = parse(fixture("machine"));
    expect(compile({ from: machine, target: sm80 }).program).toEqual(machine);
  });
});

describe("the manifest", () => {
  const a = compile({ problem: square, target: sm80 });

  it("fits its schema and reads back", () => {
    expect(readManifest(JSON.parse(printManifest(a.manifest)))).toEqual({ ok: true, value: a.manifest });
  });

  it("names the code by its hash, the PTX version by the text, and fixes what is compiled in", () => {
    expect(a.manifest.images).toEqual([
      { format: "ptx", arch: "sm_80", path: "gemm.ptx", sha256: sha256(a.ptx) },
    ]);
    expect(a.manifest.target).toEqual({
      arch: "sm_80",
      portability: "portable",
      minPtx: "7.1",
      minDriver: "11.1",
      features: [],
    });
    for (const fixed of [
      ["eq", "lda", 21],
      ["eq", "batch", 1],
      ["eq", "alpha", 1],
      ["eq", "beta", 0],
    ])
      expect(a.manifest.constraints).toContainEqual(fixed);
    expect(a.manifest.generator).toEqual({ name: "tilewright", version: "1.2.3", backend: "first" });
  });

  it("promises the same bits only where no float sum depends on who comes first", () => {
    const deterministic = (step: EpilogueStep): boolean =>
      compile({ problem: problem({ m: 20, n: 24, k: 21, epilogue: [step] }), target: sm80 }).manifest.numerics
        .deterministic;
    const step = { kind: "reduce", over: "m", dtype: "f32" } as const;
    expect(a.manifest.numerics.deterministic).toBe(true);
    expect(deterministic({ ...step, op: "amax" })).toBe(true);
    expect(deterministic({ ...step, op: "sum" })).toBe(false);
  });

  it("has an id that depends on request, schedule and version, and on nothing else", () => {
    expect(compile({ problem: square, target: sm80 }).manifest.id).toBe(a.manifest.id);
    const others = [
      compile({ problem: problem({ m: 20, n: 24, k: 22, dtype: "f32" }), target: sm80 }),
      compile({ problem: square, target: sm80, schedule: "stages=1" }),
      compile({ problem: square, target: sm80, backend: "second" }),
    ].map((x) => x.manifest.id);
    expect(new Set([a.manifest.id, ...others]).size).toBe(4);
  });

  it("lists the features that the program uses", () => {
    expect(compile({ from: fixture("bound"), target: sm80 }).manifest.target.features).toEqual(["cp.async"]);
  });
});
