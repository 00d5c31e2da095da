import {
  bindTensorLayouts,
  type Directive,
  eachStmt,
  interpret,
  kernelOf,
  multicastCopies,
  multicastPeers,
  parseProgram,
  persistTiles,
  pipelineRing,
  printProgram,
  runPasses,
  specialiseRoles,
  stageEpilogue,
  stageOperands,
  transactionBytes,
  verifyProgram,
} from "@tilewright/ir";
import { describe, expect, it } from "vitest";
import { peelFirst } from "../../src/passes/peelFirst.ts";
import { bind, type Case, nestOf, sm90 } from "./programs.ts";

const VISIT: Directive = { name: "persistent", args: { by: "stride" } };
const PEEL: Directive = { name: "peel", args: { chunks: 1 } };
const STORE: Directive = { name: "epilogue", args: { way: "tma", cols: 8 } };
const LATE: Directive = { name: "delayedRelease", args: { chunks: 1 } };
const TURNS: Directive = { name: "pingPong", args: { roles: 2 } };
const TAIL: Directive = { name: "tail", args: { chunks: 2, columns: 8, of: 16 } };
const SHARE: Directive = { name: "multicast", args: { operands: "ab" } };

/** Small integers, whose products and sums are exact in every order. */
const ramp = (count: number, step: number): Float32Array =>
  Float32Array.from({ length: count }, (_, i) => ((i * step) % 7) - 3);

const cases: readonly (readonly [name: string, options: Case])[] = [
  ["one tile, one chunk", { m: 64, n: 16, k: 64 }],
  ["tails everywhere", { m: 70, n: 24, k: 200 }],
  ["fewer rows than a tile and K shorter than a chunk", { m: 3, n: 8, k: 8 }],
  ["persistent CTAs", { m: 130, n: 40, k: 136, directives: [VISIT] }],
  ["persistent CTAs, first chunk peeled", { m: 130, n: 40, k: 264, slots: 2, directives: [VISIT, PEEL] }],
  ["one slot", { m: 70, n: 24, k: 200, slots: 1, directives: [VISIT, PEEL] }],
  ["row-major B", { m: 70, n: 24, k: 200, b: "row", directives: [PEEL] }],
  ["clusters that share both operands", { m: 200, n: 40, k: 136, cluster: [2, 2], directives: [SHARE] }],
  ["two warpgroups", { m: 200, n: 40, k: 136, groups: 2, directives: [VISIT, PEEL, STORE] }],
  ["slots given back late", { m: 70, n: 24, k: 200, directives: [LATE] }],
  ["two sets of math warps by turns", { m: 330, n: 40, k: 264, directives: [VISIT, TURNS] }],
  [
    "by turns, two warpgroups each, slots given back late",
    { m: 260, n: 40, k: 264, groups: 2, directives: [VISIT, PEEL, LATE, STORE, TURNS] },
  ],
  ["by turns, one chunk", { m: 330, n: 40, k: 64, directives: [VISIT, PEEL, LATE, TURNS] }],
  ["the last two chunks in halves of the columns", { m: 70, n: 24, k: 64 * 6, directives: [PEEL, TAIL] }],
  [
    "of three chunks one in halves",
    { m: 130, n: 40, k: 200, slots: 1, directives: [VISIT, PEEL, STORE, TAIL] },
  ],
  ["of two none", { m: 70, n: 24, k: 128, directives: [PEEL, STORE, TAIL] }],
  [
    "halves with stores in bulk, persistent CTAs, two warpgroups",
    { m: 260, n: 40, k: 64 * 5 + 8, groups: 2, slots: 2, directives: [VISIT, STORE, TAIL] },
  ],
  [
    "halves of ping-pong roles, slots given back late",
    { m: 330, n: 40, k: 64 * 6, directives: [VISIT, PEEL, LATE, STORE, TAIL, TURNS] },
  ],
  ["all together", { m: 200, n: 40, k: 136, cluster: [2, 1], directives: [SHARE, VISIT, PEEL, STORE] }],
];

describe("roles, bulk copies and persistent CTAs", () => {
  it.each(cases)("%s: the numbers of the nest, in every order", (_name, options) => {
    const nest = nestOf(options);
    const bound = bind(nest);
    const { m, n, k } = options;
    const inputs = { a: ramp(m * k, 3), b: ramp(k * n, 5) };
    const expected = interpret(nest, inputs);
    if (!expected.ok) throw new Error(JSON.stringify(expected.error));
    for (const [order, seed] of [["eager"], ["lazy"], ["random", 1], ["random", 2]] as const) {
      const run = interpret(bound, inputs, { order, ...(seed === undefined ? {} : { seed }) });
      expect(run.ok ? run.value.d : run.error).toEqual(expected.value.d);
    }
  });

  it.each(cases)("%s: printed and parsed back", (_name, options) => {
    const bound = bind(nestOf(options));
    expect(parseProgram(printProgram(bound))).toEqual({ ok: true, value: bound });
  });

  it("the producer has what fills the ring, the math role all else", () => {
    const bound = bind(nestOf({ m: 130, n: 40, k: 136, directives: [VISIT] }));
    const kinds = bound.body.map((role) =>
      role.kind === "role"
        ? [role.name, role.first, role.warps, [...new Set(eachStmt(role.body).map((s) => s.kind))]]
        : [],
    );
    expect(kinds).toEqual([
      ["math", 0, 4, ["tiles", "fill", "for", "wait", "mma", "release", "epilogue"]],
      ["producer", 4, 1, ["tiles", "for", "acquire", "copy", "commit"]],
    ]);
    expect(bound.rings.map(({ full, empty }) => [full, empty])).toEqual([
      [
        { kind: "mbarrier", arrivals: 1 },
        { kind: "mbarrier", arrivals: 1 },
      ],
    ]);
    const [ring] = bound.rings;
    expect(ring && transactionBytes(bound, ring)).toBe((64 + 16) * 64 * 2);
  });

  it("two math warpgroups arrive once each", () => {
    const bound = bind(nestOf({ m: 128, n: 16, k: 64, groups: 2 }));
    expect(bound.rings[0]?.empty).toEqual({ kind: "mbarrier", arrivals: 2 });
    const acc = bound.buffers.find((b) => b.name === "acc");
    expect(acc?.own?.rows).toEqual([
      { tier: "warp", extent: 2, stride: 4 },
      { tier: "warp", extent: 4, stride: 1 },
      { tier: "register", extent: 2, stride: 2 },
      { tier: "thread", extent: 8, stride: 4 },
    ]);
  });

  it.each([
    [[2, 1], 2],
    [[1, 4], 4],
    [[2, 2], 3],
  ] as const)(
    "in a cluster of %s A goes along n and B along m, and %i blocks release a slot",
    (cluster, peers) => {
      const bound = bind(nestOf({ m: 512, n: 128, k: 64, cluster, directives: [SHARE] }));
      const copies = eachStmt(bound.body).filter((s) => s.kind === "copy");
      expect(copies.map((s) => s.kind === "copy" && [s.src.buffer, s.multicast])).toEqual([
        ["A", cluster[1] > 1 ? "n" : null],
        ["B", cluster[0] > 1 ? "m" : null],
      ]);
      const [ring] = bound.rings;
      expect(ring && multicastPeers(bound, ring)).toBe(peers);
      expect(ring?.empty).toEqual({ kind: "mbarrier", arrivals: peers });
    },
  );

  it("without their directives the passes leave everything as it is", () => {
    const nest = nestOf({ m: 70, n: 24, k: 200 });
    const none = runPasses({ ...nest, directives: [] }, sm90, [
      stageOperands,
      pipelineRing,
      specialiseRoles,
      persistTiles,
      multicastCopies,
      peelFirst,
      stageEpilogue,
      bindTensorLayouts,
    ]);
    expect(none.ok && none.value).toEqual({ ...nest, directives: [], stage: "specialised" });
  });
});

describe("verifiers of shared copies and visits", () => {
  const texts = (edits: readonly (readonly [string, string])[], options: Case): readonly string[] => {
    let text = printProgram(bind(nestOf(options)));
    for (const [from, to] of edits) {
      expect(text).toContain(from);
      text = text.replaceAll(from, to);
    }
    const program = parseProgram(text);
    if (!program.ok) throw new Error(JSON.stringify(program.error));
    return verifyProgram(program.value, sm90).map((d) => `${d.code}: ${d.message}`);
  };
  const clustered: Case = { m: 256, n: 32, k: 64, cluster: [2, 1], directives: [SHARE] };
  it.each([
    [
      "a cluster of one block",
      [["cluster=2x1", "cluster=1x2"]],
      clustered,
      "TW3123: is shared along m, where the cluster has one block",
    ],
    [
      "what differs",
      [
        ["multicast m", "multicast n"],
        ["cluster=2x1", "cluster=1x2"],
      ],
      clustered,
      "TW3123: blocks along n want different rectangles: it depends on %nt",
    ],
    [
      "tiles that do not divide",
      [["cluster=2x1", "cluster=8x1"]],
      clustered,
      "TW3123: 4 tiles along m do not divide among clusters of 8, whose blocks wait for each other",
    ],
    [
      "edges without mbarriers",
      [["full mbarrier:1", "full barrier:1"]],
      clustered,
      "TW3123: only bulk copies into a ring whose edges are mbarriers reach other blocks",
    ],
    [
      "a turn beyond its number",
      [["by stride", "by stride pingPong 2 of 2"]],
      { m: 64, n: 16, k: 64, directives: [VISIT] },
      "TW3124: pingPong 2 of 2",
    ],
    [
      "a tile of another dtype",
      [["shared %sD bf16", "shared %sD f16"]],
      { m: 64, n: 16, k: 64, directives: [STORE] },
      "TW3120: goes through %sD, f16 in shared memory",
    ],
    [
      "a tile of fewer rows",
      [["shared %sD bf16[64, 8] layout (64,8):(8,1)", "shared %sD bf16[32, 8] layout (32,8):(8,1)"]],
      { m: 64, n: 16, k: 64, directives: [STORE] },
      "TW3120: passes 64 x 16 through 32 x 8",
    ],
  ] as const)("refuse %s", (_what, edits, options, message) => {
    expect(texts(edits, options)).toContain(message);
  });
});

it("the cost model reads roles, bulk copies, multicast and persistent CTAs", () => {
  const directives: Directive[] = [SHARE, VISIT, STORE];
  const program = bind(nestOf({ m: 256, n: 32, k: 640, cluster: [2, 1], groups: 2, directives }));
  expect(kernelOf(program, 1)).toMatchObject({
    engine: "wgmma",
    tile: [128, 16, 64],
    instruction: [64, 16],
    threads: 288,
    stages: 3,
    specialised: true,
    multicast: [2, 1],
    sched: "persistent",
  });
});
