/** Choosing among the algorithms that a library proposes. */
import { type Checked, type Diagnostic, ok } from "@tilewright/core";
import type { CublasPeer } from "../cublaslt/peer.ts";
import { measuringProblem } from "./diagnostics.ts";
import { defaultMeasure, Measurement } from "./measure.ts";
import { timeAlone, waitsForDevice } from "./queueable.ts";
import type { TimingStream } from "./stream.ts";

/** Time for choosing, in milliseconds. */
const tryoutMs = 60;

/**
 * Which proposal of the heuristic is the fastest, each run a few times. Those that fail, and those that wait for the device in their launch and so cannot be
 * queued ahead of it beside others, are left out and told: the latter with the time that they take alone.
 */
export function fastest(
  stream: TimingStream,
  peer: Pick<CublasPeer, "algorithms">,
  sets: number,
  seed: number,
): Checked<{
  readonly usable: readonly number[];
  readonly best: number;
  readonly failed: readonly Diagnostic[];
}> {
  const failed: Diagnostic[] = [];
  const running: number[] = [];
  for (const [index, { contender, label }] of peer.algorithms.entries()) {
    const launched = contender.launch(0);
    if (launched.ok) running.push(index);
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
  const usable: number[] = [];
  for (const index of running) {
    const algorithm = peer.algorithms[index];
    if (algorithm === undefined) continue;
    const { contender, label } = algorithm;
    const waits = waitsForDevice(stream, contender, sets);
    if (!waits.ok) return waits;
    if (!waits.value) {
      usable.push(index);
      continue;
    }
    const alone = timeAlone(stream, contender, sets);
    if (!alone.ok) return alone;
    failed.push(
      measuringProblem(
        "unqueueable",
        "cublaslt",
        `choice ${index + 1} (${label}) waits for the device inside its launch and is left out of the rounds: alone, the host's part included, it takes ${alone.value.toPrecision(3)} us`,
        "the other choices are measured",
      ),
    );
  }
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
