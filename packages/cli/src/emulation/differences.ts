/** What a kernel leaves in memory must not depend on the order: buffers of all runs are compared with the first one's. */
import type { Diagnostic } from "@tilewright/core";
import { codes, problemWith } from "../codes.ts";
import { runName } from "./flags.ts";
import type { Run } from "./launches.ts";
import { type Judgement, mayDiffer } from "./suppressions.ts";

const floats: ReadonlySet<string> = new Set(["f16", "f16x2", "bf16", "bf16x2", "f32", "f64"]);

/** Sums that floating-point atomics and reductions of bulk copies make round in the order of their arrival; a tensor copy's type is its map's. */
function isFloatSum(mnemonic: string): boolean {
  const words = mnemonic.split(".");
  const isReduction = /^(?:(?:multimem\.)?(?:atom|red)\.|cp\.reduce\.async\.bulk\.)/.test(mnemonic);
  const isFloat =
    mnemonic.startsWith("cp.reduce.async.bulk.tensor.") || words.some((word) => floats.has(word));
  return isReduction && isFloat && words.includes("add");
}

/** Instructions, executed in any run, that alone may make the bits of results depend on the order. */
export const floatSums = (runs: readonly Run[]): readonly string[] => [
  ...new Set(
    runs.flatMap(({ result }) =>
      Object.entries(result.counters?.instructions ?? {}).flatMap(([mnemonic, count]) =>
        count > 0 && isFloatSum(mnemonic) ? [mnemonic] : [],
      ),
    ),
  ),
];

const differencesOf = (runs: readonly Run[]) =>
  runs.flatMap((run) => run.differences.map((difference) => ({ run, ...difference })));

/**
 * Buffers that differ. `exact`: the runs again with exact sums by floating-point atomics; bytes that differ there too are errors, and where only
 * others do, it is a note. All are known where a baseline is written.
 */
export function differing(
  runs: readonly Run[],
  exact: readonly Run[],
  judgement: Judgement,
  isBaseline: boolean,
): {
  readonly buffers: readonly string[];
  readonly errors: readonly Diagnostic[];
  readonly note: string | null;
} {
  const found = differencesOf(runs);
  const buffers = [...new Set(found.map(({ buffer }) => buffer))];
  const counted = buffers.filter((buffer) => !isBaseline && !mayDiffer(judgement, buffer));
  const [first] = runs;
  if (first === undefined) return { buffers, errors: [], note: null };
  const sums = floatSums(runs).join(", ");
  const explains = exact.length > 0 && exact.every(({ result }) => result.completed);
  const unexplained = explains ? differencesOf(exact) : found;
  const besides = explains ? `, without the rounding of sums by ${sums}` : "";
  const errors = counted.flatMap((buffer) => {
    const one = unexplained.find((each) => each.buffer === buffer);
    if (one === undefined) return [];
    const message = `the result depends on the order${besides}: ${one.bytes} of ${one.size} bytes are not those of ${runName(first)}, the first at byte ${one.first} (${runName(one.run)})`;
    return [
      problemWith(codes.orderDependent, buffer, message, {
        hint: `where that is wanted: --suppress ${codes.orderDependent.code}:${buffer}`,
      }),
    ];
  });
  const noted = counted.filter((buffer) => errors.every(({ at }) => at !== buffer));
  const note = `${noted.join(", ")} ${noted.length === 1 ? "differs" : "differ"} in bits between the runs, as sums by ${sums} may`;
  return { buffers, errors, note: noted.length === 0 ? null : note };
}
