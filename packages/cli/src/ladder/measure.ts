/** Steps of a ladder on a GPU: interleaved in one process beside cuBLASLt, as `bench` measures. */
import { type Checked, type Diagnostic, err, ok } from "@tilewright/core";
import type { Bench } from "@tilewright/runtime";
import { jobOf } from "../bench/jobs.ts";
import { measureOrder, type WorkOrder } from "../bench/measure.ts";
import type { Context } from "../context.ts";
import type { PlannedLadder } from "./plan.ts";
import { type LadderOutcome, realNumber } from "./result.ts";

type Timed = NonNullable<LadderOutcome["peer"]>;

export interface Measured {
  /** By the number of the step; steps that were refused have none. */
  readonly steps: ReadonlyMap<number, Timed>;
  readonly peer: Timed | null;
  /** What is wrong with steps that were left out. */
  readonly wrong: readonly Diagnostic[];
}

export interface MeasureWishes {
  readonly index: number;
  /** Path of libcublasLt; null without it. */
  readonly cublas: string | null;
  readonly seed: number;
  /** Device time in all, in seconds. */
  readonly seconds: number;
}

/** Algorithms of cuBLASLt that are tried. */
const ALGORITHMS = 8;

export async function measureLadder(
  context: Context,
  { ladder, problem, program, steps }: PlannedLadder,
  wishes: MeasureWishes,
  bench: Bench,
): Promise<Checked<Measured>> {
  const { m, n, k } = problem;
  const nameOf = (index: number): string => `${index + 1} ${steps[index]?.name ?? ""}`;
  const planned = {
    shape: { group: ladder.name, m, n, k },
    problem,
    program,
    rows: null,
    candidates: steps.flatMap(({ artifact }, index) =>
      artifact === null ? [] : [{ name: nameOf(index), artifact }],
    ),
  };
  const order: WorkOrder = {
    kind: "tilewright-bench-job",
    job: jobOf(planned, {
      regimes: ["idle"],
      inputs: "normal",
      seed: wishes.seed,
      seconds: wishes.seconds,
      warmup: 0.2,
      algorithms: wishes.cublas === null ? null : ALGORITHMS,
    }),
    index: wishes.index,
    cublas: wishes.cublas,
  };
  const { outcome, failures } = await measureOrder(context, bench, order);
  if (outcome === null) return err(failures);
  const { contenders, regimes } = outcome;
  const timeOf = (name: string | undefined): Timed | null => {
    const time = regimes[0]?.times.find((one) => one.name === name);
    const check = contenders.find((one) => one.name === name)?.check;
    if (time === undefined || check === undefined) return null;
    return { us: time.us.median, tflops: time.tflops, boundRatio: realNumber(check.boundRatio) };
  };
  const timed = new Map<number, Timed>();
  for (const index of steps.keys()) {
    const time = timeOf(nameOf(index));
    if (time !== null) timed.set(index, time);
  }
  const peer = contenders.find(({ role }) => role === "peer");
  return ok({ steps: timed, peer: timeOf(peer?.name), wrong: failures });
}
