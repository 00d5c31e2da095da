/** The protocol proof: what a bound program with roles asks of barriers, engines and tensor memory, for every number of K chunks. */
import type { Diagnostic, SourceLocation, Target } from "@tilewright/core";
import { freeVars } from "../../expr.ts";
import { atSomeRuns } from "../../runs.ts";
import type { Stmt, TileProgram } from "../../types.ts";
import { products, productsApart } from "../coverage.ts";
import { blockBarriers, mappedTiles } from "../protocol.ts";
import { diagnosticOf, namedIn, placesAt, subjectOf } from "../verifier.ts";
import type { Sequence } from "./effects.ts";
import type { Plan, Step } from "./plan.ts";
import { planOf } from "./planOf.ts";
import { type Finding, proofRules } from "./rules.ts";
import { actorsOf, run } from "./run.ts";
import { orders, representatives, sequences, sequencesOf } from "./sequences.ts";
import { planFindings, programFindings } from "./statics.ts";

/**
 * Every rule that the program breaks, with its first finding; empty when all hold for every number of K chunks from 0 to slots + 2 and, where
 * blocks stay, for sequences of tiles with different numbers; and where loops have bounds that are known only when it runs, for no, one, two, three turns and all. Of programs without roles (`protocolPlan` gives null) only what does not
 * depend on rings is checked: their rings are `ringProtocol`'s. The program must pass `verifyProgram`. `given`: written by hand, and right for its own
 * number of chunks, where that is at most slots + 2 (more of them are tried by all numbers up to that).
 */
export function proveProtocol(
  program: TileProgram,
  target: Target | null = null,
  locations?: ReadonlyMap<object, SourceLocation>,
  given = false,
): readonly Diagnostic[] {
  for (const at of atSomeRuns(program)) {
    const places = at === program ? locations : locations && placesAt(program, at, locations);
    const found = proveAt(at, target, places, given);
    if (found.length > 0) return found;
  }
  return [];
}

/** The same of a program whose bounds have numbers. */
function proveAt(
  program: TileProgram,
  target: Target | null,
  locations: ReadonlyMap<object, SourceLocation> | undefined,
  given: boolean,
): readonly Diagnostic[] {
  const findings = [...programFindings(program, target)].map((finding) => [finding, null] as const);
  const plan = planOf(program);
  const found = firstOfEach([...findings, ...(plan === null ? [] : broken(plan, given))], (at) => {
    const key = typeof at === "string" ? namedIn(program, at) : at;
    return key === null ? undefined : locations?.get(key);
  });
  if (plan === null || found.length > 0 || program.stage !== "machine") return found;
  const subject = subjectOf(program, target);
  const apart = given ? [...productsApart(subject)] : [];
  return [
    ...[...mappedTiles(subject)].map((fault) => diagnosticOf(blockBarriers, fault, subject, locations)),
    ...apart.map((fault) => diagnosticOf(products, fault, subject, locations)),
  ];
}

/** The same for a plan by itself: what a lowering that does these actions would break. */
export const provePlan = (plan: Plan): readonly Diagnostic[] => firstOfEach(broken(plan));

type Found = readonly [Finding, Sequence | null];

function firstOfEach(
  found: Iterable<Found>,
  locate: (at: Stmt | string) => SourceLocation | undefined = () => undefined,
): readonly Diagnostic[] {
  const first = new Map<string, Diagnostic>();
  for (const [{ rule, at, message, hint, stmt }, sequence] of found) {
    const { code, number, name } = proofRules[rule];
    if (first.has(code)) continue;
    const when = sequence === null ? "" : `with ${sequence.join(", ")} K chunks: `;
    const location = locate(stmt ?? at);
    first.set(code, {
      ...(location === undefined ? {} : { location }),
      code,
      kind: "invalid",
      at,
      message: `${when}${message} (rule ${number}, ${name})`,
      hint,
    });
  }
  return [...first.values()];
}

/** What breaks in a plan: whatever runs, and then the first finding of each sequence, shortest sequences first. */
function* broken(plan: Plan, given = false): Iterable<Found> {
  for (const finding of planFindings(plan)) yield [finding, null];
  const slots = Math.max(...plan.rings.map((ring) => ring.slots));
  const stays = plan.roles.some(({ body }) =>
    body.some((step) => step.kind === "tiles" && step.ordinal !== null),
  );
  const actors = actorsOf(plan);
  const tried = representatives(plan);
  const threads = orders(
    actors.length,
    actors.flatMap(({ block }, i) => (tried.has(block) ? [i] : [])),
  );
  const all = plan.roles.some(({ body }) => votes(body))
    ? threads.flatMap((order) => [order, { ...order, votes: true }])
    : threads;
  // A part of a share has one chunk at least, on which peeled loops build, and so has a block that copies its first before the roles begin.
  const leads = plan.begin.some(({ kind }) => kind === "copy");
  const least = Math.max(
    leads || (sharesTiles(plan) && plan.roles.some(({ body }) => peels(body))) ? 1 : 0,
    columnsApart(plan),
    ...plan.roles.map(({ body }) => {
      const apart = waitsApart(plan, body);
      return apart === 0 ? 0 : apart + (plan.cuts?.first ?? 0);
    }),
  );
  // Several loops over chunks of their own, as those of a chain of products, are run with the numbers that stand there.
  const stands = plan.chunks === null && !sharesTiles(plan);
  const own = given && plan.chunks !== null && plan.chunks <= slots + 2 ? plan.chunks : null;
  const runs =
    own === null && !stands
      ? sequences(slots, stays).filter((counts) => counts.every((count) => count >= least))
      : sequencesOf(own ?? 1, slots, stays);
  // Persistent CTAs go through rows.
  const rows = !stays && plan.roles.some(({ body }) => takesTurnsByRow(body)) ? TRIED_ROWS : [0];
  for (const sequence of runs)
    for (const row of rows)
      for (const order of all) {
        const finding = run(plan, sequence, { ...order, row });
        if (finding === null) continue;
        yield [finding, stands ? null : sequence];
        break;
      }
}

/** Rows of the work tile with which loops whose bounds depend on it are tried. */
const TRIED_ROWS = [0, 1, 2, 5];

/** Whether turns of a loop depend on the row of the work tile around it. */
const takesTurnsByRow = (steps: readonly Step[], row: string | null = null): boolean =>
  steps.some(
    (step) =>
      step.kind !== "do" &&
      ((step.kind === "for" &&
        (step.within?.bounds ?? []).some((e) => row !== null && freeVars(e).has(row))) ||
        takesTurnsByRow(step.body, step.kind === "tiles" ? (step.vars?.[0] ?? null) : row)),
  );

/** Whether warps may leave something out. */
const votes = (steps: readonly Step[]): boolean =>
  steps.some((step) => step.kind === "vote" || (step.kind !== "do" && votes(step.body)));

/** Whether blocks have shares of tiles, whose parts have variables for their chunks. */
const sharesTiles = ({ roles }: Plan): boolean =>
  roles.some(({ body }) => body.some((step) => step.kind === "tiles" && step.share !== null));

/** Chunks of a program whose last ones are multiplied in parts: the first, and those. None elsewhere. */
function columnsApart({ chunks, cuts, roles }: Plan): number {
  const apart = (steps: readonly Step[]): boolean =>
    steps.some((step) =>
      step.kind === "do"
        ? step.actions.some((action) => action.kind === "sums" && action.columns !== null)
        : apart(step.body),
    );
  if (chunks === null || cuts === undefined || !roles.some(({ body }) => apart(body))) return 0;
  return cuts.first + chunks - Math.min(chunks, ...cuts.last);
}

/** K chunks for which a role waits outside of loops over them: there are as many. */
const waitsApart = (plan: Plan, steps: readonly Step[]): number =>
  steps.reduce((sum, step) => {
    if (step.kind !== "do")
      return step.kind === "for" && step.chunks ? sum : sum + waitsApart(plan, step.body);
    const waits = step.actions.filter(
      (action) =>
        action.kind === "wait" &&
        action.edge === "full" &&
        plan.rings.some(({ name, chunked }) => chunked && name === action.ring),
    );
    return sum + waits.length;
  }, 0);

/** Whether a loop over K chunks ends behind a fixed number of them. */
const peels = (steps: readonly Step[]): boolean =>
  steps.some(
    (step) =>
      step.kind !== "do" &&
      ((step.kind === "for" && step.chunks && step.to.kind === "const") || peels(step.body)),
  );
