/** `tilewright emulate`: run any PTX kernel on the emulator as a launch file says. */
import type { Finding } from "@tilewright/emulator";
import type { Checked, Diagnostic } from "@tilewright/ir";
import { ok } from "@tilewright/ir";
import { z } from "zod";
import { codes, problemWith } from "../codes.ts";
import { located } from "../compile/source.ts";
import { renderCounters } from "../emulation/counters.ts";
import { describeText } from "../emulation/describe.ts";
import {
  checksOf,
  emulationFlags,
  hazardFlag,
  launchFlags,
  type Profile,
  runsOf,
  traceFlag,
} from "../emulation/flags.ts";
import { differingBuffers, Launcher, type Run } from "../emulation/launches.ts";
import { type Prepared, prepare } from "../emulation/prepare.ts";
import {
  adviceOn,
  diagnoseHazard,
  hazardsOf,
  judged,
  mergeFindings,
  showHazards,
} from "../emulation/report.ts";
import { type FoundInRun, sarifOf } from "../emulation/sarif.ts";
import { TraceFile } from "../emulation/trace.ts";
import { writeFiles } from "../files/atomic.ts";
import { defineCommand, type Session } from "../kit/command.ts";
import { exitCodeFor, exitCodes } from "../kit/exit.ts";
import { argument, text } from "../kit/flags.ts";
import type { BufferCheck } from "../launch/compare.ts";
import { npyOf } from "../launch/elements.ts";
import { formatTime, plural, trim } from "../output/format.ts";
import { toJson } from "../output/json.ts";
import { renderTable } from "../output/table.ts";

const args = z.strictObject({
  ptx: argument("PTX text of the module; - is standard input", "KERNEL.ptx"),
  launch: text("how to launch it: tilewright schema launch", { hint: "LAUNCH.json" }),
  check: hazardFlag(),
  ...emulationFlags,
  ...traceFlag,
  ...launchFlags,
  sarif: text("write what was found as SARIF 2.1.0, which editors and code hosts show", {
    hint: "FILE",
    group: "Output",
  }),
});
type Args = z.output<typeof args>;

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

const nameOf = ({ order, seed }: Run): string =>
  order === "random" ? `order random, seed ${seed}` : `order ${order}`;

/** What is wrong with the runs beside hazards: launches given up, numbers. */
function wrongRuns(runs: readonly Run[]): readonly Diagnostic[] {
  return runs.flatMap((run) => {
    const given = run.result.completed
      ? []
      : [
          problemWith(codes.incomplete, run.order, `the launch was given up (${nameOf(run)})`, {
            hint: "the findings say why",
          }),
        ];
    const wrong = run.checks
      .filter(({ failures }) => failures > 0)
      .map((check) =>
        problemWith(codes.wrongNumbers, check.buffer, `${describeCheck(check)} (${nameOf(run)})`),
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

function render(session: Session, runs: readonly Run[], files: readonly string[], profile: Profile): string {
  const rows = runs.map(({ order, seed, result, checks }) => {
    const hazards = hazardsOf(judged(result.findings, profile)).length;
    const wrong = checks.reduce((sum, { failures }) => sum + failures, 0);
    return [
      order,
      order === "random" ? String(seed) : "",
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
  const written = files.length === 0 ? "" : `\n${files.map((file) => `wrote ${file}\n`).join("")}`;
  const printed = runs[0]?.result.printed ?? "";
  const ended = printed === "" || printed.endsWith("\n") ? printed : `${printed}\n`;
  return ended + renderTable(heads, rows, session.paint) + details + written;
}

/** Findings of severity note: they do not fail a run, but are worth a line. */
function notes(
  session: Session,
  findings: readonly Finding[],
  differing: readonly string[],
  file: string,
): void {
  for (const { rule, message, location } of findings.filter(({ severity }) => severity === "note"))
    session.note(`note ${file}${location === null ? "" : `:${location.line}`}: ${rule}: ${message}`);
  if (differing.length > 0)
    session.note(
      `note: ${differing.join(", ")} ${differing.length === 1 ? "differs" : "differ"} in bits between the runs; sums by floating-point atomics may, other results may not`,
    );
}

/** All runs asked for. A launch that cannot start ends them. */
function launchAll(
  session: Session,
  prepared: Prepared,
  args: Args,
  trace: TraceFile,
): Checked<readonly Run[]> {
  const launcher = new Launcher(prepared, {
    checks: checksOf(args.check),
    disable: args.disable ?? [],
    fuel: args.fuel,
    trace,
  });
  const runs: Run[] = [];
  for (const plan of runsOf(args)) {
    const run = session.working(`emulating ${prepared.launch.entry} (order ${plan.order})`, () =>
      launcher.run(plan),
    );
    if (!run.ok) return run;
    runs.push(run.value);
  }
  return ok(runs);
}

/** Write the SARIF log, where one is asked for. Returns why it could not be written. */
function writeSarif(
  session: Session,
  args: Args,
  findings: readonly FoundInRun[],
  diagnostics: readonly Diagnostic[],
): readonly Diagnostic[] {
  if (args.sarif === undefined) return [];
  const failed = [...hazardsOf(findings).map((finding) => diagnoseHazard(finding, args.ptx)), ...diagnostics];
  const exitCode = failed.length === 0 ? exitCodes.ok : exitCodeFor(failed);
  const log = sarifOf({ file: args.ptx, findings, diagnostics, exitCode });
  const written = writeFiles(session.context.cwd, [{ path: args.sarif, data: toJson(log) }]);
  return written.ok ? [] : written.error;
}

export const emulate = defineCommand({
  name: "emulate",
  summary: "run any PTX kernel on the CPU and look for hazards",
  about: `Reads PTX text, from this compiler or any other, and a launch file with grid, block, buffers, tensor maps and
parameters (tilewright schema launch). Buffers are filled with numbers by seed or from .npy and safetensors files,
results are written to .npy files and compared with expected ones. Paths in the launch file are relative to its folder.
Shows what the first run executed, moved and waited for; --json has every instruction's counts.
Without a launch file it says what entries the text has, and writes NAME.launch.json to complete; the JSON that Triton keeps
beside a kernel gives block and shared memory.
Ends with exit code 5 when numbers are wrong, a hazard was found, or the launch was given up.`,
  args,
  positionals: ["ptx"],
  examples: [
    { what: "what there is to launch, and a launch file to complete", line: "emulate kernel.ptx" },
    { what: "run a kernel, looking for every hazard", line: "emulate kernel.ptx --launch launch.json" },
    {
      what: "once in each completion order, the random one by twenty seeds",
      line: "emulate kernel.ptx --launch launch.json --order all --seeds 20",
    },
    {
      what: "a timeline of warps, engines and barriers for ui.perfetto.dev",
      line: "emulate kernel.ptx --launch launch.json --trace trace.json",
    },
    { what: "races and barriers only", line: "emulate kernel.ptx --launch launch.json --check race,barrier" },
    {
      what: "all but one rule, for an editor",
      line: "emulate kernel.ptx --launch launch.json --disable H016 --sarif found.sarif",
    },
  ],
  async run(session, args) {
    const fail = (found: readonly Diagnostic[]): number => {
      const diagnostics = located(found, args.ptx);
      return session.fail([...diagnostics, ...writeSarif(session, args, [], diagnostics)]);
    };
    if (args.launch === undefined) return describeText(session, args.ptx);
    const checked = await prepare(session.context, { ptx: args.ptx, launch: args.launch });
    if (!checked.ok) return fail(checked.error);
    const prepared = checked.value;
    const trace = new TraceFile(args.trace);
    const made = launchAll(session, prepared, args, trace);
    prepared.device.close();
    if (!made.ok) return fail(made.error);
    const runs = made.value;
    const profile = args.profile ?? "strict";
    const merged = mergeFindings(
      runs.map(({ order, seed, result }) => result.findings.map((finding) => ({ ...finding, order, seed }))),
    );
    const findings = judged(merged, profile);
    const wrong = wrongRuns(runs);
    const differing = differingBuffers(runs);
    const files = writeFiles(prepared.folder.cwd, outputFiles(prepared, runs[0]));
    const traced = writeFiles(session.context.cwd, trace.files());
    if (!files.ok || !traced.ok)
      return fail([...(files.ok ? [] : files.error), ...(traced.ok ? [] : traced.error)]);
    const unwritten = writeSarif(session, args, findings, wrong);
    if (unwritten.length > 0) return session.fail(unwritten);
    const failures = [...showHazards(hazardsOf(findings), args.ptx), ...wrong];
    const result = {
      ok: failures.length === 0,
      entry: prepared.launch.entry,
      arch: prepared.arch,
      runs: runs.map(({ order, seed, result: { completed, timeMs, printed, counters }, checks }) => ({
        order,
        seed,
        completed,
        timeMs,
        printed,
        counters,
        checks,
      })),
      findings,
      differing,
      files: [...files.value, ...traced.value],
    };
    session.result(result, () => render(session, runs, result.files, profile));
    notes(session, findings, differing, args.ptx);
    const cut = trace.note();
    if (cut !== null) session.note(cut);
    const advice = adviceOn(findings, profile, prepared.ptx);
    if (advice !== null) session.note(`note: ${advice}`);
    return failures.length === 0 ? exitCodes.ok : session.report(failures);
  },
});
