/** The ladder of a program over axes: the schedule that the compiler takes, from its plain form on. */
import { type Checked, type Diagnostic, ok, type Schedule } from "@tilewright/core";
import {
  type Artifact,
  type Backend,
  type CompileInput,
  type Compiler,
  type Ladder,
  type LadderStep,
  ladderSchedules,
  ladderTo,
  parseSchedule,
  printSchedule,
} from "@tilewright/ir";

/** A step, compiled; or why its schedule is not legal for this problem on this target. */
export type PlannedStep = LadderStep & {
  /** Canonical text. */
  readonly schedule: string;
} & (
    | { readonly artifact: Artifact; readonly refused: null }
    | { readonly artifact: null; readonly refused: readonly Diagnostic[] }
  );

/** What it is called, whatever its steps are. */
export const attentionLadder: Pick<Ladder, "name" | "summary"> = {
  name: "attention",
  summary: "the fields of the schedule that can be off, switched on one after the other",
};

interface ProgramLadder {
  readonly backend: Backend;
  readonly ladder: Ladder;
  readonly steps: readonly PlannedStep[];
}

/** `input`: the program's text and its target, and of which backend and machine the schedule is. Errors: it has no kernel. */
export function programLadder(
  compiler: Compiler,
  {
    backend: wanted,
    ...input
  }: Pick<CompileInput, "target" | "backend" | "machine"> & { readonly from: string },
): Checked<ProgramLadder> {
  const compile = (id: string | undefined, schedule?: Schedule) =>
    compiler.compile({
      ...input,
      ...(id === undefined ? {} : { backend: id }),
      ...(schedule === undefined ? {} : { schedule }),
    });
  const best = compile(wanted);
  if (!best.ok) return best;
  const backend = compiler.backends.find(({ id }) => id === best.value.backend);
  const text = best.value.schedule;
  const schedule = backend === undefined || text === null ? null : parseSchedule(backend.schedule, text);
  if (backend === undefined || schedule?.ok !== true)
    throw new TypeError("a kernel has a schedule of its backend");
  const made = new Map<string, ReturnType<typeof compile>>([
    [printSchedule(backend.schedule, schedule.value), best],
  ]);
  const madeOf = (each: Schedule) => {
    const key = printSchedule(backend.schedule, each);
    const known = made.get(key) ?? compile(backend.id, each);
    made.set(key, known);
    return known;
  };
  const { m, n, k } = best.value.problem;
  const sizes = [m, n, k] as const;
  const ladder: Ladder = {
    ...attentionLadder,
    request: {},
    sizes: { gpu: sizes, emulator: sizes },
    steps: ladderTo(backend.schedule, schedule.value, (each) => madeOf(each).ok),
  };
  const schedules = ladderSchedules(backend.schedule, ladder);
  if (!schedules.ok) return schedules;
  const steps = ladder.steps.map((step, i): PlannedStep => {
    const each = schedules.value[i] ?? {};
    const common = { ...step, schedule: printSchedule(backend.schedule, each) };
    const kernel = madeOf(each);
    return kernel.ok
      ? { ...common, artifact: kernel.value, refused: null }
      : { ...common, artifact: null, refused: kernel.error };
  });
  // Fields that this program has no use for are no steps.
  const kept = steps.filter(
    ({ artifact }, i) => artifact === null || artifact.ptx !== steps[i - 1]?.artifact?.ptx,
  );
  return ok({ backend, ladder: { ...ladder, steps: kept }, steps: kept });
}
