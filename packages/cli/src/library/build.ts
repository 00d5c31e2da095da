/** Compiles the kernels of a library and makes its files. */
import {
  addsToD,
  type Certificate,
  type Checked,
  callerTensors,
  type Diagnostic,
  err,
  expertRowsOf,
  isScaled,
  type Manifest,
  ok,
  type Problem,
  quantizeOf,
  readManifest,
  scaleExtents,
} from "@tilewright/core";
import type { Artifact } from "@tilewright/ir";
import { codes, problemWith } from "../codes.ts";
import { type EmitFormat, entryOf, filesOf } from "../compile/artefacts.ts";
import { compileRequest } from "../compile/source.ts";
import { compilerOf } from "../compiler.ts";
import type { Context } from "../context.ts";
import type { OutputFile } from "../files/atomic.ts";
import { sha256 } from "../files/hash.ts";
import { formatDuration } from "../output/format.ts";
import { choiceData } from "../tuned/choice.ts";
import { withOneOrder } from "./invariance.ts";
import {
  deviceOf,
  dispatchOrder,
  type Library,
  type LibraryArtefact,
  type LibraryOperation,
  sizesText,
} from "./model.ts";
import type { KernelRequest, LibraryPlan } from "./request.ts";
import { withoutWheel } from "./wheel.ts";

/** Folder of images and manifests in a library. */
const KERNELS = "kernels";

/** Hexadecimal digits of its id that tell an artefact's files from others with the same entry. */
const ID_DIGITS = 8;

interface Compiled {
  readonly request: KernelRequest;
  readonly artifact: Artifact;
}

export interface BuiltLibrary {
  readonly library: Library;
  /** Images and manifests; paths relative to the library's folder. */
  readonly files: readonly OutputFile[];
}

export interface BuildOptions {
  readonly formats: readonly EmitFormat[];
  /** Architectures that cubins are made for; each artefact's own if there are none. */
  readonly cubins: readonly string[];
  /** All kernels of an operation add the products of a row in one order. */
  readonly batchInvariant: boolean;
  /** A wheel is made of it, too. */
  readonly wheel: boolean;
  /** Told of each kernel. */
  readonly made?: (artifact: Artifact) => void;
  /** What makes the certificate of a kernel; null for none. */
  readonly certify: ((request: KernelRequest, artifact: Artifact) => Promise<Checked<Certificate>>) | null;
}

/** Whether a quantised D, and its scales, have elements one behind the other, as launchers check them. */
function storesPacked(problem: Problem): boolean {
  const { m, n, d, batch } = problem;
  const found = quantizeOf(problem);
  if (found === null) return true;
  const { operand, group } = found.step;
  const [rows, columns] = scaleExtents({ m, n }, group, operand.dtype === "u8" ? "u8" : "f32");
  const scales = operand.ld === (operand.layout === "row" ? columns : rows);
  // Columns of scales are as far apart as the capacity says, whatever rows a launch has.
  const experts = batch.kind === "grouped" && operand.layout === "row";
  return scales && (batch.kind === "none" || experts) && (d.ld === n || !isScaled(d.dtype));
}

/** What a library lacks for a grouped operation, and what would work; null where it lacks nothing. */
function withoutGroups(
  { problem }: KernelRequest,
  { wheel, certify, batchInvariant }: BuildOptions,
): readonly [what: string, hint: string] | null {
  if (problem.batch.kind !== "grouped") return null;
  if (expertRowsOf(problem) === null)
    return [
      "launchers have no place for a table of groups",
      "compile it by itself: its manifest has the table's rows",
    ];
  if (wheel)
    return ["wheels have no place for the int32 of experts", "leave the wheel out: launchers take them"];
  if (certify !== null)
    return ["a certificate is of one product", "leave certificates out: run checks experts"];
  return batchInvariant && addsToD(problem)
    ? ["adds rows in the order in which they come", "scatter instead of scatterAdd"]
    : null;
}

/** Compile everything. Errors: those of all kernels, each with the place that asks for it; then those of ptxas. */
export async function buildLibrary(
  context: Context,
  plan: LibraryPlan,
  options: BuildOptions,
): Promise<Checked<BuiltLibrary>> {
  const found: Diagnostic[] = [];
  const began = context.now();
  const kernels = options.batchInvariant ? withOneOrder(compilerOf(context), plan.kernels) : ok(plan.kernels);
  if (!kernels.ok) return kernels;
  const compiled = kernels.value.flatMap((request, i): Compiled[] => {
    tell(context, i, plan.kernels.length, began);
    const { target } = request;
    const { a, blockScales, weights } = request.problem;
    const quantizes =
      quantizeOf(request.problem) !== null && (options.wheel || !storesPacked(request.problem));
    const apart = request.problem.batch.kind === "strided";
    const packed = weights !== undefined && (options.wheel || apart);
    if (isScaled(a.dtype) || blockScales !== undefined || packed || quantizes) {
      const what = packed
        ? `weights${apart ? " of a batch" : ""}`
        : blockScales === undefined
          ? a.dtype
          : `${a.dtype} with factors`;
      const does = quantizes ? "quantises D" : `multiplies ${what}`;
      const message = `${request.operation} ${does}, and ${options.wheel ? "wheels" : "launchers"} have no place for its scale factors`;
      const hint = "compile it by itself: its manifest says what to launch";
      found.push(problemWith(codes.libraryFactors, request.at, message, { hint }));
      return [];
    }
    if (
      request.problem.batch.kind === "strided" &&
      request.problem.batch.axes !== undefined &&
      request.program === undefined
    ) {
      const message = `${request.operation} has a batch over axes, and launchers know batches in a row`;
      const hint = "compile it by itself: its manifest says what to launch";
      found.push(problemWith(codes.libraryGroups, request.at, message, { hint }));
      return [];
    }
    const groups = withoutGroups(request, options);
    if (groups !== null) {
      const message = `${request.operation} is grouped, and ${groups[0]}`;
      found.push(problemWith(codes.libraryGroups, request.at, message, { hint: groups[1] }));
      return [];
    }
    const attends = options.wheel ? request.program?.attention : undefined;
    const absent = attends === undefined ? [] : withoutWheel(attends);
    if (absent.length > 0) {
      const message = `${request.operation} has ${absent.join(" and ")}, and wheels have no place for them`;
      const hint = "leave --wheel out: the launchers of C, C++, Rust, Python and JavaScript have them";
      found.push(problemWith(codes.conflict, request.at, message, { hint }));
      return [];
    }
    const made = compileRequest(compilerOf(context), { ...request, targets: [target] })[0];
    if (made?.ok === true) {
      options.made?.(made.value);
      return [{ request, artifact: made.value }];
    }
    for (const one of made?.error ?? [])
      found.push({ ...one, message: `${request.at} on ${target.arch}: ${one.message}` });
    return [];
  });
  found.push(...unreachable(compiled));
  if (found.length > 0) return err(found);

  const files: OutputFile[] = [];
  const artefacts: LibraryArtefact[] = [];
  for (const { request, artifact } of compiled) {
    const certificate = options.certify === null ? ok(undefined) : await options.certify(request, artifact);
    if (!certificate.ok) {
      found.push(...certificate.error);
      continue;
    }
    const made = await writeArtefact(context, { request, artifact }, options, certificate.value);
    if (!made.ok) {
      found.push(...made.error);
      continue;
    }
    files.push(...made.value.files);
    artefacts.push(made.value.artefact);
  }
  if (found.length > 0) return err(found);
  return ok({
    files,
    library: { name: plan.name, artefacts, operations: operationsOf(compiled, artefacts) },
  });
}

/** How far the compiling is, ten times in all or every ten kernels. */
function tell(context: Context, done: number, all: number, began: number): void {
  if (done === 0 || done % Math.min(10, Math.ceil(all / 10)) !== 0) return;
  const left = ((context.now() - began) / 1000 / done) * (all - done);
  context.progressAt?.(`${done} of ${all}, about ${formatDuration(left)} left`);
}

/** What decides whether an artefact is taken: two that agree in it would hide one another. */
const reachOf = ({ request, artifact }: Compiled): string =>
  JSON.stringify([
    ...[request.operation, request.target.arch],
    artifact.manifest.tensors ?? artifact.manifest.constraints,
  ]);

/** Kernels that another one of the same operation hides. */
function unreachable(compiled: readonly Compiled[]): readonly Diagnostic[] {
  const first = new Map<string, Compiled>();
  return compiled.flatMap((each): Diagnostic[] => {
    const { artifact } = each;
    const reach = reachOf(each);
    const other = first.get(reach);
    if (other === undefined) {
      first.set(reach, each);
      return [];
    }
    const { request } = each;
    const message = `${request.operation} has two kernels for ${sizesText(artifact.manifest)} on ${request.target.arch}; the first is asked for at ${other.request.at}`;
    return [
      problemWith(codes.libraryTwice, request.at, message, {
        hint: "leave one out: it would never be launched",
      }),
    ];
  });
}

async function writeArtefact(
  context: Context,
  { request, artifact }: Compiled,
  { formats, cubins }: BuildOptions,
  certificate: Certificate | undefined,
) {
  const id = artifact.manifest.id.slice("sha256:".length).slice(0, ID_DIGITS);
  const stem = `${entryOf(artifact)}.${artifact.target.arch}.${id}`;
  const made = await filesOf(context, artifact, [...new Set([...formats, "manifest" as const])], {
    stem,
    cubins,
    certificate,
    attention: request.program?.attention,
    bare: true,
  });
  if (!made.ok) return made;
  const written = made.value.find(({ format }) => format === "manifest");
  const path = `${KERNELS}/${written?.name ?? ""}`;
  const text = String(written?.data);
  return ok({
    files: made.value.map(({ name, data }): OutputFile => ({ path: `${KERNELS}/${name}`, data })),
    artefact: {
      manifest: manifestOf(text),
      choice: choiceData(artifact),
      path,
      sha256: sha256(text),
      device: deviceOf(artifact.target),
    },
  });
}

/** The manifest as it was written: its images are those that were made. */
function manifestOf(text: string): Manifest {
  const read = readManifest(JSON.parse(text));
  if (!read.ok) throw new TypeError("a manifest that was just printed does not read back");
  return read.value;
}

function operationsOf(
  compiled: readonly Compiled[],
  artefacts: readonly LibraryArtefact[],
): readonly LibraryOperation[] {
  const numbers = new Map<string, number[]>();
  compiled.forEach(({ request }, i) => {
    const list = numbers.get(request.operation) ?? [];
    list.push(i);
    numbers.set(request.operation, list);
  });
  return [...numbers].flatMap(([name, list]): LibraryOperation[] => {
    const request = compiled[list[0] ?? 0]?.request;
    if (request === undefined) return [];
    const { problem } = request;
    const tensors = artefacts[list[0] ?? 0]?.manifest.tensors;
    const attends = tensors === undefined ? {} : { tensors: callerTensors(tensors) };
    return [{ name, problem, ...attends, dispatch: dispatchOrder(artefacts, list) }];
  });
}
