/** `compile --library DIR`: many kernels, an index with a dispatch table, and launchers, in one folder. */
import { join } from "node:path";
import { type Checked, err, findGpu, ok, printLibraryIndex } from "@tilewright/core";
import type { z } from "zod";
import { codes, failWith } from "../codes.ts";
import type { EmitFormat } from "../compile/artefacts.ts";
import type { SourceArgs } from "../compile/source.ts";
import { type OutputFile, writeFiles } from "../files/atomic.ts";
import type { Session } from "../kit/command.ts";
import { exitCodes } from "../kit/exit.ts";
import { count, either, grouped, list, text, toggle } from "../kit/flags.ts";
import { formatBytes, plural } from "../output/format.ts";
import { renderTable } from "../output/table.ts";
import { problemFlags } from "../request/flags.ts";
import { buildRequest, type CompileArgs, type ProblemArgs } from "../request/request.ts";
import { tellChoice } from "../tuned/choice.ts";
import { openStore } from "../tuned/files.ts";
import { userMachine } from "../tuned/gpus.ts";
import { type BuiltLibrary, buildLibrary } from "./build.ts";
import { certificateOf } from "./certificate.ts";
import { type Language, languages, launcherFiles } from "./launchers/index.ts";
import { indexOf, sizesText } from "./model.ts";
import { firstVersion, type LibraryPlan, planLibrary, readLibraryRequest } from "./request.ts";
import { wheelOf } from "./wheel.ts";

export const libraryFlags = grouped("Kernel library", {
  library: text(
    "make a kernel library in this folder: kernels, index.json with the dispatch table, launchers",
    "DIR",
  ),
  kernels: text(
    "what it holds: operations x sizes x architectures (- is standard input; default: the problem of the flags). tilewright schema library",
    "FILE.json",
  ),
  mostKernels: count("kernels beyond which a library is refused (default 10000)", 1e9),
  launchers: list(
    `languages to write launchers for (default ${languages.join(",")})`,
    languages,
    languages.join(","),
  ),
  certify: either(
    "run every kernel on the emulator in all completion orders, and on a GPU that is here; what was checked stands in its manifest (default: of a wheel, on the emulator alone)",
  ),
  batchInvariant: toggle(
    "kernels of an operation at different m give a row of D the same bits: all add its products in one order, as plan names it",
  ),
  wheel: toggle("also make a Python wheel of it, for torch, cupy and jax: pip install DIR/NAME-*.whl"),
});

export type LibraryArgs = ProblemArgs &
  CompileArgs &
  SourceArgs &
  z.output<z.ZodObject<typeof libraryFlags>> & {
    readonly emit?: readonly EmitFormat[] | undefined;
    readonly cubins?: readonly string[] | undefined;
    readonly out?: string | undefined;
    readonly ir?: string | undefined;
    readonly printPasses: boolean;
  };

/** Flags of a single kernel that a library has no use for. */
const single = ["out", "from", "ir"] as const;

/** The library of the flags alone: one operation, `gemm` or `attention`, of a library `kernels`. */
function planOfFlags(session: Session, args: LibraryArgs): Checked<LibraryPlan> {
  const request = buildRequest(session.context, args);
  if (!request.ok) return request;
  const { problem, program, targets, backend, schedule, deterministic, machine, store } = request.value;
  const operation = program === undefined ? "gemm" : "attention";
  // A file may give a schedule by field; a library's kernels name theirs by text.
  if (schedule !== null && typeof schedule !== "string")
    return failWith(codes.conflict, "--request", "a library takes schedules as text", {
      hint: 'write "stages=2 …"',
    });
  return ok({
    ...{ name: "kernels", version: firstVersion },
    kernels: targets.map((target) => ({
      ...{ operation, at: "the problem", problem, target },
      ...(program === undefined ? {} : { program }),
      backend,
      schedule,
      deterministic,
      ...{ machine, store },
    })),
  });
}

/** A key of the arguments as the flag that it comes from. */
const flagOf = (key: string): string =>
  `${key.length === 1 ? "-" : "--"}${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;

function planOf(session: Session, args: LibraryArgs): Checked<LibraryPlan> {
  const clashing = [
    ...single.filter((name) => args[name] !== undefined),
    ...(args.printPasses ? ["printPasses"] : []),
    ...(args.kernels === undefined
      ? []
      : Object.keys(problemFlags).filter(
          (name) => ![undefined, false].includes(args[name as keyof ProblemArgs] as false),
        )),
  ];
  if (clashing.length > 0)
    return failWith(
      codes.conflict,
      "--library",
      `${clashing.map(flagOf).join(", ")} says nothing about a library`,
      {
        hint: "state problems in the file of --kernels, or by flags without it",
      },
    );
  if (args.kernels === undefined) return planOfFlags(session, args);
  const request = readLibraryRequest(session.context, args.kernels);
  const store = openStore(session.context, args.tuned);
  const gpu = args.gpu === undefined ? ok(undefined) : findGpu(args.gpu);
  const machine =
    gpu.ok && gpu.value !== undefined ? userMachine(session.context, gpu.value, args.tuned) : ok(undefined);
  if (!request.ok || !store.ok || !gpu.ok || !machine.ok)
    return err([request, store, gpu, machine].flatMap((each) => (each.ok ? [] : each.error)));
  return planLibrary(request.value, {
    most: args.mostKernels ?? 10_000,
    archs: args.arch ?? null,
    backend: args.backend ?? null,
    schedule: args.schedule ?? null,
    deterministic: args.deterministic,
    machine: machine.value?.machine,
    store: store.value,
  });
}

function show(
  session: Session,
  folder: string,
  { library, files }: BuiltLibrary,
  launchers: readonly string[],
  wheel: OutputFile | undefined,
): void {
  const bytes = files.reduce((sum, { data }) => sum + Buffer.byteLength(data), 0);
  const operations = library.operations.map(({ name, dispatch }) => ({
    name,
    kernels: dispatch.map((number) => {
      const artefact = library.artefacts[number];
      const request = artefact?.manifest.request;
      return {
        arch: artefact?.manifest.target.arch ?? "",
        backend: artefact?.manifest.generator.backend ?? "",
        schedule: artefact?.manifest.plan.schedule ?? "",
        choice: artefact?.choice,
        ...{ m: request?.m, n: request?.n, k: request?.k },
        ...(artefact === undefined ? {} : { sizes: sizesText(artefact.manifest) }),
        manifest: join(folder, artefact?.path ?? ""),
      };
    }),
  }));
  session.result(
    {
      ...{ ok: true, name: library.name, index: join(folder, "index.json"), launchers },
      ...(wheel === undefined ? {} : { wheel: join(folder, wheel.path) }),
      operations,
    },
    () => {
      const rows = operations.flatMap(({ name, kernels }) =>
        kernels.map(({ arch, backend, choice, sizes, manifest }) => [
          name,
          arch,
          backend,
          choice?.from ?? "",
          sizes ?? "",
          manifest,
        ]),
      );
      const heads = ["operation", "arch", "backend", "schedule", "size", "kernel"].map((head) => ({ head }));
      const what = `${plural(library.artefacts.length, "kernel")}, ${formatBytes(bytes)}`;
      return `${renderTable(heads, rows, session.paint)}${what}; launchers: ${launchers.join(", ")}\n${wheel === undefined ? "" : `wheel: ${join(folder, wheel.path)}, ${formatBytes(wheel.data.length)}\n`}`;
    },
  );
}

/** Languages that launchers are written in. Errors: attention, where an order of products' additions was asked for. */
function languagesOf(plan: LibraryPlan, args: LibraryArgs): Checked<readonly Language[]> {
  const attends = plan.kernels.find(({ program }) => program !== undefined);
  if (attends === undefined || !args.batchInvariant) return ok(args.launchers ?? languages);
  const message = `${attends.operation} is attention: its rows have no order that m leaves alone`;
  return failWith(codes.conflict, "--batch-invariant", message, { hint: "leave it out" });
}

/** The whole command. Nothing is written unless everything compiles. */
export async function compileLibrary(session: Session, args: LibraryArgs, folder: string): Promise<number> {
  const plan = planOf(session, args);
  if (!plan.ok) return session.fail(plan.error);
  const wanted = languagesOf(plan.value, args);
  if (!wanted.ok) return session.fail(wanted.error);
  const count = plural(plan.value.kernels.length, "kernel");
  const emit = args.emit ?? ["ptx"];
  const built = await session.working(`compiling ${count}`, () =>
    buildLibrary(session.context, plan.value, {
      formats: args.cubins === undefined ? emit : [...emit, "cubin"],
      cubins: args.cubins ?? [],
      made: (artifact) => tellChoice(session, artifact),
      batchInvariant: args.batchInvariant,
      wheel: args.wheel === true,
      // What depends on the machine's GPU is asked for: a wheel has the same bytes everywhere.
      certify:
        (args.certify ?? args.wheel)
          ? (request, artifact) => certificateOf(session, request, artifact, args.certify === true)
          : null,
    }),
  );
  if (!built.ok) return session.fail(built.error);
  const { library, files } = built.value;
  const launchers = launcherFiles(library, wanted.value);
  // Last: who finds an index finds what it names.
  const content = [...files, { path: "index.json", data: printLibraryIndex(indexOf(library)) }];
  const wheel = args.wheel ? wheelOf(library, content, plan.value.version) : undefined;
  const written = writeFiles(
    session.context.cwd,
    [...(wheel === undefined ? [] : [wheel]), ...launchers, ...content].map(({ path, data }) => ({
      path: join(folder, path),
      data,
    })),
  );
  if (!written.ok) return session.fail(written.error);
  show(
    session,
    folder,
    built.value,
    launchers.map(({ path }) => join(folder, path)),
    wheel,
  );
  return exitCodes.ok;
}
