/** What to tune: sizes, a request, or the problems that a program has logged. */
import {
  type Checked,
  type Diagnostic,
  err,
  expertRowsOf,
  ok,
  type Problem,
  printProblem,
  readProblemRequest,
} from "@tilewright/core";
import { misplacedShapes, type PlanArgs, shapesOf } from "../bench/jobs.ts";
import { codes, failWith } from "../codes.ts";
import type { Context } from "../context.ts";
import { readText } from "../files/read.ts";
import { buildRequest, type ProgramRequest } from "../request/request.ts";
import { groupsFault, RUN_GROUPS } from "../run/sizes.ts";

/** One problem, and how often it was asked for. */
export interface Task {
  readonly problem: Problem;
  /** What is compiled in the place of a product of the problem. */
  readonly program?: ProgramRequest;
  readonly count: number;
}

const sizes = /^(\d+)x(\d+)x(\d+)$/;

/** The problem that a line of a log speaks of: `MxNxK`, a problem, or an object with one (`problem` of a request, of a bench or store line). Null where it speaks of none. */
function problemOfLine(line: string): Checked<Problem> | null {
  const [, m, n, k] = sizes.exec(line) ?? [];
  if (k !== undefined) return readProblemRequest({ m: Number(m), n: Number(n), k: Number(k) });
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return null;
  }
  const isObject = (some: unknown): some is object => typeof some === "object" && some !== null;
  if (!isObject(value)) return null;
  const problem = "problem" in value ? value.problem : value;
  return isObject(problem) && "m" in problem ? readProblemRequest(problem) : null;
}

/** Problems of a log, those that are asked for most first. Lines of other things are counted and passed over; one without any problem is an error, as are problems that are none. */
function readLog(
  context: Context,
  path: string,
): Checked<{ readonly tasks: readonly Task[]; readonly others: number }> {
  const text = readText(context, path);
  if (!text.ok) return text;
  const tasks = new Map<string, Task>();
  const found: Diagnostic[] = [];
  let others = 0;
  for (const [index, line] of text.value.split("\n").entries()) {
    if (line.trim() === "") continue;
    const problem = problemOfLine(line.trim());
    if (problem === null) others++;
    else if (!problem.ok)
      found.push(
        ...problem.error.map((one) => ({ ...one, location: { line: index + 1, column: 1, file: path } })),
      );
    else {
      const key = printProblem(problem.value);
      tasks.set(key, { problem: problem.value, count: (tasks.get(key)?.count ?? 0) + 1 });
    }
  }
  if (found.length > 0) return err(found);
  if (tasks.size === 0)
    return failWith(codes.badJson, path, "no line is a problem", {
      hint: 'a line is MxNxK, or JSON: {"m": 4096, "n": 4096, "k": 4096, "dtype": "bf16"}, or an object with a "problem"',
    });
  return ok({ tasks: [...tasks.values()].sort((x, y) => y.count - x.count), others });
}

/** The problems that flags and files ask for. All errors at once. */
export function tasksOf(
  context: Context,
  args: PlanArgs & { readonly fromLog?: string | undefined },
): Checked<{ readonly tasks: readonly Task[]; readonly others: number }> {
  if (args.fromLog !== undefined) {
    const clash = (["m", "n", "k", "shapes", "request"] as const).filter((name) => args[name] !== undefined);
    if (clash.length > 0) {
      const flags = clash.map((name) => (name.length === 1 ? `-${name}` : `--${name}`)).join(", ");
      const message = `--from-log states the problems; ${flags} would contradict it`;
      return failWith(codes.conflict, "--from-log", message, { hint: "keep one of them" });
    }
    return readLog(context, args.fromLog);
  }
  const shapes = shapesOf(context, args);
  if (!shapes.ok) return shapes;
  const found: Diagnostic[] = [...misplacedShapes(args)];
  const seen = new Set<string>();
  const tasks: Task[] = [];
  for (const { m, n, k } of shapes.value) {
    const sized = args.shapes === undefined || args.op === "attention" ? args : { ...args, m, n, k };
    // The target is the GPU's, which is not known yet.
    const request = buildRequest(
      context,
      { ...sized, arch: undefined, gpu: undefined, tuned: "none" },
      {},
      () => "sm_70",
    );
    if (request.ok) {
      const { problem, program } = request.value;
      // Of experts as even rows as there can be.
      const groups = expertRowsOf(problem) === null ? groupsFault(problem, RUN_GROUPS) : null;
      if (groups !== null) return err([groups]);
      tasks.push({ problem, ...(program === undefined ? {} : { program }), count: 1 });
      continue;
    }
    // One wrong flag is one error, not one for each size.
    found.push(...request.error.filter((one) => !seen.has(`${one.code} ${one.at}`)));
    for (const one of request.error) seen.add(`${one.code} ${one.at}`);
  }
  return found.length > 0 ? err(found) : ok({ tasks, others: 0 });
}
