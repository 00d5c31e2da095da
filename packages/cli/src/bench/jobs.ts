/** From flags to what is to be measured: each size with its compiled candidates. */
import {
  type Checked,
  type Diagnostic,
  err,
  expertAxisOf,
  expertRowsOf,
  ok,
  type Problem,
  printProblem,
} from "@tilewright/core";
import type { Artifact } from "@tilewright/ir";
import type { BenchJob, InputKind, Regime } from "@tilewright/runtime";
import { codes, failWith, problemWith } from "../codes.ts";
import { compileRequest } from "../compile/source.ts";
import { compilerOf } from "../compiler.ts";
import type { Context } from "../context.ts";
import { sha256 } from "../files/hash.ts";
import { buildRequest, type CompileArgs, type ProblemArgs, type ProgramRequest } from "../request/request.ts";
import { usualArch } from "../request/usual.ts";
import { sizesOfExperts } from "../run/groups.ts";
import { groupsFault, RUN_GROUPS } from "../run/sizes.ts";
import { openStore } from "../tuned/files.ts";
import { programOfJob } from "./program.ts";
import { readShapes, type Shape, shapeText } from "./shapes.ts";

interface Candidate {
  readonly name: string;
  readonly artifact: Artifact;
}

/** One size, compiled; or why it cannot be. */
export interface Planned {
  readonly shape: Shape;
  readonly problem: Problem;
  /** What is compiled in the place of a product of the problem. */
  readonly program?: ProgramRequest | undefined;
  /** Rows of each expert; null: even, or no experts. */
  readonly rows: readonly number[] | null;
  readonly candidates: readonly Candidate[];
}

export interface PlanArgs extends ProblemArgs, CompileArgs {
  readonly shapes?: string | undefined;
  readonly groups?: readonly string[] | undefined;
  readonly rows?: string | undefined;
}

/** Attention has sizes of its own. */
export const misplacedShapes = ({ op, shapes }: PlanArgs): readonly Diagnostic[] =>
  op !== "attention" || shapes === undefined
    ? []
    : [
        problemWith(codes.conflict, "--shapes", "--shapes does not go with this operation", {
          hint: "attention takes one problem a call: --queries, --keys, --head-dim, --heads",
        }),
      ];

/** The sizes asked for: of `--shapes`, or the one of `-m -n -k`. */
export function shapesOf(context: Context, args: PlanArgs): Checked<readonly Shape[]> {
  if (args.shapes === undefined || args.op === "attention") {
    const { m = 1, n = 1, k = 1 } = args;
    return ok([{ group: "given", m, n, k }]);
  }
  const given = (["m", "n", "k"] as const).filter((name) => args[name] !== undefined);
  if (given.length > 0) {
    const message = `--shapes states the sizes; ${given.map((name) => `-${name}`).join(", ")} would contradict it`;
    return failWith(codes.conflict, "--shapes", message, { hint: "keep one of them" });
  }
  return readShapes(context, args.shapes, args.groups ?? null);
}

/** `a; b` are two schedules. */
const schedulesOf = (text: string | undefined): readonly (string | undefined)[] =>
  text === undefined ? [undefined] : text.split(";").map((one) => one.trim());

/** Every size with its candidates: one for each architecture and schedule. All errors at once. */
export function planJobs(context: Context, args: PlanArgs): Checked<readonly Planned[]> {
  const compiler = compilerOf(context);
  const shapes = shapesOf(context, args);
  if (!shapes.ok) return shapes;
  const found: Diagnostic[] = [...misplacedShapes(args)];
  const seen = new Set<string>();
  const planned: Planned[] = [];
  const { schedule, tuned, ...more } = args;
  // Once, not for each size.
  const store = openStore(context, tuned);
  if (!store.ok) return store;
  const rest = { ...more, tuned: "none" };
  for (const shape of shapes.value) {
    const sized =
      args.shapes === undefined || args.op === "attention"
        ? rest
        : { ...rest, ...{ m: shape.m, n: shape.n, k: shape.k } };
    const request = buildRequest(context, sized, {}, usualArch(compiler));
    if (!request.ok) {
      // One wrong flag is one error, not one for each size.
      found.push(...request.error.filter((one) => !seen.has(`${one.code} ${one.at}`)));
      for (const one of request.error) seen.add(`${one.code} ${one.at}`);
      continue;
    }
    const { targets, problem, program } = request.value;
    const rows = rowsOf(problem, args.rows);
    if (!rows.ok) return rows;
    const candidates: Candidate[] = [];
    for (const target of targets)
      for (const [index, text] of schedulesOf(schedule).entries()) {
        const wanted = { ...request.value, targets: [target], schedule: text ?? null, store: store.value };
        const [compiled] = compileRequest(compiler, wanted);
        if (compiled === undefined) continue;
        if (compiled.ok)
          candidates.push({
            name: nameOf(compiled.value, schedulesOf(schedule).length > 1 ? index : null),
            artifact: compiled.value,
          });
        else
          found.push(
            ...compiled.error.map((one) => ({ ...one, message: `${shapeText(shape)}: ${one.message}` })),
          );
      }
    const { m, n, k } = problem;
    const own = program === undefined ? shape : { ...shape, m, n, k };
    planned.push({ shape: own, problem, program, rows: rows.value, candidates });
  }
  return found.length > 0 ? err(found) : ok(planned);
}

/** Rows of each expert as a text says them; null without one. Errors: groups with a table, rows that cannot be, rows without experts. */
function rowsOf(problem: Problem, text: string | undefined): Checked<readonly number[] | null> {
  if (expertRowsOf(problem) !== null) {
    if (text === undefined) return ok(null);
    const sizes = sizesOfExperts(problem, text, 0);
    return sizes.ok ? ok(sizes.value.map((each) => each[expertAxisOf(problem)])) : sizes;
  }
  const groups = groupsFault(problem, RUN_GROUPS);
  if (groups !== null) return err([groups]);
  return text === undefined
    ? ok(null)
    : failWith(codes.conflict, "--rows", "are those of experts", { hint: "add --experts COUNT" });
}

/** `simt/sm_80`, with a number where several schedules compete. */
const nameOf = ({ backend, target }: Artifact, index: number | null): string =>
  `${backend}/${target.arch}${index === null ? "" : `#${index + 1}`}`;

export interface Wishes {
  readonly regimes: readonly Regime[];
  readonly inputs: InputKind;
  readonly seed: number;
  readonly seconds: number;
  readonly warmup: number;
  readonly algorithms: number | null;
}

export function jobOf(planned: Planned, wishes: Wishes): BenchJob {
  return {
    problem: planned.problem,
    ...(planned.rows === null ? {} : { rows: planned.rows }),
    ...(planned.program === undefined
      ? {}
      : { program: programOfJob(planned.problem, planned.program, wishes) }),
    candidates: planned.candidates.map(({ name, artifact }) => {
      const { request, kernels, workspace, constraints } = artifact.manifest;
      return {
        name,
        artifact: { ptx: artifact.ptx, manifest: { request, kernels, workspace, constraints } },
      };
    }),
    cublas:
      wishes.algorithms === null || planned.program !== undefined ? null : { algorithms: wishes.algorithms },
    regimes: wishes.regimes,
    inputs: wishes.inputs,
    seed: wishes.seed,
    measure: { budgetMs: 1000 * wishes.seconds, warmupMs: 1000 * wishes.warmup },
  };
}

/**
 * What one record measures: the same GPU, kernels and settings, the same key. `peers`: names and paths. A candidate that was left out is
 * not part of its record's key, so that --resume tries it again.
 */
export const keyOf = (
  gpu: string,
  { problem, rows, candidates }: Pick<Planned, "problem" | "rows" | "candidates">,
  regime: Regime,
  { inputs, seed, seconds, warmup, algorithms }: Wishes,
  peers: readonly string[],
): string =>
  sha256(
    JSON.stringify([
      gpu,
      printProblem(problem),
      ...(rows === null ? [] : [rows]),
      candidates.map(({ name, artifact }) => [name, sha256(artifact.ptx)]),
      regime,
      { inputs, seed, seconds, warmup, algorithms },
      peers,
    ]),
  ).slice(0, 16);
