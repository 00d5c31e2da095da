/**
 * The model's predictions beside kernels that were timed, without a GPU:
 *
 *   node --conditions=@tilewright/source scripts/unseen/evaluate.ts [--held 28111815,20261213,20261218,20261219]
 *
 * A line for each row of dtypes and each backend: kernels that the compiler chose and others, those of the held-out seeds and of the rest; percent of predictions within 10 and
 * 25 % of the time, the median error, and what part of the far ones has which cause. Then what choosing among the kernels timed of a problem loses to the best of them, and the same of wide searches.
 */
import { parseArgs } from "node:util";
import { type Cause, machineOf, predictionOf } from "@tilewright/ir";
import { readStored, type Stored, stored, wide } from "./stored.ts";

interface Predicted extends Stored {
  /** Logarithm of the predicted over the measured time. */
  readonly error: number;
  /** What most of the predicted time goes to beside the launch. */
  readonly cause: Cause;
}

const { values } = parseArgs({
  options: { held: { type: "string", default: "28111815,20261213,20261218,20261219" } },
});
const held = new Set(values.held.split(","));
const machine = machineOf({ name: "H200" });

const predicted = (one: Stored): readonly Predicted[] => {
  const read = readStored(one);
  if (read === null) return [];
  const { problem, target, backend, schedule } = read;
  const prediction = predictionOf(backend, problem, schedule, target, machine);
  if (prediction === null) return [];
  const causes = (Object.entries(prediction.causes) as [Cause, number][]).filter(
    ([cause]) => cause !== "launch",
  );
  const [cause] = causes.reduce((most, each) => (each[1] > most[1] ? each : most));
  // The model's own: what measured kernels add is fitted to these kernels (residuals.ts says how it does on problems left out).
  const modelUs = prediction.timeUs - prediction.causes.residual;
  return [{ ...one, error: Math.log(modelUs / one.us), cause }];
};
const all = stored().flatMap(predicted);

const percent = (own: readonly Predicted[], near: number): string =>
  String(
    Math.round((100 * own.filter(({ error }) => Math.abs(Math.exp(error) - 1) <= near).length) / own.length),
  );

function line(name: string, own: readonly Predicted[]): string {
  const errors = own.map(({ error }) => error).sort((x, y) => x - y);
  const far = own.filter(({ error }) => Math.abs(Math.exp(error) - 1) > 0.25);
  const counts = new Map<Cause, number>();
  for (const { cause } of far) counts.set(cause, (counts.get(cause) ?? 0) + 1);
  const worst = [...counts].sort((x, y) => y[1] - x[1]).slice(0, 3);
  const median = (100 * (errors[errors.length >> 1] ?? 0)).toFixed(1);
  const cells = [name, own.length, percent(own, 0.1), percent(own, 0.25), median];
  return `| ${cells.join(" | ")} | ${worst.map(([cause, count]) => `${cause} ${count}`).join(", ")} |`;
}

function groups(own: readonly Predicted[], of: (one: Predicted) => string): readonly string[] {
  const found = new Map<string, Predicted[]>();
  for (const one of own) found.set(of(one), [...(found.get(of(one)) ?? []), one]);
  return [...found].sort(([x], [y]) => x.localeCompare(y)).map(([name, some]) => line(name, some));
}

const part = ({ set, first }: Stored): string =>
  `${first ? "first" : "others"}${held.has(set) ? ", held out" : ""}`;
console.log("| kernels | number | within 10 % | within 25 % | median error, % | causes of those beyond |");
console.log("| --- | --: | --: | --: | --: | --- |");
for (const text of [
  ...groups(
    all.filter(({ first }) => first),
    (one) => `${one.row} ${part(one)}`,
  ),
  ...groups(all, (one) => `${one.backend} ${part(one)}`),
  ...groups(all, part),
])
  console.log(text);

/** By how much the model's choice takes longer than the best, of each problem of which four kernels and more are timed. */
function lossesOf(kernels: readonly Predicted[]): readonly number[] {
  /** Kernels of a problem among which the model would choose, each once. */
  const problems = new Map<string, Map<string, { readonly us: number[]; readonly error: number }>>();
  for (const { row, m, n, k, b, backend, schedule, us, error } of kernels) {
    const problem = `${row} ${m}x${n}x${k}${b}`;
    const known =
      problems.get(problem) ?? new Map<string, { readonly us: number[]; readonly error: number }>();
    problems.set(problem, known);
    const name = `${backend} ${schedule}`;
    const kernel = known.get(name) ?? { us: [], error };
    known.set(name, { ...kernel, us: [...kernel.us, us] });
  }
  return [...problems.values()].flatMap((own): readonly number[] => {
    if (own.size < 4) return [];
    const timed = [...own.values()].map(({ us, error }) => {
      const mean = us.reduce((sum, each) => sum + each, 0) / us.length;
      return { us: mean, predicted: (us[0] ?? 0) * Math.exp(error) };
    });
    const chosen = timed.reduce((least, each) => (each.predicted < least.predicted ? each : least));
    return [chosen.us / Math.min(...timed.map(({ us }) => us))];
  });
}

function choices(name: string, kernels: readonly Predicted[]): string {
  const losses = lossesOf(kernels).toSorted((x, y) => x - y);
  const mean = Math.exp(losses.reduce((sum, loss) => sum + Math.log(loss), 0) / losses.length);
  const median = losses[losses.length >> 1] ?? 1;
  const far = losses.filter((loss) => loss > 1 / 0.9).length;
  return `${name}: choices among four kernels and more of ${losses.length} problems take ${mean.toFixed(3)} times the best time in the mean, ${median.toFixed(3)} in the median, at most ${(losses.at(-1) ?? 1).toFixed(2)}; ${far} are under 0.9 of the best`;
}

console.log(`\n${choices("stored", all)}`);
const searched = wide().flatMap(predicted);
console.log(choices("wide searches", searched));
console.log(
  `${searched.length} kernels of wide searches: ${percent(searched, 0.1)} % within 10 %, ${percent(searched, 0.25)} % within 25 %`,
);
