/** Steps of a ladder on the emulator: numbers, hazards, and what each executed and moved. */
import { type Checked, type Diagnostic, err, ok } from "@tilewright/core";
import { entryOf } from "../compile/artefacts.ts";
import type { Session } from "../kit/command.ts";
import type { RunDevice } from "../run/device.ts";
import { execute, multiplyAdds, warnOfTime } from "../run/execute.ts";
import { checkMemory, randomInputs } from "../run/inputs.ts";
import type { PlannedLadder } from "./plan.ts";
import { realNumber, type StepOutcome } from "./result.ts";
import { ringOccupancy } from "./rings.ts";

/** Opcodes that multiply matrices: `mma.sync…`, `wgmma.mma_async…`, `tcgen05.mma…`. */
const matrixOpcode = /^(w?mma\b|wgmma\.mma_async|tcgen05\.mma)/;

export interface Counted {
  /** By the number of the step; steps that were refused have none. */
  readonly steps: ReadonlyMap<number, NonNullable<StepOutcome["counted"]>>;
  readonly wrong: readonly Diagnostic[];
}

/** Run every step once. Errors are runs that could not start. */
export async function countLadder(
  session: Session,
  device: Pick<RunDevice, "kind" | "name" | "gemm">,
  { ladder, problem, steps }: PlannedLadder,
  seed: number,
): Promise<Checked<Counted>> {
  const artifacts = steps.flatMap(({ artifact }) => artifact ?? []);
  const tooLarge = artifacts.flatMap((each) =>
    checkMemory(each, [problem], { device: "emulator", checked: true }),
  );
  if (tooLarge.length > 0) return err(tooLarge.slice(0, 1));
  warnOfTime(session, multiplyAdds(problem, artifacts[0]?.source), artifacts.length, "steps");
  const inputs = randomInputs(problem, { distribution: { kind: "normal" }, seed });
  const counted = new Map<number, NonNullable<StepOutcome["counted"]>>();
  const wrong: Diagnostic[] = [];
  for (const [index, { name, artifact }] of steps.entries()) {
    if (artifact === null) continue;
    const options = { orders: ["eager"], seed, hazards: "all", check: true } as const;
    const file = `${entryOf(artifact)}.ptx`;
    const ran = await execute(session, device, artifact, inputs, options, file);
    if (!ran.ok) return ran;
    const { counters, check, hazards } = ran.value;
    wrong.push(
      ...ran.value.wrong.map((one) => ({ ...one, message: `${ladder.name}, ${name}: ${one.message}` })),
    );
    if (counters === null) continue;
    const { warpInstructions, barriers, sharedWavefronts, sharedConflicts } = counters;
    const { globalBytesRead, globalBytesWritten, sharedBytesRead, sharedBytesWritten } = counters;
    const { tensorBytesRead, tensorBytesWritten } = counters;
    const waits = counters.waits.filter(({ instruction }) => instruction.includes("mbarrier.try_wait"));
    counted.set(index, {
      warpInstructions,
      matrixInstructions: Object.entries(counters.instructions).reduce(
        (sum, [opcode, count]) => sum + (matrixOpcode.test(opcode) ? count : 0),
        0,
      ),
      globalBytesRead,
      globalBytesWritten,
      sharedBytesRead,
      sharedBytesWritten,
      tensorBytesRead,
      tensorBytesWritten,
      barriers,
      waits: waits.reduce((sum, { executions }) => sum + executions, 0),
      waitsBlocked: waits.reduce((sum, { blocked }) => sum + blocked, 0),
      ring: ringOccupancy(artifact.program, counters),
      sharedWavefronts,
      sharedConflicts,
      boundRatio: realNumber(check?.boundRatio ?? Number.NaN),
      hazards: hazards.length,
    });
  }
  return ok({ steps: counted, wrong });
}
