/** Rows of the epilogue: each step alone, steps after one another, what reductions store. */
import { activationNames, type DType, type Random } from "@tilewright/core";
import { isNarrow } from "./narrow.ts";
import { pick } from "./random.ts";
import { even, layouts, ragged, type Table } from "./tableRows.ts";

/** dtypes that an epilogue of a float accumulator may read and store. */
const stepDTypes: readonly DType[] = ["f32", "f16", "bf16"];

/** Every step of an epilogue alone, in every dtype that its data may have. */
export function addSteps(table: Table): void {
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
    ...activationNames.map((fn) => ({ kind: "activation", fn })),
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
export function addNarrowSteps(table: Table): void {
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

const CHAINS = 20;

/** Steps after one another, with batches, alpha and beta. */
export function addChains(table: Table): void {
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
    { kind: "activation", fn: pick(random, activationNames) },
    { kind: "residual", operand: { dtype, layout } },
    { kind: "gate", operand: { dtype, layout } },
    { kind: "output", operand: { dtype, layout } },
    { kind: "reduce", op: pick(random, ["sum", "amax"]), over: axis, dtype },
  ]);
}

/** Reductions stored in 8 bits; sums and maxima of a batch whose blocks share tiles. */
export function addResults(table: Table): void {
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

const EXPRESSIONS = 6;

/** Expressions at random: operands of every form, used once or twice, constants, functions of two values. */
export function addExpressions(table: Table): void {
  const { random } = table;
  const add = (name: string, epilogue: string): void =>
    table.add(`${name}: ${epilogue}`, pick(random, random.integer(0, 1) ? ragged : even), { epilogue });
  add("chain", "silu(acc * scale[n] + bias[n]:bf16) * gate[m,n]:f16:col");
  add("gated by itself", "(acc + b[m]) * sigmoid(acc * s[scalar] + b[m]) - t[tensor] / 4");
  for (let i = 0; i < EXPRESSIONS; i++)
    add(
      `expression ${i}`,
      `acc * v0[n] + ${randomExpression(random, 3)}|relu|max(acc, ${random.integer(-3, 3)})`,
    );
}

/** Operands v0, v1, … of one form each, so that the same name is the same operand. */
const randomOperands = [
  "v0[n]",
  "v1[m]:bf16",
  "v2[m,n]:bf16:col",
  "v3[m,n]",
  "v4[scalar]",
  "v5[tensor]",
] as const;

function randomExpression(random: Random, depth: number): string {
  if (depth === 0) return pick(random, ["acc", "0.5", "-2", ...randomOperands]);
  const [x, y] = [
    randomExpression(random, depth - 1),
    randomExpression(random, random.integer(0, depth - 1)),
  ];
  return pick(random, [
    `(${x} + ${y})`,
    `(${x} - ${y})`,
    `${x} * (${y})`,
    `(${x}) / (2 + abs(${y}))`,
    `-${y}`,
    `max(${x}, ${y})`,
    `min(${y}, 1.5)`,
    `clamp(${x}, -4, 4)`,
    `exp(min(${y}, 1))`,
    `bf16(${x})`,
    `${pick(random, activationNames)}(${y})`,
  ]);
}

const GATED = 3;

/** Gated products: all forms of B, biases of both sums, steps behind them, batches; sizes at random. */
export function addGated(table: Table): void {
  const { random, types } = table;
  const dtype = types.bDType ?? types.dtype;
  const narrow = isNarrow(dtype) || isNarrow(types.dtype);
  if (types.blockScales !== undefined || narrow || table.acc === "f64") return;
  const b = { dtype, layout: "col" };
  const form = { gated: "interleaved", b };
  const apart = { gated: "matrices" };
  const add = (epilogue: string, more: object = {}): void => {
    const size = { m: random.integer(1, 140), n: random.integer(1, 140), k: random.integer(1, 100) };
    const any = { dtype, layout: pick(random, layouts) };
    const whole = "gated" in more && more.gated === "interleaved" ? { k: 128 * random.integer(1, 2) } : {};
    // Sums of integers are joined in f32.
    const d = table.acc === "s32" ? { d: { dtype: "f32", layout: "row" } } : {};
    table.add(
      `gated: ${epilogue} ${JSON.stringify(more)}`,
      { ...size, ...whole },
      { gated: "halves", b: any, epilogue, ...d, ...more },
    );
  };
  add("silu(acc) * up");
  const rows = { a: { dtype: types.dtype, layout: "row" }, d: { dtype: "f32", layout: "row" } };
  add("silu(acc * s[n]) * (up * s[n])", { ...rows, symbolic: { m: {} } });
  add("silu(acc) * up + c[m,n]:f16", { ...rows, ...form, symbolic: { m: { max: 150 } } });
  add("gelu(acc + bg[n]) * (up + bu[n]:bf16) | bias(m,f32)", { alpha: 0.5, b });
  add("gelu_tanh(acc) * up * s[scalar]", { batch: { kind: "strided", count: 2 } });
  add("silu(acc) * up + c[m,n]:f16", form);
  add("silu(acc + bg[n]) * up", apart);
  add("gelu(acc) * up + c[m,n]:f16", { ...apart, b, batch: { kind: "strided", count: 2 } });
  for (let i = 0; i < GATED; i++)
    add(
      `relu(acc - up) + ${pick(random, ["up", "2", "acc"])} | output(f32) | scale(n,f32)`,
      i === 0 ? form : {},
    );
}

/** Gated products by factors of blocks: those of the second factor behind those of the first, in squares of their own where n is no multiple of 128. */
export function addGatedFactors(table: Table): void {
  const { random, types } = table;
  if (types.blockScales === undefined) return;
  const operands = {
    a: { dtype: types.dtype, layout: "row" },
    b: { dtype: types.bDType ?? types.dtype, layout: "col" },
    gated: "halves",
    epilogue: "silu(acc) * up",
  };
  const add = (name: string, n: number, more: object = {}): void => {
    const size = { m: random.integer(1, 140), n, k: random.integer(100, 400) };
    table.add(`gated, ${name}`, size, { ...operands, ...more });
  };
  add("n a multiple of 128", 128);
  add("n of two squares, the last one begun", 200);
  add("n odd, biases", random.integer(1, 70) * 2 + 1, {
    epilogue: "gelu(acc + bg[n]) * (up + bu[n]:bf16)",
  });
  add("two matrices, a batch of 2", random.integer(1, 140), {
    gated: "matrices",
    batch: { kind: "strided", count: 2 },
  });
  add("alpha, a bias of rows", 72, { alpha: 0.5, epilogue: "relu(acc - up) + up | bias(m,f32)" });
  const each = { blockScales: { a: "1x128", b: "1x128" } };
  add("a factor for each column", 4 * random.integer(10, 35), each);
  add("a factor for each column, n odd", 77, each);
  const d = { dtype: "e4m3", layout: "row" };
  // Beside a factor for each column of a tile a warp has no registers for whole groups of 128 of D.
  const group = types.blockScales.b === "128x128" ? 128 : 32;
  add("quantised for the next product", 128, { d, epilogue: `silu(acc) * up | quantize(${group},f32)` });
  const experts = (rows: string, more: object) => ({ batch: { kind: "grouped", count: 4, rows }, ...more });
  const even = { symbolic: { m: { multiple: 4 } } };
  table.add(
    "gated, experts by offsets",
    { m: 90, n: 136, k: 256 },
    { ...operands, ...experts("offsets", {}), d: { dtype: table.out, layout: "row" } },
  );
  table.add(
    "gated, experts by offsets, multiples of 4, two matrices, quantised",
    { m: 92, n: 128, k: 256 },
    {
      ...{ ...operands, ...experts("offsets", even), gated: "matrices", d },
      epilogue: "silu(acc) * up | quantize(128,f32)",
    },
  );
  table.add(
    "gated, experts by counts, rows of D by an index, weights of rows",
    { m: 40, n: 72, k: 300 },
    {
      ...{ ...operands, ...experts("counts", { scatter: 170 }), d: { dtype: table.out, layout: "row" } },
      epilogue: "silu(acc) * up * w[m]",
    },
  );
}

/** Outputs that are quantised by groups of columns, with their scales beside them. */
export function addQuantized(table: Table): void {
  const { random, types } = table;
  if (table.acc === "f64") return;
  const { dtype, bDType } = types;
  const size = (n: number) => ({ m: random.integer(1, 40), n, k: random.integer(1, 40) });
  // An accumulator in f16 has no integers, and integers no 8-bit floats.
  const integers = table.acc === "s32" || (table.acc === "f32" && random.integer(0, 1) === 1);
  const d = { d: { dtype: integers ? "s8" : "e4m3", layout: "row" } };
  table.add("quantised", size(96), { ...d, epilogue: "relu(acc + b[m]) | quantize(32,f32)" });
  table.add("quantised, a batch of 3", size(128), {
    ...d,
    batch: { kind: "strided", count: 3 },
    epilogue: [{ kind: "quantize", group: 64, operand: { layout: "row" } }],
  });
  const operands = { a: { dtype, layout: "row" }, b: { dtype: bDType ?? dtype, layout: "col" } };
  table.add("quantised, m at launch", size(128), {
    ...{ ...d, ...operands },
    symbolic: { m: {} },
    epilogue: "acc * s[n] | quantize(128,f32)",
  });
  table.add("quantised, mxf8, a batch of 2", size(128), {
    ...{ d: { dtype: "mxf8", layout: "row" }, batch: { kind: "strided", count: 2 } },
    epilogue: "acc * s[m] | quantize(32,u8)",
  });
  table.add("quantised, nvf4, m at launch", size(64), {
    ...{ ...operands, d: { dtype: "nvf4", layout: "row" }, symbolic: { m: {} } },
    epilogue: "acc * g[scalar] | quantize(16,u8)",
  });
  if (!["f32", "f16"].includes(table.acc) || types.blockScales !== undefined) return;
  table.add(
    "quantised, mxf4, gated",
    { m: 70, n: 128, k: 24 },
    {
      ...{ ...operands, gated: "halves", d: { dtype: "mxf4", layout: "row" } },
      epilogue: "silu(acc) * up | quantize(32,u8)",
    },
  );
  if (!isNarrow(dtype) && !isNarrow(bDType ?? dtype))
    table.add(
      "quantised, gated, two matrices",
      { m: 45, n: 96, k: 40 },
      { ...{ ...operands, ...d }, gated: "matrices", epilogue: "silu(acc) * up | quantize(32,f32)" },
    );
  const experts = { batch: { kind: "grouped", count: 4, rows: "offsets" }, gated: "halves" };
  table.add(
    "quantised, experts, gated, e5m2",
    { m: 70, n: 64, k: 64 },
    {
      ...{ ...operands, ...experts, d: { dtype: "e5m2", layout: "row" } },
      epilogue: "silu(acc) * up | quantize(32,f32:row)",
    },
  );
  const rows = (told: "offsets" | "counts", dtype: string) => ({
    ...{ ...operands, d: { dtype, layout: "row" } },
    batch: { kind: "grouped", count: 4, rows: told },
  });
  // The first has more rows than a block of scales.
  table.add(
    "quantised, mxf8, experts by offsets",
    { m: 270, n: 128, k: 32 },
    { ...rows("offsets", "mxf8"), epilogue: "acc * s[m] | quantize(32,u8)" },
  );
  table.add(
    "quantised, nvf4, experts by offsets, multiples of 128, gated",
    { m: 384, n: 64, k: 32 },
    {
      ...{ ...rows("offsets", "nvf4"), gated: "halves", symbolic: { m: { multiple: 128 } } },
      epilogue: "silu(acc) * up * g[scalar] | quantize(16,u8)",
    },
  );
  table.add(
    "quantised, mxf4, experts by counts, gated",
    { m: 40, n: 128, k: 32 },
    { ...rows("counts", "mxf4"), gated: "halves", epilogue: "silu(acc) * up | quantize(32,u8)" },
  );
}
