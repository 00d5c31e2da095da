import { formatDiagnostic } from "@tilewright/core";
import {
  type ArgumentsOf,
  type Directive,
  type DirectiveName,
  parseProgram,
  printProgram,
  proofRules,
  proveProtocol,
  rewriteStmts,
  type Stmt,
  type TileProgram,
} from "@tilewright/ir";
import { describe, expect, it } from "vitest";
import { bind, type Case, machineOf, nestOf, sm90 } from "./programs.ts";

const directive = <N extends DirectiveName>(name: N, args: Partial<ArgumentsOf<N>>) =>
  ({ name, args }) as Directive;
const STAY = directive("persistent", { by: "stride" });
const SHARE = directive("multicast", { operands: "ab" });
const PEEL = directive("peel", { chunks: 1 });
const STORE = directive("epilogue", { way: "tma", cols: 8 });
const TAIL = directive("tail", { chunks: 2, columns: 8, of: 16 });
/** Twenty chunks: more than any ring goes round. */
const k = 64 * 20;

const shapes: readonly (readonly [name: string, options: Case])[] = [
  ["one tile a block", { m: 64, n: 16, k }],
  ["one slot", { m: 64, n: 16, k, slots: 1 }],
  ["persistent CTAs", { m: 130, n: 40, k, directives: [STAY] }],
  ["persistent CTAs, one slot, peeled", { m: 130, n: 40, k, slots: 1, directives: [STAY, PEEL] }],
  ["two warpgroups, staged stores", { m: 200, n: 40, k, groups: 2, directives: [STAY, PEEL, STORE] }],
  ["the last chunks in halves", { m: 130, n: 40, k, directives: [STAY, PEEL, STORE, TAIL] }],
  ["as many as there are slots", { m: 130, n: 40, k, slots: 2, directives: [STAY, STORE, TAIL] }],
  [
    "halves by turns, slots given back late",
    {
      m: 130,
      n: 40,
      k,
      slots: 3,
      directives: [
        STAY,
        PEEL,
        directive("delayedRelease", { chunks: 1 }),
        STORE,
        TAIL,
        directive("pingPong", { roles: 2 }),
      ],
    },
  ],
  [
    "halves in a cluster",
    { m: 200, n: 40, k, cluster: [2, 1], groups: 2, directives: [SHARE, STAY, PEEL, STORE, TAIL] },
  ],
  ["a cluster that shares B", { m: 200, n: 40, k, cluster: [2, 1], directives: [SHARE, STAY, STORE] }],
  ["a cluster that shares both", { m: 200, n: 40, k, cluster: [2, 2], directives: [SHARE] }],
];

describe("programs that hold", () => {
  it.each(shapes)("%s", (_name, options) => {
    expect(proveProtocol(machineOf(nestOf(options)), sm90)).toEqual([]);
  });

  it("more chunks in halves than there are slots wait for ever", () => {
    const options: Case = { m: 130, n: 40, k, slots: 1, directives: [STAY, STORE, TAIL] };
    expect(() => bind(nestOf(options))).toThrow(/deadlock: math stands at wait for chunk 9/);
  });
});

const staying: Case = { m: 130, n: 40, k, directives: [STAY, STORE] };
const sharing: Case = { m: 200, n: 40, k, cluster: [2, 1], groups: 2, directives: [SHARE, STAY] };

function edited(options: Case, edits: readonly (readonly [string | RegExp, string])[]): TileProgram {
  let text = printProgram(machineOf(nestOf(options)));
  for (const [from, to] of edits) {
    expect(text).toMatch(from);
    text = text.replace(from, to);
  }
  const program = parseProgram(text);
  if (!program.ok) throw new Error(program.error.map(formatDiagnostic).join("\n"));
  return program.value;
}

const faults: readonly (readonly [
  what: string,
  rule: keyof typeof proofRules,
  options: Case,
  edits: readonly (readonly [string | RegExp, string])[],
  message: string,
])[] = [
  [
    "an edge that counts one arrival too many",
    "arrivals",
    sharing,
    [["empty mbarrier:4", "empty mbarrier:5"]],
    "with 1 K chunks: deadlock: producer of block 0 waits at the empty edge of slot 0 of %ring in block 0 for chunk 3 of %ring: 1 of 5 arrivals",
  ],
  [
    "an edge that counts one block only",
    "arrivals",
    sharing,
    [["empty mbarrier:4", "empty mbarrier:2"]],
    "math of block 1: with 1 K chunks: arrives for chunk 0 of %ring at the empty edge of slot 0 of %ring in block 1 in its phase 1",
  ],
  [
    "half of an operand",
    "bytes",
    { m: 64, n: 16, k },
    [
      ["copy %sA[slot %p] <-", "copy %sA[slot %p; 0 : 32, 0 : 64] <-"],
      ["%A[%mt * 64 : 64,", "%A[%mt * 64 : 32,"],
    ],
    "0 of 1 arrivals and 4096 bytes are missing",
  ],
  [
    "a slot given back before it is read",
    "freed",
    { m: 64, n: 16, k },
    [[/ +mbar\.arrive %ring_empty.*\n/, ""]],
    "%ring: is read, and never given back",
  ],
  [
    "a pipeline that begins in the other phase",
    "phases",
    staying,
    [["pipeline %p of %ring phase 1", "pipeline %p of %ring phase 0"]],
    "waits at the empty edge of slot 0",
  ],
  [
    "a slot of another chunk",
    "phases",
    { m: 64, n: 16, k },
    [["pipeline %c of %ring phase 0", "pipeline %c of %ring stage 1 phase 0"]],
    "math waits at the full edge of slot 1 of %ring for chunk 1",
  ],
  [
    "roles that go over different numbers of chunks",
    "phases",
    { m: 64, n: 16, k },
    [
      [
        "pipeline %p of %ring phase 1\n      for %kt = 0 .. 20",
        "pipeline %p of %ring phase 1\n      for %kt = 0 .. 19",
      ],
    ],
    "math waits at the full edge of slot 0 of %ring for chunk 0",
  ],
  [
    "a matrix that begins where bulk copies cannot",
    "swizzles",
    { m: 64, n: 16, k },
    [[/ a=(\S+):16 /, " a=$1:8 "]],
    "%A: A may begin at any multiple of 8 bytes",
  ],
  [
    "a budget for one role only",
    "registers",
    { m: 64, n: 16, k },
    [["role math first 0 warps 4 {", "role math first 0 warps 4 registers 232 {"]],
    "role producer: has no register budget, and other roles have one",
  ],
  [
    "two roles at one barrier",
    "namedBarriers",
    { m: 64, n: 16, k },
    [
      ["      fill %acc = 0\n", "      fill %acc = 0\n      barrier 1\n"],
      ["      pipeline %p of %ring phase 1\n", "      pipeline %p of %ring phase 1\n      barrier 1\n"],
    ],
    "role producer: meets at barrier 1, where role math meets too",
  ],
  [
    "a warp that no role has",
    "roles",
    { m: 64, n: 16, k },
    [["role producer first 4", "role producer first 5"]],
    "no role has warp 4",
  ],
];

describe("planted faults: each names its rule, the role, the ring, the chunk and the numbers of chunks", () => {
  it.each(faults)("%s: %s", (_what, rule, options, edits, message) => {
    const found = proveProtocol(edited(options, edits), sm90);
    const { code, number, name } = proofRules[rule];
    const texts = found.filter((d) => d.code === code).map((d) => `${d.at}: ${d.message}`);
    expect(texts.join("\n"), JSON.stringify(found)).toContain(message);
    expect(texts[0]).toMatch(new RegExp(`\\(rule ${number}, ${name}\\)$`));
  });
});

describe("statements left out or changed wherever they stand", () => {
  /** The program with statements changed; null leaves one out. */
  function changed(program: TileProgram, change: (stmt: Stmt) => Stmt | null): TileProgram {
    const list = (stmts: readonly Stmt[]): readonly Stmt[] =>
      stmts.flatMap((stmt) => {
        const made = change(stmt);
        if (made === null) return [];
        return "body" in made ? [{ ...made, body: list(made.body) } as Stmt] : [made];
      });
    return { ...program, body: list(program.body) };
  }
  const without = (test: (stmt: Stmt) => boolean) => (stmt: Stmt) => (test(stmt) ? null : stmt);
  const program = (options: Case): TileProgram => machineOf(nestOf(options));
  const rules = (broken: TileProgram): readonly string[] =>
    proveProtocol(broken, sm90).map(({ message }) => /\(rule (\d+), /.exec(message)?.[1] ?? message);

  it("of warpgroups that take turns the order between them: one would come to a phase before its time", () => {
    const turns = directive("pingPong", { roles: 2 });
    const taking = program({ ...staying, groups: 1, directives: [STAY, turns] });
    expect(proveProtocol(taking, sm90)).toEqual([]);
    const faults = proveProtocol(
      changed(
        taking,
        without((s) => s.kind === "barrier" && s.threads !== undefined && s.groups === undefined),
      ),
      sm90,
    );
    expect(faults.map((d) => `${d.at}: ${d.message}`)).toEqual([
      expect.stringMatching(
        /^math1: with 3, 1 K chunks: waits at the full edge of slot 0 of %ring for chunk 3 of %ring in phase 1 while phase 0 is open: their parities are equal/,
      ),
    ]);
  });

  it.each([
    ["the fence before a bulk store", staying, without((s) => s.kind === "fence" && s.what === "async"), "6"],
    [
      "the waits for stores, before their tile is written again and at the end",
      staying,
      without((s) => s.kind === "bulk.wait"),
      "6",
    ],
    [
      "the meeting before a store",
      staying,
      without((s) => s.kind === "barrier" && (s.threads === undefined || s.groups !== undefined)),
      "13",
    ],
    [
      "the wait for matrix instructions before a release",
      staying,
      without((s) => s.kind === "wgmma.wait"),
      "4",
    ],
    [
      "the wait for a free slot",
      staying,
      without((s) => s.kind === "mbar.wait" && s.barrier.edge === "empty"),
      "17",
    ],
    [
      "the wait for a full slot",
      staying,
      without((s) => s.kind === "mbar.wait" && s.barrier.edge === "full"),
      "17",
    ],
    ["the expected bytes", staying, without((s) => s.kind === "mbar.expect"), "2"],
    ["an arrival", staying, without((s) => s.kind === "mbar.arrive"), "5"],
    [
      "arrivals in other blocks",
      sharing,
      (s: Stmt): Stmt => (s.kind === "mbar.arrive" ? { ...s, to: "own" } : s),
      "1",
    ],
    [
      "half of the bytes",
      sharing,
      (s: Stmt): Stmt => (s.kind === "mbar.expect" ? { ...s, bytes: s.bytes / 2 } : s),
      "2",
    ],
    [
      "a producer that waits for the phase to come",
      staying,
      (s: Stmt): Stmt => (s.kind === "pipeline" && s.phase === 1 ? { ...s, phase: 0 } : s),
      "5",
    ],
  ] as const)("without, or with wrong, %s", (_what, options, change, rule) => {
    expect(rules(changed(program(options), change))).toContain(rule);
  });

  it("who fills a ring and does not wait for its slots may be gone when the other block gives the last ones back", () => {
    const from = program(sharing);
    const body = rewriteStmts(from.body, (stmt) => (stmt.kind === "mbar.drain" ? [] : stmt));
    expect(rules({ ...from, body })).toEqual(["9"]);
    // Blocks that meet come to the end together, but for arrivals on their way only if the meeting orders memory.
    const meet = (release: boolean): readonly Stmt[] => [
      { kind: "cluster.arrive", release, any: true },
      { kind: "cluster.wait", any: true },
    ];
    expect(rules({ ...from, body: [...body, ...meet(false)] })).toEqual(["9"]);
    expect(rules({ ...from, body: [...body, ...meet(true)] })).toEqual([]);
  });
});
