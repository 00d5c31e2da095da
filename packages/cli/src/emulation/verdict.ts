/** The runs of `emulate`: which, what they are judged by, and what they have shown. */

import { type Checked, err, ok } from "@tilewright/core";
import type { Finding, Order } from "@tilewright/emulator";
import { z } from "zod";
import { codes, problemWith } from "../codes.ts";
import type { Session } from "../kit/command.ts";
import { argument, grouped, text } from "../kit/flags.ts";
import { tellerOf } from "../output/progress.ts";
import { floatSums } from "./differences.ts";
import {
  checksOf,
  emulationFlags,
  hazardFlag,
  launchFlags,
  type RunPlan,
  runName,
  runsOf,
  traceFlag,
} from "./flags.ts";
import { Launcher, type Run, type Searched } from "./launches.ts";
import type { Prepared } from "./prepare.ts";
import { hazardsOf, mergeFindings } from "./report.ts";
import type { FoundInRun } from "./sarif.ts";
import { readSchedule, type ScheduleFile } from "./schedules.ts";
import { type Baseline, type Judged, type Judgement, judge, readBaseline } from "./suppressions.ts";
import type { TraceFile } from "./trace.ts";

export const emulateArguments = z.strictObject({
  ptx: argument("PTX text of the module; - is standard input", "KERNEL.ptx"),
  launch: text("how to launch it: tilewright schema launch", "LAUNCH.json"),
  check: hazardFlag(),
  ...emulationFlags,
  ...traceFlag,
  ...launchFlags,
  ...grouped("Output", {
    sarif: text("write what was found as SARIF 2.1.0, which editors and code hosts show", "FILE"),
  }),
});
export type Args = z.output<typeof emulateArguments>;

/** What the runs and the search have shown, as it counts. */
export interface Verdict {
  readonly runs: readonly Run[];
  /** Those that differ and the first one again, with exact sums by floating-point atomics; none where nothing differs or no such sums are made. */
  readonly exact: readonly Run[];
  readonly searched: Searched | null;
  readonly judgement: Judgement;
  readonly findings: readonly Judged<FoundInRun>[];
}

export const counting = <T extends Finding>(findings: readonly Judged<T>[]): readonly Judged<T>[] =>
  findings.filter(({ suppressed }) => suppressed === null);

/** What the flags name beside the kernel and its launch. */
export interface Inputs {
  readonly baseline: Baseline | null;
  readonly schedule: ScheduleFile | null;
}

export function readInputs(session: Session, args: Args, entry: string): Checked<Inputs> {
  const conflicts = [
    ["order", args.order] as const,
    ["seeds", args.seeds] as const,
    ["search", args.search || undefined] as const,
  ].filter(([, value]) => args.replay !== undefined && value !== undefined);
  if (conflicts.length > 0)
    return err(
      conflicts.map(([name]) =>
        problemWith(codes.conflict, `--${name}`, `--replay says which run: leave --${name} out`),
      ),
    );
  const { context } = session;
  const baseline = args.baseline === undefined ? ok(null) : readBaseline(context, args.baseline);
  const schedule = args.replay === undefined ? ok(null) : readSchedule(context, args.replay, entry);
  if (baseline.ok && schedule.ok) return ok({ baseline: baseline.value, schedule: schedule.value });
  return err([...(baseline.ok ? [] : baseline.error), ...(schedule.ok ? [] : schedule.error)]);
}

/** The order of a search: its copies complete at once or as late as can be. */
export const searchOrder = (order: Order | "all" | undefined): "eager" | "lazy" =>
  order === "lazy" ? "lazy" : "eager";

/** The runs that the flags ask for, or the replayed one behind the one without switches. */
const plansOf = (args: Args, schedule: ScheduleFile | null): readonly RunPlan[] =>
  schedule === null
    ? runsOf(args)
    : [[], schedule.switches].map((switches) => ({
        order: schedule.order,
        seed: args.seed,
        schedule: switches,
      }));

/** All runs asked for, and the search. A launch that cannot start ends them. */
export function launchAll(
  session: Session,
  prepared: Prepared,
  args: Args,
  inputs: Inputs,
  judgement: Judgement,
  trace: TraceFile,
): Checked<Pick<Verdict, "runs" | "exact" | "searched">> {
  const options = { checks: checksOf(args.check), disable: args.disable ?? [], fuel: args.fuel };
  const launcher = new Launcher(prepared, { ...options, trace });
  const { entry } = prepared.launch;
  const runs: Run[] = [];
  const plans = plansOf(args, inputs.schedule);
  const tell = tellerOf(session.context, plans.length);
  for (const plan of plans) {
    const run = session.working(`emulating ${entry} (${runName(plan)})`, () =>
      launcher.run(plan, tell(runs.length)),
    );
    if (!run.ok) return run;
    runs.push(run.value);
  }
  const againExactly = (all: readonly Run[], searched: Searched | null): ReturnType<typeof launchAll> => {
    const again = new Launcher(prepared, { ...options, exactSums: true });
    const exact: Run[] = [];
    if (floatSums(all).length > 0 && all.some(({ differences }) => differences.length > 0))
      for (const plan of all.filter(({ differences }, k) => k === 0 || differences.length > 0)) {
        const run = session.working(`emulating ${entry} with exact sums (${runName(plan)})`, () =>
          again.run(plan),
        );
        if (!run.ok) return run;
        exact.push(run.value);
      }
    return ok({ runs: all, exact, searched });
  };
  if (!args.search) return againExactly(runs, null);
  const { suppressions } = judgement;
  const plan = { order: searchOrder(args.order), seed: args.seed };
  const { switches = 2, budget = 60 } = args;
  const searcher = new Launcher(prepared, { ...options, exactSums: floatSums(runs).length > 0 });
  const searched = session.working(`searching interleavings of ${entry}`, () =>
    searcher.search(plan, {
      ...{
        switches,
        timeMs: budget * 1000,
        compare: !suppressions.some(({ rules }) => rules.includes(codes.orderDependent.code)),
      },
      ignore: (finding) => hazardsOf(counting(judge([finding], judgement))).length === 0,
    }),
  );
  if (!searched.ok) return searched;
  const { failure } = searched.value.report;
  if (failure === null) return againExactly(runs, searched.value);
  const shown = launcher.run({ ...plan, schedule: failure.schedule });
  return shown.ok ? againExactly([...runs, shown.value], searched.value) : shown;
}

/** Findings of all runs, each once, as they count; all are known where a baseline is written. */
export function findingsOf(
  runs: readonly Run[],
  judgement: Judgement,
  isBaseline: boolean,
): Verdict["findings"] {
  const found = runs.map(({ order, seed, schedule, result }) =>
    result.findings.map((finding) => ({
      ...{ ...finding, order, seed },
      ...(schedule === undefined ? {} : { schedule }),
    })),
  );
  return judge(mergeFindings(found), judgement).map((finding) =>
    isBaseline ? { ...finding, suppressed: finding.suppressed ?? ("baseline" as const) } : finding,
  );
}
