/** Running a list of passes: stages checked at every step, programs verified before the first and after each or the last. */

import type { Target } from "@tilewright/core";
import { type Checked, type Diagnostic, err, InternalError, ok, type SourceLocation } from "@tilewright/core";
import { type Stage, stages, type TileProgram } from "../tile/types.ts";
import { verifyChunkCounts, verifyProgram } from "../tile/verify/index.ts";
import type { Pass } from "./pass.ts";

/**
 * What to verify: the given program and what `each` pass returns, or what the last one returns (`ends`: a tenth of the time, and a fault
 * still names its pass, because the list is then run again with `each`), or `none`.
 */
export type Verification = "each" | "ends" | "none";

export interface RunPassesOptions {
  /** `each` unless told otherwise. */
  readonly verify?: Verification;
  /** Verify no protocol and no places: what they convict in a given program is compiled all the same. */
  readonly unproven?: boolean;
  /** Places of the given program's parts in its text, for diagnostics. */
  readonly locations?: ReadonlyMap<object, SourceLocation>;
  /** Called after each pass that ran; `changed` is false when it returned the same object. */
  readonly after?: (pass: Pass, before: TileProgram, after: TileProgram, changed: boolean) => void;
}

const order = (stage: Stage): number => stages.indexOf(stage);

/**
 * Run passes in order, from the program's own stage on: passes of earlier stages are skipped, so a text of any stage can
 * be taken to `machine`. Errors are those of the given program; a pass that throws or makes an invalid program is a bug and throws
 * `InternalError` naming it.
 */
export function runPasses(
  program: TileProgram,
  target: Target,
  passes: readonly Pass[],
  options: RunPassesOptions = {},
): Checked<TileProgram> {
  const { verify = "each", unproven = false } = options;
  if (verify !== "none") {
    const errors = verifyProgram(program, target, options.locations, unproven);
    if (errors.length > 0) return err(errors);
  }
  let current = program;
  // A hand-edited program may be right for its own number of chunks only; what passes make is right for any.
  const anyCount = verify !== "none" && !unproven && verifyChunkCounts(program).length === 0;
  const faults = (next: TileProgram, counts: boolean): readonly Diagnostic[] => [
    ...verifyProgram(next, target, undefined, unproven, true),
    ...(anyCount && counts ? verifyChunkCounts(next) : []),
  ];
  for (const pass of passes) {
    // A given program of the last stage is final: its places are its author's.
    const final = program.stage === "machine" && pass.completes !== true;
    if (final || order(pass.from) < order(current.stage)) continue;
    // The protocol is proven of what is bound; the machine's statements follow from it.
    const bound = verify === "ends" && pass.from !== "machine" && pass.to === "machine";
    if (bound && current !== program && faults(current, true).length > 0)
      runPasses(program, target, passes, { verify: "each", unproven });
    const next = runPass(pass, current, target);
    if (verify === "each" && next !== current && pass.unfinished !== true) {
      const errors = faults(next, mayChangeProtocol(current, next));
      if (errors.length > 0) throw new InternalError(`pass ${pass.name} made an invalid program`, errors);
    }
    options.after?.(pass, current, next, next !== current);
    current = next;
  }
  if (verify === "ends" && current !== program && faults(current, true).length > 0) {
    // Throws, naming the pass that was first.
    runPasses(program, target, passes, { verify: "each", unproven });
  }
  return ok(current);
}

/** Passes that bind layouts, owners and widths leave rings and control flow alone; the last pass is checked in any case. */
const mayChangeProtocol = (before: TileProgram, after: TileProgram): boolean =>
  after.stage === "pipelined" || after.stage !== before.stage || after.rings !== before.rings;

function runPass(pass: Pass, program: TileProgram, target: Target): TileProgram {
  if (pass.from !== program.stage)
    throw new InternalError(
      `pass ${pass.name} takes programs of stage '${pass.from}', and the one before it left '${program.stage}'`,
    );
  const next = attempt(pass, program, target);
  if (next.stage !== pass.to)
    throw new InternalError(
      `pass ${pass.name} returned stage '${next.stage}' where it declares '${pass.to}'`,
    );
  return next;
}

/** What a pass throws names the pass. */
function attempt(pass: Pass, program: TileProgram, target: Target): TileProgram {
  try {
    return pass.run(program, target);
  } catch (cause) {
    throw new InternalError(`pass ${pass.name} failed: ${cause instanceof Error ? cause.message : cause}`);
  }
}
