/** `tilewright compile`: a problem, or an edited tile program, to PTX, manifest, cubin and IR. */
import { join } from "node:path";
import type { Diagnostic } from "@tilewright/core";
import { type Artifact, type Stage, stages } from "@tilewright/ir";
import { z } from "zod";
import { codes, problemWith } from "../codes.ts";
import { type EmitFormat, type EmittedFile, emitFormats, entryOf, filesOf } from "../compile/artefacts.ts";
import { passReports, renderPasses } from "../compile/explain.ts";
import { compileSource, sourceFlags } from "../compile/source.ts";
import { writeFiles } from "../files/atomic.ts";
import { sha256 } from "../files/hash.ts";
import { defineCommand, type Session } from "../kit/command.ts";
import { exitCodes } from "../kit/exit.ts";
import { choice, grouped, list, text, toggle } from "../kit/flags.ts";
import { compileLibrary, libraryFlags } from "../library/command.ts";
import { formatBytes } from "../output/format.ts";
import { renderTable } from "../output/table.ts";
import { compileFlags, gpuFlag, problemFlags } from "../request/flags.ts";
import { furtherFaults } from "../request/request.ts";
import { choiceData, tellChoice } from "../tuned/choice.ts";

const args = z.strictObject({
  ...problemFlags,
  ...compileFlags,
  ...gpuFlag,
  ...sourceFlags,
  ...grouped("Results", {
    emit: list(
      "what to write (default ptx,manifest); cubin needs ptxas, ir is one file a stage",
      emitFormats,
      "ptx,manifest,cubin,ir",
    ),
    cubins: list(
      "architectures that cubin assembles for (default: --arch); later GPUs than the text's work",
      null,
      "sm_80,…",
    ),
    out: text("folder to write to (default .); - is standard output, for one text", {
      aliases: ["o"],
      hint: "DIR",
    }),
    ir: choice("print the program at the end of this stage, and write nothing", stages),
    bare: toggle("PTX without comments and .loc, which name the line of the machine text"),
    printPasses: toggle("print what each pass changed, as unified diffs, and write nothing"),
  }),
  ...libraryFlags,
});
type Args = z.output<typeof args>;

/** What describes a kernel in --json. */
const describe = (artifact: Artifact) => ({
  arch: artifact.target.arch,
  backend: artifact.backend,
  entry: entryOf(artifact),
  schedule: artifact.schedule ?? artifact.manifest.plan.schedule,
  choice: choiceData(artifact),
  problem: artifact.problem,
});

function printStage(session: Session, kernels: readonly Artifact[], stage: Stage): number {
  const texts = kernels.map((artifact) => ({
    ...describe(artifact),
    stage,
    text: artifact.textAt(stage),
  }));
  const missing = texts.filter(({ text }) => text === null);
  if (missing.length > 0)
    return session.fail(
      missing.map(({ entry }) =>
        problemWith(codes.conflict, "--ir", `${entry} begins after stage ${stage}`, {
          hint: "--ir machine always exists",
        }),
      ),
    );
  session.result(
    { ok: true, kernels: texts },
    () => texts.map(({ text }) => text ?? "").join("\n"),
    "verbatim",
  );
  return exitCodes.ok;
}

function printPasses(session: Session, kernels: readonly Artifact[]): number {
  const reports = kernels.map((artifact) => ({ ...describe(artifact), passes: passReports(artifact) }));
  session.result(
    { ok: true, kernels: reports },
    () => reports.map(({ passes }) => renderPasses(passes, session.paint)).join("\n"),
    "verbatim",
  );
  return exitCodes.ok;
}

/** One text on standard output, as it is, for a pipe; with --json in the result. */
function pipe(
  session: Session,
  kernels: readonly { readonly artifact: Artifact; readonly files: readonly EmittedFile[] }[],
): number {
  const texts = kernels.flatMap(({ artifact, files }) => files.map((file) => ({ artifact, file })));
  const [only, ...others] = texts;
  if (only === undefined || others.length > 0)
    return session.fail([
      problemWith(
        codes.conflict,
        "-o",
        `-o - takes one result, not ${texts.map(({ file }) => file.name).join(", ")}`,
        { hint: "name one: --emit ptx, and one architecture" },
      ),
    ]);
  const { format, data } = only.file;
  if (!session.json) session.context.stdout.write(data);
  else {
    const content =
      typeof data === "string" ? { text: data } : { base64: Buffer.from(data).toString("base64") };
    session.result(
      { ok: true, kernels: [{ ...describe(only.artifact), files: [{ format, ...content }] }] },
      () => "",
    );
  }
  return exitCodes.ok;
}

const byteLength = (data: string | Uint8Array): number =>
  typeof data === "string" ? Buffer.byteLength(data) : data.byteLength;

async function emit(session: Session, args: Args, kernels: readonly Artifact[]): Promise<number> {
  // To a pipe goes the PTX, unless something else is asked for.
  const usual: readonly EmitFormat[] = args.out === "-" ? ["ptx"] : ["ptx", "manifest"];
  const wished = args.emit ?? usual;
  const formats = args.cubins === undefined ? wished : [...new Set([...wished, "cubin" as const])];
  const made = await Promise.all(
    kernels.map((artifact) =>
      filesOf(session.context, artifact, formats, {
        stem: `${entryOf(artifact)}${kernels.length > 1 ? `.${artifact.target.arch}` : ""}`,
        cubins: args.cubins ?? [],
        bare: args.bare,
      }),
    ),
  );
  const errors: readonly Diagnostic[] = made.flatMap((each) => (each.ok ? [] : each.error));
  if (errors.length > 0) return session.fail(errors);
  const files = made.map((each) => (each.ok ? each.value : []));
  if (args.out === "-")
    return pipe(
      session,
      kernels.map((artifact, i) => ({
        artifact,
        files: (files[i] ?? []).filter(({ format }) => formats.includes(format)),
      })),
    );
  const folder = args.out ?? ".";
  const pathOf = ({ name }: EmittedFile) => join(folder, name);
  const written = writeFiles(
    session.context.cwd,
    files.flat().map((file) => ({ path: pathOf(file), data: file.data })),
  );
  if (!written.ok) return session.fail(written.error);
  const results = kernels.map((artifact, i) => ({
    ...describe(artifact),
    files: (files[i] ?? []).map((file) => ({
      format: file.format,
      path: pathOf(file),
      bytes: byteLength(file.data),
      sha256: sha256(file.data),
    })),
  }));
  session.result({ ok: true, kernels: results }, () => {
    const rows = results.flatMap(({ arch, backend, choice, files }) =>
      files.map(({ format, path, bytes }) => [arch, backend, choice.from, format, formatBytes(bytes), path]),
    );
    return renderTable(
      ["arch", "backend", "schedule", "what", "size", "file"].map((head) => ({ head })),
      rows,
      session.paint,
    );
  });
  return exitCodes.ok;
}

export const compile = defineCommand({
  name: "compile",
  args,
  further: (context, args, failed) =>
    args.from !== undefined || args.library !== undefined
      ? []
      : furtherFaults(context, args, failed, { complete: true, arch: true }),
  run(session, args) {
    if (args.library !== undefined) return compileLibrary(session, args, args.library);
    const orphans = (["kernels", "launchers", "wheel", "certify"] as const).filter(
      (name) => args[name] !== undefined && (name !== "wheel" || args.wheel),
    );
    if (orphans.length > 0)
      return session.fail(
        orphans.map((name) =>
          problemWith(codes.conflict, `--${name}`, `--${name} belongs to a library`, {
            hint: "add --library DIR",
          }),
        ),
      );
    if (args.ir !== undefined && args.printPasses)
      return session.fail([
        problemWith(codes.conflict, "--ir", "--ir and --print-passes both want standard output"),
      ]);
    const kernels = compileSource(session.context, args);
    if (!kernels.ok) return session.fail(kernels.error);
    for (const artifact of kernels.value) tellChoice(session, artifact);
    if (args.ir !== undefined) return printStage(session, kernels.value, args.ir);
    if (args.printPasses) return printPasses(session, kernels.value);
    return emit(session, args, kernels.value);
  },
});
