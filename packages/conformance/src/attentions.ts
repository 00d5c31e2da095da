/** Attention at all backends: requests that are written down, and some drawn from a seed. Shapes are small: a long row proves nothing that parts of a short one do not. */
import {
  type AttentionRequest,
  biasAxes,
  createRandom,
  kvScaleForms,
  type Problem,
  type Random,
  type Schedule,
  type Target,
} from "@tilewright/core";
import {
  anchorOf,
  attentionText,
  type Backend,
  createCompiler,
  parseAxisProgram,
  readAttention,
  usualMachine,
} from "@tilewright/ir";
import { must } from "./build.ts";
import { pick } from "./random.ts";

/** A request for attention. */
export type AttentionFields = Omit<AttentionRequest, "op">;

const grouped = { batch: 2, heads: 4, kvHeads: 2 };
const bf16 = { dtype: "bf16" } as const;
const f16 = { dtype: "f16" } as const;

const request = (
  queries: number,
  keys: number,
  headDim: number,
  more: Partial<AttentionFields> = {},
): AttentionFields => ({
  ...{ queries, keys, headDim },
  ...more,
});

/** Of every field each value, of every form of keys (a tile, parts) and of rows some; f32 for CUDA cores. */
export const attentionTable: readonly AttentionFields[] = [
  request(33, 40, 32),
  request(17, 21, 16, { ...grouped, layout: "bshd", lse: true }),
  request(35, 45, 32, { causal: true }),
  request(20, 270, 48, { causal: true }),
  request(70, 77, 64, { ...bf16, heads: 2 }),
  request(100, 50, 64, { ...f16, ...grouped }),
  request(1, 129, 96, { ...bf16, heads: 8, kvHeads: 1 }),
  request(65, 250, 128, { ...bf16, layout: "bshd" }),
  request(20, 64, 192, { ...f16, valueDim: 128, d: { dtype: "f32" } }),
  request(20, 99, 72, { ...bf16, valueDim: 40, softCap: 2, scale: 0.3 }),
  request(20, 33, 256, { ...bf16, scale: -0.1 }),
  request(70, 77, 64, { ...bf16, ...grouped, causal: true }),
  request(77, 70, 64, { ...f16, causal: "top-left" }),
  request(90, 40, 64, { ...bf16, causal: true, lse: true }),
  request(150, 150, 64, { ...bf16, causal: true, window: 20 }),
  request(130, 40, 64, { ...bf16, window: 5 }),
  // Tiles as wide as V, 96 columns, are no multiple of a chunk.
  request(5, 42, 128, { ...f16, valueDim: 96, layout: "bshd" }),
  request(20, 233, 40, bf16),
  request(40, 50, 64, { ...bf16, ...grouped, bias: "bhqs" }),
  request(33, 70, 64, { ...f16, heads: 2, bias: "s", alibi: true, causal: true }),
  request(21, 30, 32, { heads: 3, alibi: true, softCap: 2 }),
  // More keys than a tile holds.
  request(40, 290, 64, { ...bf16, ...grouped, bias: "hqs", alibi: true, layout: "bshd" }),
  request(70, 320, 64, { ...bf16, heads: 4, kvHeads: 2 }),
  request(9, 300, 128, { ...f16, causal: true, lse: true }),
  request(70, 300, 64, { ...bf16, heads: 2, causal: true, rescaleAbove: 8, lse: true }),
  request(20, 530, 64, { ...f16, softCap: 9, window: 300, rescaleAbove: 0.5 }),
  request(140, 270, 64, { ...bf16, causal: true, window: 40 }),
  request(3, 300, 64, { ...f16, heads: 6, kvHeads: 2, causal: true, lse: true }),
  // Few rows, whose keys several CTAs share.
  request(1, 600, 64, { ...bf16, heads: 4, kvHeads: 2, layout: "bshd" }),
  request(17, 401, 72, { ...f16, valueDim: 40, softCap: 3, layout: "bshd", lse: true }),
  request(17, 260, 192, { ...bf16, valueDim: 128 }),
  request(17, 260, 192, bf16),
  request(17, 515, 256, { ...bf16, scale: -0.1 }),
  request(70, 270, 96, { ...bf16, heads: 2, kvHeads: 1, causal: true }),
  // Sequences of lengths of their own.
  request(40, 70, 32, {
    batch: 3,
    heads: 2,
    offsets: "both",
    totalQueries: 77,
    totalKeys: 100,
    causal: true,
  }),
  request(9, 45, 32, { batch: 3, offsets: "keys", totalKeys: 60, layout: "bshd", window: 7, lse: true }),
  request(70, 150, 64, { ...bf16, ...grouped, offsets: "both", totalQueries: 99, totalKeys: 200, lse: true }),
  request(90, 90, 64, {
    ...f16,
    batch: 4,
    heads: 2,
    offsets: "both",
    totalQueries: 200,
    totalKeys: 150,
    causal: true,
    layout: "bshd",
  }),
  request(80, 300, 128, { ...bf16, batch: 2, offsets: "both", totalKeys: 350, causal: true, window: 60 }),
  request(1, 300, 64, {
    ...bf16,
    batch: 3,
    heads: 4,
    kvHeads: 2,
    offsets: "keys",
    totalKeys: 500,
    lse: true,
  }),
  request(33, 140, 72, { ...f16, batch: 2, valueDim: 40, offsets: "both", causal: "top-left", alibi: true }),
  // Keys in pages, smaller and larger than a part; of a pool with fewer than all sequences fill, some are two sequences'.
  request(5, 100, 32, { batch: 3, pageSize: 8, pages: 20, lse: true }),
  request(1, 300, 64, { ...bf16, batch: 2, heads: 4, kvHeads: 1, pageSize: 16, layout: "bshd" }),
  request(70, 150, 64, { ...f16, batch: 2, heads: 2, pageSize: 64, causal: true }),
  request(20, 90, 72, { ...f16, batch: 2, valueDim: 40, pageSize: 256, window: 20, alibi: true }),
  // Gradients.
  request(40, 70, 64, { ...bf16, heads: 2, kvHeads: 1, causal: true, backward: "q" }),
  request(20, 40, 64, { ...f16, heads: 2, layout: "bshd", backward: "kv" }),
  request(70, 40, 128, { ...bf16, causal: true, backward: "q" }),
  request(70, 40, 72, { ...bf16, window: 20, d: { dtype: "f32" }, backward: "kv" }),
  request(40, 70, 64, { ...f16, heads: 2, kvHeads: 1, causal: true, backward: "kv" }),
  request(40, 140, 64, { ...bf16, heads: 2, causal: "top-left", backward: "q" }),
  request(90, 70, 64, { ...bf16, causal: true, window: 30, scale: 0.2, backward: "kv" }),
  request(20, 33, 32, { heads: 2, kvHeads: 1, causal: true, backward: "kv" }),
  request(40, 70, 64, {
    ...bf16,
    heads: 2,
    kvHeads: 1,
    softCap: 2,
    bias: "hqs",
    causal: true,
    backward: "q",
  }),
  request(40, 70, 64, { ...f16, heads: 2, kvHeads: 1, softCap: 2, bias: "hqs", backward: "kv" }),
  request(33, 70, 72, { ...bf16, heads: 2, alibi: true, bias: "qs", window: 8, backward: "kv" }),
  request(90, 140, 64, {
    ...bf16,
    ...{ batch: 3, offsets: "both", totalQueries: 170, totalKeys: 220, causal: true, alibi: true, window: 9 },
    ...{ layout: "bshd", backward: "q" },
  }),
  request(90, 140, 64, {
    ...bf16,
    ...{ batch: 3, offsets: "both", totalQueries: 170, totalKeys: 220, causal: true, backward: "kv" },
  }),
  request(20, 60, 32, { batch: 2, offsets: "keys", totalKeys: 90, softCap: 3, backward: "q" }),
  request(20, 60, 32, {
    ...{ heads: 2, kvHeads: 1, batch: 2, offsets: "keys", totalKeys: 90, softCap: 3, causal: true },
    ...{ backward: "kv" },
  }),
  // K and V of bytes with scales, by few rows whose keys are split, and by many.
  request(3, 290, 64, { ...f16, heads: 4, kvHeads: 2, kvDtype: "e4m3", kvScales: "head", causal: true }),
  request(1, 300, 64, {
    ...bf16,
    ...grouped,
    kvDtype: "e4m3",
    kvScales: "sequence",
    pageSize: 16,
    lse: true,
  }),
  request(40, 70, 72, { ...bf16, valueDim: 40, kvDtype: "e4m3", softCap: 2, bias: "qs", layout: "bshd" }),
  request(70, 260, 128, {
    ...bf16,
    batch: 2,
    kvDtype: "e4m3",
    kvScales: "head",
    offsets: "both",
    window: 99,
  }),
  // V in the rows of K, of more columns than tiles of one product have.
  request(1, 300, 288, { ...bf16, heads: 16, kvHeads: 1, valueDim: 272, latent: true }),
  request(3, 60, 300, { ...f16, heads: 6, kvHeads: 1, valueDim: 264, latent: true, causal: true }),
  request(1, 40, 288, { ...bf16, ...grouped, valueDim: 272, latent: true, pageSize: 16 }),
];

/** A request from a seed: the same seed gives the same one everywhere. */
function randomAttention(random: Random, dtype: NonNullable<AttentionFields["dtype"]>): AttentionFields {
  const often = <T>(value: T): T | undefined => (random.integer(0, 2) === 0 ? value : undefined);
  const kvHeads = random.integer(1, 2);
  const long = random.integer(0, 2) === 0;
  const headDim = pick(random, [64, 64, 32, 40, 72, 96, 128]);
  const fields: AttentionFields = {
    ...{
      queries: random.integer(1, 90),
      keys: long ? random.integer(257, 330) : random.integer(1, 256),
    },
    ...{ headDim, valueDim: often(pick(random, [32, 64, 48])), dtype },
    ...{ heads: kvHeads * random.integer(1, 2), kvHeads, batch: often(2) },
    layout: pick(random, ["bhsd", "bshd"]),
    causal: pick(random, [false, true, "top-left"]),
    ...{ bias: often(pick(random, biasAxes)), alibi: often(true), lse: often(true) },
    ...{ window: often(random.integer(1, 40)), softCap: often(2), scale: often(0.2) },
  };
  // Sequences of lengths of their own, whose scores no bias is added to.
  const offsets = often(pick<"both" | "keys">(random, ["both", "keys"]));
  const pageSize = offsets === undefined ? often(pick(random, [8, 16, 64, 128])) : undefined;
  if ((offsets ?? pageSize) !== undefined)
    Object.assign(fields, { offsets, pageSize, bias: undefined, batch: random.integer(1, 3) });
  // Gradients. The logarithms of sums are drawn, too: far keys would have weights beyond all numbers where a slope is below 0, and beyond those of f16 where scores are scaled by more than usual.
  const backward = often(pick<"q" | "kv">(random, ["q", "kv"]));
  if (backward !== undefined)
    Object.assign(fields, {
      ...{ backward, valueDim: undefined, lse: undefined, pageSize: undefined },
      scale: fields.dtype === "f16" ? undefined : fields.scale,
      alibi: fields.window !== undefined && fields.window < 9 ? fields.alibi : undefined,
      ...(backward === "kv"
        ? { layout: "bhsd", alibi: undefined, bias: fields.bias === undefined ? undefined : "s" }
        : {}),
      ...(backward === "kv" && fields.offsets === "both" ? { kvHeads: fields.heads } : {}),
    });
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined),
  ) as AttentionFields;
}

/** The program of a request. Throws on one that is refused. */
export const programOf = (fields: AttentionFields): string =>
  attentionText(must(readAttention({ op: "attention", ...fields })));

/** The product whose schedules a program takes. */
export const productOf = (text: string): Problem => must(anchorOf(must(parseAxisProgram(text)))).problem;

/** Schedules of the product that are drawn until one goes with the program. */
const DRAWS = 8;
/** How many of the backend's own the draws are among. */
const AMONG = 60;

/** A schedule that goes with a program; undefined where none of a few draws does: the compiler's choice then. */
function drawnSchedule(backend: Backend, text: string, target: Target, random: Random): Schedule | undefined {
  const anchor = must(anchorOf(must(parseAxisProgram(text))));
  const { problem, parts } = anchor;
  const listed: Schedule[] = [];
  for (const schedule of backend.schedules(problem, target)) if (listed.push(schedule) === AMONG) break;
  // Parts of keys of other widths than the tile's, where a backend has them.
  const chains = parts ? [...(backend.chains?.(problem, target, usualMachine(target), anchor) ?? [])] : [];
  const varied = chains.map((schedule) => {
    const chunk = pick(random, [32, 64, 96]);
    const chained: Schedule = { ...schedule, chainTile: [chunk * random.integer(1, 2), chunk] };
    // Tiles of all heads in one list.
    const oneList = problem.batch.kind === "strided" && "batchGroup" in schedule && random.integer(0, 1) > 0;
    return oneList ? { ...chained, sched: pick(random, ["persistent", "atomic"]), batchGroup: 1 } : chained;
  });
  if (varied.length > 0 && random.integer(0, 2) > 0) listed.splice(0, listed.length, ...varied);
  const compiler = createCompiler({ backends: [backend] });
  return Array.from({ length: DRAWS }, () => listed[random.integer(0, Math.max(0, listed.length - 1))]).find(
    (schedule) => schedule !== undefined && compiler.compile({ from: text, schedule, target }).ok,
  );
}

const NARROW_SEEDS = 2 ** 20;

/** A draw as a case: its request, program and schedule. */
export function attentionDraw(
  backend: Backend,
  target: Target,
  seed: number,
  dtypes: readonly [NonNullable<AttentionFields["dtype"]>, ...NonNullable<AttentionFields["dtype"]>[]],
) {
  const random = createRandom(seed);
  const drawn = randomAttention(random, pick(random, dtypes));
  // Of a seed of its own, where the backend has them: what else is drawn stays as it is.
  const others = createRandom(seed + NARROW_SEEDS);
  const narrow: AttentionFields = { ...drawn, kvDtype: "e4m3", kvScales: pick(others, kvScaleForms) };
  const served = drawn.dtype !== "f32" && drawn.backward === undefined && others.integer(0, 1) > 0;
  const fields = served && backend.accepts(productOf(programOf(narrow)), target).ok ? narrow : drawn;
  const text = programOf(fields);
  const schedule = drawnSchedule(backend, text, target, random);
  return { fields, text, target, seed, ...(schedule === undefined ? {} : { schedule }) };
}
