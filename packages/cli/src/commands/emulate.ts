/** `tilewright emulate`: run any PTX kernel on the emulator as a launch file says. */
import type { Checked, Diagnostic } from "@tilewright/core";
import { codes, problemWith } from "../codes.ts";
import { located } from "../compile/source.ts";
import { renderCounters } from "../emulation/counters.ts";
import { describeText } from "../emulation/describe.ts";
import { differing } from "../emulation/differences.ts";
import { runName } from "../emulation/flags.ts";
import type { Run } from "../emulation/launches.ts";
import { type Prepared, prepare } from "../emulation/prepare.ts";
import { adviceOn, diagnoseHazard, groupsOf, hazardsOf, showHazards } from "../emulation/report.ts";
import { type FoundInRun, sarifOf } from "../emulation/sarif.ts";
import { renderSearch, scheduleFile, searchErrors, searchResult } from "../emulation/schedules.ts";
import { baselineOf, type Judged, judge } from "../emulation/suppressions.ts";
import { TraceFile } from "../emulation/trace.ts";
import {
  type Args,
  counting,
  emulateArguments,
  findingsOf,
  launchAll,
  readInputs,
  searchOrder,
  type Verdict,
} from "../emulation/verdict.ts";
import { writeFiles } from "../files/atomic.ts";
import { defineCommand, type Session } from "../kit/command.ts";
import { exitCodeFor, exitCodes } from "../kit/exit.ts";
import type { BufferCheck } from "../launch/compare.ts";
import { npyOf } from "../launch/elements.ts";
import { formatTime, plural, trim } from "../output/format.ts";
import { toJson } from "../output/json.ts";
import { renderTable } from "../output/table.ts";

/** How far a buffer is off, in a sentence. */
function describeCheck({ failures, elements, maxAbs, maxRel, maxUlp, first, worst }: BufferCheck): string {
  const ulp = maxUlp === null ? "" : `, ${trim(maxUlp)} ulp`;
  const off = `off by up to ${trim(maxAbs)} (relative ${trim(maxRel)}${ulp})`;
  const one = (what: string, difference: BufferCheck["first"]): string =>
    difference === null
      ? ""
      : `; ${what} ${difference.index} [${difference.position.join(", ")}] is ${difference.actual} where ${difference.expected} is expected`;
  const farthest = worst === null || worst.index === first?.index ? "" : one("the farthest, element", worst);
  return `${failures} of ${plural(elements, "element")} are ${off}${one("element", first)}${farthest}`;
}

/** What is wrong with the runs beside hazards: launches given up, numbers. */
function wrongRuns(runs: readonly Run[]): readonly Diagnostic[] {
  return runs.flatMap((run) => {
    const given = run.result.completed
      ? []
      : [
          problemWith(codes.incomplete, run.order, `the launch was given up (${runName(run)})`, {
            hint: "the findings say why",
          }),
        ];
    const wrong = run.checks
      .filter(({ failures }) => failures > 0)
      .map((check) =>
        problemWith(codes.wrongNumbers, check.buffer, `${describeCheck(check)} (${runName(run)})`),
      );
    return [...given, ...wrong];
  });
}

function outputFiles(prepared: Prepared, run: Run | undefined) {
  return prepared.buffers.flatMap((buffer) => {
    const bytes = run?.contents.get(buffer.name);
    const path = prepared.launch.outputs[buffer.name];
    if (bytes === undefined || path === undefined || buffer.typed === null) return [];
    return [{ path, data: npyOf(buffer.typed.type, buffer.typed.shape, bytes) }];
  });
}

function render(session: Session, { runs, searched, judgement }: Verdict, files: readonly string[]): string {
  const rows = runs.map(({ order, seed, schedule, result, checks }) => {
    const hazards = hazardsOf(counting(judge(result.findings, judgement))).length;
    const wrong = checks.reduce((sum, { failures }) => sum + failures, 0);
    return [
      order,
      schedule === undefined
        ? order === "random"
          ? String(seed)
          : ""
        : plural(schedule.length, "switch", "switches"),
      result.completed ? "yes" : { text: "no", style: "red" as const },
      hazards === 0
        ? { text: "none", style: "green" as const }
        : { text: String(hazards), style: "red" as const },
      checks.length === 0 ? "not checked" : wrong === 0 ? "as expected" : `${wrong} wrong`,
      formatTime(result.timeMs),
    ];
  });
  const heads = ["order", "seed", "completed", "hazards", "numbers", "time"].map((head) => ({ head }));
  const counters = runs[0]?.result.counters ?? null;
  const details = counters === null ? "" : `\n${renderCounters(counters, session.paint)}`;
  const search = searched === null ? "" : `\n${renderSearch(searched)}`;
  const written = files.length === 0 ? "" : `\n${files.map((file) => `wrote ${file}\n`).join("")}`;
  const printed = runs[0]?.result.printed ?? "";
  const ended = printed === "" || printed.endsWith("\n") ? printed : `${printed}\n`;
  return ended + renderTable(heads, rows, session.paint) + details + search + written;
}

/** Findings of severity note: they do not fail a run, but are worth a line. */
function notes(session: Session, { findings }: Verdict, file: string): void {
  for (const [{ rule, message, location }, ...others] of groupsOf(
    counting(findings).filter(({ severity }) => severity === "note"),
  )) {
    const more = others.length === 0 ? "" : ` (at ${plural(others.length, "more instruction")})`;
    session.note(`note ${file}${location === null ? "" : `:${location.line}`}: ${rule}: ${message}${more}`);
  }
  const known = findings.length - counting(findings).length;
  if (known > 0) session.note(`note: ${plural(known, "finding")} suppressed: --json lists them`);
}

/** Write the SARIF log, where one is asked for. Returns why it could not be written. */
function writeSarif(
  session: Session,
  args: Args,
  findings: readonly Judged<FoundInRun>[],
  diagnostics: readonly Diagnostic[],
): readonly Diagnostic[] {
  if (args.sarif === undefined) return [];
  const hazards = hazardsOf(counting(findings));
  const failed = [...hazards.map((finding) => diagnoseHazard(finding, args.ptx)), ...diagnostics];
  const exitCode = failed.length === 0 ? exitCodes.ok : exitCodeFor(failed);
  const { cwd } = session.context;
  const log = sarifOf({ file: args.ptx, cwd, findings, diagnostics, exitCode });
  const written = writeFiles(cwd, [{ path: args.sarif, data: toJson(log) }]);
  return written.ok ? [] : written.error;
}

/** The baseline and the schedule that are to be kept. Returns their paths. */
function writeKept(
  session: Session,
  args: Args,
  entry: string,
  verdict: Verdict,
  buffers: readonly string[],
): Checked<readonly string[]> {
  const report = verdict.searched?.report;
  const order = searchOrder(args.order);
  const schedule = report?.failure?.schedule;
  return writeFiles(session.context.cwd, [
    ...(args.writeBaseline === undefined
      ? []
      : [{ path: args.writeBaseline, data: toJson(baselineOf(entry, verdict.findings, buffers)) }]),
    ...(args.writeSchedule === undefined || report === undefined || schedule === undefined
      ? []
      : [{ path: args.writeSchedule, data: toJson(scheduleFile(entry, order, schedule, report)) }]),
  ]);
}

export const emulate = defineCommand({
  name: "emulate",
  args: emulateArguments,
  positionals: ["ptx"],
  async run(session, args) {
    const fail = (found: readonly Diagnostic[]): number => {
      const diagnostics = located(found, args.ptx);
      return session.fail([...diagnostics, ...writeSarif(session, args, [], diagnostics)]);
    };
    if (args.launch === undefined) return describeText(session, args.ptx);
    const checked = await prepare(session.context, {
      ptx: args.ptx,
      launch: args.launch,
      fmad: args.fmad !== "false",
    });
    if (!checked.ok) return fail(checked.error);
    const prepared = checked.value;
    const { entry } = prepared.launch;
    const trace = new TraceFile(args.trace);
    const inputs = readInputs(session, args, entry);
    const profile = args.profile ?? "strict";
    const suppressions = args.suppress ?? [];
    const judgement = { profile, suppressions, baseline: inputs.ok ? inputs.value.baseline : null };
    const made = inputs.ok ? launchAll(session, prepared, args, inputs.value, judgement, trace) : inputs;
    prepared.device.close();
    if (!made.ok) return fail(made.error);
    const { runs, exact, searched } = made.value;
    const findings = findingsOf(runs, judgement, args.writeBaseline !== undefined);
    const verdict = { runs, exact, searched, judgement, findings };
    const differ = differing(runs, exact, judgement, args.writeBaseline !== undefined);
    const bySearch = searched === null ? [] : searchErrors(searched);
    const wrong = [
      ...wrongRuns(runs),
      ...differ.errors,
      ...bySearch.filter(({ at }) => !differ.buffers.includes(at)),
    ];
    const files = writeFiles(prepared.folder.cwd, outputFiles(prepared, runs[0]));
    const traced = writeFiles(session.context.cwd, trace.files());
    const kept = writeKept(session, args, entry, verdict, differ.buffers);
    if (!files.ok || !traced.ok || !kept.ok)
      return fail([files, traced, kept].flatMap((one) => (one.ok ? [] : one.error)));
    const written = [...files.value, ...traced.value, ...kept.value];
    const unwritten = writeSarif(session, args, findings, wrong);
    if (unwritten.length > 0) return session.fail(unwritten);
    const failures = [...showHazards(hazardsOf(counting(findings)), args.ptx), ...wrong];
    const result = {
      ok: failures.length === 0,
      entry,
      arch: prepared.arch,
      runs: runs.map(
        ({ order, seed, schedule, result: { completed, timeMs, printed, counters }, checks }) => ({
          ...{ order, seed, ...(schedule === undefined ? {} : { schedule }) },
          ...{ completed, timeMs, printed, counters, checks },
        }),
      ),
      findings,
      groups: groupsOf(findings).map((group) => group.map((finding) => findings.indexOf(finding))),
      differing: differ.buffers,
      ...(searched === null ? {} : { search: searchResult(searched) }),
      files: written,
    };
    session.result(result, () => render(session, verdict, written));
    notes(session, verdict, args.ptx);
    const cut = trace.note();
    if (cut !== null) session.note(cut);
    const advice = adviceOn(counting(findings), profile, prepared.ptx);
    for (const note of [differ.note, advice]) if (note !== null) session.note(`note: ${note}`);
    return failures.length === 0 ? exitCodes.ok : session.report(failures);
  },
});
