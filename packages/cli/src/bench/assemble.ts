/** From what was measured to records. */
import { formatDiagnostic } from "@tilewright/core";
import type { BenchOutcome, BenchRatio, BenchRegime } from "@tilewright/runtime";
import { choiceData } from "../tuned/choice.ts";
import { version } from "../version.ts";
import type { CommandTime } from "./command-peer.ts";
import type { Planned, Wishes } from "./jobs.ts";
import type { BenchRecord, RecordContender, RecordRatio } from "./record.ts";

const ratioOf = ({ candidate, peer, ratio }: BenchRatio): RecordRatio => ({
  candidate,
  peer,
  value: ratio.value,
  low: ratio.low,
  high: ratio.high,
});

export interface Circumstances {
  readonly planned: Planned;
  readonly wishes: Wishes;
  readonly key: string;
  readonly date: Date;
  readonly commands: readonly CommandTime[];
}

/** The record of one regime. */
export function recordOf(outcome: BenchOutcome, regime: BenchRegime, about: Circumstances): BenchRecord {
  const { planned, wishes, commands } = about;
  const contenders = [
    ...outcome.contenders.map((contender): RecordContender => {
      const { name } = contender;
      const artifact = planned.candidates.find((candidate) => candidate.name === name)?.artifact;
      const time = regime.times.find((one) => one.name === name);
      if (time === undefined) throw new TypeError(`${name} was measured and has no time`);
      return {
        name,
        role: contender.role,
        arch: artifact?.target.arch ?? null,
        backend: artifact?.backend ?? null,
        schedule: artifact?.schedule ?? artifact?.manifest.plan.schedule ?? null,
        ...(artifact === undefined ? {} : { choice: choiceData(artifact) }),
        detail: contender.detail,
        ptxSha256: contender.ptxSha256,
        cubinSha256: contender.cubinSha256,
        check: contender.check,
        us: time.us,
        spreadUs: [...time.spreadUs],
        tflops: time.tflops,
        percentOfPeak: time.percentOfPeak,
        percentAtClock: time.percentAtClock,
        impossible: time.impossible,
        graphUs: outcome.graph.find((one) => one.name === name)?.us ?? null,
      };
    }),
    ...commands.map((time) => commandContender(time, outcome.floor.flops)),
  ];
  return {
    kind: "tilewright-bench",
    version: 1,
    key: about.key,
    date: about.date.toISOString(),
    tilewright: version,
    group: planned.shape.group,
    problem: planned.problem as BenchRecord["problem"],
    regime: regime.regime,
    inputs: wishes.inputs,
    seed: wishes.seed,
    gpu: outcome.gpu,
    cublasVersion: outcome.cublasVersion,
    sets: outcome.sets,
    rotatedBytes: outcome.rotatedBytes,
    floorUs: outcome.floor.us,
    flops: outcome.floor.flops,
    bytes: outcome.floor.bytes,
    pauseUs: regime.pauseUs,
    state: regime.state,
    contenders,
    ratios: [...regime.ratios.map(ratioOf), ...unpaired(contenders, commands)],
    graphRatios: outcome.graphRatios.map(ratioOf),
    notes: outcome.notes.map(formatDiagnostic),
  };
}

const commandContender = ({ name, detail, us, spread }: CommandTime, flops: number): RecordContender => ({
  name,
  role: "command",
  arch: null,
  backend: null,
  schedule: null,
  detail: `${detail}${detail === "" ? "" : ", "}in a process of its own, not interleaved`,
  ptxSha256: null,
  cubinSha256: null,
  check: null,
  us,
  spreadUs: [spread.low, spread.high],
  tflops: flops / (us.median * 1e6),
  percentOfPeak: null,
  percentAtClock: null,
  impossible: 0,
  graphUs: null,
});

/** Ratios to programs: no rounds are shared, so both spreads count in full. */
function unpaired(
  contenders: readonly RecordContender[],
  commands: readonly CommandTime[],
): readonly RecordRatio[] {
  return contenders
    .filter(({ role }) => role === "candidate")
    .flatMap((candidate) =>
      commands.map(({ name, us, spread }): RecordRatio => {
        const [low, high] = candidate.spreadUs;
        const value = us.median / candidate.us.median;
        const relative =
          Math.hypot((spread.high - spread.low) / us.median, (high - low) / candidate.us.median) / 2;
        return {
          candidate: candidate.name,
          peer: name,
          value,
          low: value * (1 - relative),
          high: value * (1 + relative),
        };
      }),
    );
}
