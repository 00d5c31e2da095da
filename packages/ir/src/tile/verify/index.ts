/** The verifiers in order, and running those that apply to a program's stage. README.md lists what each checks. */
import type { Diagnostic, SourceLocation } from "../../diagnostics.ts";
import type { Target } from "../../target.ts";
import { stages, type TileProgram } from "../types.ts";
import { names } from "./names.ts";
import { diagnosticOf, subjectOf, type Verifier } from "./verifier.ts";

/**
 * In dependency order. A group runs only when the groups before it found nothing: names must resolve before shapes can
 * be compared, and shapes agree before addresses mean anything.
 */
const groups: readonly (readonly Verifier[])[] = [[names]];

export const verifiers: readonly Verifier[] = groups.flat();

/**
 * Every fault of a program, or none. Checks against a target's limits are skipped without one.
 * `locations` (of `parseProgramWithLocations`) puts lines of the text into the diagnostics.
 */
export function verifyProgram(
  program: TileProgram,
  target: Target | null = null,
  locations?: ReadonlyMap<object, SourceLocation>,
): readonly Diagnostic[] {
  const subject = subjectOf(program, target);
  for (const group of groups) {
    const found = group
      .filter((verifier) => stages.indexOf(verifier.from) <= stages.indexOf(program.stage))
      .flatMap((verifier) =>
        [...verifier.check(subject)].map((fault) => diagnosticOf(verifier, fault, locations)),
      );
    if (found.length > 0) return found;
  }
  return [];
}
