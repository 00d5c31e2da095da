/** Rows of the epilogue: each step alone, steps after one another, what reductions store. */
import type { Activation, DType, Random } from "@tilewright/core";
import { pick } from "./random.ts";
import { even, layouts, ragged, type Table } from "./tableRows.ts";

const activations: readonly [Activation, ...Activation[]] = [
  "relu",
  "gelu",
  "gelu_tanh",
  "silu",
  "sigmoid",
  "tanh",
];

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
    { kind: "activation", fn: pick(random, activations) },
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
