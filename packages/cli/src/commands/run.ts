/** `tilewright run`: compile a GEMM, run it on a GPU or the emulator, and check every element. */
import {
  batchAxes,
  batchOffset,
  type Checked,
  type Diagnostic,
  type DType,
  err,
  makeStorage,
  ok,
  operandStrides,
  type Problem,
  productColumns,
  readElement,
  sizeOf,
  storageFromBytes,
  writeElement,
} from "@tilewright/core";
import { type Artifact, type Compiler, eachStmt, isElementStmt } from "@tilewright/ir";
import { openDevice } from "@tilewright/runtime";
import { z } from "zod";
import { codes, problemWith } from "../codes.ts";
import { entryOf } from "../compile/artefacts.ts";
import { compileFrom, compileRequest, misplacedUnproven, sourceFlags } from "../compile/source.ts";
import { compilerOf } from "../compiler.ts";
import { checksOf, emulationFlags, hazardFlag, ordersOf, traceFlag } from "../emulation/flags.ts";
import { TraceFile } from "../emulation/trace.ts";
import { writeFiles } from "../files/atomic.ts";
import { sha256 } from "../files/hash.ts";
import { encodeNpy } from "../files/npy.ts";
import { defineCommand, type Session } from "../kit/command.ts";
import { exitCodes } from "../kit/exit.ts";
import { choice, count, switchOn, text } from "../kit/flags.ts";
import { formatTime, trim } from "../output/format.ts";
import { briefSchedule } from "../output/schedule.ts";
import { renderPairs } from "../output/table.ts";
import { compileFlags, gpuFlag, problemFlags } from "../request/flags.ts";
import { buildProductRequest, buildRequest, type Request } from "../request/request.ts";
import { usualArch } from "../request/usual.ts";
import { openRunDevice, type RunDevice } from "../run/device.ts";
import { type Execution, execute, warnOfTime } from "../run/execute.ts";
import { checkFactors, type FactorFiles, loadFactors } from "../run/factors.ts";
import { checkMatrices, commonDType, fitsF32, knownFrom, loadMatrices, type Matrices } from "../run/files.ts";
import { executeGroups, knownFromGroups, loadGroups, makeGroups } from "../run/groups.ts";
import { makeInputs } from "../run/inputs.ts";
import { programWork } from "../run/program.ts";
import type { RunResult } from "../run/result.ts";
import { launchedAt, problemOfLaunch } from "../run/sizes.ts";
import { choiceData, choiceText, tellChoice } from "../tuned/choice.ts";

const matrices = "Matrices";
const operand = (summary: string) => text(summary, { hint: "FILE", longLetters: true, group: matrices });

const args = z.strictObject({
  ...problemFlags,
  ...compileFlags,
  ...gpuFlag,
  ...sourceFlags,
  a: operand("A from NAME.npy or NAME.safetensors#TENSOR; sizes and layout follow from it"),
  b: operand("B, likewise"),
  c: operand("C, likewise; needs --beta"),
  sfa: operand("scale factors of a block-scaled A: uint8 codes, M rows by K over 32 (nvf4: 16) columns"),
  sfb: operand("the same of B: N rows"),
  sizes: text("sizes of this launch, for a kernel that leaves them to it (--symbolic): m=300,k=80,lda=96", {
    hint: "NAME=N,…",
    group: "Execution",
  }),
  groups: text(
    "run a grouped problem: a JSON list of {m, n, k} and, if not packed, {lda, ldb, ldc, ldd}, one for each group; matrices are random",
    { hint: "FILE.json", group: "Execution" },
  ),
  out: text("write D to this .npy file, if it passes the check", {
    hint: "D.npy",
    aliases: ["d"],
    longLetters: true,
    group: matrices,
  }),
  inputs: choice(
    "numbers of matrices without a file (default normal); integers make every sum exact",
    ["normal", "uniform", "integers"],
    { group: matrices },
  ),
  device: choice(
    "where to run: auto takes a GPU that fits, else the emulator (default auto)",
    ["auto", "cuda", "emulator"],
    { group: "Execution" },
  ),
  check: switchOn("compare every element with a float64 reference", { group: "Execution" }),
  hazards: hazardFlag(),
  isolation: switchOn("run a GPU's kernels in a process of its own, which a hang or a fault cannot leave", {
    group: "Execution",
  }),
  timeout: count("seconds that a GPU's kernels may take, compiling included (default 120)", 86_400, {
    hint: "SECONDS",
    group: "Execution",
  }),
  ...emulationFlags,
  ...traceFlag,
});
type Args = z.output<typeof args>;

/** Whether some backend serves the problem on all targets asked for. */
const served = (compiler: Compiler, { problem, program, targets }: Request): boolean =>
  targets.every((target) =>
    compiler.verdicts(program?.product ?? problem, target).some(({ verdict }) => verdict.ok),
  );

/**
 * The request, with sizes, layouts and dtype from the files. Files in a type that no backend multiplies are widened to f32, if that
 * loses nothing and the user named no dtype.
 */
function requestWithFiles(session: Session, args: Args, files: Matrices): Checked<Request> {
  const compiler = compilerOf(session.context);
  const known = knownFrom(files, args, "flags");
  if (!known.ok) return known;
  const build = (dtype: DType | null) =>
    buildRequest(
      session.context,
      args,
      dtype === null ? known.value : { ...known.value, dtype },
      usualArch(compiler),
    );
  const fromFiles = args.dtype === undefined ? commonDType(files) : null;
  const request = build(fromFiles);
  if (!request.ok || fromFiles === null || served(compiler, request.value)) return request;
  const widened = build("f32");
  if (!widened.ok || !served(compiler, widened.value)) return request;
  // Where f32 does not hold the values, checkMatrices refuses and says so.
  if (fitsF32(files))
    session.note(
      `no backend multiplies ${fromFiles} on ${widened.value.targets.map((t) => t.arch).join(", ")}: its values are widened to f32, exactly`,
    );
  return widened;
}

interface Prepared {
  readonly artifact: Artifact;
  readonly files: Matrices;
  readonly factors: FactorFiles;
}

/** What stands against running a problem with these files. */
function objections(
  problem: Problem,
  { files, factors }: Omit<Prepared, "artifact">,
  args: Args,
): readonly Diagnostic[] {
  const found: Diagnostic[] = [...checkMatrices(problem, files), ...checkFactors(problem, files, factors)];
  for (const name of ["alpha", "beta"] as const)
    if (problem[name] === "runtime") {
      const message = `${name} is left to the launch, and run has no value for it`;
      found.push(problemWith(codes.notRunnable, name, message, { hint: `give --${name}` }));
    }
  if (args.out !== undefined && !args.out.endsWith(".npy"))
    found.push(
      problemWith(codes.unknownFormat, "--out", `${args.out} is in no format that is written`, {
        hint: "D is written as .npy",
      }),
    );
  return found;
}

/** The artefact of an edited tile program; files must have the shapes that it states. */
function prepareEdited(
  session: Session,
  args: Args,
  path: string,
  given: Omit<Prepared, "artifact">,
): Checked<Prepared> {
  const made = compileFrom(session.context, path, args);
  if (!made.ok) return made;
  const compiled = launchedAt(made.value, args.sizes);
  if (!compiled.ok) return compiled;
  const { problem } = compiled.value;
  const shapes = knownFrom(given.files, problem, "program");
  const { source, program } = made.value;
  if (args.check && source === undefined && eachStmt(program.body).some(isElementStmt))
    return err([
      problemWith(
        codes.notRunnable,
        "--from",
        "a text of a later stage has no reference for what it maps and reduces",
        {
          hint: "add --no-check, or run the text over axes that it came from",
        },
      ),
    ]);
  const found = [...(shapes.ok ? [] : shapes.error), ...objections(problem, given, args)];
  return found.length > 0 ? err(found) : ok({ artifact: compiled.value, ...given });
}

function prepare(session: Session, args: Args): Checked<Prepared> {
  const files = loadMatrices(session.context, args);
  const factors = loadFactors(session.context, args);
  if (!files.ok || !factors.ok)
    return err([...(files.ok ? [] : files.error), ...(factors.ok ? [] : factors.error)]);
  const given = { files: files.value, factors: factors.value };
  if (args.from !== undefined) return prepareEdited(session, args, args.from, given);
  const request = requestWithFiles(session, args, files.value);
  if (!request.ok) return request;
  const problem = problemOfLaunch(request.value.problem, args.sizes);
  if (!problem.ok) return problem;
  const found = [...misplacedUnproven(args), ...objections(problem.value, given, args)];
  if (request.value.targets.length > 1)
    found.push(problemWith(codes.conflict, "--arch", "run takes one architecture"));
  if (found.length > 0) return err(found);
  const [artifact] = compileRequest(compilerOf(session.context), request.value);
  if (artifact === undefined) throw new TypeError("a request has a target");
  if (!artifact.ok) return artifact;
  tellChoice(session, artifact.value);
  const launched = launchedAt(artifact.value, args.sizes);
  return launched.ok ? ok({ artifact: launched.value, ...given }) : launched;
}

/** D in C order as a .npy file. A batch becomes the first axis. */
function encodeResult(problem: Problem, bytes: Uint8Array): Uint8Array {
  const { m, n, d, batch } = problem;
  const count = batch.kind === "strided" ? batch.count : 1;
  const axes = batchAxes(problem, "d");
  const stored = storageFromBytes(d.dtype, bytes, Math.floor(bytes.byteLength / sizeOf(d.dtype)));
  const dense = makeStorage(d.dtype, count * m * n);
  const [rowStride, colStride] = operandStrides(d);
  for (let item = 0; item < count; item++) {
    const start = batchOffset(axes, item);
    for (let row = 0; row < m; row++)
      for (let col = 0; col < n; col++)
        writeElement(
          d.dtype,
          dense,
          (item * m + row) * n + col,
          readElement(d.dtype, stored, start + row * rowStride + col * colStride),
        );
  }
  return encodeNpy(batch.kind === "strided" ? [count, m, n] : [m, n], d.dtype, dense);
}

function resultOf(
  prepared: Prepared,
  device: Pick<RunDevice, "kind" | "name">,
  execution: Execution,
): RunResult {
  const { check, hazards, timeMs, wrong } = execution;
  const { artifact } = prepared;
  return {
    ok: wrong.length === 0,
    arch: artifact.target.arch,
    device: device.kind,
    deviceName: device.name,
    problem: artifact.problem as RunResult["problem"],
    schedule: artifact.schedule ?? artifact.manifest.plan.schedule,
    choice: choiceData(artifact),
    error:
      check === null
        ? null
        : { maxAbs: real(check.maxAbs), boundRatio: real(check.boundRatio), nan: check.nan },
    hazards: hazards as RunResult["hazards"],
    timeMs,
    ptxSha256: sha256(artifact.ptx),
  };
}

/** JSON has no infinities. */
const real = (value: number): number | "Infinity" | "NaN" =>
  Number.isFinite(value) ? value : Number.isNaN(value) ? "NaN" : "Infinity";

function render(
  session: Session,
  prepared: Prepared,
  device: Pick<RunDevice, "kind" | "name">,
  execution: Execution,
): string {
  const { problem, target, backend, manifest, choice, schedule, source } = prepared.artifact;
  const { check, hazards, timeMs, wrong } = execution;
  const verdict =
    wrong.length > 0
      ? session.paint("red", "wrong")
      : check === null
        ? session.paint("green", "ran (not checked)")
        : check.nan < check.elements
          ? session.paint("green", "correct")
          : session.paint("yellow", "ran; nothing to check: all of D is NaN, by the reference as well");
  const work =
    source === undefined
      ? problem.m *
        productColumns(problem) *
        problem.k *
        (problem.batch.kind === "none" ? 1 : problem.batch.count)
      : programWork(source);
  const grouped = problem.batch.kind === "grouped";
  const speed =
    device.kind !== "cuda"
      ? " of emulation"
      : grouped
        ? ""
        : `, ${trim((2 * work) / (timeMs * 1e9))} TFLOP/s`;
  return renderPairs([
    ["result", verdict],
    [
      "problem",
      source !== undefined
        ? `@${source.name}`
        : `${problem.batch.kind === "grouped" ? `${problem.batch.count} groups of up to ` : ""}${problem.m} x ${problem.n} x ${problem.k}, ${problem.a.dtype}`,
    ],
    ["arch", `${target.arch} (${backend})`],
    [
      "schedule",
      `${briefSchedule(compilerOf(session.context), backend, schedule ?? manifest.plan.schedule)} (${choiceText(choice)})`,
    ],
    ["device", device.name],
    [
      "error",
      check === null
        ? "not checked"
        : [
            `${trim(check.boundRatio)} of the bound, at most ${Number(check.maxAbs.toPrecision(3))}`,
            ...(check.nan === 0
              ? []
              : [`${check.nan} of ${check.elements} elements are NaN, as they should be`]),
          ].join("; "),
    ],
    [
      "hazards",
      device.kind === "cuda"
        ? "not looked for on a GPU"
        : hazards.length === 0
          ? "none"
          : String(hazards.length),
    ],
    ["time", `${formatTime(timeMs)}${speed}`],
  ]);
}

/** A grouped problem: sizes from a file, everything else from flags. In this process, also on a GPU. */
async function runGrouped(session: Session, args: Args, path: string): Promise<number> {
  const alone = ["a", "b", "c", "sfa", "sfb", "sizes", "out", "from", "trace"] as const;
  const given = alone.filter((name) => args[name] !== undefined);
  if (given.length > 0)
    return session.fail([
      problemWith(
        codes.conflict,
        "--groups",
        `groups have no ${given.map((name) => `--${name}`).join(", ")}`,
        {
          hint: `leave ${given.map((name) => `--${name}`).join(", ")} out: matrices of groups are random`,
        },
      ),
    ]);
  if (args.batch !== undefined)
    return session.fail([
      problemWith(codes.conflict, "--groups", "a list of groups is a batch of its own, beside --batch", {
        hint: `leave --batch out: ${path} says how many groups there are`,
      }),
    ]);
  const sizes = loadGroups(session.context, path);
  if (!sizes.ok) return session.fail(sizes.error);
  const compiler = compilerOf(session.context);
  const request = buildProductRequest(
    session.context,
    args,
    knownFromGroups(sizes.value, args),
    usualArch(compiler),
  );
  if (!request.ok) return session.fail(request.error);
  const none = { files: {}, factors: {} };
  const found = objections(request.value.problem, none, args);
  if (found.length > 0) return session.fail(found);
  const [artifact] = compileRequest(compiler, request.value);
  if (artifact === undefined) throw new TypeError("a request has a target");
  if (!artifact.ok) return session.fail(artifact.error);
  const members = makeGroups(artifact.value.problem, sizes.value, {
    distribution: { kind: args.inputs ?? "normal" },
    seed: args.seed,
    checked: args.check,
  });
  if (!members.ok) return session.fail(members.error);
  const opened = await openDevice({ kind: args.device ?? "auto", arch: artifact.value.target.arch });
  if (!opened.ok) return session.fail(opened.error);
  const device = opened.value;
  try {
    if (device.note !== null) session.note(device.note);
    const options = {
      orders: ordersOf(args.order),
      seed: args.seed,
      hazards: checksOf(args.hazards),
      check: args.check,
    };
    const file = `${entryOf(artifact.value)}.ptx`;
    const ran = executeGroups(session, device, artifact.value, members.value, options, file);
    if (!ran.ok) return session.fail(ran.error);
    const prepared = { artifact: artifact.value, ...none };
    session.result(resultOf(prepared, device, ran.value), () => render(session, prepared, device, ran.value));
    return ran.value.wrong.length === 0 ? exitCodes.ok : session.report(ran.value.wrong);
  } finally {
    device.close();
  }
}

async function runPrepared(session: Session, args: Args, prepared: Prepared): Promise<number> {
  const { artifact, files, factors } = prepared;
  const { problem, target } = artifact;
  const device = await openRunDevice({
    kind: args.device ?? "auto",
    arch: target.arch,
    isolation: args.isolation,
    timeout: args.timeout,
  });
  if (!device.ok) return session.fail(device.error);
  try {
    if (device.value.note !== null) session.note(device.value.note);
    if (args.trace !== undefined && device.value.kind !== "emulator")
      return session.fail([
        problemWith(codes.conflict, "--trace", "a GPU keeps no event log", { hint: "add --device emulator" }),
      ]);
    const trace = new TraceFile(args.trace);
    const orders = ordersOf(args.order);
    if (device.value.kind === "emulator") warnOfTime(session, problem, orders.length);
    const inputs = session.working("making the inputs", () =>
      makeInputs(
        problem,
        files,
        { distribution: { kind: args.inputs ?? "normal" }, seed: args.seed, checked: args.check },
        factors,
      ),
    );
    if (!inputs.ok) return session.fail(inputs.error);
    const options = {
      orders,
      seed: args.seed,
      hazards: checksOf(args.hazards),
      check: args.check,
      trace,
    };
    const ran = await execute(
      session,
      device.value,
      artifact,
      inputs.value,
      options,
      `${entryOf(artifact)}.ptx`,
    );
    if (!ran.ok) return session.fail(ran.error);
    const execution = ran.value;
    const traced = writeFiles(session.context.cwd, trace.files());
    if (!traced.ok) return session.fail(traced.error);
    for (const file of traced.value) session.note(`wrote ${file}`);
    const cut = trace.note();
    if (cut !== null) session.note(cut);
    if (args.out !== undefined && execution.wrong.length === 0) {
      const written = writeFiles(session.context.cwd, [
        { path: args.out, data: encodeResult(problem, execution.d) },
      ]);
      if (!written.ok) return session.fail(written.error);
      session.note(`wrote ${args.out}`);
    }
    session.result(resultOf(prepared, device.value, execution), () =>
      render(session, prepared, device.value, execution),
    );
    return execution.wrong.length === 0 ? exitCodes.ok : session.report(execution.wrong);
  } finally {
    device.value.close();
  }
}

export const run = defineCommand({
  name: "run",
  summary: "compile a GEMM, run it on a GPU or the emulator, and check every element",
  about: `Makes D = alpha * A.B + beta * C with matrices from .npy or safetensors files, or with random numbers by seed. Every
element of D is compared with a float64 reference; an error may be at most (K/16 + 8) * 2^-23 * sum|a*b|, plus the rounding to D's type.
On the emulator every access is also checked for hazards, in each completion order that --order names.
Files may hold narrower types than the kernel multiplies; they are never rounded silently.
Ends with exit code 5 when a number or a hazard is wrong; D is then not written.`,
  args,
  examples: [
    {
      what: "any sizes, on a GPU if there is one that fits, else on the emulator",
      line: "run --arch sm_70 -m 300 -n 200 -k 77",
    },
    {
      what: "a kernel for all sizes, launched at some",
      line: "run --arch sm_70 -m 300 -n 200 -k 80 --symbolic m,n,k%8 --sizes m=33,n=65,k=24",
    },
    {
      what: "one launch for problems of different sizes",
      line: "run --arch sm_80 --groups groups.json",
    },
    {
      what: "real matrices; sizes come from the files",
      line: "run --a A.npy --b B.npy --out D.npy",
    },
    {
      what: "a timeline of warps, engines and barriers for ui.perfetto.dev",
      line: "run --arch sm_90a -m 256 -n 256 -k 256 --dtype bf16 --device emulator --trace trace.json",
    },
    {
      what: "in every completion order, as JSON",
      line: "run --arch sm_70 -m 64 -n 64 -k 64 --device emulator --order all --json",
    },
  ],
  async run(session, args) {
    if (args.groups !== undefined) return runGrouped(session, args, args.groups);
    const prepared = prepare(session, args);
    return prepared.ok ? runPrepared(session, args, prepared.value) : session.fail(prepared.error);
  },
});
