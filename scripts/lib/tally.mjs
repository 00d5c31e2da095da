// Adds up one run of `npm test`: turbo's run summary says which tasks ended how, vitest's JSON reports count tests.

/**
 * @typedef {{ taskId: string, execution?: { exitCode?: number | null } | null, command?: string }} TaskSummary
 * @typedef {{ tasks?: readonly TaskSummary[] }} RunSummary turbo run --summarize
 * @typedef {{ name?: string, status: string, message?: string, assertionResults: readonly { fullName: string, status: string }[] }} FileResult
 * @typedef {{ numPassedTests: number, numFailedTests: number, numPendingTests: number, numTodoTests: number, testResults: readonly FileResult[] }} TestReport vitest --reporter=json
 * @typedef {{ passed: number, failed: number, skipped: number, failures: readonly string[] }} Total
 */

/**
 * Every test counts one, and so does every other task (a build, a type check, the linter).
 * A task that ended badly always counts as at least one failure, also where its tests all passed (an error outside of
 * a test) or its report is missing (it crashed). No summary at all is a failure too: nothing is known to have passed.
 * @param {unknown} summary turbo's run summary, undefined if it wrote none
 * @param {readonly { task: string, report: unknown }[]} suites the tasks that run tests, each with its vitest report
 * @returns {Total}
 */
export function tally(summary, suites) {
  const tasks = /** @type {RunSummary | undefined} */ (summary)?.tasks;
  if (tasks === undefined)
    return { passed: 0, failed: 1, skipped: 0, failures: ["turbo wrote no summary of the run"] };
  const total = { passed: 0, failed: 0, skipped: 0, failures: /** @type {string[]} */ ([]) };
  for (const { taskId, execution, command } of tasks) {
    // Tasks without a script only order the others.
    if (command === "<NONEXISTENT>") continue;
    const good = execution?.exitCode === 0;
    const suite = suites.find(({ task }) => task === taskId);
    const report = /** @type {TestReport | undefined} */ (suite?.report);
    const failures = report === undefined ? [] : failuresIn(report);
    if (report !== undefined) {
      total.passed += report.numPassedTests;
      total.skipped += report.numPendingTests + report.numTodoTests;
    } else if (good && suite === undefined) {
      total.passed += 1;
    }
    if (failures.length === 0 && (!good || (suite !== undefined && report === undefined))) {
      failures.push(execution?.exitCode == null ? `${taskId} did not run` : `${taskId} failed`);
    }
    total.failed += failures.length;
    total.failures.push(...failures);
  }
  return total;
}

/** One line per failed test, and one per file that failed before or outside of its tests. @param {TestReport} report */
function failuresIn(report) {
  return report.testResults.flatMap((file) => {
    const tests = file.assertionResults
      .filter((test) => test.status === "failed")
      .map((test) => test.fullName);
    if (tests.length > 0 || file.status !== "failed") return tests;
    return [`${file.name}: ${file.message?.split("\n")[0] ?? "failed to load"}`];
  });
}
