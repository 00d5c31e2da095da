/** The verifiers in order, and running those that apply to a program's stage. README.md lists what each checks. */
import type { Diagnostic, Problem, SourceLocation, Target } from "@tilewright/core";
import { atRuns, ownProgram, sampleRuns } from "../runs.ts";
import { programAt, sampleProblems, sizeVariables } from "../sizes.ts";
import { reached, type TileProgram } from "../types.ts";
import { agreement } from "./agreement.ts";
import { bounds, slotRange } from "./bounds.ts";
import { bulkTiles } from "./bulkTiles.ts";
import { complete } from "./complete.ts";
import { context } from "./context.ts";
import { coverage, products } from "./coverage.ts";
import { distributions } from "./distributions.ts";
import { dtypesAgree } from "./dtypes.ts";
import { elements } from "./elements.ts";
import { epilogues } from "./epilogues.ts";
import { expressions } from "./expressions.ts";
import { featuresPresent } from "./features.ts";
import { frame } from "./frame.ts";
import { groupMaps } from "./groupMaps.ts";
import { instructions } from "./instructions.ts";
import { launches } from "./launches.ts";
import { layouts } from "./layouts.ts";
import { copiesRead, multicast } from "./multicast.ts";
import { names } from "./names.ts";
import { numbers } from "./numbers.ts";
import { operands } from "./operands.ts";
import { output } from "./output.ts";
import { ownership } from "./ownership.ts";
import { pipelines } from "./pipelines.ts";
import { apart, declarations, placement } from "./places.ts";
import { blockBarriers, protocolFault, ringProtocol, sharedBarriers } from "./protocol.ts";
import { sharedMemory, tensorMemory, threads } from "./resources.ts";
import { rings } from "./rings.ts";
import { roles } from "./roles.ts";
import { lists, schedulers } from "./schedulers.ts";
import { shapes } from "./shapes.ts";
import { splits } from "./splits.ts";
import { stageLegality } from "./stage.ts";
import { stores } from "./stores.ts";
import { tileSources } from "./tileSources.ts";
import { vectors } from "./vectors.ts";
import { diagnosticOf, placesAt, subjectOf, type Verifier } from "./verifier.ts";
import { written } from "./written.ts";

/**
 * In dependency order. A group runs only when the groups before it found nothing: names must resolve before shapes can
 * be compared, and shapes agree before addresses mean anything.
 */
const groups: readonly (readonly Verifier[])[] = [
  [names],
  [numbers],
  [
    shapes,
    operands,
    dtypesAgree,
    elements,
    stageLegality,
    layouts,
    threads,
    roles,
    rings,
    splits,
    tileSources,
    pipelines,
    frame,
    context,
    expressions,
  ],
  [
    slotRange,
    bounds,
    ownership,
    distributions,
    epilogues,
    output,
    sharedMemory,
    tensorMemory,
    featuresPresent,
    multicast,
    bulkTiles,
    copiesRead,
    declarations,
    schedulers,
    lists,
    stores,
  ],
  [placement, instructions],
  [
    agreement,
    apart,
    complete,
    written,
    vectors,
    ringProtocol,
    sharedBarriers,
    blockBarriers,
    coverage,
    products,
  ],
  [groupMaps, launches],
];

/** Asked of the program as it is given, with its sizes as variables: what emission reads. */
const emitted: readonly Verifier[] = [context, expressions, lists];

export const verifiers: readonly Verifier[] = groups.flat();

/**
 * Every fault of a program, or none. Checks against a target's limits are skipped without one.
 * `locations` (of `parseProgramWithLocations`) puts lines of the text into the diagnostics. A program whose sizes come with the launch is
 * verified at several of them (`sampleProblems`). `unproven` leaves out what is only proven: the protocol of rings, barriers, and places; `made` what is asked only of programs that were given.
 */
export function verifyProgram(
  program: TileProgram,
  target: Target | null = null,
  locations?: ReadonlyMap<object, SourceLocation>,
  unproven = false,
  made = false,
): readonly Diagnostic[] {
  const fixed = program.problem.symbolic === undefined;
  // The nest has the tiles of the problem's own sizes, which those of other launches are not.
  const asked = groups.map((group) =>
    group.filter(
      (verifier) =>
        !(unproven && verifier.waivable === true) &&
        !(made && verifier.given) &&
        (fixed || !(verifier === agreement || verifier === launches || emitted.includes(verifier))),
    ),
  );
  const runs = sampleRuns(program.problem);
  const found = (
    list: readonly (readonly Verifier[])[],
    program: TileProgram,
    locations: ReadonlyMap<object, SourceLocation> | undefined,
  ) => verifyGroups(list, program, target, locations, unproven);
  if (fixed && runs.length === 0) return found(asked, program, locations);
  const unresolved = found([[names], emitted], program, locations);
  if (unresolved.length > 0) return unresolved;
  const own = ownProgram(program);
  const places = locations && placesAt(program, own, locations);
  if (fixed) {
    for (const places of runs) {
      const at = atRuns(program, places);
      const faults = found(asked, at, locations && placesAt(program, at, locations));
      if (faults.length > 0) return faults;
    }
    return [];
  }
  const contradictions = found([[numbers], [agreement]], own, places);
  if (contradictions.length > 0) return contradictions;
  for (const problem of sampleProblems(program)) {
    const at = programAt(program, problem);
    const faults = found(asked, at, locations && placesAt(program, at, locations));
    if (faults.length > 0)
      return faults.map((fault) => ({ ...fault, message: `${fault.message} ${atText(program, problem)}` }));
  }
  return found([[launches]], program, locations);
}

/** `(m = 5, k = 9)`: the sizes of a sample. */
const atText = (program: TileProgram, problem: Problem): string =>
  `(${sizeVariables(program.problem)
    .map((name) => `${name} = ${problem[name]}`)
    .join(", ")})`;

function verifyGroups(
  list: readonly (readonly Verifier[])[],
  program: TileProgram,
  target: Target | null,
  locations: ReadonlyMap<object, SourceLocation> | undefined,
  unproven: boolean,
): readonly Diagnostic[] {
  const subject = subjectOf(program, target);
  for (const group of list) {
    const found = group
      .filter(({ from, until = "machine" }) => reached(program.stage, from) && reached(until, program.stage))
      .flatMap((verifier) =>
        [...verifier.check(subject)]
          .filter((fault) => !unproven || verifier.waivable === undefined || fault.needed === true)
          .map((fault) => diagnosticOf(verifier, fault, subject, locations)),
      );
    if (found.length > 0) return found;
  }
  return [];
}

/**
 * Faults of the ring protocol for every number of K chunks from 0 to slots + 2, where prologue, steady state and drain meet
 * in all ways; `verifyProgram` looks at the program's own number. The program must pass `verifyProgram`; none are found in programs
 * that do not name their number of chunks as a loop bound.
 */
export function verifyChunkCounts(program: TileProgram): readonly Diagnostic[] {
  if (program.rings.length === 0 || program.stage === "machine") return [];
  const subject = subjectOf(ownProgram(program), null);
  const slots = Math.max(...program.rings.map((ring) => ring.slots));
  return Array.from({ length: slots + 3 }, (_, count) => count).flatMap((count) => {
    const fault = protocolFault(subject, count);
    if (fault === null) return [];
    const message = `with ${count} K chunks: ${fault.message}`;
    return [diagnosticOf(ringProtocol, { ...fault, message }, subject, undefined)];
  });
}
