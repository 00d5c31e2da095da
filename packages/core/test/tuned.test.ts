import { describe, expect, test } from "vitest";
import {
  briefRequest,
  defineProblem,
  findTuned,
  gpus,
  mergeTuned,
  type Problem,
  printProblem,
  printTuned,
  readProblemRequest,
  readTuned,
  shippedTuned,
  type Tuned,
  targets,
  tunedKey,
} from "../src/index.ts";

const line = {
  kind: "tilewright-tuned",
  version: 1,
  gpu: "H200",
  arch: "sm_90a",
  problem: { m: 300, n: 200, k: 100, dtype: "bf16" },
  backend: "wgmma",
  schedule: "tile=128x128x64 stages=4",
  date: "2026-11-20",
};
const timed = (median: number, more: object = {}) => ({
  ...line,
  ...more,
  us: { median, low: median * 0.99, high: median * 1.01, runs: 100 },
});

function entriesOf(...lines: readonly object[]): readonly Tuned[] {
  const read = readTuned(lines.map((each) => `${JSON.stringify(each)}\n`).join(""), "mine.jsonl");
  if (!read.ok) throw new Error(read.error[0]?.message);
  return read.value;
}

function problemOf(request: Parameters<typeof defineProblem>[0]): Problem {
  const problem = defineProblem(request);
  if (!problem.ok) throw new Error(problem.error[0]?.message);
  return problem.value;
}

describe("reading", () => {
  test("an entry prints back to the line that it was", () => {
    const { date, ...rest } = timed(10);
    const text = `${JSON.stringify({ ...rest, date })}\n`;
    expect(entriesOf({ ...rest, date }).map(printTuned)).toEqual([text]);
  });

  test.each([
    ["{", /^entry: the line is not JSON$/, ""],
    ["3", /^entry: expected object, found 3$/, ""],
    [JSON.stringify({ ...line, version: 2 }), /^version: 2 is not one of 1$/, "use 1"],
    [JSON.stringify({ ...line, shedule: "x" }), /^shedule: there is no field 'shedule'$/, "schedule"],
    [JSON.stringify({ ...line, problem: { m: 0, n: 1, k: 1 } }), /^m: /, ""],
    [JSON.stringify({ ...line, ptxSha256: "12" }), /^ptxSha256: "12" is no SHA-256/, ""],
    [JSON.stringify(timed(-1)), /^us.median: -1 is too small$/, "more than 0"],
    [JSON.stringify({ ...line, date: "today" }), /^date: a date begins/, ""],
  ])("a broken line is one error with its place: %s", (text, message, hint) => {
    const read = readTuned(`${JSON.stringify(line)}\n\n${text}\n`, "mine.jsonl");
    if (read.ok) throw new Error("read");
    expect(read.error).toHaveLength(1);
    expect(`${read.error[0]?.at}: ${read.error[0]?.message}`).toMatch(message);
    expect(read.error[0]).toMatchObject({
      code: "TW1701",
      kind: "invalid",
      hint: expect.stringContaining(hint),
      location: { line: 3, column: 1, file: "mine.jsonl" },
    });
  });

  test("a file of something else is ten errors and a count", () => {
    const read = readTuned("x\n".repeat(25), "notes.txt");
    expect(read.ok ? 0 : read.error.length).toBe(11);
    expect(read.ok ? "" : read.error[10]?.message).toBe("15 more lines are no entries");
  });
});

describe("merging", () => {
  test("of one GPU, target and problem the faster entry stays; without times the later one", () => {
    const [slow, fast, other] = entriesOf(timed(12), timed(10), timed(11, { gpu: "H100 SXM" }));
    if (!slow || !fast || !other) throw new Error("three");
    expect(mergeTuned([slow], [fast, other])).toEqual([fast, other]);
    expect(mergeTuned([fast], [slow])).toEqual([fast]);
    const [old, late] = entriesOf(line, { ...line, date: "2026-11-21", schedule: "stages=3" });
    if (!old || !late) throw new Error("two");
    expect(mergeTuned([late], [old])).toEqual([late]);
    expect(mergeTuned([old], [late])).toEqual([late]);
  });

  test("a problem that says its defaults is the same problem", () => {
    const full = problemOf({ m: 300, n: 200, k: 100, dtype: "bf16" });
    const [brief, whole] = entriesOf(line, { ...line, problem: full });
    expect(brief && tunedKey(brief)).toBe(whole && tunedKey(whole));
  });
});

describe("looking up", () => {
  const problem = problemOf({ m: 300, n: 200, k: 100, dtype: "bf16" });
  const store = entriesOf(
    timed(9, { gpu: "L4", date: "2026-11-21" }),
    timed(10),
    timed(11, { arch: "sm_90" }),
    timed(12, { problem: { ...line.problem, b: { layout: "col" } } }),
    timed(13, { problem: { ...line.problem, epilogue: [{ kind: "activation", fn: "relu" }] } }),
  );
  const medians = (found: readonly Tuned[]) => found.map(({ entry }) => entry.us?.median);

  test("the GPU that is named, the same target and the same problem", () => {
    const of = (named: string) => medians(findTuned(store, problem, "sm_90a", { named, usual: "H200" }));
    expect(of("H200")).toEqual([10]);
    expect(of("L4")).toEqual([9]);
    expect(of("B200")).toEqual([]);
  });

  test("without a name the usual GPU comes first", () => {
    expect(medians(findTuned(store, problem, "sm_90a", { usual: "H200" }))).toEqual([10, 9]);
    expect(medians(findTuned(store, problem, "sm_90a", { usual: "B200" }))).toEqual([9, 10]);
  });
});

test("a brief request is completed to the same problem, and says nothing that has a default", () => {
  const cases: readonly (readonly [Parameters<typeof defineProblem>[0], object])[] = [
    [
      { m: 3, n: 2, k: 1 },
      { m: 3, n: 2, k: 1 },
    ],
    [
      { m: 300, n: 200, k: 100, dtype: "bf16", b: { layout: "col", ld: 104 } },
      { m: 300, n: 200, k: 100, dtype: "bf16", b: { layout: "col", ld: 104 } },
    ],
    [
      { m: 64, n: 64, k: 64, dtype: "f16", d: { dtype: "f32" }, beta: 0.5, epilogue: "relu" },
      {
        m: 64,
        n: 64,
        k: 64,
        dtype: "f16",
        d: { dtype: "f32" },
        beta: 0.5,
        epilogue: [{ kind: "activation", fn: "relu" }],
      },
    ],
    [
      { m: 64, n: 64, k: 64, a: { dtype: "e4m3" }, b: { dtype: "e5m2" } },
      { m: 64, n: 64, k: 64, dtype: "e4m3", b: { dtype: "e5m2" } },
    ],
  ];
  for (const [request, brief] of cases) {
    const problem = problemOf(request);
    expect(briefRequest(problem)).toEqual(brief);
    const again = readProblemRequest(briefRequest(problem));
    expect(again.ok && printProblem(again.value)).toBe(printProblem(problem));
  }
});

test("what comes with the compiler is entries of known GPUs and targets, one for each key", () => {
  const all = shippedTuned();
  expect(all.length).toBeGreaterThan(100);
  expect(new Set(all.map(tunedKey)).size).toBe(all.length);
  for (const { entry } of all) {
    expect(gpus.map(({ name }) => name)).toContain(entry.gpu);
    expect(targets.map(({ arch }) => arch)).toContain(entry.arch);
  }
  const read = readTuned(all.map(printTuned).join(""), "shipped.jsonl");
  expect(read.ok && read.value.length).toBe(all.length);
});
