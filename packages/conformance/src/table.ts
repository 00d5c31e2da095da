/** The table of problems: everything that the problem model can say, a few small problems for each, from a seed. */
import { createRandom, type DType, dtypes } from "@tilewright/core";
import { takesSpecials } from "./data.ts";
import { type DTypes, pick } from "./random.ts";
import {
  addChains,
  addExpressions,
  addGated,
  addGatedFactors,
  addNarrowSteps,
  addQuantized,
  addResults,
  addSteps,
} from "./tableEpilogues.ts";
import {
  addAddedRows,
  addExpertSums,
  addExperts,
  addExpertWeights,
  addGatedWeights,
  addGroups,
  addQuantizedWeights,
  addScaledExperts,
  addSymbolic,
} from "./tableLaunches.ts";
import { even, layouts, type Row, ragged, SIZES, Table, type Variation } from "./tableRows.ts";

/** The problems for operands of these dtypes. Sizes stay under about a hundred: a large one proves nothing more. */
export function problemTable(types: DTypes, seed: number): readonly Row[] {
  const table = new Table(types, createRandom(seed));
  addSizes(table);
  addLayouts(table);
  addScalars(table);
  addBatches(table);
  addSteps(table);
  addChains(table);
  addSpecials(table);
  addSymbolic(table);
  addNarrowSteps(table);
  addGroups(table);
  addResults(table);
  addSplits(table);
  addExpressions(table);
  addGated(table);
  addExperts(table);
  addQuantized(table);
  addExpertSums(table);
  addWeights(table);
  addAddedRows(table);
  addExpertWeights(table);
  addGatedWeights(table);
  addScaledExperts(table);
  addQuantizedWeights(table);
  addBounds(table);
  addGatedFactors(table);
  return table.rows;
}

function addSizes(table: Table): void {
  for (const size of SIZES) {
    table.add(`m = ${size}`, { m: size, n: table.size(), k: table.size() });
    table.add(`n = ${size}`, { m: table.size(), n: size, k: table.size() });
    table.add(`k = ${size}`, { m: table.size(), n: table.size(), k: size });
  }
}

/** All eight pairs of layouts, packed and aligned, and with long rows at addresses no better than an element needs. */
function addLayouts(table: Table): void {
  const { dtype, bDType } = table.types;
  for (const a of layouts)
    for (const b of layouts)
      for (const d of layouts) {
        const name = `${a} x ${b} -> ${d}`;
        table.add(
          name,
          { m: 64, n: 48, k: 32 },
          {
            a: { dtype, layout: a },
            b: { dtype: bDType ?? dtype, layout: b },
            d: { dtype: table.out, layout: d },
          },
        );
        const loose = (type: DType, layout: string, contiguous: number) => ({
          dtype: type,
          layout,
          ld: contiguous + pick(table.random, [1, 3, 8]),
          align: Math.ceil(dtypes[type].bits / 8),
        });
        table.add(
          `${name}, long rows, least alignment`,
          { m: 45, n: 38, k: 27 },
          {
            a: loose(dtype, a, a === "row" ? 27 : 45),
            b: loose(bDType ?? dtype, b, b === "row" ? 38 : 27),
            d: loose(table.out, d, d === "row" ? 38 : 45),
          },
        );
      }
}

/** alpha and beta, among them 0 (C is absent, or not read) and values of the launch; C in D's memory. */
function addScalars(table: Table): void {
  const size = { m: 37, n: 50, k: 21 };
  const c = { c: { dtype: table.types.cDType ?? table.out } };
  table.add("alpha 0", size, { alpha: 0 });
  table.add("alpha 0, beta 1", size, { alpha: 0, beta: 1, ...c });
  table.add("alpha -0.75, beta -0.5", size, { alpha: -0.75, beta: -0.5, ...c });
  const launch = { alpha: "runtime", beta: "runtime", ...c };
  table.add("alpha and beta of the launch", size, launch);
  table.add("alpha of the launch is 0", size, launch, { scalars: { alpha: 0 } });
  table.add("beta of the launch is 0: C is not read", size, launch, {
    scalars: { beta: 0 },
    memory: { withoutC: true },
  });
  if (table.acc === "s32") {
    const half = { dtype: "bf16", layout: "row" };
    table.add("sums of integers, C and D in bf16", size, { c: half, d: half, beta: 0.5 });
  }
  if ((table.types.cDType ?? table.out) === table.out)
    for (const layout of layouts) {
      const operand = { dtype: table.out, layout };
      const same = { c: operand, d: operand, beta: 1 };
      table.add(`C and D are one matrix, ${layout}`, size, same, { memory: { inPlace: true } });
      const split: Variation = { memory: { inPlace: true }, split: 3 };
      table.add(`C and D are one matrix, ${layout}, split`, { ...size, k: 61 }, same, split);
    }
  for (const split of [2, 3, 7])
    table.add(
      `split ${split}, alpha 2, beta 1`,
      { m: 40, n: 30, k: 97 },
      { alpha: 2, beta: 1, ...c },
      { split },
    );
}

function addBatches(table: Table): void {
  const size = { m: 40, n: 30, k: 20 };
  const c = { c: { dtype: table.types.cDType ?? table.out }, beta: 1 };
  const batch = (count: number, strides: object = {}) => ({ batch: { kind: "strided", count, ...strides } });
  table.add("batch of 1", size, batch(1));
  table.add("batch of 3, with C", size, { ...batch(3), ...c });
  table.add("batch of 4, one A", size, batch(4, { strideA: 0 }));
  table.add("batch of 3, one B", size, batch(3, { strideB: 0 }));
  table.add("batch of 3, one C", size, { ...batch(3, { strideC: 0 }), ...c });
  const far = { strideA: 1999, strideB: 1733, strideC: 2503, strideD: 2647 };
  table.add("batch of 3, far apart", { m: 29, n: 31, k: 13 }, { ...batch(3, far), ...c });
  table.add("batch of 2, split", { m: 29, n: 31, k: 61 }, batch(2), { split: 3 });
  table.add("groups", size, { batch: { kind: "grouped", count: 4 } });
}

const special = { data: ["special"] } as const;

/** NaN and infinities reach exactly the elements that arithmetic says, past padding, tails, clamps and activations. */
function addSpecials(table: Table): void {
  const c = { c: { dtype: table.types.cDType ?? table.out }, beta: 1 };
  const rows = table.rows.length;
  for (const size of [...ragged, even[0]]) table.add("NaN and infinity", size, c, special);
  table.add("NaN and infinity, split", { m: 20, n: 30, k: 61 }, {}, { ...special, split: 3 });
  for (const step of [
    { kind: "activation", fn: "relu" },
    { kind: "clamp", min: -2, max: 3 },
    { kind: "reduce", op: "amax", over: "n", dtype: "f32" },
    { kind: "reduce", op: "amax", over: "all", dtype: "f32" },
  ])
    table.add(`NaN and infinity through ${step.fn ?? step.kind}`, ragged[0], { epilogue: [step] }, special);
  dropUntaken(table, rows);
}

/** Takes rows of NaN and infinities from a number on out again where operands have none. */
function dropUntaken(table: Table, rows: number): void {
  const [first] = table.rows.slice(rows);
  if (first && !takesSpecials(first.problem)) table.rows.length = rows;
}

/** The same through bounds of an expression, of which one is 0. */
function addBounds(table: Table): void {
  const rows = table.rows.length;
  table.add(
    "NaN and infinity through bounds of an expression",
    ragged[0],
    { epilogue: "min(max(acc, -2), 3) - max(min(acc, 4), 0)" },
    special,
  );
  dropUntaken(table, rows);
}

/** Weights in few bits beside A of 16 bits: all kinds of codes, with and without zero points, groups of all lengths, and tiles with tails. */
function addWeights(table: Table): void {
  const { dtype, bDType, acc = "f32" } = table.types;
  if ((dtype !== "bf16" && dtype !== "f16") || bDType !== undefined || acc !== "f32") return;
  const usual = { a: { dtype, layout: "row" }, b: {}, d: { dtype: table.out } };
  for (const [of, group, zeros] of [
    ["s4", 32, true],
    ["s8", 32, true],
    ["s8", 128, false],
    ["e2m1", 16, false],
    ["e4m3", 64, false],
  ] as const) {
    const weights = { dtype: of, group, zeros };
    const name = `weights of ${of} in groups of ${group}${zeros ? " with zero points" : ""}`;
    table.add(name, { m: 37, n: 48, k: 256 }, { ...usual, weights, epilogue: "gelu_tanh(acc + b[n])" });
    table.add(`${name}, split`, { m: 5, n: 80, k: 384 }, { ...usual, weights }, { split: 3 });
    table.add(
      `${name}, m of the launch`,
      { m: 70, n: 32, k: 128 },
      { ...usual, weights, symbolic: { m: {} } },
    );
    const shared = zeros ? {} : { strideB: 0 };
    table.add(
      `${name}, ${zeros ? "each problem of a batch" : "one matrix for a batch"}`,
      { m: 19, n: 32, k: 128 },
      { ...usual, weights, batch: { kind: "strided", count: 3, ...shared } },
    );
  }
}

/** Blocks that share tiles, with what else is special about memory and factors. */
function addSplits(table: Table): void {
  const size = { m: 37, n: 50, k: 61 };
  const { dtype, bDType, cDType } = table.types;
  const c = { c: { dtype: cDType ?? table.out } };
  const launch = { alpha: "runtime", beta: "runtime", ...c };
  table.add("alpha of the launch is 0, split", size, launch, { scalars: { alpha: 0 }, split: 2 });
  table.add("beta of the launch is 0: C is not read, split", size, launch, {
    scalars: { beta: 0 },
    memory: { withoutC: true },
    split: 3,
  });
  const loose = (type: DType, ld: number) => ({
    dtype: type,
    layout: "row",
    ld,
    align: Math.ceil(dtypes[type].bits / 8),
  });
  const operands = {
    a: loose(dtype, 64),
    b: loose(bDType ?? dtype, 53),
    c: loose(cDType ?? table.out, 57),
    d: loose(table.out, 51),
  };
  table.add("long rows, least alignment, split", size, { ...operands, beta: 1 }, { split: 3 });
  table.add(
    "groups, split, alpha 2, bias and sums",
    { m: 40, n: 30, k: 97 },
    {
      batch: { kind: "grouped", count: 4 },
      ...c,
      alpha: 2,
      beta: 1,
      symbolic: { m: { max: 60 } },
      epilogue: [
        { kind: "bias", along: "n", dtype: "f32" },
        { kind: "reduce", op: "sum", over: "n", dtype: "bf16" },
      ],
    },
    { split: 3 },
  );
}
