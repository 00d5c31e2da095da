/**
 * Fits what measured kernels add to the model (packages/ir/src/model/residuals.ts) and writes it into the GPU's data file:
 *
 *   node --conditions=@tilewright/source scripts/unseen/residuals.ts [--folds 10] [--write]
 *
 * A ridge on the logarithm of measured over predicted time, of which 0.9 of each problem's mean is left out: what counts is how kernels of one problem compare. Trees are fitted to what it
 * leaves, of which 0.2 of the mean is left out. Kernels count by how near they are to the fastest, in time and as predicted. Prints how the choice is among kernels of problems that were left out
 * of the fit.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { createRandom, evenProblem } from "@tilewright/core";
import {
  INFORMED,
  launchCounts,
  machineOf,
  NEAR,
  packTrees,
  predict,
  residualRange,
  residualTerms,
  residualValues,
  routeOf,
  type Tree,
  type TreeData,
  termRange,
  traitNames,
  traitsOf,
  treesOf,
  within,
} from "@tilewright/ir";
import { root } from "../lib/files.ts";
import { type Boosting, binned, boosted, cutsOf } from "./boosting.ts";
import { narrow, readStored, type Stored, stored, wide } from "./stored.ts";

const { values } = parseArgs({
  options: { folds: { type: "string", default: "10" }, write: { type: "boolean", default: false } },
});
const machine = machineOf({ name: "H200" });

/** Of a problem's mean error what is no part of the fit; penalty of a weight; errors beyond which a kernel counts less. */
const CENTRED = 0.9;
const PENALTY = 0.05;
const FAR = 0.15;
/** Trees to what the terms leave; cuts of a trait. */
const BOOSTING: Boosting = {
  trees: 600,
  leaves: 16,
  rate: 0.05,
  rows: 40,
  penalty: 5,
  traits: 0.5,
  sample: 0.7,
  centred: 0.2,
  far: FAR,
};
const CUTS = 63;
/** Shares of a time by which a kernel counts 1/e as much: measured over the fastest, predicted over the first. */
const SLOWER = { measured: 1, predicted: 0.3 } as const;

interface Kernel {
  readonly problem: string;
  readonly name: string;
  readonly wide: boolean;
  readonly route: string;
  readonly us: number;
  readonly predicted: number;
  readonly shares: readonly number[];
  readonly traits: Float64Array;
}

function kernelOf(one: Stored, isWide: boolean): readonly Kernel[] {
  const read = readStored(one);
  if (read === null) return [];
  const { problem, target, backend, schedule } = read;
  const even = evenProblem(problem);
  const kernel = backend.kernel?.(even, schedule, target);
  if (kernel === undefined) return [];
  const prediction = predict(even, kernel, machine);
  const counts = launchCounts(even, kernel);
  const { row, m, n, k, b, us } = one;
  return [
    {
      problem: `${row} ${m}x${n}x${k}${b}`,
      name: `${backend.id} ${one.schedule}`,
      wide: isWide,
      route: routeOf(kernel),
      us,
      predicted: prediction.timeUs,
      shares: residualValues(even, kernel, machine, prediction, counts),
      traits: traitsOf({ problem: even, kernel, machine, counts, prediction }),
    },
  ];
}

interface Row {
  readonly kernel: Kernel;
  /** Of the problem's kernels all but `CENTRED` of the mean: by route and term, and the logarithm. */
  readonly x: Float64Array;
  readonly y: number;
  readonly weight: number;
}

const by = <T>(all: readonly T[], of: (one: T) => string): ReadonlyMap<string, readonly T[]> => {
  const found = new Map<string, T[]>();
  for (const one of all) {
    const own = found.get(of(one)) ?? [];
    own.push(one);
    found.set(of(one), own);
  }
  return found;
};

const kernels = [
  ...[...wide(), ...narrow()].flatMap((one) => kernelOf(one, true)),
  ...stored().flatMap((one) => kernelOf(one, false)),
];
const problems = by(kernels, ({ problem }) => problem);
const routes = [...new Set(kernels.map(({ route }) => route))].sort();
const size = routes.length * residualTerms.length;

/** All of a kernel's terms, at the place of its route. */
function at({ route, shares }: Kernel): Float64Array {
  const x = new Float64Array(size);
  x.set(shares, routes.indexOf(route) * residualTerms.length);
  return x;
}

const rows = [...problems.values()].flatMap((own): readonly Row[] => {
  const fastest = Math.min(...own.map(({ us }) => us));
  const first = Math.min(...own.map(({ predicted }) => predicted));
  const weights = own.map(
    ({ us, predicted }) =>
      Math.exp((1 - us / fastest) / SLOWER.measured + (1 - predicted / first) / SLOWER.predicted) /
      Math.sqrt(own.length),
  );
  const sum = weights.reduce((total, weight) => total + weight, 0);
  const mean = new Float64Array(size);
  let level = 0;
  for (const [i, kernel] of own.entries()) {
    const share = (CENTRED * (weights[i] ?? 0)) / sum;
    level += share * Math.log(kernel.us / kernel.predicted);
    const x = at(kernel);
    for (let j = 0; j < size; j++) mean[j] = (mean[j] ?? 0) + share * (x[j] ?? 0);
  }
  return own.map((kernel, i) => ({
    kernel,
    x: at(kernel).map((value, j) => value - (mean[j] ?? 0)),
    y: Math.log(kernel.us / kernel.predicted) - level,
    weight: weights[i] ?? 0,
  }));
});

const dot = (x: Float64Array, y: Float64Array): number =>
  x.reduce((sum, value, j) => sum + value * (y[j] ?? 0), 0);

/** Solves a symmetric positive system in place, row by row. */
function solved(a: readonly Float64Array[], b: Float64Array): Float64Array {
  for (const [i, pivot] of a.entries()) {
    for (let r = i + 1; r < a.length; r++) {
      const row = a[r];
      const factor = (row?.[i] ?? 0) / (pivot[i] ?? 1);
      if (row === undefined || factor === 0) continue;
      for (let j = i; j < a.length; j++) row[j] = (row[j] ?? 0) - factor * (pivot[j] ?? 0);
      b[r] = (b[r] ?? 0) - factor * (b[i] ?? 0);
    }
  }
  for (let i = a.length - 1; i >= 0; i--) {
    let rest = b[i] ?? 0;
    for (let j = i + 1; j < a.length; j++) rest -= (a[i]?.[j] ?? 0) * (b[j] ?? 0);
    b[i] = rest / (a[i]?.[i] ?? 1);
  }
  return b;
}

/** Weights of all terms; errors beyond `FAR` count by how far they are. */
function fitted(some: readonly Row[]): Float64Array {
  let beta: Float64Array = new Float64Array(size);
  const total = some.reduce((sum, { weight }) => sum + weight, 0);
  for (let pass = 0; pass < 3; pass++) {
    const a = Array.from({ length: size }, () => new Float64Array(size));
    const b = new Float64Array(size);
    const scale = new Float64Array(size);
    for (const { x, y, weight } of some) {
      const far = pass === 0 ? 0 : Math.abs(y - dot(x, beta));
      const share = weight / Math.max(1, far / FAR);
      const used = [...x.entries()].filter(([, value]) => value !== 0);
      for (const [i, value] of used) {
        const row = a[i];
        b[i] = (b[i] ?? 0) + share * value * y;
        scale[i] = (scale[i] ?? 0) + share * value * value;
        if (row !== undefined) for (const [j, other] of used) row[j] = (row[j] ?? 0) + share * value * other;
      }
    }
    // The penalty is of weights of terms that are of the size of their mean square; of terms that none has nothing is left.
    for (const [i, row] of a.entries()) row[i] = (row[i] ?? 0) + PENALTY * (scale[i] ?? 0) + 1e-9 * total;
    beta = solved(a, b);
  }
  return beta;
}

const ofTerms = (kernel: Kernel, beta: Float64Array): number => within(termRange, dot(at(kernel), beta));

const numbers = new Map([...problems.keys()].map((name, number) => [name, number]));
const cuts = traitNames.map((_, trait) =>
  cutsOf(
    Float64Array.from(rows, ({ kernel }) => kernel.traits[trait] ?? 0),
    CUTS,
  ),
);
const allBins = cuts.map((own, trait) =>
  binned(
    Float64Array.from(rows, ({ kernel }) => kernel.traits[trait] ?? 0),
    own,
  ),
);

interface Fit {
  readonly beta: Float64Array;
  readonly trees: readonly Tree[];
  readonly data: TreeData;
}

/** Terms, and trees for what they leave, from the rows at these places. */
function fitOf(places: readonly number[]): Fit {
  const some = places.flatMap((place) => rows[place] ?? []);
  const beta = fitted(some);
  const mean = some.reduce((sum, { weight }) => sum + weight, 0) / some.length;
  const { trees, unit } = boosted(
    {
      bins: allBins.map((bins) => Uint8Array.from(places, (place) => bins[place] ?? 0)),
      y: Float64Array.from(
        some,
        ({ kernel }) => Math.log(kernel.us / kernel.predicted) - ofTerms(kernel, beta),
      ),
      weight: Float64Array.from(some, ({ weight }) => weight / mean),
      group: Int32Array.from(some, ({ kernel }) => numbers.get(kernel.problem) ?? 0),
    },
    BOOSTING,
    createRandom(2),
  );
  return {
    beta,
    trees,
    data: {
      traits: traitNames,
      cuts,
      unit,
      trees: Buffer.from(packTrees(trees)).toString("base64").replaceAll("=", ""),
    },
  };
}

const corrections = ({ beta, data }: Fit): ((kernel: Kernel) => number) => {
  const trees = treesOf(data);
  return (kernel) => within(residualRange, ofTerms(kernel, beta) + trees(kernel.traits));
};

/** The choice among the first ones of a problem, as the compiler orders them again. */
function choiceOf(own: readonly Kernel[], of: (kernel: Kernel) => number): Kernel | undefined {
  const inOrder = own.toSorted((x, y) => x.predicted - y.predicted);
  const most = NEAR * (inOrder[0]?.predicted ?? 0);
  return inOrder
    .slice(0, INFORMED)
    .filter(({ predicted }) => predicted <= most)
    .sort((x, y) => of(x) - of(y))[0];
}

/** The best time of a problem over that of the choice. */
const chosen = (own: readonly Kernel[], of: (kernel: Kernel) => number): number =>
  Math.min(...own.map(({ us }) => us)) / (choiceOf(own, of)?.us ?? Number.NaN);

function summary(name: string, all: readonly number[]): string {
  const sorted = all.toSorted((x, y) => x - y);
  const median = (sorted[sorted.length >> 1] ?? 0).toFixed(3);
  const mean = (all.reduce((sum, each) => sum + each, 0) / all.length).toFixed(3);
  const under = all.filter((each) => each < 0.9).length;
  return `${name}: ${all.length} problems, ${median} in the median, ${mean} in the mean, ${under} under 0.9, ${(sorted[0] ?? 0).toFixed(2)} at least`;
}

const random = createRandom(1);
const folds = Number(values.folds);
const fold = new Map([...problems.keys()].map((name) => [name, random.integer(0, folds - 1)]));
const held = new Map<Kernel, number>();
for (let part = 0; part < folds; part++) {
  const [others, own] = [false, true].map((is) =>
    rows.flatMap(({ kernel }, place) => ((fold.get(kernel.problem) === part) === is ? [place] : [])),
  );
  const correction = corrections(fitOf(others ?? []));
  for (const place of own ?? []) {
    const kernel = rows[place]?.kernel;
    if (kernel !== undefined) held.set(kernel, correction(kernel));
  }
}
const after = (kernel: Kernel): number => kernel.predicted * Math.exp(held.get(kernel) ?? 0);
const searched = [...problems.values()].map((own) => own.filter((kernel) => kernel.wide));
const some = searched.filter((own) => own.length >= 8);
console.log(
  summary(
    "model",
    some.map((own) => chosen(own, ({ predicted }) => predicted)),
  ),
);
console.log(
  summary(
    "left out of the fit",
    some.map((own) => chosen(own, after)),
  ),
);
const first = (of: (kernel: Kernel) => number) => some.flatMap((own) => choiceOf(own, of) ?? []);
/** Of problems with a few kernels their first ones: what the model of a day chose, most of them. */
const others = [...problems.values()]
  .filter((own) => own.every((kernel) => !kernel.wide))
  .flatMap((own) => choiceOf(own, ({ predicted }) => predicted) ?? []);
for (const near of [0.1, 0.25]) {
  const percent = (all: readonly Kernel[], of: (kernel: Kernel) => number): string =>
    (
      (100 * all.filter((kernel) => Math.abs(of(kernel) / kernel.us - 1) <= near).length) /
      all.length
    ).toFixed(0);
  const model = ({ predicted }: Kernel): number => predicted;
  console.log(
    `within ${100 * near} %: ${percent(some.flat(), model)}, left out of the fit ${percent(some.flat(), after)}; of the kernels chosen ${percent(first(model), model)} and ${percent(first(after), after)}; of the first of ${others.length} other problems ${percent(others, model)} and ${percent(others, after)}`,
  );
}
if (values.write) {
  const { beta, data: trees } = fitOf(rows.map((_, place) => place));
  const path = join(root, "packages/core/data/gpus/h200.json");
  const data = JSON.parse(readFileSync(path, "utf8"));
  data.model.residuals = {
    how: `ridge and trees over ${kernels.length} kernels of ${problems.size} problems of an H200 (scripts/unseen/residuals.ts); docs/perf/model.md has how problems that it left out are chosen`,
    terms: residualTerms,
    routes: Object.fromEntries(
      routes.map((route, i) => [
        route,
        [...beta.slice(i * residualTerms.length, (i + 1) * residualTerms.length)].map((value) =>
          Number(value.toPrecision(3)),
        ),
      ]),
    ),
    trees,
  };
  writeFileSync(path, `${JSON.stringify(data, null, 2)}\n`);
}
