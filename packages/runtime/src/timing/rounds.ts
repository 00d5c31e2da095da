/** Rounds of samples: which of them can be, and the ratios that they give. */
import { type Checked, ok } from "@tilewright/core";
import { measuringFailure } from "./diagnostics.ts";
import type { Floor } from "./floors.ts";
import type { Samples } from "./measure.ts";
import type { BenchContender, BenchRatio } from "./outcome.ts";
import { median, ratioEstimate } from "./statistics.ts";

/** Every candidate against every peer. `times`: by contender, one of each round. */
export function ratiosOf(
  contenders: readonly BenchContender[],
  times: readonly (readonly number[])[],
): readonly BenchRatio[] {
  const of = (role: BenchContender["role"]) =>
    contenders.flatMap((one, index) =>
      one.role === role ? [{ name: one.name, times: times[index] ?? [] }] : [],
    );
  return of("candidate").flatMap((candidate) =>
    of("peer").map((peer) => ({
      candidate: candidate.name,
      peer: peer.name,
      ratio: ratioEstimate(peer.times, candidate.times),
    })),
  );
}

/** Rounds in which nobody was faster than is possible. Half of them or more being impossible means that the measurement itself is wrong. */
export function possibleRounds(
  contenders: readonly BenchContender[],
  samples: Samples,
  floor: Floor,
): Checked<{ readonly times: readonly (readonly number[])[]; readonly dropped: number }> {
  const fast = contenders.find((_, index) => median(samples.times[index] ?? []) < floor.us);
  if (fast !== undefined) {
    const us = median(samples.times[contenders.indexOf(fast)] ?? []);
    return measuringFailure(
      "impossible",
      fast.name,
      `${fast.name} measured ${us.toPrecision(4)} us (${samples.regime}), below the floor of ${floor.us.toPrecision(4)} us: it cannot have done this problem in that time`,
      "the floor is the larger of FLOP over peak and bytes over bandwidth; report it with the JSON line",
    );
  }
  const rounds = samples.times[0]?.length ?? 0;
  const kept = [...Array(rounds).keys()].filter((round) =>
    samples.times.every((times) => (times[round] ?? 0) >= floor.us),
  );
  return ok({
    times: samples.times.map((times) => kept.map((round) => times[round] ?? Number.NaN)),
    dropped: rounds - kept.length,
  });
}
