/** From a library file (or the problem of the flags) to the kernels that the library shall hold. */
import {
  type Checked,
  type Diagnostic,
  diagnosticsOfIssues,
  err,
  findTarget,
  type LibraryOperationRequest,
  type LibraryRequest,
  librarySchema,
  ok,
  type Problem,
  readProblemRequest,
  type Target,
  type Tuned,
} from "@tilewright/core";
import type { Machine } from "@tilewright/ir";
import { codes, failWith, problemWith } from "../codes.ts";
import type { Context } from "../context.ts";
import { readJsonFile } from "../files/json.ts";
import { formatDuration } from "../output/format.ts";
import { attentionOf } from "../request/attention.ts";
import { type ProgramRequest, programOf } from "../request/request.ts";
import { gradientProblems } from "./gradients.ts";

/** How a kernel is chosen. */
interface Choice {
  readonly backend: string | null;
  readonly schedule: string | null;
  readonly deterministic: boolean;
  /** The GPU to choose for, and the user's schedule store. */
  readonly machine?: Machine | undefined;
  readonly store: readonly Tuned[];
}

/** One kernel to compile. */
export interface KernelRequest extends Choice {
  readonly operation: string;
  /** Where the file asks for it, for messages. */
  readonly at: string;
  /** What a launch takes. */
  readonly problem: Problem;
  /** Attention; absent: the problem itself is compiled. */
  readonly program?: ProgramRequest;
  readonly target: Target;
}

/** Of a wheel whose library names none. */
export const firstVersion = "0.1.0";

export interface LibraryPlan {
  readonly name: string;
  /** Of the wheel. */
  readonly version: string;
  readonly kernels: readonly KernelRequest[];
}

/** What the flags say for all operations; it wins over the file. */
export interface LibraryWishes extends Choice {
  /** Most kernels that are made. */
  readonly most: number;
  readonly archs: readonly string[] | null;
}

interface Sizes {
  /** By name; what the entry leaves out is missing. */
  readonly dims: Readonly<Record<string, unknown>>;
  readonly symbolic?: unknown;
  readonly schedule?: string | undefined;
}

/** Sizes that entries have: of products, and of attention. */
const productSizes = ["m", "n", "k"] as const;
const attentionSizes = ["queries", "keys", "batch"] as const;
const sizeNames = [...productSizes, ...attentionSizes] as const;

const isAttention = ({ problem }: LibraryOperationRequest): boolean => problem.op === "attention";

const many = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [value]);

/** Every combination of the lists of one entry, with its path. */
function* combinations(
  operation: LibraryOperationRequest,
  at: string,
): Generator<{ readonly sizes: Sizes; readonly at: string }> {
  if (operation.sizes === undefined) {
    yield { sizes: { dims: {} }, at };
    return;
  }
  for (const [i, entry] of operation.sizes.entries()) {
    const { symbolic, schedule } = entry;
    const given = sizeNames.filter((name) => entry[name] !== undefined);
    const all = given.reduce<readonly Readonly<Record<string, unknown>>[]>(
      (found, name) =>
        found.flatMap((dims) => many(entry[name]).map((value) => ({ ...dims, [name]: value }))),
      [{}],
    );
    for (const dims of all) yield { sizes: { dims, symbolic, schedule }, at: `${at}.sizes[${i}]` };
  }
}

/** Kernels that the request asks for, counted without making any of them. */
const countKernels = (request: LibraryRequest, archs: readonly string[] | null): number =>
  request.operations.reduce((sum, operation) => {
    const targets = new Set(archs ?? operation.archs ?? request.archs ?? []).size;
    const sizes = operation.sizes?.reduce(
      (all, entry) => all + sizeNames.reduce((count, name) => count * many(entry[name]).length, 1),
      0,
    );
    // Two gradients of each product.
    return sum + targets * (sizes ?? 1) * (operation.gradients === true ? 3 : 1);
  }, 0);

/** Kernels compiled in a second, at least: for the estimate of a refusal. */
const KERNELS_PER_SECOND = 10;

/** A repetition is named once, however often it repeats. */
function repeated(names: readonly string[]): readonly string[] {
  return [...new Set(names.filter((name, i) => names.indexOf(name) !== i))];
}

/** Read a library file. Errors: JSON and schema, all at once. */
export function readLibraryRequest(context: Context, path: string): Checked<LibraryRequest> {
  const file = readJsonFile(context, path);
  if (!file.ok) return file;
  const parsed = librarySchema.safeParse(file.value.value);
  if (parsed.success) return ok(parsed.data);
  const found = diagnosticsOfIssues(parsed.error.issues, file.value.value, codes.badJson.code, path);
  return err(file.value.locate(found));
}

/** Every kernel that the request asks for. Errors, all at once: too many of them, problems, architectures, names given twice, missing architectures. */
export function planLibrary(request: LibraryRequest, wishes: LibraryWishes): Checked<LibraryPlan> {
  const asked = countKernels(request, wishes.archs);
  if (asked > wishes.most)
    return failWith(
      codes.libraryTooLarge,
      "operations",
      `the file asks for ${asked} kernels; at most ${wishes.most} are made`,
      {
        hint: `--most-kernels ${asked} makes them, in ${formatDuration(asked / KERNELS_PER_SECOND)} or less; one kernel with "symbolic" sizes serves many`,
      },
    );
  const found: Diagnostic[] = [];
  for (const name of repeated(request.operations.map((operation) => operation.name)))
    found.push(
      problemWith(codes.libraryTwice, "operations", `there are two operations '${name}'`, {
        hint: "give one another name; several sizes of one operation go into its sizes",
      }),
    );
  const kernels = request.operations.flatMap((operation, i) => {
    const at = `operations[${i}]`;
    const targets = targetsOf(wishes.archs ?? operation.archs ?? request.archs ?? [], at, found);
    return [...combinations(operation, at)].flatMap(({ sizes, at: place }): KernelRequest[] => {
      const { schedule } = sizes;
      const made = stated(operation, sizes, place);
      if (!made.ok) {
        found.push(...made.error);
        return [];
      }
      const { problem } = made.value;
      const { deterministic, machine, store } = wishes;
      const same = { deterministic, machine, store };
      const own = targets.map((target) => ({
        ...{ operation: operation.name, at: place, ...made.value, target },
        backend: wishes.backend ?? operation.backend ?? null,
        schedule: wishes.schedule ?? schedule ?? operation.schedule ?? null,
        ...same,
      }));
      if (operation.gradients !== true) return own;
      const experts = problem.batch.kind === "grouped";
      if (problem.gated !== undefined || experts || isAttention(operation)) {
        const what = isAttention(operation) ? "attention" : experts ? "of experts" : "a gated product";
        const message = `${operation.name} is ${what}, of which only torch has a gradient`;
        const hint = 'leave "gradients" out, and call with fallback=True where gradients are asked for';
        const fault = problemWith(codes.conflict, `${at}.gradients`, message, { hint });
        if (found.every((one) => one.at !== fault.at)) found.push(fault);
        return own;
      }
      const derived = gradientProblems(problem).flatMap(({ suffix, request: asked }) => {
        const made = readProblemRequest(asked);
        if (!made.ok)
          found.push(...made.error.map((one) => ({ ...one, at: `${place}, ${suffix}: ${one.at}` })));
        return made.ok ? targets.map((target) => ({ suffix, problem: made.value, target })) : [];
      });
      return [
        ...own,
        ...derived.map(({ suffix, problem: asked, target }) => ({
          ...{ operation: `${operation.name}_${suffix}`, at: `${place}, gradients`, problem: asked, target },
          ...{ backend: null, schedule: null, ...same },
        })),
      ];
    });
  });
  const { name, version = firstVersion } = request;
  return found.length > 0 ? err(found) : ok({ name, version, kernels });
}

/** What is compiled for one of the sizes. Its faults say where the file asks for it. */
function stated(
  operation: LibraryOperationRequest,
  sizes: Sizes,
  at: string,
): Checked<Pick<KernelRequest, "problem" | "program">> {
  const placed = <T>(made: Checked<T>): Checked<T> =>
    made.ok ? made : err(made.error.map((one) => ({ ...one, at: `${at}.${one.at}` })));
  const [own, others] = isAttention(operation)
    ? ([attentionSizes, [...productSizes, "symbolic"]] as const)
    : ([productSizes, attentionSizes] as const);
  const given: Readonly<Record<string, unknown>> = { ...sizes.dims, symbolic: sizes.symbolic };
  const foreign = others.filter((name) => given[name] !== undefined);
  if (foreign.length > 0) {
    const message = `${operation.name} has no ${foreign.join(", ")}`;
    return failWith(codes.conflict, at, message, { hint: `its sizes are ${own.join(", ")}` });
  }
  if (operation.problem.op === "attention") {
    const fields = { ...operation.problem, ...sizes.dims };
    // An operator finds heads and queries by their axes; gradients have all rows of a group of heads in one.
    const apart = fields.queries !== 1 && !("backward" in fields);
    const made = attentionOf(apart ? { ...fields, packHeads: "off" } : fields);
    return made.ok ? ok({ problem: made.value.launched, program: programOf(made.value) }) : placed(made);
  }
  const { symbolic = operation.problem.symbolic } = sizes;
  const request: Record<string, unknown> = {
    ...operation.problem,
    ...sizes.dims,
    ...(symbolic === undefined ? {} : { symbolic }),
  };
  const missing = productSizes.filter((name) => request[name] === undefined);
  if (missing.length > 0)
    return failWith(codes.missing, at, `operation ${operation.name} has no ${missing.join(", ")}`, {
      hint: "in problem, or as a list in sizes",
    });
  const problem = placed(readProblemRequest(request));
  return problem.ok ? ok({ problem: problem.value }) : problem;
}

function targetsOf(archs: readonly string[], at: string, found: Diagnostic[]): readonly Target[] {
  if (archs.length === 0)
    found.push(
      problemWith(codes.missing, `${at}.archs`, "no architecture is named", {
        hint: 'in the file, "archs": ["sm_80"], or with --arch',
      }),
    );
  return [...new Set(archs)].flatMap((arch) => {
    const target = findTarget(arch);
    if (target.ok) return [target.value];
    found.push(...target.error.map((one) => ({ ...one, at: `${at}.archs` })));
    return [];
  });
}
