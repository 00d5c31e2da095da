/** `--groups FILE.json`: the groups of one launch, from a list of sizes to a checked run. */
import {
  addedRows,
  addsToD,
  type Checked,
  checkExpertRows,
  checkGroup,
  checkRowIndex,
  createRandom,
  type Diagnostic,
  diagnosticsOfIssues,
  err,
  expertAxisOf,
  expertRowsOf,
  isEmptyGroup,
  type LaunchSizes,
  ok,
  type Problem,
  problemOfGroup,
  referenceGemm,
  rowIndexData,
  rowIndexOf,
  sizeMultiple,
} from "@tilewright/core";
import { type Artifact, addsAsTheyCome } from "@tilewright/ir";
import { type Device, type Group, type GroupsResult, runGroups } from "@tilewright/runtime";
import { z } from "zod";
import { codes, problemWith } from "../codes.ts";
import type { Context } from "../context.ts";
import { atStatements, diagnoseHazard, hazardsOf, mergeFindings } from "../emulation/report.ts";
import { readJson } from "../files/json.ts";
import type { Session } from "../kit/command.ts";
import { plural } from "../output/format.ts";
import { tellerOf } from "../output/progress.ts";
import type { Known } from "../request/request.ts";
import { type Check, checkResult } from "./check.ts";
import { diagnoseNumbers, type ExecuteOptions, type Execution } from "./execute.ts";
import { type Inputs, randomInputs } from "./inputs.ts";

const extent = z.int().nonnegative();
const leading = z.int().positive().optional();
const groupsSchema = z
  .array(
    z.strictObject({
      m: extent,
      n: extent,
      k: extent,
      lda: leading,
      ldb: leading,
      ldc: leading,
      ldd: leading,
    }),
  )
  .min(1);

type Sizes = LaunchSizes & { readonly m: number; readonly n: number; readonly k: number };

/** The sizes in a file. */
export function loadGroups(context: Context, path: string): Checked<readonly Sizes[]> {
  const json = readJson(context, path);
  if (!json.ok) return json;
  const parsed = groupsSchema.safeParse(json.value);
  if (!parsed.success)
    return err(diagnosticsOfIssues(parsed.error.issues, json.value, codes.badJson.code, "groups"));
  return ok(parsed.data.map((sizes) => Object.fromEntries(Object.entries(sizes)) as Sizes));
}

/** Most that a divisor of a size is worth: more than the elements of a wide access, or of a row that bulk copies take. */
const MOST_MULTIPLE = 128;

/** The largest power of two that divides all of some numbers, as far as it is worth anything. */
function commonMultiple(numbers: readonly number[]): number {
  let multiple = MOST_MULTIPLE;
  while (numbers.some((n) => n % multiple !== 0)) multiple /= 2;
  return multiple;
}

/**
 * What a file of groups says of the problem: their number, the least upper bounds, and powers of two that divide the sizes of all of them. Leading dimensions that no
 * group gives follow from the extents. `asked`: bounds that flags give.
 */
export function knownFromGroups(
  groups: readonly Sizes[],
  asked: Readonly<Partial<Record<"m" | "n" | "k", number | undefined>>> = {},
): Known {
  const working = groups.filter((sizes) => !isEmptyGroup(sizes));
  const most = (name: "m" | "n" | "k"): number => Math.max(1, ...groups.map((sizes) => sizes[name]));
  const range = (name: "m" | "n" | "k") => {
    const max = asked[name] ?? most(name);
    return { multiple: commonMultiple([max, ...working.map((sizes) => sizes[name])]), max };
  };
  const given = (["lda", "ldb", "ldc", "ldd"] as const).flatMap((name) => {
    const all = working.map((sizes) => sizes[name]);
    if (all.every((ld) => ld === undefined)) return [];
    return [[name, { multiple: all.includes(undefined) ? 1 : commonMultiple(all.map((ld) => ld ?? 1)) }]];
  });
  return {
    m: most("m"),
    n: most("n"),
    k: most("k"),
    batch: { kind: "grouped", count: groups.length },
    symbolic: { m: range("m"), n: range("n"), k: range("k"), ...Object.fromEntries(given) },
  };
}

/** An integer; NaN for other texts. */
const integerOf = (word: string): number => (/^\s*-?\d+\s*$/.test(word) ? Number(word) : Number.NaN);

/**
 * Rows of each expert: as the int32 in device memory say, `3,3,20`; at random unless given, some without and some with one. Errors: TW1020, and what is no number.
 */
export function sizesOfExperts(
  problem: Problem,
  text: string | undefined,
  seed: number,
): Checked<readonly Sizes[]> {
  const { batch, m, n, k } = problem;
  const axis = expertAxisOf(problem);
  const all = problem[axis];
  const rows = expertRowsOf(problem);
  if (batch.kind !== "grouped" || rows === null) throw new TypeError("a problem with experts");
  if (text === undefined) {
    const random = createRandom(seed);
    const multiple = sizeMultiple(problem, axis);
    // Rows of D are named once, unless they are added to.
    const places = addsToD(problem) ? null : rowIndexOf(problem, "d");
    let left = Math.min(
      rows === "counts" ? all * batch.count : all,
      places?.rows ?? Number.POSITIVE_INFINITY,
    );
    return ok(
      Array.from({ length: batch.count }, (_, g) => {
        const most = Math.min(left, rows === "counts" ? all : Math.ceil((2 * all) / batch.count));
        const wanted = g % 4 === 1 ? 0 : Math.min(most, g % 4 === 2 ? multiple : random.integer(0, most));
        const count = wanted - (wanted % multiple);
        left -= count;
        return { m, n, k, [axis]: count };
      }),
    );
  }
  const data = text.split(",").map(integerOf);
  const found = checkExpertRows(problem, data);
  if (found.length > 0) return err(found);
  return ok(
    data.map((value, g) => ({ m, n, k, [axis]: rows === "counts" ? value : value - (data[g - 1] ?? 0) })),
  );
}

interface Member {
  readonly problem: Problem;
  readonly group: Group;
  /** Null for a group without work. */
  readonly inputs: Inputs | null;
}

/** The problems of the groups. Errors: of all groups at once. */
export function problemsOfGroups(problem: Problem, sizes: readonly Sizes[]): Checked<readonly Problem[]> {
  const found: Diagnostic[] = [];
  const problems = sizes.flatMap((each, index): readonly Problem[] => {
    const made = problemOfGroup(problem, each);
    const faults = !made.ok ? made.error : isEmptyGroup(made.value) ? [] : checkGroup(made.value);
    found.push(...faults.map((fault) => ({ ...fault, at: `groups[${index}].${fault.at}` })));
    return made.ok ? [made.value] : [];
  });
  return found.length === 0 ? ok(problems) : err(found);
}

/** Rows of A and D that the rows of experts are, in their order. */
export type NamedRows = Readonly<Partial<Record<"gather" | "scatter", readonly number[]>>>;

/** Rows of A and D as texts have them, `3,0,5`; at random where there is none. Errors, TW1020: rows that A or D does not have, and others than rows of experts. */
export function namedRowsOf(
  problem: Problem,
  sizes: readonly Sizes[],
  texts: Readonly<Partial<Record<"gather" | "scatter", string | undefined>>>,
): Checked<NamedRows> {
  const count = sizes.reduce((sum, { m }) => sum + m, 0);
  const found: Diagnostic[] = [];
  const named: Partial<Record<"gather" | "scatter", readonly number[]>> = {};
  for (const [which, kind] of [
    ["a", "gather"],
    ["d", "scatter"],
  ] as const) {
    const text = texts[kind];
    if (text === undefined) continue;
    const fault = (message: string, hint: string): void => {
      found.push(problemWith(codes.conflict, `--${kind}-rows`, message, { hint }));
    };
    const rows = text.split(",").map(integerOf);
    if (rowIndexOf(problem, which) === null)
      fault(`are those of an index, and there is none`, `add --${kind} ROWS`);
    else if (rows.length !== count) fault(`${rows.length} of ${count} rows of experts`, "one for each row");
    else found.push(...checkRowIndex(problem, which, rows));
    named[kind] = rows;
  }
  return found.length === 0 ? ok(named) : err(found);
}

/** Random inputs of the groups with `sizes`, which share an A whose rows an index names. */
export function makeGroups(
  problems: readonly Problem[],
  sizes: readonly Sizes[],
  { seed, ...options }: Omit<Parameters<typeof randomInputs>[1], "index">,
  named: NamedRows = {},
): readonly Member[] {
  let [first, shared]: [number, Inputs | null] = [0, null];
  return sizes.flatMap((each, number): readonly Member[] => {
    const problem = problems[number];
    if (problem === undefined) return [];
    if (isEmptyGroup(problem)) return [{ problem, group: { sizes: each }, inputs: null }];
    const [from, count] = [first, problem.m];
    first += count;
    const own = randomInputs(problem, {
      ...options,
      seed: seed + number,
      index: (step) =>
        named[step.kind] === undefined
          ? rowIndexData(step, { first: from, count, seed })
          : Int32Array.from(named[step.kind]?.slice(from, first) ?? []),
    });
    if (rowIndexOf(problem, "a") !== null) shared ??= own;
    const inputs: Inputs = {
      host: { ...own.host, a: (shared ?? own).host.a },
      reference: { ...own.reference, a: (shared ?? own).reference.a },
    };
    return [{ problem, group: { sizes: each, ...inputs.host }, inputs }];
  });
}

/** Launch in each order, check every group, and gather what is wrong. Errors are runs that could not start. `file`: name of the PTX text in messages. */
export function executeGroups(
  session: Session,
  device: Device,
  artifact: Artifact,
  members: readonly Member[],
  options: ExecuteOptions,
  file: string,
): Checked<Execution> {
  const orders = device.kind === "cuda" ? options.orders.slice(0, 1) : options.orders;
  const groups = members.map(({ group }) => group);
  const runs: GroupsResult[] = [];
  const tell = tellerOf(session.context, orders.length);
  for (const order of orders) {
    const knobs = {
      ...{ order, seed: options.seed, checks: options.hazards },
      ...(device.kind === "emulator" ? { progress: tell(runs.length) } : {}),
    };
    const label = `running ${plural(groups.length, "group")} on ${device.name}, order ${order}`;
    const ran = session.working(label, () => runGroups(device, artifact, groups, knobs));
    if (!ran.ok) return ran;
    runs.push(ran.value);
  }
  const [first] = runs;
  if (first === undefined) throw new TypeError("no completion order to run");
  const hazards = atStatements(hazardsOf(mergeFindings(runs.map(({ findings }) => findings))), artifact);
  const wrong: Diagnostic[] = hazards.map((finding) => diagnoseHazard(finding, file));
  let worst: Check | null = null;
  for (const [i, order] of orders.entries()) {
    const run = runs[i];
    if (run === undefined) continue;
    if (!run.completed) {
      const message = `the launch was given up before its end (order ${order})`;
      wrong.push(problemWith(codes.incomplete, "launch", message));
      continue;
    }
    // Sums of parts that are added as they come depend on the order without a fault; the reference judges them.
    const same =
      addsAsTheyCome(artifact.program) ||
      run.groups.every(({ d }, g) => Buffer.compare(d, first.groups[g]?.d ?? new Uint8Array()) === 0);
    if (!same)
      wrong.push(
        problemWith(codes.orderDependent, "D", `orders ${orders[0]} and ${order} give different results`, {
          hint: "something in the kernel is not ordered: a hazard",
        }),
      );
  }
  const working = [...members.entries()].flatMap(([g, { problem, inputs }]) =>
    inputs === null || !options.check ? [] : [{ g, problem, inputs }],
  );
  const own = working.map(({ g, problem, inputs }) =>
    session.working(`computing group ${g} in float64`, () => referenceGemm(problem, inputs.reference)),
  );
  const whole = artifact.manifest.request;
  const references = addsToD(whole) ? addedRows(whole, own) : own;
  for (const [w, { g, problem }] of working.entries()) {
    const reference = references[w];
    if (reference === undefined) continue;
    for (const [i, run] of runs.entries()) {
      const result = run.groups[g];
      if (result === undefined || !run.completed) continue;
      const check = checkResult(problem, result, reference);
      wrong.push(...diagnoseNumbers(check, orders[i] ?? "eager", `groups[${g}].D`));
      if (worst === null || check.boundRatio > worst.boundRatio) worst = check;
    }
  }
  const timeMs = Math.max(...runs.map((run) => run.timeMs));
  return ok({ d: new Uint8Array(), timeMs, check: worst, hazards, counters: first.counters, wrong });
}
