/** From flags and a request file to a problem, targets, and what the user wants of the compiler. */
import {
  type Checked,
  type Diagnostic,
  diagnosticsOfIssues,
  err,
  findGpu,
  findTarget,
  given,
  ok,
  type Problem,
  parseBlockScales,
  parseSymbolic,
  readProblemRequest,
  requestSchema,
  type Target,
  type Tuned,
} from "@tilewright/core";
import type { Attention, Machine } from "@tilewright/ir";
import type { z } from "zod";
import { codes, failWith, problemWith } from "../codes.ts";
import type { Context } from "../context.ts";
import { readJsonFile } from "../files/json.ts";
import { openStore } from "../tuned/files.ts";
import { userMachine } from "../tuned/gpus.ts";
import {
  type AttentionProgram,
  attentionFields,
  attentionFlags,
  attentionOf,
  misplaced,
} from "./attention.ts";
import { type compileFlags, notOfAttention, type problemFlags } from "./flags.ts";

export type ProblemArgs = Partial<z.output<z.ZodObject<typeof problemFlags>>>;
/** `--gpu` of commands that rank for one, by its name or by the index of a device. */
interface GpuArgs {
  readonly gpu?: string | number | undefined;
}
export type CompileArgs = z.output<z.ZodObject<typeof compileFlags>>;

/** A request file without what flags may supply instead; the problem has checks of its own. */
const wishesSchema = requestSchema.omit({ problem: true }).partial();
type FileWishes = z.output<typeof wishesSchema>;

interface Wishes {
  readonly targets: readonly Target[];
  readonly backend: string | null;
  /** The user's schedule, as text or by field; null leaves the choice to the backend. */
  readonly schedule: NonNullable<FileWishes["schedule"]> | null;
  /** The same bits in every run. */
  readonly deterministic: boolean;
  /** The GPU that schedules are ranked for; without it the compiler's usual one. */
  readonly machine?: Machine | undefined;
  /** The user's schedule store. */
  readonly store: readonly Tuned[];
}

/** Attention as it is compiled. */
export interface ProgramRequest {
  readonly text: string;
  readonly product: Problem;
  readonly attention: Attention;
}

export interface Request extends Wishes {
  /** What a launch takes. */
  readonly problem: Problem;
  /** The program over named axes that is compiled, and the product whose schedules it takes; absent: the problem itself is compiled. */
  readonly program?: ProgramRequest;
}

/** What is known of a problem before its flags are read: shapes and dtypes of input files. */
export type Known = Readonly<Record<string, unknown>>;

type JsonObject = Readonly<Record<string, unknown>>;
const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const asObject = (value: unknown): JsonObject => (isObject(value) ? value : {});

/** Merge two requests, operands field by field; `over` wins. */
function merge(under: JsonObject, over: JsonObject): JsonObject {
  const merged: Record<string, unknown> = { ...under, ...given(over) };
  for (const name of ["a", "b", "c", "d"]) {
    const both = { ...asObject(under[name]), ...given(asObject(over[name])) };
    if (Object.keys(both).length > 0) merged[name] = both;
    else delete merged[name];
  }
  return merged;
}

/** Weights in few bits; a group, or zero points, say that there are some. */
function weightsOfFlags({ weights, group, zeros }: ProblemArgs): JsonObject | undefined {
  if (weights === undefined && group === undefined && !zeros) return undefined;
  return given({ dtype: weights, group, zeros: zeros ? true : undefined });
}

/** What the flags say, in the words of a request */
function requestOfFlags(args: ProblemArgs): JsonObject {
  return {
    op: args.op,
    act: args.act,
    gated: args.gated,
    m: args.m,
    n: args.n,
    k: args.k,
    dtype: args.dtype,
    acc: args.accDtype,
    precision: args.precision,
    blockScales: args.blockScales === undefined ? undefined : parseBlockScales(args.blockScales),
    weights: weightsOfFlags(args),
    alpha: args.alpha,
    beta: args.beta,
    epilogue: args.epilogue,
    experts: args.experts,
    expertRows: args.expertRows,
    expertAxis: args.expertAxis,
    gather: args.gather,
    scatter: args.scatter,
    scatterAdd: args.scatterAdd,
    symbolic: args.symbolic === undefined ? undefined : parseSymbolic(args.symbolic),
    batch: args.batch === undefined ? undefined : { kind: "strided", count: args.batch },
    a: { layout: args.aLayout, ld: args.lda },
    b: { layout: args.bLayout, ld: args.ldb, dtype: args.bDtype },
    c: { layout: args.cLayout, ld: args.ldc },
    d: { layout: args.dLayout, ld: args.ldd, dtype: args.dDtype },
  };
}

const sizeFlags = { m: "rows of A and D", n: "columns of B and D", k: "columns of A, rows of B" } as const;

/** A size that nobody gave: a complaint that names its flag, and 1 in its place so that the rest is checked too. */
function fillSizes(request: JsonObject, found: Diagnostic[]): JsonObject {
  const filled: Record<string, unknown> = { ...request };
  for (const [name, meaning] of Object.entries(sizeFlags)) {
    if (filled[name] !== undefined) continue;
    found.push(problemWith(codes.missing, `-${name}`, `-${name} is needed: ${meaning}`));
    filled[name] = 1;
  }
  return filled;
}

/** Split a request file into the problem and the rest. */
function readRequest(
  context: Context,
  path: string | undefined,
): Checked<{ readonly problem: JsonObject; readonly wishes: FileWishes }> {
  if (path === undefined) return ok({ problem: {}, wishes: {} });
  const file = readJsonFile(context, path);
  if (!file.ok) return file;
  const { value, locate } = file.value;
  const { problem, ...rest } = asObject(value);
  if (problem === undefined && Object.keys(sizeFlags).some((name) => name in rest))
    return failWith(codes.badJson, path, "the problem's fields stand beside those of the request", {
      hint: 'put them under "problem": {"problem": {"m": …}, "arch": …}; tilewright schema request',
    });
  const stated = isObject(value) ? rest : value;
  const wishes = wishesSchema.safeParse(stated);
  const keys = () => Object.keys(requestSchema.shape);
  if (!wishes.success)
    return err(locate(diagnosticsOfIssues(wishes.error.issues, stated, codes.badJson.code, path, keys)));
  if (problem !== undefined && !isObject(problem))
    return failWith(codes.badJson, path, "problem is not an object", { hint: "tilewright schema request" });
  return ok({ problem: asObject(problem), wishes: wishes.data });
}

/**
 * Build the request of a command. `known` is what input files say; a request file and then flags override it. `fallbackArch` chooses
 * where neither names an architecture. All errors at once.
 */
export function buildRequest(
  context: Context,
  args: ProblemArgs & CompileArgs & GpuArgs,
  known: Known = {},
  fallbackArch?: (problem: Problem) => string | null,
): Checked<Request> {
  const found: Diagnostic[] = [];
  const file = readRequest(context, args.request);
  if (!file.ok) return file;
  const { problem: stated } = file.value;
  const attends = (args.op ?? stated.op) === "attention";
  found.push(
    ...(attends
      ? misplaced(args, notOfAttention, "attention has Q, K, V and O: leave it out")
      : misplaced(args, Object.keys(attentionFlags), "add --op attention, or leave it out")),
  );
  const attention = attends
    ? attentionOf({
        ...stated,
        ...given({ ...attentionFields(args), op: "attention", dtype: args.dtype, batch: args.batch }),
        ...(args.dDtype === undefined ? {} : { d: { dtype: args.dDtype } }),
      })
    : null;
  const merged = merge(merge(known, stated), requestOfFlags(args));
  const problem =
    attention === null
      ? readProblemRequest(fillSizes(merged, found))
      : attention.ok
        ? ok(attention.value.launched)
        : attention;
  if (!problem.ok) found.push(...problem.error);
  const named = args.arch ?? (file.value.wishes.arch === undefined ? [] : [file.value.wishes.arch]);
  // A problem that is none has no usual architecture; that is no complaint of its own.
  if (named.length === 0 && fallbackArch !== undefined && !problem.ok) return err(found);
  const usual = problem.ok
    ? fallbackArch?.(attention?.ok ? attention.value.product : problem.value)
    : undefined;
  const targets = findTargets(named.length === 0 && typeof usual === "string" ? [usual] : named);
  if (!targets.ok) found.push(...targets.error);
  const gpu = typeof args.gpu === "string" ? findGpu(args.gpu) : null;
  const store = openStore(context, args.tuned);
  if (!store.ok) found.push(...store.error);
  if (gpu?.ok === false) found.push(...gpu.error);
  const machine = gpu?.ok ? userMachine(context, gpu.value, args.tuned) : null;
  if (machine?.ok === false) found.push(...machine.error);
  if (found.length > 0 || !problem.ok || !targets.ok || !store.ok) return err(found);
  return ok({
    problem: problem.value,
    ...(attention?.ok ? { program: programOf(attention.value) } : {}),
    targets: targets.value,
    backend: args.backend ?? file.value.wishes.backend ?? null,
    schedule: args.schedule ?? file.value.wishes.schedule ?? null,
    deterministic: args.deterministic || (file.value.wishes.deterministic ?? false),
    ...(machine?.ok ? { machine: machine.value.machine } : {}),
    store: store.value,
  });
}

export const programOf = ({ attention, program, product }: AttentionProgram): ProgramRequest => ({
  ...{ text: program, product, attention },
});

/** Stands in for a size that did not parse: most grains divide it. */
const FITTING_SIZE = 1024;

/**
 * What is wrong with a problem beside flags that did not parse, by those that did. `complete`: flags alone say the sizes, so that a missing one is wrong, too;
 * `arch`: and the architecture.
 */
export function furtherFaults(
  context: Context,
  args: ProblemArgs & Partial<CompileArgs>,
  failed: ReadonlySet<string>,
  { complete = false, arch = false }: { readonly complete?: boolean; readonly arch?: boolean } = {},
): readonly Diagnostic[] {
  // Standard input can be read once; of another operation other flags are wrong.
  if (args.request === "-" || ["op", "request"].some((name) => failed.has(name))) return [];
  const sizes = Object.keys(sizeFlags).filter((name) => failed.has(name));
  // Leading dimensions are measured by sizes.
  const unmeasured =
    sizes.length > 0 ? { lda: undefined, ldb: undefined, ldc: undefined, ldd: undefined } : {};
  const filled = Object.fromEntries(sizes.map((name) => [name, FITTING_SIZE]));
  const made = buildRequest(context, { deterministic: false, ...args, ...unmeasured, ...filled });
  const needed = (at: string): boolean => (at === "--arch" ? arch && !failed.has("arch") : complete);
  return made.ok ? [] : made.error.filter(({ code, at }) => code !== codes.missing.code || needed(at));
}

/** The same where a product is needed: steps of a ladder, and groups, are of its operands. */
export function buildProductRequest(...args: Parameters<typeof buildRequest>): Checked<Request> {
  const request = buildRequest(...args);
  if (!request.ok || request.value.program === undefined) return request;
  return failWith(codes.conflict, "--op", "only --op gemm and ffn are served here, a program is not", {
    hint: "tilewright run --op attention …",
  });
}

function findTargets(archs: readonly string[]): Checked<readonly Target[]> {
  if (archs.length === 0)
    return failWith(codes.missing, "--arch", "--arch is needed: the architecture to compile for", {
      hint: "e.g. --arch sm_70; tilewright targets lists them",
    });
  const found = archs.map(findTarget);
  const errors = found.flatMap((target) => (target.ok ? [] : target.error));
  return errors.length > 0 ? err(errors) : ok(found.flatMap((target) => (target.ok ? [target.value] : [])));
}
