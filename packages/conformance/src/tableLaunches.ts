/** Rows whose sizes come with the launch, and of several problems in one launch. */
import { type DType, isScaled } from "@tilewright/core";
import { pick } from "./random.ts";
import { layouts, type Table } from "./tableRows.ts";

/** A vector, an operand that is read and one that is stored. */
const chain = [
  { kind: "bias", along: "n", dtype: "f32" },
  { kind: "residual", operand: { dtype: "f32", layout: "row" } },
  { kind: "output", operand: { dtype: "f32", layout: "col" } },
] as const;

/** Problems of different sizes in one launch, one of them without work and one without chunks. */
export function addGroups(table: Table): void {
  const groups = {
    batch: { kind: "grouped", count: 4 },
    c: { dtype: table.types.cDType ?? table.out },
    beta: 1,
  };
  const fours = { multiple: 4 };
  table.add(
    "groups, multiples of 4, up to more than the kernel is tuned for",
    { m: 24, n: 28, k: 20 },
    { ...groups, symbolic: { m: { ...fours, max: 80 }, n: fours, k: fours, lda: fours } },
  );
  table.add(
    "groups, a chain of steps",
    { m: 40, n: 30, k: 20 },
    {
      ...groups,
      epilogue: [
        ...chain,
        { kind: "reduce", op: "amax", over: "n", dtype: "bf16" },
        { kind: "reduce", op: "sum", over: "m", dtype: "f16" },
        { kind: "reduce", op: "amax", over: "all", dtype: "e4m3" },
      ],
    },
  );
  // What bulk copies can take: rows at multiples of 16 bytes, addresses too.
  const { dtype, bDType } = table.types;
  const whole = { multiple: 16, max: 96 };
  for (const [a, b] of [
    ["row", "col"],
    ["col", "row"],
  ])
    table.add(
      `groups of rows of whole 16 bytes, ${a} x ${b}`,
      { m: 80, n: 48, k: 64 },
      {
        batch: { kind: "grouped", count: 5 },
        symbolic: { m: whole, n: whole, k: { multiple: 16, max: 160 } },
        a: { dtype, layout: a },
        b: { dtype: bDType ?? dtype, layout: b },
        d: { dtype: table.out },
        ...(a === "col" ? { c: groups.c, beta: 1 } : {}),
      },
    );
}

/** Experts: rows that device memory tells apart, with an operand for each expert and one for each row. */
export function addExperts(table: Table): void {
  const { dtype, bDType } = table.types;
  const [a, d] = [
    { dtype, layout: "row" },
    { dtype: table.out, layout: "row" },
  ];
  const b = (layout: string) => ({ a, b: { dtype: bDType ?? dtype, layout }, d });
  const size = { m: 75, n: 48, k: 64 };
  // Sums that are doubles have no steps.
  const weighted = table.out === "f64" ? {} : { epilogue: "acc * w[m]" };
  const offsets = { batch: { kind: "grouped", count: 5, rows: "offsets" } };
  const counts = { batch: { kind: "grouped", count: 4, rows: "counts" } };
  table.add("experts, offsets", size, { ...offsets, ...b("col") });
  table.add(
    "experts, offsets, multiples of 8, several chunks",
    { m: 72, n: 40, k: 160 },
    { ...offsets, ...b("col"), symbolic: { m: { multiple: 8 } } },
  );
  table.add("experts, counts", { ...size, m: 40 }, { ...counts, ...b("row") });
  const scaled = table.types.blockScales !== undefined || isScaled(dtype);
  if (!scaled) {
    table.add("experts, offsets, rows of A by an index", size, { ...offsets, ...b("col"), gather: 23 });
    table.add(
      "experts, counts, rows of A and D by indices, weights of rows",
      { ...size, m: 40 },
      { ...counts, ...b("col"), gather: 90, scatter: 170, ...weighted },
    );
    table.add(
      "experts, offsets, multiples of 32, rows of A and D by indices",
      { m: 96, n: 24, k: 32 },
      { ...offsets, ...b("col"), gather: 40, scatter: 130, symbolic: { m: { multiple: 32 } } },
    );
  }
  // Gated products by factors of blocks have rows of their own; sums of integers are joined in f32.
  if (table.out !== "f64" && !scaled) {
    const joined = table.out === "s32" ? { d: { dtype: "f32", layout: "row" } } : {};
    const epilogue = "silu(acc + b[n]) * up";
    table.add(
      "experts, counts, gated",
      { ...size, m: 40 },
      { ...counts, ...b("col"), ...joined, gated: "halves", epilogue },
    );
    table.add("experts, offsets, gated, two matrices", size, {
      ...{ ...offsets, ...b("col"), ...joined, gated: "matrices", epilogue },
    });
  }

  table.add(
    "experts, offsets, odd rows, C and a chain of steps",
    { m: 61, n: 37, k: 29 },
    {
      ...offsets,
      ...b("row"),
      c: { dtype: table.types.cDType ?? table.out, layout: "row" },
      beta: 1,
      epilogue: [
        { kind: "scale", by: "tensor", dtype: "f32" },
        { kind: "scale", by: "m", dtype: "f32" },
        chain[0],
        chain[1],
        { kind: "output", operand: { dtype: "f32", layout: "row" } },
      ],
    },
  );
}

/** Experts whose scales lie in blocks of 128 rows, at blocks of their own: the first has more rows than a block; and what one product of experts leaves for the next. */
export function addScaledExperts(table: Table): void {
  const { dtype, bDType } = table.types;
  if (!isScaled(dtype)) return;
  const usual = {
    a: { dtype, layout: "row" },
    b: { dtype: bDType ?? dtype, layout: "col" },
    d: { dtype: table.out, layout: "row" },
  };
  const experts = (rows: string, count: number) => ({ batch: { kind: "grouped", count, rows } });
  table.add(
    "experts by offsets, blocks of scales",
    { m: 410, n: 40, k: 320 },
    { ...usual, ...experts("offsets", 4) },
  );
  table.add(
    "experts by offsets, blocks of scales one behind the other, rows of D by an index",
    { m: 512, n: 136, k: 96 },
    { ...usual, ...experts("offsets", 3), scatter: 600, symbolic: { m: { multiple: 128 } } },
  );
  table.add(
    "experts by counts, blocks of scales",
    { m: 150, n: 72, k: 160 },
    { ...usual, ...experts("counts", 3) },
  );
  table.add(
    "experts by offsets, blocks of scales, quantised",
    { m: 290, n: 128, k: 64 },
    {
      ...{ ...usual, ...experts("offsets", 4), d: { dtype: "mxf8", layout: "row" } },
      epilogue: "relu(acc + b[n]) | quantize(32,u8)",
    },
  );
}

/** Experts that differ in k: rows whose products are summed, of which those of others must stay out, and a D for each. */
export function addExpertSums(table: Table): void {
  const { dtype, bDType, cDType, blockScales } = table.types;
  if (blockScales !== undefined || isScaled(dtype)) return;
  const operands = (a: string, b: string) => ({
    a: { dtype, layout: a },
    b: { dtype: bDType ?? dtype, layout: b },
    d: { dtype: table.out },
  });
  const offsets = { batch: { kind: "grouped", count: 4, rows: "offsets", axis: "k" } };
  const counts = { batch: { kind: "grouped", count: 3, rows: "counts", axis: "k" } };
  const c = { c: { dtype: cDType ?? table.out }, beta: 1 };
  const size = { m: 24, n: 32, k: 90 };
  table.add("experts along k, offsets, C", size, { ...offsets, ...operands("col", "row"), ...c });
  table.add("experts along k, offsets inside of lines", size, { ...offsets, ...operands("row", "col") });
  table.add(
    "experts along k, counts, multiples of 16, odd columns",
    { m: 21, n: 19, k: 64 },
    { ...counts, ...operands("row", "col"), symbolic: { k: { multiple: 16 } } },
  );
}

/** One kernel for several sizes: which of them the launch supplies, and what is known of them. */
export function addSymbolic(table: Table): void {
  const { dtype, bDType } = table.types;
  const size = { m: 45, n: 38, k: 27 };
  const eights = { m: 48, n: 40, k: 32 };
  const layout = () => ({ layout: pick(table.random, layouts) });
  /** Packed rows, which follow the sizes. */
  const packed = () => ({
    a: { dtype, ...layout() },
    b: { dtype: bDType ?? dtype, ...layout() },
    d: { dtype: table.out, ...layout() },
  });
  const multiples = { multiple: 8 };
  const c = { c: { dtype: table.types.cDType ?? table.out }, beta: 1 };
  table.add("m, n, k at launch", size, { ...packed(), symbolic: { m: {}, n: {}, k: {} } });
  table.add("m at launch", size, { ...packed(), symbolic: { m: {} } });
  table.add("n at launch, up to the length of fixed rows", size, {
    ...packed(),
    b: { dtype: bDType ?? dtype, layout: "row", ld: 48 },
    d: { dtype: table.out, layout: "row", ld: 41 },
    symbolic: { n: { max: 40 } },
  });
  table.add("leading dimensions at launch", size, { ...packed(), symbolic: { lda: {}, ldb: {}, ldd: {} } });
  table.add("m, n, k at launch, multiples of 8", eights, {
    ...packed(),
    symbolic: { m: multiples, n: multiples, k: multiples },
  });
  table.add("k at launch, split", { ...size, k: 97 }, { ...packed(), symbolic: { k: {} } }, { split: 3 });
  table.add(
    "m, n, k at launch, split, C",
    { ...eights, k: 64 },
    { ...packed(), ...c, symbolic: { m: multiples, n: { ...multiples, max: 80 }, k: multiples } },
    { split: 2 },
  );
  table.add(
    "m, n, k and the batch at launch, a chain of steps",
    { m: 29, n: 31, k: 13 },
    {
      ...packed(),
      ...c,
      batch: { kind: "strided", count: 2 },
      epilogue: [
        ...chain,
        { kind: "reduce", op: "amax", over: "n", dtype: "f32" },
        { kind: "reduce", op: "sum", over: "m", dtype: "f16" },
      ],
      symbolic: { m: {}, n: {}, k: {}, batch: { max: 4 } },
    },
  );
}

/** Experts whose rows are added to rows of D, several to one. */
export function addAddedRows(table: Table): void {
  const { dtype, bDType, blockScales } = table.types;
  if (blockScales !== undefined || table.out === "f64") return;
  const operands = (b: string, d: DType) => ({
    a: { dtype, layout: "row" },
    b: { dtype: bDType ?? dtype, layout: b },
    d: { dtype: d, layout: "row" },
  });
  if (!isScaled(dtype))
    table.add(
      "experts, counts, rows of A by an index, added to rows of D, weights of rows",
      { m: 40, n: 48, k: 64 },
      {
        ...operands("col", table.out),
        ...{ batch: { kind: "grouped", count: 4, rows: "counts" }, gather: 30, scatterAdd: 25 },
        epilogue: "acc * w[m]",
      },
    );
  table.add(
    "experts, offsets, rows added to those of a D in 32 bits, odd columns",
    { m: 75, n: 37, k: 64 },
    {
      ...operands("col", table.out === "s32" ? "s32" : "f32"),
      ...{ batch: { kind: "grouped", count: 5, rows: "offsets" }, scatterAdd: 20 },
    },
  );
}

/** Experts whose B has few bits: blocks of codes and scales of each behind those of the one before. */
export function addExpertWeights(table: Table): void {
  const { dtype, bDType, acc = "f32" } = table.types;
  if ((dtype !== "bf16" && dtype !== "f16") || bDType !== undefined || acc !== "f32") return;
  const usual = { a: { dtype, layout: "row" }, b: {}, d: { dtype: table.out, layout: "row" } };
  for (const [of, group, zeros, rows] of [
    ["s4", 32, true, "offsets"],
    ["s8", 128, false, "counts"],
    ["e2m1", 16, false, "offsets"],
  ] as const)
    table.add(
      `experts, ${rows}, weights of ${of} in groups of ${group}`,
      { m: 40, n: 48, k: 256 },
      {
        ...{ ...usual, weights: { dtype: of, group, zeros } },
        batch: { kind: "grouped", count: 4, rows },
        epilogue: "gelu_tanh(acc + b[n])",
      },
    );
}

/** Products whose B has few bits, and whose output is quantised by groups of columns. */
export function addQuantizedWeights(table: Table): void {
  const { dtype, bDType, acc = "f32" } = table.types;
  if ((dtype !== "bf16" && dtype !== "f16") || bDType !== undefined || acc !== "f32") return;
  for (const [m, d, step, more] of [
    [37, "e4m3", "quantize(32,f32:row)", { batch: { kind: "grouped", count: 3, rows: "offsets" } }],
    [70, "mxf8", "quantize(32,u8)", {}],
    [16, "s8", "quantize(128,f32)", {}],
    [16, "e5m2", "quantize(64,f32)", { gated: "halves" }],
  ] as const)
    table.add(
      `weights of s4, quantised, ${d} by ${step}`,
      { m, n: 640, k: 128 },
      {
        ...{ a: { dtype, layout: "row" }, b: {}, d: { dtype: d, layout: "row" }, ...more },
        weights: { group: 64 },
        epilogue: `${"gated" in more ? "silu(acc) * up" : "relu(acc + b[n])"} | ${step}`,
      },
    );
}

/** Gated products whose B has few bits: codes and scales of the gate's columns, and behind them those of the up projection. */
export function addGatedWeights(table: Table): void {
  const { dtype, bDType, acc = "f32" } = table.types;
  if ((dtype !== "bf16" && dtype !== "f16") || bDType !== undefined || acc !== "f32") return;
  const usual = {
    a: { dtype, layout: "row" },
    b: {},
    gated: "halves",
    d: { dtype: table.out, layout: "row" },
  };
  for (const [of, group, zeros] of [
    ["s4", 32, true],
    ["s8", 128, false],
    ["e4m3", 16, false],
  ] as const)
    table.add(
      `weights of ${of} in groups of ${group}, gated`,
      { m: 37, n: 80, k: 256 },
      { ...usual, weights: { dtype: of, group, zeros }, epilogue: "silu(acc + b[n]) * up" },
    );
  table.add(
    "weights of s4, gated, each problem of a batch",
    { m: 19, n: 48, k: 128 },
    {
      ...{ ...usual, weights: { group: 64, zeros: false }, batch: { kind: "strided", count: 2 } },
      epilogue: "gelu_tanh(acc) * up",
    },
  );
  table.add(
    "weights of e2m1, gated, experts, quantised, mxf8",
    { m: 40, n: 128, k: 192 },
    {
      ...{ ...usual, weights: { dtype: "e2m1", group: 16 }, d: { dtype: "mxf8", layout: "row" } },
      batch: { kind: "grouped", count: 4, rows: "offsets" },
      epilogue: "silu(acc) * up | quantize(32,u8)",
    },
  );
}
