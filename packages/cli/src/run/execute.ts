/** Run a compiled GEMM on a device, in one or more completion orders, and check every element. */

import {
  type Checked,
  type Diagnostic,
  ok,
  type Problem,
  productColumns,
  referenceGemm,
} from "@tilewright/core";
import type { CheckName, Counters, Finding, Order } from "@tilewright/emulator";
import { type Artifact, addsAsTheyCome, programWork, referenceProgram } from "@tilewright/ir";
import type { GemmArtifact, GemmResult } from "@tilewright/runtime";
import { codes, problemWith } from "../codes.ts";
import { atStatements, diagnoseHazard, hazardsOf, mergeFindings } from "../emulation/report.ts";
import type { TraceFile } from "../emulation/trace.ts";
import type { Session } from "../kit/command.ts";
import { formatDuration, plural, trim } from "../output/format.ts";
import { tellerOf } from "../output/progress.ts";
import { type Check, checkResult } from "./check.ts";
import type { RunDevice } from "./device.ts";
import type { Inputs } from "./inputs.ts";

export interface ExecuteOptions {
  /** Completion orders, one run each; a GPU has its own and runs once. */
  readonly orders: readonly Order[];
  readonly seed: number;
  readonly hazards: "all" | "none" | readonly CheckName[];
  /** Compare with the float64 reference. */
  readonly check: boolean;
  /** Whether runs of the emulator are logged, and where to. */
  readonly trace?: TraceFile;
}

export interface Execution {
  /** Bytes of D of the first run. */
  readonly d: Uint8Array;
  /** The longest launch, in milliseconds. */
  readonly timeMs: number;
  /** Worst of all runs; null when nothing was compared. */
  readonly check: Check | null;
  readonly hazards: readonly Finding[];
  /** Of the first run; null on a GPU. */
  readonly counters: Counters | null;
  /** What is wrong; empty when all is well. */
  readonly wrong: readonly Diagnostic[];
}

/** Work in a million multiply-adds, for progress lines. */
const inMillions = (work: number): string => `${trim(work / 1e6)} M multiply-adds`;

/** Multiply-adds of a launch; `source`: the program over named axes that is compiled in the place of the problem. */
export const multiplyAdds = (problem: Problem, source?: Artifact["source"]): number =>
  source === undefined
    ? problem.m *
      productColumns(problem) *
      problem.k *
      (problem.batch.kind === "none" ? 1 : problem.batch.count)
    : programWork(source);

/** Multiply-adds that the emulator does in a second with all hazards looked for: on CUDA cores, on tensor cores (two cores of an EPYC). */
const EMULATED_PER_SECOND = { least: 3e7, most: 1e8 } as const;

/** Seconds of emulation that nobody expects of a command and that are said beforehand. */
const LONG = 60;

/** A word before an emulation that takes minutes: how long, and what is quicker. `once`: multiply-adds of a run; `runs`: what they are. */
export function warnOfTime(session: Session, once: number, runs: number, of: "orders" | "steps"): void {
  const work = once * runs;
  const [least, most] = [work / EMULATED_PER_SECOND.most, work / EMULATED_PER_SECOND.least];
  if (most < LONG) return;
  const quicker = of === "steps" ? ", --device none prints their predicted times at once" : "";
  session.note(
    `note: ${inMillions(once)}${runs === 1 ? "" : ` in ${runs} ${of}`} take the emulator about ${formatDuration(least)} to ${formatDuration(most)}; smaller sizes show the same hazards${quicker}, --device cuda is quick, Ctrl-C ends it`,
  );
}

const sameBytes = (a: Uint8Array, b: Uint8Array): boolean => Buffer.compare(a, b) === 0;

/** What is wrong with the numbers of one run. */
export function diagnoseNumbers(check: Check, order: string, output = "D"): readonly Diagnostic[] {
  const { worst, failures, boundRatio } = check;
  if (boundRatio <= 1 || worst === null) return [];
  const where = `${worst.output}[${worst.row}, ${worst.column}]${worst.batch > 0 ? ` of problem ${worst.batch}` : ""}`;
  const message = `${plural(failures, "element")} beyond the bound (order ${order}); worst ${where}: ${worst.actual} where ${worst.expected} +- ${worst.bound} is expected`;
  return [
    problemWith(codes.wrongNumbers, output, message, {
      hint: "this is a bug in tilewright, or of an edited kernel",
    }),
  ];
}

/**
 * Launch, check, and gather what is wrong. Errors are runs that could not start.
 * `file`: name of the PTX text in messages.
 */
export async function execute(
  session: Session,
  device: Pick<RunDevice, "kind" | "name" | "gemm">,
  artifact: GemmArtifact & Pick<Artifact, "program" | "lines" | "source">,
  inputs: Inputs,
  options: ExecuteOptions,
  file: string,
): Promise<Checked<Execution>> {
  const problem = artifact.manifest.request;
  const work = inMillions(multiplyAdds(problem, artifact.source));
  const orders = device.kind === "cuda" ? options.orders.slice(0, 1) : options.orders;
  const runs: { readonly order: Order; readonly result: GemmResult }[] = [];
  const tell = tellerOf(session.context, orders.length);
  for (const order of orders) {
    const label = `running on ${device.name}${orders.length > 1 ? `, order ${order}` : ""} (${work})`;
    const knobs = {
      ...{ order, seed: options.seed, checks: options.hazards, ...options.trace?.begin() },
      // A GPU's launches are made in another process.
      ...(device.kind === "emulator" ? { progress: tell(runs.length) } : {}),
    };
    const result = await session.working(label, () => device.gemm(artifact, inputs.host, knobs));
    if (!result.ok) return result;
    options.trace?.end(result.value.findings);
    runs.push({ order, result: result.value });
  }
  const [first] = runs;
  if (first === undefined) throw new TypeError("no completion order to run");

  const found = hazardsOf(mergeFindings(runs.map(({ result }) => result.findings)));
  const hazards = atStatements(found, artifact);
  const wrong: Diagnostic[] = hazards.map((finding) => diagnoseHazard(finding, file));
  let worst: Check | null = null;
  const complete = runs.filter(({ result }) => result.completed);
  for (const { order } of runs.filter(({ result }) => !result.completed))
    wrong.push(
      problemWith(codes.incomplete, "launch", `the launch was given up before its end (order ${order})`),
    );
  if (options.check && complete.length > 0) {
    const reference = session.working(`checking against float64 (${work})`, () =>
      artifact.source === undefined
        ? referenceGemm(problem, inputs.reference)
        : referenceProgram(artifact.source, inputs.reference),
    );
    if (reference.rows.length < problem.m)
      session.note(`${reference.rows.length} of ${problem.m} rows of each problem are checked`);
    for (const { order, result } of complete) {
      const check = checkResult(problem, result, reference);
      wrong.push(...diagnoseNumbers(check, order));
      if (worst === null || check.boundRatio > worst.boundRatio) worst = check;
    }
  }
  // Sums of parts that are added as they come depend on the order without a fault; the reference has judged them.
  for (const { order, result } of addsAsTheyCome(artifact.program) ? [] : complete)
    if (!sameBytes(result.d, first.result.d))
      wrong.push(
        problemWith(codes.orderDependent, "D", `orders ${first.order} and ${order} give different results`, {
          hint: "something in the kernel is not ordered: a hazard",
        }),
      );
  const timeMs = Math.max(...runs.map(({ result }) => result.timeMs));
  return ok({ d: first.result.d, timeMs, check: worst, hazards, counters: first.result.counters, wrong });
}
