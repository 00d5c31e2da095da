/** `tilewright demo`: what `npm start` shows. Every backend makes a kernel, runs it, and has every element checked. */
import { join } from "node:path";
import { type Checked, type Diagnostic, defineProblem, findTarget, ok } from "@tilewright/core";
import type { Artifact, Backend } from "@tilewright/ir";
import { z } from "zod";
import { entryOf, filesOf } from "../compile/artefacts.ts";
import { compiler } from "../compiler.ts";
import { emulationFlags, ordersOf } from "../emulation/flags.ts";
import { writeFiles } from "../files/atomic.ts";
import { defineCommand, type Session } from "../kit/command.ts";
import { exitCodes } from "../kit/exit.ts";
import { text } from "../kit/flags.ts";
import { formatTime, trim } from "../output/format.ts";
import { briefSchedule } from "../output/schedule.ts";
import { type Row, renderTable } from "../output/table.ts";
import { openRunDevice } from "../run/device.ts";
import { type Execution, execute } from "../run/execute.ts";
import { randomInputs } from "../run/inputs.ts";

/** Large enough for many blocks and a full main loop, small enough for a second or two on the emulator. */
const size = 512;

const args = z.strictObject({
  out: text("folder for PTX and manifests (default out)", { aliases: ["o"], hint: "DIR" }),
  ...emulationFlags,
});
type Args = z.output<typeof args>;

/** One backend's showcase, made and run. */
interface Shown {
  readonly artifact: Artifact;
  readonly device: { readonly kind: string; readonly name: string };
  readonly execution: Execution;
  readonly ptxPath: string;
  readonly manifestPath: string;
}

function showcase(backend: Backend): Checked<Artifact> {
  const target = findTarget(backend.showcase.arch);
  if (!target.ok) return target;
  const problem = defineProblem({ m: size, n: size, k: size, dtype: backend.showcase.dtype });
  if (!problem.ok) return problem;
  return compiler.compile({ problem: problem.value, target: target.value, backend: backend.id });
}

async function show(session: Session, args: Args, backend: Backend): Promise<Checked<Shown>> {
  const made = showcase(backend);
  if (!made.ok) return made;
  const artifact = made.value;
  const folder = join(args.out ?? "out", backend.id);
  const files = await filesOf(session.context, artifact, ["ptx", "manifest"], { stem: entryOf(artifact) });
  if (!files.ok) return files;
  const written = writeFiles(
    session.context.cwd,
    files.value.map(({ name, data }) => ({ path: join(folder, name), data })),
  );
  if (!written.ok) return written;
  const [ptxPath = "", manifestPath = ""] = written.value;

  const inputs = randomInputs(artifact.problem, { distribution: { kind: "normal" }, seed: args.seed });
  const device = await openRunDevice({ kind: "auto", arch: artifact.target.arch, isolation: true });
  if (!device.ok) return device;
  try {
    const options = { orders: ordersOf(args.order), seed: args.seed, hazards: "all", check: true } as const;
    const execution = await execute(session, device.value, artifact, inputs, options, ptxPath);
    if (!execution.ok) return execution;
    const { kind, name } = device.value;
    return ok({ artifact, device: { kind, name }, execution: execution.value, ptxPath, manifestPath });
  } finally {
    device.value.close();
  }
}

function rowOf({ artifact, device, execution, ptxPath, manifestPath }: Shown): Row {
  const { m, n, k, a } = artifact.problem;
  const { check, hazards, timeMs, wrong } = execution;
  const style = wrong.length === 0 ? ("green" as const) : ("red" as const);
  const found = device.kind === "cuda" ? "-" : hazards.length === 0 ? "none" : String(hazards.length);
  return [
    artifact.target.arch,
    `${m} x ${n} x ${k} ${a.dtype}`,
    briefSchedule(compiler, artifact.backend, artifact.manifest.plan.schedule),
    device.name,
    { text: check === null ? "-" : trim(check.boundRatio), style },
    { text: found, style },
    formatTime(timeMs),
    `${ptxPath} ${manifestPath}`,
  ];
}

const heads = ["arch", "problem", "schedule", "ran on", "error/bound", "hazards", "time", "PTX and manifest"];

/** What to try next, of the kernel that was shown first. */
function nextSteps(shown: readonly Shown[]): string {
  const [first] = shown;
  if (first === undefined) return "";
  const { target, problem } = first.artifact;
  const kernel = `--arch ${target.arch} --dtype ${problem.a.dtype}`;
  return [
    "Worth trying next:",
    `  npx tilewright plan ${kernel} -m 4096 -n 4096 -k 4096`,
    `  npx tilewright compile ${kernel} -m ${size} -n ${size} -k ${size} --print-passes`,
    `  npx tilewright run ${kernel} -m 300 -n 200 -k 77 --order all`,
    "",
  ].join("\n");
}

const summaryOf = ({ artifact, device, execution, ptxPath, manifestPath }: Shown) => ({
  ok: execution.wrong.length === 0,
  arch: artifact.target.arch,
  backend: artifact.backend,
  entry: entryOf(artifact),
  problem: artifact.problem,
  schedule: artifact.schedule,
  device: device.kind,
  deviceName: device.name,
  error:
    execution.check === null
      ? null
      : { maxAbs: execution.check.maxAbs, boundRatio: execution.check.boundRatio },
  hazards: execution.hazards,
  timeMs: execution.timeMs,
  ptx: ptxPath,
  manifest: manifestPath,
});

export const demo = defineCommand({
  name: "demo",
  args,
  async run(session, args) {
    const shown: Shown[] = [];
    const wrong: Diagnostic[] = [];
    for (const backend of compiler.backends) {
      const result = await show(session, args, backend);
      if (!result.ok) return session.fail(result.error);
      shown.push(result.value);
      wrong.push(...result.value.execution.wrong);
    }
    session.result({ ok: wrong.length === 0, kernels: shown.map(summaryOf) }, () => {
      const columns = heads.map((head) => ({ head }));
      const table = renderTable(columns, shown.map(rowOf), session.paint);
      return `${table}error/bound: the largest error over what is allowed, of every element against float64; at most 1 is right.\n\n${nextSteps(shown)}`;
    });
    return wrong.length === 0 ? exitCodes.ok : session.report(wrong);
  },
});
