/** `tilewright bench`: kernels beside their peers on a GPU, measured so that nobody is flattered. */

import { type Diagnostic, ok } from "@tilewright/core";
import { type Bench, evenRows, inputKinds, type Regime, regimes } from "@tilewright/runtime";
import { z } from "zod";
import { recordOf } from "../bench/assemble.ts";
import { askProgram, type CommandTime } from "../bench/command-peer.ts";
import { jobOf, keyOf, type Planned, planJobs, type Wishes } from "../bench/jobs.ts";
import { measureOrder, type WorkOrder } from "../bench/measure.ts";
import { type BenchPorts, type Peers, peersOf, withoutEmulator } from "../bench/ports.ts";
import type { BenchRecord } from "../bench/record.ts";
import { renderRecords, stateText } from "../bench/render.ts";
import { compareFiles, csvOf, draw, plotFile, rowsOf } from "../bench/result-files.ts";
import { shapeText } from "../bench/shapes.ts";
import { ResultStore, recordLine } from "../bench/store.ts";
import { codes, problemWith } from "../codes.ts";
import { readJson } from "../files/json.ts";
import { type Command, defineCommand, type Session } from "../kit/command.ts";
import { exitCodeFor, exitCodes } from "../kit/exit.ts";
import {
  choice,
  grouped,
  list,
  number,
  optionalArgument,
  seed,
  switchOn,
  text,
  toggle,
} from "../kit/flags.ts";
import { toCsv } from "../output/csv.ts";
import { compileFlags, problemFlags } from "../request/flags.ts";
import { furtherFaults } from "../request/request.ts";
import { hopeless } from "../tune/measure.ts";
import { tellChoice } from "../tuned/choice.ts";

const args = z.strictObject({
  first: optionalArgument(
    "a results file, for --compare (the older one) and for --plot without measuring",
    "OLD.jsonl",
  ),
  second: optionalArgument("the newer results file, for --compare", "NEW.jsonl"),
  ...problemFlags,
  ...compileFlags,
  ...grouped("Measuring", {
    shapes: text(
      "sizes: a JSON file of named groups (tilewright schema shapes), or MxNxK,MxNxK",
      "FILE|MxNxK,…",
    ),
    groups: list("only these groups of the shapes file", null),
    rows: text(
      "rows of experts as device memory has them: offsets, or counts (default: as even as they can be)",
      "INT,INT,…",
    ),
    vs: list(
      "peers: cublas, none, or commands that print times (default: cublas where it is found)",
      null,
      "cublas[,COMMAND]",
    ),
    cublaslt: text(
      "libcublasLt to use (default: TILEWRIGHT_CUBLASLT, the loader's path, Python's nvidia wheels, the toolkit)",
      "PATH",
    ),
    algorithms: number("how many algorithms of cuBLASLt to try (default 8)", "N"),
    regime: choice(
      "idle gaps between samples (default, the one to rank by), strict alternation, sustained blocks, or all",
      [...regimes, "all"],
    ),
    inputs: choice(
      "numbers in A and B (default normal); others draw less power and are labelled",
      inputKinds,
    ),
    seed: seed("of the inputs and of the order of launches", 1),
    seconds: number("device time of each regime of each problem (default 1)", "S"),
    warmup: number("device time before the first sample (default 0.2)", "S"),
    device: choice("cuda or auto: a GPU; the emulator has no speed", ["auto", "cuda", "emulator"]),
    gpu: number("which GPU, among those CUDA_VISIBLE_DEVICES leaves (default 0)", "INDEX"),
    isolation: switchOn("measure in a process of its own, which a hang or a fault cannot leave"),
    timeout: number("seconds after which a problem's process is stopped (default 120)", "S"),
    job: text(
      "measure what this file says, in this process: how a failed measurement is repeated",
      "FILE.json",
    ),
  }),
  ...grouped("Results", {
    csv: toggle(
      "one line of comma-separated values a kernel instead of text; FILE.jsonl --csv: of that file",
    ),
    out: text("write results to this file, one JSON object a line", "FILE.jsonl"),
    resume: toggle("go on with --out: leave out what it holds already"),
    compare: toggle("say what changed between two results files beyond their noise"),
    plot: text("draw speed over size as SVG, of what was measured or of a results file", "FILE.svg"),
    minRatio: number("end with exit code 6 when a candidate's ratio to a peer is below this", "X"),
  }),
});
type Args = z.output<typeof args>;

/** Flags that no measurement goes with. */
function conflicts(args: Args): readonly Diagnostic[] {
  const found: Diagnostic[] = [];
  const conflict = (at: string, message: string, hint: string) =>
    found.push(problemWith(codes.conflict, at, message, { hint }));
  if (args.resume && args.out === undefined)
    conflict("--resume", "--resume goes on with a file, and --out names none", "add --out FILE.jsonl");
  if (args.groups !== undefined && args.shapes === undefined)
    conflict(
      "--groups",
      "--groups chooses from a shapes file, and --shapes names none",
      "add --shapes FILE.json",
    );
  for (const [name, value] of [
    ["--seconds", args.seconds],
    ["--warmup", args.warmup],
    ["--timeout", args.timeout],
    ["--algorithms", args.algorithms],
  ] as const)
    if (value !== undefined && !(value > 0))
      found.push(problemWith(codes.badValue, name, `${value} is not above 0`));
  if (args.gpu !== undefined && !(Number.isInteger(args.gpu) && args.gpu >= 0))
    found.push(problemWith(codes.badValue, "--gpu", `${args.gpu} is no index; the first GPU is 0`));
  if (args.device === "emulator")
    found.push(
      problemWith(
        codes.notMeasurable,
        "--device",
        "bench measures GPUs; the emulator's time says nothing about a kernel",
        {
          hint: "tilewright plan estimates without a GPU, tilewright run --device emulator checks numbers and hazards",
        },
      ),
    );
  return found;
}

const regimesOf = (regime: Args["regime"]): readonly Regime[] =>
  regime === "all" ? regimes : [regime ?? "idle"];

async function measureAll(session: Session, args: Args, ports: BenchPorts): Promise<number> {
  const wrong = conflicts(args);
  if (wrong.length > 0) return session.fail(wrong);
  const store = ResultStore.open(session.context, args.out ?? null, args.resume);
  if (!store.ok) return session.fail(store.error);
  session.context.onInterrupt(interruptHint(args.out, store.value));
  const planned = session.working("compiling", () => planJobs(session.context, args));
  if (!planned.ok) return session.fail(planned.error);
  for (const { candidates } of planned.value)
    for (const { artifact } of candidates) tellChoice(session, artifact);
  const peers = await peersOf(session, args, ports);
  if (!peers.ok) return session.fail(peers.error);

  const opened = await ports.open({
    index: args.gpu ?? 0,
    cublas: peers.value.cublas,
    isolation: args.isolation,
    timeout: args.timeout ?? 120,
  });
  if (!opened.ok) return session.fail(opened.error.map(withoutEmulator));
  const bench = opened.value;

  const failures: Diagnostic[] = [];
  const fresh: BenchRecord[] = [];
  try {
    for (const one of planned.value) {
      session.context.onInterrupt(interruptHint(args.out, store.value));
      const place = { session, args, ports, peers: peers.value, store: store.value, bench };
      const { records, failed } = await measureOne(place, one);
      fresh.push(...records);
      show(session, records);
      const stored = records.length === 0 ? ok(true) : store.value.add(records);
      if (!stored.ok) return session.fail(stored.error);
      session.report(failed);
      failures.push(...failed);
      if (failed.some(({ code }) => hopeless.test(code))) break;
    }
  } finally {
    bench.close();
    session.context.onInterrupt(null);
  }
  if (!session.json && store.value.records.length > 0)
    session.context.stdout.write(
      args.csv ? toCsv(rowsOf(store.value.records)) : renderRecords(store.value.records, session.paint),
    );
  if (session.json && failures.length > 0)
    session.context.stdout.write(`${JSON.stringify({ ok: false, diagnostics: failures })}\n`);
  if (args.plot !== undefined && store.value.records.length > 0) {
    const drawn = draw(session.context, store.value.records, args.plot);
    if (!drawn.ok) return session.fail(drawn.error);
    session.note(`wrote ${args.plot}`);
  }
  if (args.out !== undefined) session.note(`${args.out}: ${store.value.records.length} records`);
  return failures.length > 0 ? exitCodeFor(failures) : slower(session, args, fresh);
}

/** What an interrupted run has left behind, and how to go on. */
function interruptHint(out: string | undefined, { records }: ResultStore): string {
  if (out === undefined)
    return "interrupted: --out FILE.jsonl would keep what is measured, and --resume go on with it";
  return `interrupted: ${out} holds ${records.length} records; the same command with --resume goes on with it`;
}

/** Records as they come: lines for programs, one remark for people, who get the table at the end. */
function show(session: Session, records: readonly BenchRecord[]): void {
  for (const record of records) {
    if (session.json) session.context.stdout.write(recordLine(record));
    const ratios = record.ratios.map(
      ({ candidate, peer, value }) => `${candidate} ${value.toFixed(3)} of ${peer}`,
    );
    session.note(
      `${shapeText(record.problem)} ${record.regime}: ${[...ratios, stateText(record)].join(", ")}`,
    );
    for (const note of record.notes) session.note(`  ${note}`);
  }
}

function slower(session: Session, { minRatio }: Args, records: readonly BenchRecord[]): number {
  if (minRatio === undefined) return exitCodes.ok;
  const below = records.flatMap((record) =>
    record.ratios
      .filter(({ value }) => value < minRatio)
      .map(
        ({ candidate, peer, value }) =>
          `${shapeText(record.problem)} ${record.regime}: ${candidate} is at ${value.toFixed(3)} of ${peer}`,
      ),
  );
  for (const line of below) session.note(`below ${minRatio}: ${line}`);
  return below.length > 0 ? exitCodes.slower : exitCodes.ok;
}

/** What measuring one problem takes. */
interface Place {
  readonly session: Session;
  readonly args: Args;
  readonly ports: BenchPorts;
  readonly peers: Peers;
  readonly store: ResultStore;
  readonly bench: Bench;
}

/** The records that the store lacks, and what went wrong; both where some candidates failed and others did not. */
async function measureOne(
  place: Place,
  planned: Planned,
): Promise<{ readonly records: readonly BenchRecord[]; readonly failed: readonly Diagnostic[] }> {
  const { session, args, ports, peers, store, bench } = place;
  const wishes: Wishes = {
    regimes: regimesOf(args.regime),
    inputs: args.inputs ?? "normal",
    seed: args.seed,
    seconds: args.seconds ?? 1,
    warmup: args.warmup ?? 0.2,
    algorithms: peers.cublas === null ? null : Math.round(args.algorithms ?? 8),
  };
  const names = [...(peers.cublas === null ? [] : ["cublas"]), ...peers.commands];
  const missing = wishes.regimes.filter(
    (regime) => !store.has(keyOf(bench.name, planned, regime, wishes, names)),
  );
  if (missing.length === 0) return { records: [], failed: [] };
  const order: WorkOrder = {
    kind: "tilewright-bench-job",
    job: jobOf(planned, { ...wishes, regimes: missing }),
    index: args.gpu ?? 0,
    cublas: peers.cublas,
  };
  const { outcome, failures, kept } = await session.working(`measuring ${shapeText(planned.shape)}`, () =>
    measureOrder(session.context, bench, order),
  );
  if (kept !== null) session.note(`tilewright bench --job ${kept} repeats the measurement in one process`);
  const failed = failures.map((one) => ({ ...one, message: `${shapeText(planned.shape)}: ${one.message}` }));
  if (outcome === null) return { records: [], failed };

  const present = new Set(outcome.contenders.map(({ name }) => name));
  const left = { ...planned, candidates: planned.candidates.filter(({ name }) => present.has(name)) };
  // What was left out is no part of the key, so that --resume tries it again.
  const took = failures.length > 0 && outcome.cublasVersion === null ? peers.commands : names;
  const told = { ...outcome, notes: [...outcome.notes, ...failures] };
  const records: BenchRecord[] = [];
  for (const regime of outcome.regimes) {
    const commands: CommandTime[] = [];
    for (const command of peers.commands) {
      const wish = {
        regime: regime.regime,
        inputs: wishes.inputs,
        seed: wishes.seed,
        seconds: wishes.seconds,
        ...(planned.program === undefined ? {} : { attention: planned.program.attention }),
        ...(planned.problem.batch.kind === "grouped"
          ? { rows: planned.rows ?? evenRows(planned.problem) }
          : {}),
      };
      const time = await askProgram(command, planned.problem, wish, ports, 1000 * (args.timeout ?? 120));
      if (!time.ok) return { records, failed: [...failed, ...time.error] };
      if (time.value !== null) commands.push(time.value);
    }
    const key = keyOf(bench.name, left, regime.regime, wishes, took);
    records.push(recordOf(told, regime, { planned, wishes, key, date: ports.today(), commands }));
  }
  return { records, failed };
}

/** Carry out one order in this process, where a debugger or a profiler can see it. */
async function carryOut(session: Session, path: string, ports: BenchPorts): Promise<number> {
  const json = readJson(session.context, path);
  if (!json.ok) return session.fail(json.error);
  const order = json.value as Partial<WorkOrder> | null;
  if (typeof order !== "object" || order?.kind !== "tilewright-bench-job")
    return session.fail([
      problemWith(codes.badJson, path, `${path} is no job of bench`, {
        hint: "bench writes one when a measurement fails",
      }),
    ]);
  const { job, index = 0, cublas = null } = order as WorkOrder;
  const opened = await ports.open({ index, cublas, isolation: false, timeout: 0 });
  if (!opened.ok) return session.fail(opened.error.map(withoutEmulator));
  const outcome = await opened.value.measure(job);
  opened.value.close();
  if (!outcome.ok) return session.fail(outcome.error.diagnostics);
  session.result({ ok: true, outcome: outcome.value }, () =>
    outcome.value.regimes
      .flatMap(({ regime, times }) =>
        times.map(
          ({ name, us, tflops }) =>
            `${regime}  ${name}  ${us.median.toFixed(2)} us  ${tflops.toFixed(1)} TFLOP/s\n`,
        ),
      )
      .join(""),
  );
  return exitCodes.ok;
}

/** The command on these ports. */
export const benchCommand = (ports: BenchPorts): Command =>
  defineCommand({
    name: "bench",
    args,
    positionals: ["first", "second"],
    further: furtherFaults,
    run(session, args) {
      if (args.job !== undefined) return carryOut(session, args.job, ports);
      if (args.compare) return compareFiles(session, args);
      if (args.first !== undefined && args.plot !== undefined && args.second === undefined)
        return plotFile(session, args.first, args.plot);
      if (args.first !== undefined && args.csv && args.second === undefined)
        return csvOf(session, args.first);
      if (args.first !== undefined)
        return session.fail([
          problemWith(codes.unexpectedArgument, args.first, `unexpected argument '${args.first}'`, {
            hint: "results files go with --compare, --plot or --csv",
          }),
        ]);
      return measureAll(session, args, ports);
    },
  });
