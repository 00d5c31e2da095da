/** The protocol proof: what a bound program with roles asks of barriers, engines and tensor memory, for every number of K chunks. */
import type { Diagnostic, SourceLocation, Target } from "@tilewright/core";
import { condVars } from "../../cond.ts";
import { freeVars } from "../../expr.ts";
import { eachStmt } from "../../rewrite.ts";
import { atSomeRuns } from "../../runs.ts";
import type { Stmt, TileProgram } from "../../types.ts";
import { products, productsApart } from "../coverage.ts";
import { blockBarriers, mappedTiles } from "../protocol.ts";
import { diagnosticOf, namedIn, placesAt, subjectOf } from "../verifier.ts";
import type { Effect } from "./effect.ts";
import type { Sequence } from "./execution.ts";
import { type Kernel, type KernelRole, kernelOf } from "./kernel.ts";
import { type Finding, proofRules } from "./rules.ts";
import { actorsOf, run } from "./run.ts";
import { orders, representatives, sequences, sequencesOf } from "./sequences.ts";
import { kernelFindings, programFindings } from "./statics.ts";

/**
 * Every rule that the program breaks, with its first finding; empty when all hold for every number of K chunks from 0 to slots + 2 and, where
 * blocks stay, for sequences of tiles with different numbers; and where loops have bounds that are known only when it runs, for no, one, two, three turns and all. Of programs without roles (`kernelOf` gives null) only what does not
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
  const kernel = kernelOf(program);
  const found = firstOfEach([...findings, ...(kernel === null ? [] : broken(kernel, given))], (at) => {
    const key = typeof at === "string" ? namedIn(program, at) : at;
    return key === null ? undefined : locations?.get(key);
  });
  if (kernel === null || found.length > 0 || program.stage !== "machine") return found;
  const subject = subjectOf(program, target);
  const apart = given ? [...productsApart(subject)] : [];
  return [
    ...[...mappedTiles(subject)].map((fault) => diagnosticOf(blockBarriers, fault, subject, locations)),
    ...apart.map((fault) => diagnosticOf(products, fault, subject, locations)),
  ];
}

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

/** What breaks in a kernel: whatever runs, and then the first finding of each sequence, shortest sequences first. */
function* broken(kernel: Kernel, given = false): Iterable<Found> {
  for (const finding of kernelFindings(kernel)) yield [finding, null];
  const slots = Math.max(...kernel.rings.map((ring) => ring.slots));
  const stays = kernel.roles.some(({ tiles }) => tiles?.loop != null);
  const actors = actorsOf(kernel);
  const tried = representatives(kernel);
  const threads = orders(
    actors.length,
    actors.flatMap(({ block }, i) => (tried.has(block) ? [i] : [])),
  );
  const all = statements(kernel).some(({ kind }) => kind === "vote")
    ? threads.flatMap((order) => [order, { ...order, votes: true }])
    : threads;
  // A part of a share has one chunk at least, on which peeled loops build, and so has a block that copies its first before the roles begin.
  const leads = kernel.begin.some(({ effect }) => effect.kind === "copy");
  const least = Math.max(
    leads || (sharesTiles(kernel) && peels(kernel)) ? 1 : 0,
    columnsApart(kernel),
    ...kernel.roles.map((role) => {
      const apart = waitsApart(kernel, role);
      return apart === 0 ? 0 : apart + (kernel.cuts?.first ?? 0);
    }),
  );
  // Several loops over chunks of their own, as those of a chain of products, are run with the numbers that stand there.
  const stands = kernel.chunks === null && !sharesTiles(kernel);
  const own = given && kernel.chunks !== null && kernel.chunks <= slots + 2 ? kernel.chunks : null;
  const runs =
    own === null && !stands
      ? sequences(slots, stays).filter((counts) => counts.every((count) => count >= least))
      : sequencesOf(own ?? 1, slots, stays);
  // Persistent CTAs go through rows.
  const rows = !stays && takesTurnsByRow(kernel) ? TRIED_ROWS : [0];
  const places = rows.flatMap((row) => partsTried(kernel).map((part) => ({ row, part })));
  for (const sequence of runs)
    for (const place of places)
      for (const order of all) {
        const finding = run(kernel, sequence, { ...order, ...place });
        if (finding === null) continue;
        yield [finding, stands ? null : sequence];
        break;
      }
}

/** Parts of a split tile with which conditions that depend on them are tried: the first, and the last, which may be shorter. */
function partsTried({ roles }: Kernel): readonly number[] {
  const last = roles.flatMap(({ around, tiles, body }) => {
    const split = (tiles ?? around)?.split ?? null;
    const asks = eachStmt(body).some((s) => s.kind === "if" && condVars(s.cond).has(split?.var ?? ""));
    return split === null || !asks ? [] : [split.extent - 1];
  });
  return [0, ...last.slice(0, 1)];
}

/** Rows of the work tile with which loops whose bounds depend on it are tried. */
const TRIED_ROWS = [0, 1, 2, 5];

/** Statements of the roles, whether loops over work tiles or the block have them. */
const statements = ({ roles }: Kernel): readonly Stmt[] =>
  roles.flatMap(({ effects }) => [...effects.keys()]);

/** Whether turns of a loop depend on the row of the work tile around it. */
const takesTurnsByRow = ({ roles }: Kernel): boolean =>
  roles.some(({ loops, tiles, around }) => {
    const [row] = (tiles ?? around)?.vars ?? [];
    return (
      row !== undefined &&
      [...loops.keys()].some(({ within }) => (within?.bounds ?? []).some((e) => freeVars(e).has(row)))
    );
  });

/** Whether CTAs have shares of tiles, whose parts have variables for their chunks. */
const sharesTiles = ({ roles }: Kernel): boolean => roles.some(({ tiles }) => tiles?.streamK !== undefined);

/** Chunks of a program whose last ones are multiplied in parts: the first, and those. None elsewhere. */
function columnsApart(kernel: Kernel): number {
  const { chunks, cuts, roles } = kernel;
  const apart = roles.some(({ effects }) =>
    [...effects.values()].some((all) =>
      all.some((effect) => effect.kind === "sums" && effect.columns !== null),
    ),
  );
  return chunks === null || cuts === undefined || !apart
    ? 0
    : cuts.first + chunks - Math.min(chunks, ...cuts.last);
}

/** K chunks for which a role waits outside of loops over them: there are as many. */
function waitsApart({ rings }: Kernel, { effects, loops, body }: KernelRole): number {
  const inside = new Set([...loops].flatMap(([{ body }, { chunks }]) => (chunks ? eachStmt(body) : [])));
  const waits = (effect: Effect): boolean =>
    effect.kind === "wait" &&
    effect.edge === "full" &&
    rings.some(({ name, chunked }) => chunked && name === effect.ring);
  return eachStmt(body)
    .filter((stmt) => !inside.has(stmt))
    .reduce((sum, stmt) => sum + (effects.get(stmt) ?? []).filter(waits).length, 0);
}

/** Whether a loop over K chunks ends behind a fixed number of them. */
const peels = ({ roles }: Kernel): boolean =>
  roles.some(({ loops }) => [...loops].some(([{ to }, { chunks }]) => chunks && to.kind === "const"));
