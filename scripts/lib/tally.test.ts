import { expect, test } from "vitest";
import { tally } from "./tally.mjs";

const task = (taskId: string, exitCode: number | null, command = "tool") => ({
  taskId,
  command,
  execution: exitCode === null ? null : { exitCode },
});

const report = (passed: number, failed: readonly string[] = [], skipped = 0) => ({
  numPassedTests: passed,
  numFailedTests: failed.length,
  numPendingTests: skipped,
  numTodoTests: 0,
  testResults: [
    {
      name: "a.test.ts",
      status: failed.length > 0 ? "failed" : "passed",
      assertionResults: failed.map((fullName) => ({ fullName, status: "failed" })),
    },
  ],
});

test("tests and checks add up; tasks without a script count nothing", () => {
  const summary = {
    tasks: [task("ir#build", 0), task("ir#sources", 0, "<NONEXISTENT>"), task("//#unit", 0)],
  };
  expect(tally(summary, [{ task: "//#unit", report: report(12, [], 3) }])).toEqual({
    passed: 13,
    failed: 0,
    skipped: 3,
    failures: [],
  });
});

test("failed tests, failed checks and checks that never ran are named", () => {
  const summary = { tasks: [task("ir#build", 2), task("//#lint", null), task("//#unit", 1)] };
  expect(tally(summary, [{ task: "//#unit", report: report(5, ["adds", "multiplies"]) }])).toEqual({
    passed: 5,
    failed: 4,
    skipped: 0,
    failures: ["ir#build failed", "//#lint did not run", "adds", "multiplies"],
  });
});

test("a file that does not load is a failure although no test of it failed", () => {
  const broken = {
    ...report(5),
    testResults: [{ name: "b.test.ts", status: "failed", message: "no ./x.ts\n  at", assertionResults: [] }],
  };
  const total = tally({ tasks: [task("//#unit", 1)] }, [{ task: "//#unit", report: broken }]);
  expect(total).toMatchObject({ passed: 5, failed: 1, failures: ["b.test.ts: no ./x.ts"] });
});

test("nothing passes unseen: an error outside of the tests, a missing report, a missing summary", () => {
  expect(tally({ tasks: [task("//#unit", 1)] }, [{ task: "//#unit", report: report(5) }]).failed).toBe(1);
  expect(tally({ tasks: [task("//#unit", 0)] }, [{ task: "//#unit", report: undefined }]).failed).toBe(1);
  expect(tally(undefined, []).failed).toBe(1);
});
