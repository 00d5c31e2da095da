/** Steps of a ladder on a GPU: interleaved in one process beside cuBLASLt, as `bench` measures. */
import { type Checked, ok } from "@tilewright/ir";
import { jobOf } from "../bench/jobs.ts";
import { measureApart, type WorkOrder } from "../bench/measure.ts";
import type { BenchPorts } from "../bench/ports.ts";
import type { Context } from "../context.ts";
import type { PlannedLadder } from "./plan.ts";
import { type LadderOutcome, realNumber } from "./result.ts";

type Timed = NonNullable<LadderOutcome["peer"]>;

export interface Measured {
  readonly gpu: string;
  /** By the number of the step; steps that were refused have none. */
  readonly steps: ReadonlyMap<number, Timed>;
  readonly peer: Timed | null;
}

export interface MeasureWishes {
  readonly index: number;
  /** Path of libcublasLt; null without it. */
  readonly cublas: string | null;
  readonly seed: number;
  /** Device time in all, in seconds. */
  readonly seconds: number;
  readonly timeoutMs: number;
}

/** Algorithms of cuBLASLt that are tried. */
const ALGORITHMS = 8;

export async function measureLadder(
  context: Context,
  { ladder, problem, steps }: PlannedLadder,
  wishes: MeasureWishes,
  ports: BenchPorts,
): Promise<Checked<Measured>> {
  const { m, n, k } = problem;
  const nameOf = (index: number): string => `${index + 1} ${steps[index]?.name ?? ""}`;
  const planned = {
    shape: { group: ladder.name, m, n, k },
    problem,
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
  const outcome = await measureApart(context, order, ports, wishes.timeoutMs);
  if (!outcome.ok) return outcome;
  const { gpu, contenders, regimes } = outcome.value;
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
  return ok({ gpu: gpu.name, steps: timed, peer: timeOf(peer?.name) });
}
