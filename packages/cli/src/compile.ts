/** Interim: replaced by createCompiler of @tilewright/ir. */
import { createHash } from "node:crypto";
import {
  type Backend,
  type Checked,
  err,
  findTarget,
  type KernelSpec,
  ok,
  type Pass,
  type Problem,
  parseProgram,
  parseSchedule,
  printSchedule,
  runPasses,
  type Stage,
  scheduleFromRecord,
  type Target,
  type TileProgram,
} from "@tilewright/ir";
import { backends } from "./backends.ts";
import { codes, problemWith } from "./codes.ts";
import type { Wishes } from "./request/request.ts";

export interface Step {
  readonly pass: Pass;
  readonly before: TileProgram;
  readonly after: TileProgram;
  readonly changed: boolean;
}
export interface Compiled {
  readonly backend: Backend;
  readonly target: Target;
  readonly problem: Problem;
  readonly schedule: string | null;
  readonly source: TileProgram;
  readonly program: TileProgram;
  readonly steps: readonly Step[];
  readonly ptx: string;
  readonly kernels: readonly KernelSpec[];
  readonly manifestText: string;
}
export const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");

export function pickBackend(problem: Problem, target: Target, name: string | null): Checked<Backend> {
  const errors = [];
  for (const b of backends) {
    if (name !== null && b.id !== name) continue;
    const s = b.supports(target);
    const a = b.accepts(problem, target);
    if (s.ok && a.ok) return ok(b);
    errors.push(...(s.ok ? [] : s.error), ...(a.ok ? [] : a.error));
  }
  return err(
    errors.length ? errors : [problemWith(codes.noBackend, "backend", `there is no backend '${name}'`)],
  );
}
export function compileProblem(
  problem: Problem,
  target: Target,
  wishes: Pick<Wishes, "backend" | "schedule">,
): Checked<Compiled> {
  const b = pickBackend(problem, target, wishes.backend);
  if (!b.ok) return b;
  const backend = b.value;
  const parsed =
    wishes.schedule === null
      ? null
      : typeof wishes.schedule === "string"
        ? parseSchedule(backend.schedule, wishes.schedule)
        : scheduleFromRecord(backend.schedule, wishes.schedule);
  if (parsed && !parsed.ok) return parsed;
  const [best] = backend.schedules(problem, target);
  const schedule = parsed?.value ?? best;
  if (!schedule) throw new Error("none");
  const bad = backend.check(problem, schedule, target);
  if (bad.length) return err(bad);
  return finish(
    backend.tile(problem, schedule, target),
    target,
    backend,
    printSchedule(backend.schedule, schedule),
  );
}
function finish(
  source: TileProgram,
  target: Target,
  backend: Backend,
  schedule: string | null,
): Checked<Compiled> {
  const steps: Step[] = [];
  const bound = runPasses(source, target, backend.passes, {
    after: (pass, before, after, changed) => steps.push({ pass, before, after, changed }),
  });
  if (!bound.ok) return bound;
  const low = backend.lower(bound.value, target);
  if (!low.ok) return low;
  return ok({
    backend,
    target,
    problem: source.problem,
    schedule,
    source,
    program: bound.value,
    steps,
    ptx: low.value.ptx,
    kernels: [low.value.kernel],
    manifestText: "{}",
  });
}
export function compileText(text: string, name: string | null): Checked<Compiled> {
  const p = parseProgram(text);
  if (!p.ok) return p;
  const t = findTarget(p.value.arch);
  if (!t.ok) return t;
  const b = pickBackend(p.value.problem, t.value, name);
  return b.ok ? finish(p.value, t.value, b.value, null) : b;
}
export function programAt(c: Compiled, stage: Stage): TileProgram | null {
  if (c.source.stage === stage && c.steps.every((s) => s.before.stage !== stage)) return c.source;
  const last = c.steps.findLast((s) => s.after.stage === stage);
  return last?.after ?? (c.source.stage === stage ? c.source : null);
}
