/** What changed between two results files beyond the noise that each of them measured. */
import type { BenchRecord, RecordContender } from "./record.ts";
import { shapeText } from "./shapes.ts";

type Verdict = "faster" | "slower" | "same" | "new" | "gone";

export interface Change {
  readonly shape: string;
  readonly regime: string;
  /** Name of the candidate. */
  readonly name: string;
  /**
   * `ratio`: against the peer that both files hold, which takes out what both runs suffered (another board, a warmer day);
   * `time`: of the candidate alone, where they share no peer.
   */
  readonly by: "ratio" | "time";
  readonly peer: string | null;
  readonly old: number | null;
  readonly new: number | null;
  /** New speed over old speed; null for what only one file has. */
  readonly change: number | null;
  /** Changes within this factor of 1 are noise: both files' spreads together, and at least what two runs of one binary differ by. */
  readonly noise: number | null;
  readonly verdict: Verdict;
}

/** The same cubin in two runs on fresh machines agrees to 0.002 to 0.008 at up to 4096 (fp32 on an H200); no difference below that is one. */
const betweenRuns = 0.008;

/** A 95 % interval is 1.96 standard deviations to each side. */
const deviations = 1.96;

interface Speed {
  readonly value: number;
  /** Relative standard deviation. */
  readonly deviation: number;
}

const wordsOf = (record: BenchRecord): string =>
  JSON.stringify([record.problem, record.regime, record.inputs]);

/** Every candidate of either file, in the order of the new one. */
export function compareRecords(
  before: readonly BenchRecord[],
  after: readonly BenchRecord[],
): readonly Change[] {
  const changes: Change[] = [];
  // The last line of a key counts: a file that was added to holds the newer result later.
  const last = new Map(before.map((record) => [wordsOf(record), record]));
  const newest = new Map(after.map((record) => [wordsOf(record), record]));
  for (const [words, record] of newest) {
    const old = last.get(words);
    for (const contender of candidatesOf(record)) {
      const match =
        old === undefined ? undefined : candidatesOf(old).find(({ name }) => name === contender.name);
      changes.push(
        old === undefined || match === undefined
          ? lonely(record, contender, "new")
          : changeOf(old, match, record, contender),
      );
    }
  }
  for (const [words, record] of last) {
    const present = newest.get(words);
    const names = present === undefined ? [] : candidatesOf(present).map(({ name }) => name);
    for (const contender of candidatesOf(record))
      if (!names.includes(contender.name)) changes.push(lonely(record, contender, "gone"));
  }
  return changes;
}

const candidatesOf = (record: BenchRecord): readonly RecordContender[] =>
  record.contenders.filter(({ role }) => role === "candidate");

const lonely = (record: BenchRecord, contender: RecordContender, verdict: "new" | "gone"): Change => ({
  shape: shapeText(record.problem),
  regime: record.regime,
  name: contender.name,
  by: "time",
  peer: null,
  old: verdict === "gone" ? contender.us.median : null,
  new: verdict === "new" ? contender.us.median : null,
  change: null,
  noise: null,
  verdict,
});

function changeOf(old: BenchRecord, from: RecordContender, now: BenchRecord, to: RecordContender): Change {
  const peer = now.ratios.find(
    (ratio) =>
      ratio.candidate === to.name &&
      old.ratios.some((other) => other.candidate === from.name && other.peer === ratio.peer),
  )?.peer;
  const [before, after] =
    peer === undefined
      ? [speedOfTime(from), speedOfTime(to)]
      : [speedOfRatio(old, from.name, peer), speedOfRatio(now, to.name, peer)];
  const change = after.value / before.value;
  const spread = deviations * Math.hypot(before.deviation, after.deviation);
  const noise = Math.max(betweenRuns, spread);
  const verdict = change > 1 + noise ? "faster" : change < 1 - noise ? "slower" : "same";
  return {
    shape: shapeText(now.problem),
    regime: now.regime,
    name: to.name,
    by: peer === undefined ? "time" : "ratio",
    peer: peer ?? null,
    old: peer === undefined ? from.us.median : before.value,
    new: peer === undefined ? to.us.median : after.value,
    change,
    noise,
    verdict,
  };
}

function speedOfTime({ us, spreadUs: [low, high] }: RecordContender): Speed {
  return { value: 1 / us.median, deviation: (high - low) / (2 * deviations * us.median) };
}

function speedOfRatio(record: BenchRecord, candidate: string, peer: string): Speed {
  const ratio = record.ratios.find((one) => one.candidate === candidate && one.peer === peer);
  if (ratio === undefined) return { value: Number.NaN, deviation: 0 };
  return { value: ratio.value, deviation: (ratio.high - ratio.low) / (2 * deviations * ratio.value) };
}
