/** What to compile: a problem from flags for one or more targets, or the edited text of a tile program. */
import { type Checked, type Diagnostic, err, findTarget, findTuned, ok } from "@tilewright/core";
import {
  type Artifact,
  type Compiler,
  isAxisProgram,
  parseProgram,
  requestOfAttention,
  usualMachine,
} from "@tilewright/ir";
import { codes, failWith, problemWith } from "../codes.ts";
import { compilerOf } from "../compiler.ts";
import type { Context } from "../context.ts";
import { readText } from "../files/read.ts";
import { grouped, text, toggle } from "../kit/flags.ts";
import { problemFlags } from "../request/flags.ts";
import { buildRequest, type CompileArgs, type ProblemArgs, type Request } from "../request/request.ts";

export const sourceFlags = grouped("Compilation", {
  from: text(
    "compile this tile program, a text that --ir printed and you edited, instead of a problem",
    "FILE.tile",
  ),
  unproven: toggle("compile --from's program as it is although its protocol or its places are convicted"),
});

export type SourceArgs = ProblemArgs &
  CompileArgs & {
    readonly from?: string | undefined;
    readonly unproven: boolean;
    readonly gpu?: string | undefined;
  };

/** `--unproven` is about a text that was edited. */
export const misplacedUnproven = ({ from, unproven }: SourceArgs): readonly Diagnostic[] =>
  unproven && from === undefined
    ? [
        problemWith(codes.conflict, "--unproven", "there is no edited program that it could be about", {
          hint: "add --from FILE.tile, or leave --unproven out",
        }),
      ]
    : [];

/** Flags that a tile program already answers. */
const answered = [...Object.keys(problemFlags), "arch", "schedule"] as const;

/** Compile the edited text of a tile program; its problem and target are those in the text. */
export function compileFrom(context: Context, path: string, args: SourceArgs): Checked<Artifact> {
  const source = readText(context, path);
  const open = source.ok && isAxisProgram(source.value);
  const given = answered.filter(
    (key) =>
      ![undefined, false].includes(args[key as keyof SourceArgs] as false) && !(open && key === "arch"),
  );
  if (given.some((key) => key !== "arch" || source.ok)) {
    const message = `a tile program states its problem, target and schedule; ${given.join(", ")} would contradict it`;
    return failWith(codes.conflict, "--from", message, { hint: "edit the text, or leave --from out" });
  }
  if (!source.ok) return source;
  const compiled = compileText(compilerOf(context), source.value, args);
  return compiled.ok ? compiled : err(located(compiled.error, path));
}

function compileText(
  compiler: Compiler,
  text: string,
  { backend, deterministic, unproven, arch }: SourceArgs,
): Checked<Artifact> {
  if (isAxisProgram(text)) return compileAxes(compiler, text, { backend, deterministic, arch });
  // The text names its target, which the compiler wants to know first.
  const program = parseProgram(text);
  if (!program.ok) return program;
  const target = findTarget(program.value.arch);
  if (!target.ok) return target;
  return compiler.compile({
    target: target.value,
    from: text,
    deterministic,
    unproven,
    ...(backend === undefined ? {} : { backend }),
  });
}

/** A program over named axes names no target. */
function compileAxes(
  compiler: Compiler,
  text: string,
  { backend, deterministic, arch }: Pick<SourceArgs, "backend" | "deterministic" | "arch">,
): Checked<Artifact> {
  const [name, more] = arch ?? [];
  if (name === undefined || more !== undefined)
    return failWith(codes.missing, "--arch", "a program over axes names no architecture", {
      hint: "add --arch sm_90a, or another; one",
    });
  const target = findTarget(name);
  if (!target.ok) return target;
  return compiler.compile({
    target: target.value,
    from: text,
    deterministic,
    ...(backend === undefined ? {} : { backend }),
  });
}

/** Compile a request for each of its targets, by what its store has measured where it names no schedule. */
export const compileRequest = (
  compiler: Compiler,
  { problem, program, targets, backend, schedule, deterministic, machine, store }: Request,
): readonly Checked<Artifact>[] =>
  targets.map((target) => {
    const base = {
      target,
      deterministic,
      ...(backend === null ? {} : { backend }),
      ...(schedule === null ? {} : { schedule }),
      ...(machine === undefined ? {} : { machine }),
    };
    const gpu = { named: machine?.gpu, usual: usualMachine(target).gpu };
    const asked = program && requestOfAttention(program.attention);
    const tuned = findTuned(store, problem, target.arch, gpu, asked);
    return compiler.compile({
      ...base,
      tuned,
      near: store,
      ...(program === undefined ? { problem } : { from: program.text }),
    });
  });

/** Diagnostics of a text that came from a file say which. */
export const located = (found: readonly Diagnostic[], file: string): readonly Diagnostic[] =>
  found.map((d) =>
    d.location === undefined || d.location.file !== undefined
      ? d
      : { ...d, location: { ...d.location, file } },
  );

/** Everything that the flags ask for: one artefact a target. All errors at once. */
export function compileSource(context: Context, args: SourceArgs): Checked<readonly Artifact[]> {
  if (args.from !== undefined) {
    const compiled = compileFrom(context, args.from, args);
    return compiled.ok ? ok([compiled.value]) : compiled;
  }
  const request = buildRequest(context, args);
  const misplaced = misplacedUnproven(args);
  if (!request.ok || misplaced.length > 0) return err([...misplaced, ...(request.ok ? [] : request.error)]);
  const all = compileRequest(compilerOf(context), request.value);
  const errors = all.flatMap((compiled) => (compiled.ok ? [] : compiled.error));
  return errors.length > 0
    ? err(errors)
    : ok(all.flatMap((compiled) => (compiled.ok ? [compiled.value] : [])));
}
