/** From flags and matrices of files to a kernel that they can run. */
import { type Checked, type Diagnostic, type DType, err, ok, type Problem } from "@tilewright/core";
import { type Artifact, type Compiler, eachStmt, isElementStmt, printAttention } from "@tilewright/ir";
import { codes, failWith, problemWith } from "../codes.ts";
import { compileFrom, compileRequest, misplacedUnproven } from "../compile/source.ts";
import { compilerOf } from "../compiler.ts";
import type { Session } from "../kit/command.ts";
import { buildRequest, type Request } from "../request/request.ts";
import { usualArch } from "../request/usual.ts";
import { tellChoice } from "../tuned/choice.ts";
import { checkFactors, type FactorFiles, loadFactors } from "./factors.ts";
import { checkMatrices, commonDType, fitsF32, knownFrom, loadMatrices, type Matrices } from "./files.ts";
import type { RunArgs } from "./flags.ts";
import { launchedAt, problemOfLaunch } from "./sizes.ts";

/** Whether some backend serves the problem on all targets asked for. */
const served = (compiler: Compiler, { problem, program, targets }: Request): boolean =>
  targets.every((target) =>
    compiler.verdicts(program?.product ?? problem, target).some(({ verdict }) => verdict.ok),
  );

/**
 * The request, with sizes, layouts and dtype from the files. Files in a type that no backend multiplies are widened to f32, if that
 * loses nothing and the user named no dtype.
 */
function requestWithFiles(session: Session, args: RunArgs, files: Matrices): Checked<Request> {
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

/** A kernel to run, and what files hold of its operands. */
export interface Prepared {
  readonly artifact: Artifact;
  /** What is computed, where it is attention. */
  readonly attention?: string;
  readonly files: Matrices;
  readonly factors: FactorFiles;
}

/** What stands against running a problem with these files. */
export function objections(
  problem: Problem,
  { files, factors }: Omit<Prepared, "artifact" | "attention">,
  args: RunArgs,
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
  args: RunArgs,
  path: string,
  given: Omit<Prepared, "artifact" | "attention">,
): Checked<Prepared> {
  const made = compileFrom(session.context, path, args);
  if (!made.ok) return made;
  const compiled = launchedAt(made.value, args.sizes);
  if (!compiled.ok) return compiled;
  const { problem } = compiled.value;
  const shapes = knownFrom(given.files, problem, "program");
  const { source, program } = made.value;
  if (args.check && source === undefined && eachStmt(program.body).some(isElementStmt))
    return failWith(
      codes.notRunnable,
      "--from",
      "a text of a later stage has no reference for what it maps and reduces",
      {
        hint: "add --no-check, or run the text over axes that it came from",
      },
    );
  const found = [...(shapes.ok ? [] : shapes.error), ...objections(problem, given, args)];
  return found.length > 0 ? err(found) : ok({ artifact: compiled.value, ...given });
}

/** Compile what flags, files and texts describe. Errors: all that stands against running it. */
export function prepare(session: Session, args: RunArgs): Checked<Prepared> {
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
  if (!launched.ok) return launched;
  const { program } = request.value;
  const attention = program === undefined ? {} : { attention: printAttention(program.attention) };
  return ok({ artifact: launched.value, ...attention, ...given });
}
