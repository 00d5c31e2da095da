/** Entries of the user's store inform the choice for near problems: a schedule that was faster than predicted is taken nearby, and nothing changes far away, on other GPUs, or without entries. */
import { defineProblem, findTarget, type Problem, printTuned, readTuned, type Tuned } from "@tilewright/core";
import { type Candidate, machineOf, nearMachine, rankCandidates } from "@tilewright/ir";
import { expect, test } from "vitest";
import { compiler } from "../src/compiler.ts";

const found = findTarget("sm_90a");
if (!found.ok) throw new TypeError("no target");
const target = found.value;
const h200 = machineOf({ name: "H200" });

function problemOf(m: number, n: number, k: number): Problem {
  const problem = defineProblem({ m, n, k, a: { dtype: "bf16" }, b: { dtype: "bf16", layout: "col" } });
  if (!problem.ok) throw new TypeError("no problem");
  return problem.value;
}

function firstOf(problem: Problem, count: number): readonly Candidate[] {
  const all: Candidate[] = [];
  for (const candidate of rankCandidates(compiler.backends, problem, target, { machine: h200 })) {
    all.push(candidate);
    if (all.length >= count) break;
  }
  return all;
}

/** A line of a store: the candidate at a problem, in so many microseconds. */
function entryOf({ m, n, k }: Problem, { backend, text }: Candidate, us: number, gpu = "H200"): Tuned {
  const entry = {
    ...{ kind: "tilewright-tuned" as const, version: 1 as const, gpu, arch: "sm_90a" },
    problem: { m, n, k, dtype: "bf16" as const, b: { layout: "col" as const } },
    ...{ backend: backend.id, schedule: text, date: "2026-11-30" },
    us: { median: us, low: us, high: us, runs: 9 },
  };
  const read = readTuned(printTuned({ entry }), "test");
  const [tuned] = read.ok ? read.value : [];
  if (tuned === undefined) throw new TypeError("no entry");
  return tuned;
}

function choice(problem: Problem, near: readonly Tuned[]): string {
  const made = compiler.compile({ problem, target, near, verify: "none" });
  if (!made.ok) throw new TypeError("not compiled");
  return `${made.value.backend}: ${made.value.schedule}`;
}

const problem = problemOf(700, 2048, 4096);
const all = firstOf(problem, 60);
const tileOf = (candidate: Candidate | undefined) => candidate?.text.split(" ")[0];
const usual = all[0];
const other = all.find((each) => tileOf(each) !== tileOf(usual));
if (usual === undefined || other?.prediction == null) throw new TypeError("no two tiles");
const us = other.prediction.timeUs;

test("an entry that was faster than predicted is taken at a near problem, and not at a far one", () => {
  const near = [entryOf(problemOf(720, 2048, 4096), other, 0.7 * us)];
  expect(choice(problem, [])).toBe(`${usual.backend.id}: ${usual.text}`);
  expect(choice(problem, near)).toBe(`${other.backend.id}: ${other.text}`);
  const far = problemOf(8192, 8192, 1024);
  expect(choice(far, near)).toBe(choice(far, []));
});

test("an entry that was slower than predicted moves its like behind others", () => {
  const slow = [entryOf(problemOf(720, 2048, 4096), usual, 1.5 * us)];
  expect(choice(problem, slow)).not.toBe(choice(problem, []));
});

test("entries of other GPUs, and of other operands, say nothing", () => {
  const entry = entryOf(problemOf(720, 2048, 4096), other, 0.7 * us, "H100 SXM");
  expect(nearMachine(compiler.backends, [entry], problem, target, h200)).toBe(h200);
  const own = entryOf(problemOf(720, 2048, 4096), other, 0.7 * us);
  const f16 = defineProblem({
    ...{ m: 700, n: 2048, k: 4096 },
    a: { dtype: "f16" },
    b: { dtype: "f16", layout: "col" },
  });
  if (!f16.ok) throw new TypeError("no problem");
  expect(nearMachine(compiler.backends, [own], f16.value, target, h200)).toBe(h200);
});

test("one entry on a GPU whose predictions nothing corrects is taken for the GPU's own error", () => {
  const h100 = machineOf({ name: "H100 SXM" });
  const entry = entryOf(problemOf(720, 2048, 4096), other, 3 * us, "H100 SXM");
  const machine = nearMachine(compiler.backends, [entry], problem, target, h100);
  const rank = (on: typeof h100) =>
    rankCandidates(compiler.backends, problem, target, { machine: on }).next().value?.text;
  expect(rank(machine)).toBe(rank(h100));
});
