/** The table of problems: everything that the problem model can say, a few small problems for each, from a seed. */
import { type Activation, createRandom, type DType, dtypes, type Problem, type Random } from "@tilewright/ir";
import type { Case } from "./check.ts";
import { takesSpecials } from "./data.ts";
import { inWholeBytes, isNarrow } from "./narrow.ts";
import { type DTypes, pick, problemOf, randomOperand, requestTypes } from "./random.ts";

/** A problem of the table, by name, and what is special about running it. */
export interface Row extends Pick<Case, "data" | "scalars" | "memory"> {
  readonly name: string;
  readonly problem: Problem;
  /** The schedule has this many blocks share a tile's K, where the backend can. */
  readonly split?: number;
}

type Variation = Omit<Row, "name" | "problem">;

const SIZES = [1, 2, 3, 5, 7, 13, 31, 61, 97] as const;
const layouts = ["row", "col"] as const;
const activations: readonly [Activation, ...Activation[]] = [
  "relu",
  "gelu",
  "gelu_tanh",
  "silu",
  "sigmoid",
  "tanh",
];

interface Size {
  readonly m: number;
  readonly n: number;
  readonly k: number;
}

/** Sizes that no vector and no tile divides. */
const ragged: readonly [Size, Size] = [
  { m: 33, n: 17, k: 9 },
  { m: 70, n: 101, k: 20 },
];
/** Sizes without tails, and the smallest. */
const even: readonly [Size, Size] = [
  { m: 64, n: 48, k: 32 },
  { m: 1, n: 1, k: 1 },
];

/** dtypes that an epilogue of a float accumulator may read and store. */
const stepDTypes: readonly DType[] = ["f32", "f16", "bf16"];

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
  return table.rows;
}

/** Whether a request leaves sizes to the launch: factors of blocks have none to lie by, elements that share bytes none to be spread by. */
const leavesSizes = (more: object): boolean =>
  "symbolic" in more || ("batch" in more && JSON.stringify(more.batch).includes("grouped"));

class Table {
  readonly rows: Row[] = [];
  readonly types: DTypes;
  readonly random: Random;

  constructor(types: DTypes, random: Random) {
    this.types = types;
    this.random = random;
  }

  /** Operands of these sizes at random: layouts, leading dimensions, alignments. `more` has the last word. */
  add(name: string, size: Size, more: object = {}, variation: Variation = {}): void {
    const { m, n, k } = size;
    const { dtype, bDType, blockScales } = this.types;
    const known = blockScales !== undefined || [dtype, bDType ?? dtype].some(isNarrow);
    if (known && leavesSizes(more)) return;
    const out = this.out;
    const request = {
      ...requestTypes(this.types),
      m,
      n,
      k,
      a: randomOperand(this.random, m, k, dtype),
      b: randomOperand(this.random, k, n, bDType ?? dtype),
      d: randomOperand(this.random, m, n, out),
      ...more,
    };
    this.rows.push({ name, problem: problemOf(inWholeBytes(request)), ...variation });
  }

  /** D's dtype. */
  get out(): DType {
    return problemOf(inWholeBytes({ ...requestTypes(this.types), m: 1, n: 1, k: 1 })).d.dtype;
  }

  size(): number {
    return pick(this.random, SIZES);
  }
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

/** Problems of different sizes in one launch, one of them without work and one without chunks. */
function addGroups(table: Table): void {
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
        { kind: "bias", along: "n", dtype: "f32" },
        { kind: "residual", operand: { dtype: "f32", layout: "row" } },
        { kind: "output", operand: { dtype: "f32", layout: "col" } },
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

/** Every step of an epilogue alone, in every dtype that its data may have. */
function addSteps(table: Table): void {
  const typed = (dtype: DType): readonly object[] => [
    ...layouts.flatMap((layout) =>
      ["residual", "gate", "output"].map((kind) => ({ kind, operand: { dtype, layout } })),
    ),
    ...["m", "n"].map((along) => ({ kind: "bias", along, dtype })),
    ...["scalar", "m", "n", "tensor"].map((by) => ({ kind: "scale", by, dtype })),
    ...["sum", "amax"].flatMap((op) =>
      ["m", "n", "all"].map((over) => ({ kind: "reduce", op, over, dtype })),
    ),
  ];
  const steps: readonly object[] = [
    ...activations.map((fn) => ({ kind: "activation", fn })),
    { kind: "clamp", min: -0.5, max: 1.5 },
    ...stepDTypes.flatMap(typed),
    ...["f16", "bf16", "e4m3", "e5m2", "s8", "u8"].flatMap((dtype) =>
      [true, false].map((saturate) => ({ kind: "cast", dtype, saturate })),
    ),
  ];
  steps.forEach((step, i) => {
    const name = JSON.stringify(step).replaceAll('"', "");
    table.add(name, pick(table.random, ragged), { epilogue: [step] });
    if (i % 2 === 0) table.add(`${name}, even`, pick(table.random, even), { epilogue: [step] });
  });
}

/** Steps whose data has 8 bits. */
function addNarrowSteps(table: Table): void {
  for (const dtype of ["s8", "u8", "e4m3", "e5m2"]) {
    const operand = { dtype, layout: pick(table.random, layouts) };
    for (const step of [
      { kind: "bias", along: pick(table.random, ["m", "n"]), dtype },
      { kind: "scale", by: pick(table.random, ["m", "n", "tensor"]), dtype },
      { kind: "residual", operand },
      { kind: "gate", operand },
      { kind: "output", operand },
    ])
      table.add(JSON.stringify(step).replaceAll('"', ""), pick(table.random, ragged), { epilogue: [step] });
  }
}

/** One kernel for several sizes: which of them the launch supplies, and what is known of them. */
function addSymbolic(table: Table): void {
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
        { kind: "bias", along: "n", dtype: "f32" },
        { kind: "residual", operand: { dtype: "f32", layout: "row" } },
        { kind: "output", operand: { dtype: "f32", layout: "col" } },
        { kind: "reduce", op: "amax", over: "n", dtype: "f32" },
        { kind: "reduce", op: "sum", over: "m", dtype: "f16" },
      ],
      symbolic: { m: {}, n: {}, k: {}, batch: { max: 4 } },
    },
  );
}

const CHAINS = 20;

/** Steps after one another, with batches, alpha and beta. */
function addChains(table: Table): void {
  const { random } = table;
  for (let i = 0; i < CHAINS; i++) {
    const size = { m: random.integer(1, 60), n: random.integer(1, 60), k: random.integer(1, 40) };
    const epilogue = Array.from({ length: random.integer(1, 4) }, () => randomStep(random));
    const names = epilogue.map(({ kind }) => kind).join(", ");
    const batch = i % 2 ? { kind: "strided", count: random.integer(1, 4) } : { kind: "none" };
    const c = random.integer(0, 1) ? { c: { dtype: table.types.cDType ?? table.out }, beta: 1 } : {};
    const split = random.integer(0, 2) === 0 ? { split: 2 } : {};
    table.add(`chain ${i}: ${names}`, size, { alpha: 1.5, ...c, batch, epilogue }, split);
  }
}

function randomStep(random: Random): { readonly kind: string } {
  const axis = pick(random, ["m", "n"]);
  const layout = pick(random, layouts);
  const dtype = "f32";
  return pick<{ readonly kind: string; readonly [field: string]: unknown }>(random, [
    { kind: "bias", along: axis, dtype },
    { kind: "scale", by: axis, dtype },
    { kind: "activation", fn: pick(random, activations) },
    { kind: "residual", operand: { dtype, layout } },
    { kind: "gate", operand: { dtype, layout } },
    { kind: "output", operand: { dtype, layout } },
    { kind: "reduce", op: pick(random, ["sum", "amax"]), over: axis, dtype },
  ]);
}

/** NaN and infinities reach exactly the elements that arithmetic says, past padding, tails, clamps and activations. */
function addSpecials(table: Table): void {
  const special = { data: ["special"] } as const;
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
  const [first] = table.rows.slice(rows);
  if (first && !takesSpecials(first.problem)) table.rows.length = rows;
}

/** Reductions stored in 8 bits; sums and maxima of a batch whose blocks share tiles. */
function addResults(table: Table): void {
  const { random } = table;
  for (const dtype of ["s8", "u8", "e4m3", "e5m2"])
    for (const op of ["sum", "amax"]) {
      const step = { kind: "reduce", op, over: pick(random, ["m", "n", "all"]), dtype };
      table.add(JSON.stringify(step).replaceAll('"', ""), pick(random, ragged), { epilogue: [step] });
    }
  const epilogue = [
    { kind: "reduce", op: "sum", over: "n", dtype: "bf16" },
    { kind: "activation", fn: "relu" },
    { kind: "reduce", op: "amax", over: "all", dtype: "e4m3" },
  ];
  const batch = { kind: "strided", count: 3 };
  table.add(
    "batch of 3, results in two dtypes, split",
    { m: 29, n: 31, k: 61 },
    { batch, epilogue },
    { split: 3 },
  );
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
