/** Choosing among the algorithms that a library proposes. */
import { type Checked, type Diagnostic, ok } from "@tilewright/ir";
import type { CublasPeer } from "../cublaslt/peer.ts";
import { measuringProblem } from "./diagnostics.ts";
import { defaultMeasure, Measurement } from "./measure.ts";
import type { TimingStream } from "./stream.ts";

/** Time for choosing, in milliseconds. */
const tryoutMs = 60;

/** Which proposal of the heuristic is the fastest, each run a few times; those that fail are left out and told. */
export function fastest(
  stream: TimingStream,
  peer: CublasPeer,
  sets: number,
  seed: number,
): Checked<{
  readonly usable: readonly number[];
  readonly best: number;
  readonly failed: readonly Diagnostic[];
}> {
  const failed: Diagnostic[] = [];
  const usable: number[] = [];
  for (const [index, { contender, label }] of peer.algorithms.entries()) {
    const launched = contender.launch(0);
    if (launched.ok) usable.push(index);
    else
      failed.push(
        measuringProblem(
          "cublasCall",
          "cublaslt",
          `choice ${index + 1} (${label}) does not run: ${launched.error.map((one) => one.message).join("; ")}`,
        ),
      );
  }
  const waited = stream.wait();
  if (!waited.ok) return waited;
  if (usable.length < 2) return ok({ usable, best: usable[0] ?? 0, failed });
  const tryout = new Measurement(
    stream,
    usable.flatMap((index) => peer.algorithms[index]?.contender ?? []),
    { ...defaultMeasure, warmupMs: tryoutMs, sets, seed },
  );
  const warm = tryout.warmUp();
  if (!warm.ok) return warm;
  const times = tryout.typicalUs;
  const best = times.indexOf(Math.min(...times));
  return ok({ usable, best: usable[best] ?? 0, failed });
}
