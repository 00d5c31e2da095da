/** Random problems and directives through the shared passes: the programs that the tests of the tile IR run on. */

import { findTarget, type Problem, readProblemRequest, type Target } from "@tilewright/core";
import fc from "fast-check";
import {
  type ArgumentsOf,
  allocate,
  bindEdges,
  bindLayouts,
  bindOwnership,
  bindRaster,
  type Directive,
  type DirectiveName,
  elideGuards,
  expandRings,
  gemmNest,
  loadFragments,
  type OwnershipMode,
  openKernel,
  orderWalk,
  type Pass,
  peelDrain,
  pipelineRing,
  rotateFragments,
  scheduleTiles,
  stageOperands,
  type TileProgram,
  vectorise,
} from "../../../src/index.ts";

export const passes: readonly Pass[] = [
  stageOperands,
  loadFragments,
  pipelineRing,
  rotateFragments,
  peelDrain,
  bindEdges,
  bindOwnership,
  vectorise,
  bindLayouts,
  orderWalk,
  bindRaster,
  elideGuards,
  expandRings,
  scheduleTiles("first"),
  openKernel,
  allocate,
];

export function target(arch: string): Target {
  const found = findTarget(arch);
  if (!found.ok) throw new Error(`no target ${arch}`);
  return found.value;
}

export function problem(request: Record<string, unknown>): Problem {
  const defined = readProblemRequest(request);
  if (!defined.ok) throw new Error(JSON.stringify(defined.error));
  return defined.value;
}

export interface Recipe {
  readonly problem: Problem;
  readonly warps: readonly [number, number];
  readonly lanes: readonly [number, number];
  readonly thread: readonly [number, number];
  readonly strip: readonly [number, number];
  readonly tileK: number;
  /** Blocks that share the K loop of a tile, where there are chunks for so many; 1 unless given. */
  readonly splits?: number;
  readonly directives: readonly Directive[];
}

/** The program of a recipe at stage nest. */
export function build(recipe: Recipe, arch = "sm_80"): TileProgram {
  const { warps, lanes, thread, strip, tileK, problem: p } = recipe;
  const axis = (
    i: 0 | 1,
    warpStride: number,
    laneStride: number,
    extent: number,
    scale: number,
  ): OwnershipMode[] => [
    { tier: "grid", extent: Math.ceil(extent / (warps[i] * lanes[i] * thread[i])), stride: 1 },
    { tier: "warp", extent: warps[i], stride: warpStride },
    { tier: "register", extent: thread[i] / strip[i], stride: strip[i] * scale },
    { tier: "thread", extent: lanes[i], stride: laneStride },
    { tier: "register", extent: strip[i], stride: scale },
  ];
  const chunks = Math.ceil(p.k / tileK);
  const each = Math.ceil(chunks / (recipe.splits ?? 1));
  return gemmNest({
    name: "gemm",
    arch,
    problem: p,
    nest: {
      m: axis(0, warps[1], 1, p.m, thread[1]),
      n: axis(1, 1, lanes[0], p.n, 1),
      k: [
        ...(each < chunks ? [{ tier: "grid", extent: Math.ceil(chunks / each), stride: each } as const] : []),
        { tier: "block", extent: each, stride: 1 },
        { tier: "register", extent: tileK, stride: 1 },
      ],
    },
    threads: warps[0] * warps[1] * 32,
    cluster: [1, 1],
    atom: "fma",
    directives: recipe.directives,
  });
}

const even = fc.constantFrom(2, 4, 8);
const lanes = fc.constantFrom([4, 8], [8, 4], [2, 16], [32, 1]) as fc.Arbitrary<readonly [number, number]>;
const strips = fc.constantFrom([1, 1], [2, 1], [1, 2], [3, 1], [4, 2], [2, 4]) as fc.Arbitrary<
  readonly [number, number]
>;

/** All optimisations on or off at random; sizes that divide nothing. */
export const recipes = (largest = 40): fc.Arbitrary<Recipe> =>
  fc
    .record({
      m: fc.integer({ min: 1, max: largest }),
      n: fc.integer({ min: 1, max: largest }),
      k: fc.integer({ min: 1, max: largest }),
      layouts: fc.tuple(...[0, 1, 2, 3].map(() => fc.constantFrom("row", "col"))),
      pad: fc.tuple(...[0, 1, 2, 3].map(() => fc.constantFrom(0, 0, 1, 4))),
      alpha: fc.constantFrom(1, -0.5),
      beta: fc.constantFrom(0, 0, 1, 0.25),
      warps: fc.constantFrom([1, 1], [2, 1], [1, 2]) as fc.Arbitrary<readonly [number, number]>,
      lanes,
      strip: strips,
      runs: fc.constantFrom([1, 1], [2, 1], [1, 2]) as fc.Arbitrary<readonly [number, number]>,
      tileK: even,
      splits: fc.constantFrom(1, 1, 2, 3),
      operands: fc.constantFrom("ab", "a", "b", "off"),
      transport: fc.constantFrom("direct", "cp.async"),
      slots: fc.integer({ min: 1, max: 4 }),
      prefetch: fc.integer({ min: 0, max: 1 }),
      rotate: fc.boolean(),
      drain: fc.boolean(),
      first: fc.constantFrom("a", "b"),
      vector: fc.constantFrom(1, 2, 4),
      smem: fc.constantFrom("plain", "pad", "swizzle", "auto"),
      walk: fc.constantFrom("rows", "snake-rows", "snake-cols"),
      raster: fc.constantFrom("row", "col", "grouped", "snake", "hilbert"),
      elide: fc.boolean(),
    })
    .map((r): Recipe => {
      const shapes = { a: [r.m, r.k], b: [r.k, r.n], c: [r.m, r.n], d: [r.m, r.n] } as const;
      const operand = (name: keyof typeof shapes, i: number) => {
        const [rows, cols] = shapes[name];
        return { layout: r.layouts[i], ld: (r.layouts[i] === "row" ? cols : rows) + (r.pad[i] ?? 0) };
      };
      const staged = r.operands !== "off";
      const split = r.prefetch === 1 && r.transport === "direct" && r.slots > 1;
      const directive = <N extends DirectiveName>(name: N, args: Partial<ArgumentsOf<N>>, on = true) =>
        on ? [{ name, args } as Directive] : [];
      return {
        problem: problem({
          m: r.m,
          n: r.n,
          k: r.k,
          dtype: "f32",
          a: operand("a", 0),
          b: operand("b", 1),
          ...(r.beta === 0 ? {} : { c: operand("c", 2) }),
          d: operand("d", 3),
          alpha: r.alpha,
          beta: r.beta,
        }),
        warps: r.warps,
        lanes: r.lanes,
        thread: [r.strip[0] * r.runs[0], r.strip[1] * r.runs[1]],
        strip: r.strip,
        tileK: r.tileK,
        splits: r.splits,
        directives: [
          ...(r.operands === "off"
            ? []
            : directive("stage", { operands: r.operands, transport: r.transport })),
          ...directive("fragment", { step: 1, first: r.first }),
          ...directive("ring", { slots: r.slots, registerPrefetch: split ? 1 : 0 }, staged),
          ...directive(
            "rotate",
            { slots: 2, store: Math.floor(r.tileK / 2) },
            staged && r.rotate && r.slots > 1,
          ),
          ...directive("drain", { chunks: r.slots - 1 }, staged && r.drain && r.slots > 1),
          ...directive("vector", { copy: r.vector, store: r.vector }, r.vector > 1),
          ...directive("smem", { mode: r.smem }, r.smem !== "plain"),
          ...directive("walk", { order: r.walk }, r.walk !== "rows"),
          ...directive("raster", { order: r.raster, group: 2 }, r.raster !== "row"),
          ...directive("guards", { elide: 1 }, r.elide),
        ],
      };
    });

/** Matrices of a problem with small integers, or with values of mixed magnitude. */
export function operands(p: Problem, seed: number, integers: boolean) {
  let state = seed >>> 0;
  const next = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return integers ? (state % 17) - 8 : Math.fround((state / 2 ** 32 - 0.5) * 4);
  };
  const matrix = (rows: number, cols: number, o: { layout: string; ld: number }): Float32Array =>
    Float32Array.from({ length: o.ld * (o.layout === "row" ? rows : cols) }, next);
  return {
    a: matrix(p.m, p.k, p.a),
    b: matrix(p.k, p.n, p.b),
    ...(p.c === null ? {} : { c: matrix(p.m, p.n, p.c) }),
  };
}

/** Element (r, c) of a matrix in memory. */
export const at = (
  data: ArrayLike<number>,
  o: { layout: string; ld: number },
  r: number,
  c: number,
): number => data[o.layout === "row" ? r * o.ld + c : c * o.ld + r] ?? Number.NaN;

/** alpha * A.B + beta * C in double precision. */
export function reference(p: Problem, inputs: ReturnType<typeof operands>, row: number, col: number): number {
  let sum = 0;
  for (let k = 0; k < p.k; k++) sum += at(inputs.a, p.a, row, k) * at(inputs.b, p.b, k, col);
  const c = p.c !== null && inputs.c !== undefined ? Number(p.beta) * at(inputs.c, p.c, row, col) : 0;
  return Number(p.alpha) * sum + c;
}
