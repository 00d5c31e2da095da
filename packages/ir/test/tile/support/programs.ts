/** Random well-formed programs: everything types.ts can say, whether or not it makes sense. For the text form. */

import { dtypeNames, type LaunchExpr, type ParamSpec } from "@tilewright/core";
import fc from "fast-check";
import {
  type ArrayDeclaration,
  type Buffer,
  type Cond,
  cachePolicies,
  type Directive,
  type Distance,
  type Edge,
  type Expr,
  type KernelDeclaration,
  l2PrefetchSizes,
  l2Promotions,
  type MachineDeclarations,
  type OwnershipMode,
  type RegionDeclaration,
  type Ring,
  reductionKinds,
  type Stmt,
  stages,
  type TileLoop,
  type TileProgram,
  tiers,
  type View,
} from "../../../src/index.ts";
import { type Argument, argumentsOf, directiveNames } from "../../../src/tile/directives.ts";
import { problem } from "./pipelines.ts";

const small = fc.integer({ min: 1, max: 300 });
const blocks = fc.integer({ min: 1, max: 16 });
const id = fc.stringMatching(/^[A-Za-z_][A-Za-z0-9_]{0,6}$/);

const expr = (vars: readonly string[]): fc.Arbitrary<Expr> =>
  fc.letrec<{ e: Expr }>((tie) => ({
    e: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      fc.integer({ min: -50, max: 500 }).map((value): Expr => ({ kind: "const", value })),
      ...(vars.length > 0 ? [fc.constantFrom(...vars).map((name): Expr => ({ kind: "var", name }))] : []),
      fc
        .tuple(fc.constantFrom("add", "sub"), tie("e"), tie("e"))
        .map(([kind, lhs, rhs]): Expr => ({ kind: kind === "add" ? "add" : "sub", lhs, rhs })),
      fc
        .tuple(tie("e"), fc.integer({ min: -9, max: 64 }))
        .map(([lhs, factor]): Expr => ({ kind: "mul", lhs, factor })),
      fc
        .tuple(fc.constantFrom("div", "mod"), tie("e"), small)
        .map(([kind, lhs, divisor]): Expr => ({ kind: kind === "div" ? "div" : "mod", lhs, divisor })),
    ),
  })).e;

const cond = (vars: readonly string[]): fc.Arbitrary<Cond> =>
  fc.record({
    lhs: expr(vars),
    op: fc.constantFrom("<", "<=", "==", "!=", ">=", ">"),
    rhs: expr(vars),
  });

const factors: fc.Arbitrary<readonly OwnershipMode[]> = fc.array(
  fc.record({ tier: fc.constantFrom(...tiers), extent: small, stride: fc.integer({ min: 0, max: 64 }) }),
  { maxLength: 4 },
);

const layout = fc.record({
  shape: fc.tuple(small, small),
  stride: fc.tuple(small, small),
  swizzle: fc.option(
    fc.record({
      bits: fc.integer({ min: 1, max: 3 }),
      base: small.map((n) => n % 5),
      shift: fc.constantFrom(3, 4),
    }),
  ),
});

const anyBuffer: fc.Arbitrary<Omit<Buffer, "name">> = fc.record(
  {
    space: fc.constantFrom("global", "shared", "register", "tensor"),
    dtype: fc.constantFrom(...dtypeNames),
    shape: fc.tuple(small, small),
    slots: fc.integer({ min: 1, max: 5 }),
    layout: fc.option(layout),
    own: fc.option(fc.record({ rows: factors, cols: factors })),
    align: fc.constantFrom(0, 4, 16, 1024),
    halves: fc.constantFrom(0, 1),
    packed: fc.constant<true>(true),
    cache: fc.constantFrom(...cachePolicies),
    l2Promotion: fc.constantFrom(...l2Promotions),
    l2PrefetchBytes: fc.constantFrom(...l2PrefetchSizes),
    noAllocate: fc.constant<true>(true),
    transposed: fc.constant<true>(true),
    aliased: fc.constant<true>(true),
    place: fc.record({ offset: fc.nat(300_000), every: fc.nat(65_536) }),
  },
  { requiredKeys: ["space", "dtype", "shape", "slots", "layout", "own", "align"] },
);

/** L2 keeps global buffers only. */
const buffer = anyBuffer.map(
  ({ cache, l2Promotion, l2PrefetchBytes, noAllocate, transposed, place, ...rest }): Omit<Buffer, "name"> =>
    rest.space === "global"
      ? {
          ...rest,
          ...(cache ? { cache } : {}),
          ...(l2Promotion ? { l2Promotion } : {}),
          ...(l2PrefetchBytes ? { l2PrefetchBytes } : {}),
          ...(noAllocate ? { noAllocate } : {}),
          ...(transposed ? { transposed } : {}),
        }
      : { ...rest, ...(place && rest.space !== "register" ? { place } : {}) },
);

const launchExpr = fc.letrec<{ e: LaunchExpr }>((tie) => ({
  e: fc.oneof(
    { maxDepth: 3 },
    fc.nat(5000),
    fc.constantFrom("m", "numSms"),
    fc.tuple(fc.constantFrom("min", "ceilDiv", "mul"), tie("e"), tie("e")),
  ),
})).e;
const param: fc.Arbitrary<ParamSpec> = fc.oneof(
  fc.record({
    kind: fc.constant("pointer"),
    name: fc.constantFrom("a", "workspace", "epilogue3"),
    offset: small,
    size: fc.constant(8),
    align: small,
    access: fc.constantFrom("read", "write", "readwrite"),
  }),
  fc.record({
    kind: fc.constant("scalar"),
    name: id,
    dtype: fc.constantFrom("f32", "u32"),
    offset: small,
    size: fc.constant(4),
    value: launchExpr,
  }),
  fc.record({
    kind: fc.constant("tensorMap"),
    name: id,
    offset: small,
    size: fc.constant(128),
    tensorMap: fc.record({
      operand: fc.constantFrom("a", "groups", "epilogue0"),
      dtype: fc.constantFrom("bf16", "f32"),
      dims: fc.array(launchExpr, { minLength: 1, maxLength: 3 }),
      strides: fc.array(launchExpr, { maxLength: 2 }),
      box: fc.array(small, { minLength: 1, maxLength: 3 }),
      elementStrides: fc.array(small, { minLength: 1, maxLength: 3 }),
      interleave: fc.constantFrom("none", "16B"),
      swizzle: fc.constantFrom("none", "128B", "128B_ATOM_32B"),
      l2: fc.constantFrom("none", "256B"),
      oob: fc.constantFrom("zero", "nan"),
    }),
  }),
);
const step = fc.nat(3);
const results: fc.Arbitrary<Stmt> = fc.oneof(
  fc.record({
    kind: fc.constant("result.load" as const),
    step,
    count: fc.oneof(small, fc.constantFrom("m" as const, "n" as const)),
  }),
  fc.record({ kind: fc.constant("result.clear" as const), step }),
  fc.record({
    kind: fc.constant("result.store" as const),
    step,
    dtype: fc.constantFrom("bf16" as const, "f16" as const),
  }),
);
const distance: fc.Arbitrary<Distance> = fc.record({
  times: fc.nat(5000),
  sizes: fc.subarray(["m", "lda", "strideB", "ldepilogue1"] as const),
});
const array: fc.Arbitrary<ArrayDeclaration> = fc.record(
  {
    name: fc.constantFrom("a", "sfb", "epilogue2"),
    dtype: fc.constantFrom("bf16", "s32"),
    strides: fc.tuple(distance, distance),
    region: fc.constant(true as const),
    batch: distance,
    axes: fc.array(fc.record({ extent: small, below: small, stride: fc.nat(5000) }), { maxLength: 2 }),
    rows: small,
    groups: small,
    blocks: fc.record({ rows: small, slack: fc.nat(127) }),
  },
  { requiredKeys: ["name", "dtype", "strides"] },
);
const kernelLines: fc.Arbitrary<KernelDeclaration> = fc.record({
  role: fc.constantFrom("prepare", "main", "reduce"),
  name: id,
  grid: fc.tuple(launchExpr, launchExpr, launchExpr),
  threads: small,
  exact: fc.boolean(),
  ctas: fc.option(small),
  maxnreg: fc.option(small),
  keeps: fc.subarray(["addresses", "epilogue"] as const),
  workspace: launchExpr,
  params: fc.array(param, { maxLength: 3 }),
  arrays: fc.uniqueArray(array, { maxLength: 2, selector: ({ name }) => name }),
});

const region: fc.Arbitrary<RegionDeclaration> = fc.record(
  {
    name: fc.constantFrom("counters", "partials", "a", "epilogue1"),
    at: launchExpr,
    stride: fc.nat(5000),
    each: small,
    threads: small,
    count: launchExpr,
    bytes: launchExpr,
  },
  { requiredKeys: ["name", "at", "bytes"] },
);

const spot = { name: id, offset: fc.nat(300_000) };
const machine: fc.Arbitrary<MachineDeclarations> = fc.record({
  barriers: fc.array(fc.record({ ...spot, slots: small, count: small }), { maxLength: 3 }),
  scratch: fc.array(fc.record({ ...spot, bytes: small }), { maxLength: 2 }),
  memory: fc.record({ shared: fc.nat(300_000), tensor: fc.nat(512) }),
  launches: fc.record(
    {
      kernels: fc.array(kernelLines, { minLength: 1, maxLength: 2 }),
      init: fc.constantFrom("none", "zeroOnce", "zeroEach"),
      regions: fc.uniqueArray(region, { maxLength: 2, selector: ({ name }) => name }),
      sizes: fc.constantFrom([], [{ name: "m" as const, least: 1, most: 4096 }]),
      batch: launchExpr,
      experts: fc.constantFrom("offsets", "counts"),
    },
    { requiredKeys: ["kernels", "init", "regions", "sizes"] },
  ),
});

const edge: fc.Arbitrary<Edge | null> = fc.option(
  fc.oneof(
    fc.nat(15).map((number): Edge => ({ kind: "barrier", id: number })),
    small.map((arrivals): Edge => ({ kind: "mbarrier", arrivals })),
    fc.constant<Edge>({ kind: "implied" }),
  ),
);

/** A value of an argument: the default, the nearest to a text, or one of the words of its syntax. */
const argument = (row: Argument<unknown>): fc.Arbitrary<unknown> =>
  fc
    .oneof(fc.constantFrom(...row.syntax.split(/[|]|[.]{2}/)), fc.nat(600).map(String))
    .map((text) => row.parse(text) ?? row.parse(row.nearest(text) ?? "") ?? row.default);

const directive: fc.Arbitrary<Directive> = fc.constantFrom(...directiveNames).chain((name) =>
  fc
    .record(Object.fromEntries(argumentsOf(name).map(([key, row]) => [key, argument(row)])), {
      requiredKeys: [],
      noNullPrototype: true,
    })
    .map((args) => ({ name, args }) as Directive),
);

/** A view of a declared buffer; often the whole of it, which prints as its name. */
const view = (buffers: readonly Buffer[], vars: readonly string[]): fc.Arbitrary<View> =>
  fc.constantFrom(...buffers).chain((b) =>
    fc.oneof(
      fc.record({
        buffer: fc.constant(b.name),
        slot: fc.oneof(fc.constant<Expr>({ kind: "const", value: 0 }), expr(vars)),
        origin: fc.constant<View["origin"]>([
          { kind: "const", value: 0 },
          { kind: "const", value: 0 },
        ]),
        extent: fc.constant(b.shape),
      }),
      fc.record({
        buffer: fc.constant(b.name),
        slot: expr(vars),
        origin: fc.tuple(expr(vars), expr(vars)),
        extent: fc.tuple(small, small),
      }),
    ),
  );

const visit: fc.Arbitrary<TileLoop> = fc.record({
  var: id,
  by: fc.constantFrom("stride", "streamk"),
  turn: fc.constant(0),
  of: fc.constantFrom(1, 2, 3),
});

const columns = fc.record({ from: fc.nat(300), to: small, of: small });
const lineOrder = fc.record({ kind: fc.constantFrom("up", "down", "flip"), from: fc.nat(15) });
const scalar = fc.oneof(fc.constant<"runtime">("runtime"), fc.double({ noNaN: true }));
const guard = fc.tuple(fc.boolean(), fc.boolean());

function statement(
  buffers: readonly Buffer[],
  rings: readonly Ring[],
  vars: readonly string[],
  depth: number,
): fc.Arbitrary<Stmt> {
  const v = view(buffers, vars);
  const leaf: fc.Arbitrary<Stmt>[] = [
    fc.record({ kind: fc.constant("fill"), dst: v, value: fc.double({ noNaN: true }) }),
    fc.record(
      {
        kind: fc.constant("copy"),
        dst: v,
        src: v,
        transport: fc.constantFrom("direct", "cp.async", "tma", "tcgen05.ld", "tcgen05.cp"),
        guard,
        when: fc.option(cond(vars)),
        dist: fc.option(
          fc.record({ threads: small, along: small, vector: small, fastest: fc.constantFrom(0, 1) }),
        ),
        vector: fc.tuple(small, small),
        multicast: fc.constantFrom(null, null, "m", "n"),
        l2Prefetch: fc.tuple(fc.nat(300), fc.nat(300)),
      },
      { requiredKeys: ["kind", "dst", "src", "transport", "guard", "when", "dist", "vector", "multicast"] },
    ),
    fc.record(
      {
        kind: fc.constant("mma"),
        acc: v,
        a: v,
        b: v,
        scales: fc.record({ a: v, b: v }),
        atom: fc.constantFrom("fma", "mma.m16n8k16", "wgmma", "tcgen05.f16"),
        walk: fc.constantFrom("rows", "cols", "snake-rows", "snake-cols"),
        lines: lineOrder,
        along: lineOrder,
        swap: fc.boolean(),
      },
      { requiredKeys: ["kind", "acc", "a", "b", "atom", "walk", "lines", "along", "swap"] },
    ),
    fc.record({ kind: fc.constant("barrier"), id: fc.nat(15) }),
    fc.record({
      kind: fc.constant("epilogue"),
      dst: v,
      acc: v,
      c: fc.option(v),
      alpha: scalar,
      beta: scalar,
      steps: fc.constantFrom([], problem(epilogueRequest).epilogue),
      guard,
      vector: small,
      via: fc.option(v),
      body: fc.array(
        fc.oneof(
          fc.record({ kind: fc.constantFrom("stage", "bulk.store"), via: v, columns }),
          fc.constant({ kind: "bulk.commit" }),
          fc.record({
            kind: fc.constant("barrier"),
            id: fc.nat(15),
            threads: fc.integer({ min: 32, max: 512 }),
            groups: small,
          }),
        ),
        { maxLength: 3 },
      ),
    }),
  ] as fc.Arbitrary<Stmt>[];
  if (rings.length > 0) {
    const ring = fc.constantFrom(...rings).map((r) => r.name);
    leaf.push(
      fc.record({
        kind: fc.constantFrom("acquire", "commit", "release", "request", "next"),
        ring,
        at: expr(vars),
      }) as fc.Arbitrary<Stmt>,
      fc.record({
        kind: fc.constant("wait"),
        ring,
        at: expr(vars),
        pending: fc.nat(4),
      }) as fc.Arbitrary<Stmt>,
    );
  }
  leaf.push(results);
  if (depth === 0) return fc.oneof(...leaf);
  const body = (more: readonly string[]): fc.Arbitrary<readonly Stmt[]> =>
    fc.array(statement(buffers, rings, [...vars, ...more], depth - 1), { maxLength: 3 });
  const nested: fc.Arbitrary<Stmt>[] = [
    fc
      .tuple(
        id,
        id,
        fc.option(fc.record({ var: id, extent: small })),
        fc.option(
          fc.record(
            { first: id, count: id, chunks: small, each: small, tiles: small, blocks: small },
            { requiredKeys: ["first", "count", "chunks", "each", "tiles"] },
          ),
        ),
        fc.option(visit),
      )
      .chain(([row, col, split, share, turns]) =>
        fc.record({
          kind: fc.constant("tiles"),
          vars: fc.constant([row, col]),
          extents: fc.tuple(small, small),
          split: fc.constant(split),
          // One or the other stands behind the second comma.
          ...(share === null || split !== null ? {} : { streamK: fc.constant(share) }),
          raster: fc.oneof(
            fc.constantFrom({ kind: "row" }, { kind: "col" }, { kind: "hilbert" }),
            fc.record({ kind: fc.constantFrom("grouped", "snake"), group: small }),
          ),
          loop: fc.constant(turns),
          body: body([
            row,
            col,
            ...(split === null ? [] : [split.var]),
            ...(share === null || split !== null ? [] : [share.first, share.count]),
            ...(turns === null ? [] : [turns.var]),
          ]),
        }),
      ),
    id.chain((name) =>
      fc.record({
        kind: fc.constant("for"),
        var: fc.constant(name),
        from: expr(vars),
        to: expr(vars),
        unroll: fc.boolean(),
        body: body([name]),
      }),
    ),
    fc.record({
      kind: fc.constant("reduce"),
      acc: v,
      by: fc.constantFrom(...reductionKinds),
      into: fc.option(v),
      body: body([]),
    }),
    fc.record({ kind: fc.constant("if"), cond: cond(vars), body: body([]) }),
    fc.record({
      kind: fc.constant("role"),
      name: id,
      first: fc.nat(15),
      warps: fc.integer({ min: 1, max: 32 }),
      registers: fc.option(fc.integer({ min: 1, max: 256 })),
      body: body([]),
    }),
  ] as fc.Arbitrary<Stmt>[];
  return fc.oneof(...leaf, ...nested);
}

const epilogueRequest = {
  m: 30,
  n: 20,
  k: 10,
  dtype: "f32",
  epilogue: [
    { kind: "bias", along: "n", dtype: "f32" },
    { kind: "activation", fn: "relu" },
    { kind: "clamp", min: -1, max: 6 },
  ],
} as const;

/** Any program that the types allow, with names that resolve. */
export const programs: fc.Arbitrary<TileProgram> = fc
  .record({
    names: fc.uniqueArray(id, { minLength: 3, maxLength: 6 }),
    rings: fc.integer({ min: 0, max: 2 }),
  })
  .chain(({ names, rings }) =>
    fc
      .tuple(
        fc.tuple(...names.slice(rings).map((name) => buffer.map((b): Buffer => ({ name, ...b })))),
        fc.constant(names.slice(0, rings)),
      )
      .chain(([buffers, ringNames]) =>
        fc
          .tuple(
            ...ringNames.map((name) =>
              fc.record({
                name: fc.constant(name),
                slots: small,
                buffers: fc.subarray(buffers.map((b) => b.name)),
                transport: fc.constantFrom("direct", "cp.async", "tma"),
                full: edge,
                empty: edge,
              }),
            ),
          )
          .chain((list) => {
            const declared = list as readonly Ring[];
            const kernel = fc.record({
              name: id,
              stage: fc.constantFrom(...stages),
              arch: fc.constantFrom("sm_70", "sm_90a"),
              problem: fc.constantFrom(
                problem({ m: 3, n: 5, k: 7, dtype: "f32" }),
                problem(epilogueRequest),
                problem({ m: 8, n: 8, k: 8, dtype: "f16", alpha: "runtime", beta: "runtime" }),
              ),
              launch: fc.record({ threads: small, cluster: fc.tuple(blocks, blocks) }),
              nest: fc.option(fc.record({ m: factors, n: factors, k: factors })),
              directives: fc.uniqueArray(directive, { maxLength: 3, selector: ({ name }) => name }),
              buffers: fc.constant(buffers),
              rings: fc.constant(declared),
              body: fc.array(statement(buffers, declared, [], 2), { maxLength: 4 }),
            });
            return fc
              .tuple(kernel, machine)
              .map(([p, m]): TileProgram => (p.stage === "machine" ? { ...p, machine: m } : p));
          }),
      ),
  );
