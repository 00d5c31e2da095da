/** The race checker by itself: operations of engines against accesses of warps, in every relation that clocks can have. */
import { describe, expect, test } from "vitest";
import { type Carried, Race } from "../src/checkers/race.ts";
import type { Instruction } from "../src/load/types.ts";
import type { Block, Warp } from "../src/machine/state.ts";

const instruction = { index: 7, text: "op", location: null } as Instruction;

/** Two blocks of two warps; what the checker says, by rule. */
function checker() {
  const said: string[] = [];
  const words = new Int32Array(2048);
  const race = new Race({
    base: 4096,
    stride: 1024,
    blocks: 2,
    warpsPerBlock: 2,
    report: (rule, _warp, _site, _other, message) => {
      said.push(`${rule} ${message()}`);
    },
    awaited: (load, at) => load < at,
    global: null,
    words: () => words,
  });
  const blocks = [0, 1].map((rank) => ({ rank, warps: [] as Warp[], race }) as unknown as Block);
  const warps = [0, 1, 2, 3].map((agent) => {
    const block = blocks[agent >> 1] as Block;
    const warp = { agent, id: agent & 1, block, copyEngine: -1 } as Warp;
    block.warps.push(warp);
    return warp;
  });
  const [a, b, c] = warps as [Warp, Warp, Warp, Warp];
  const { clocks } = race;
  return {
    race,
    clocks,
    said,
    rules: () => said.map((s) => s.slice(0, 4)),
    a,
    b,
    c,
    blocks,
    /** An arrival of one warp that another waits for; at an instruction that does not wait for loads itself where there is a `site`. */
    hand: (from: Warp, to: Warp, site?: number): void => {
      const carried: Carried = clocks.empty();
      clocks.release(from.agent, carried, site);
      clocks.acquire(to.agent, carried);
    },
    /** An operation that reads or writes 16 bytes at offset 64. */
    copy: (warp: Warp, kind: "read" | "write", engine = clocks.engine("bulk")) => {
      const op = race.begin(warp, 0, engine, instruction);
      if (kind === "read") race.asyncRead(op, 4096 + 64, 16);
      else race.asyncWrite(op, 4096 + 64, 16);
      return op;
    },
    store: (warp: Warp): void => {
      race.write(warp, 0, 4096 + 64, 16, 1);
      // Every store leaves another value.
      words.forEach((word, k) => {
        words[k] = word + 1;
      });
      race.settle();
    },
    load: (warp: Warp): void => race.read(warp, 0, 4096 + 64, 16, 2),
  };
}

describe("generic writes and the async proxy", () => {
  test.each(["read", "write"] as const)(
    "an operation that %ss needs a fence on either side of the barrier",
    (kind) => {
      const none = checker();
      none.store(none.a);
      none.hand(none.a, none.b);
      none.copy(none.b, kind);
      expect(none.rules()).toEqual(["H033", "H033", "H033", "H033"]);
      expect(none.said[0]).toContain("with no fence.proxy.async after the write by warp 0");
      for (const side of ["writer", "issuer"] as const) {
        const t = checker();
        t.store(t.a);
        if (side === "writer") t.clocks.proxyFence(t.a.agent);
        t.hand(t.a, t.b);
        if (side === "issuer") t.clocks.proxyFence(t.b.agent);
        t.copy(t.b, kind);
        expect(t.rules()).toEqual([]);
      }
    },
  );
  test("a fence before the write does not count, nor does it order", () => {
    const early = checker();
    early.clocks.proxyFence(early.a.agent);
    early.store(early.a);
    early.copy(early.a, "read");
    expect(new Set(early.rules())).toEqual(new Set(["H033"]));
    const unordered = checker();
    unordered.store(unordered.a);
    unordered.clocks.proxyFence(unordered.a.agent);
    unordered.copy(unordered.b, "read");
    expect(new Set(unordered.rules())).toEqual(new Set(["H009"]));
  });
  test("a generic read before an async write needs order and no fence", () => {
    const t = checker();
    t.load(t.a);
    t.copy(t.b, "write");
    expect(new Set(t.rules())).toEqual(new Set(["H010"]));
    const u = checker();
    u.load(u.a);
    u.hand(u.a, u.b);
    u.copy(u.b, "write");
    expect(u.rules()).toEqual([]);
  });
  test("data of cp.async is generic: waited for, it still needs the fence", () => {
    const t = checker();
    const engine = t.clocks.engine("cp.async:0", { proxy: "generic", owner: 0 });
    const op = t.copy(t.a, "write", engine);
    t.clocks.waited(t.a.agent, engine, op.clock);
    t.copy(t.a, "read");
    expect(new Set(t.rules())).toEqual(new Set(["H033"]));
  });
});

describe("results of operations", () => {
  test("are seen by who takes over the completion, and by whom that one meets", () => {
    const t = checker();
    const op = t.copy(t.a, "write");
    t.load(t.b);
    expect(new Set(t.rules())).toEqual(new Set(["H034"]));
    const u = checker();
    const done = u.copy(u.a, "write");
    const carried = u.clocks.empty();
    u.clocks.complete(done.engine, done.clock, carried);
    u.clocks.acquire(u.a.agent, carried);
    u.hand(u.a, u.b);
    u.load(u.b);
    expect(u.rules()).toEqual([]);
    expect(op.clock).toBe(1);
  });
  test("another engine's completion says nothing, nor does an earlier operation's", () => {
    const t = checker();
    t.copy(t.a, "write");
    const other = t.copy(t.a, "read", t.clocks.engine("other", { inOrder: true }));
    t.clocks.waited(t.b.agent, other.engine, other.clock);
    t.load(t.b);
    expect(t.rules()).toContain("H034");
    const u = checker();
    const first = u.race.begin(u.a, 0, u.clocks.engine("bulk"), instruction);
    u.copy(u.a, "write");
    u.clocks.waited(u.b.agent, first.engine, first.clock);
    u.load(u.b);
    expect(u.rules()).toContain("H034");
  });
  test("sources stay as they are until the operation has been waited for", () => {
    const t = checker();
    const op = t.copy(t.a, "read");
    t.store(t.a);
    expect(new Set(t.rules())).toEqual(new Set(["H035"]));
    const u = checker();
    const again = u.copy(u.a, "read");
    u.clocks.waited(u.a.agent, again.engine, again.clock);
    u.store(u.a);
    expect(u.rules()).toEqual([]);
    expect(op.clock).toBe(again.clock);
  });
  test("operations of an engine that keeps order do not conflict; of another they do", () => {
    for (const [inOrder, want] of [
      [true, []],
      [false, ["H014"]],
    ] as const) {
      const t = checker();
      const engine = t.clocks.engine("tcgen05:0", { inOrder });
      t.copy(t.a, "write", engine);
      t.copy(t.a, "write", engine);
      expect([...new Set(t.rules())]).toEqual(want);
    }
  });
  test("many engines: rows grow, and every engine's reads are kept apart", () => {
    const t = checker();
    const ops = Array.from({ length: 60 }, (_, k) => t.copy(t.a, "read", t.clocks.engine(`e${k}`)));
    for (const op of ops.slice(0, 59)) t.clocks.waited(t.b.agent, op.engine, op.clock);
    t.hand(t.a, t.b);
    t.store(t.b);
    expect(t.rules()).toEqual(["H035", "H035", "H035", "H035"]);
  });
});

describe("tcgen05's order and exits", () => {
  test("T follows V only at the fence", () => {
    const { clocks, a, b, hand } = checker();
    hand(a, b);
    expect(clocks.knows(b.agent, a.agent, 1)).toBe(true);
    expect(clocks.knowsTensor(b.agent, a.agent, 1)).toBe(false);
    clocks.tensorFenceAfter(b.agent);
    expect(clocks.knowsTensor(b.agent, a.agent, 1)).toBe(true);
  });
  test("a block's exit comes after what others do in its window: loads by a relaxed arrival, too, what is posted by one that orders memory", () => {
    for (const [relaxed, posted] of [true, false, null].flatMap((r) => [
      [r, true] as const,
      [r, false] as const,
    ])) {
      const t = checker();
      const [, block] = t.blocks as [Block, Block];
      t.race.remote(t.a, block, 3, posted);
      const carried = t.clocks.empty();
      if (relaxed === true) t.clocks.releaseRelaxed(t.a.agent, carried, 3);
      else t.clocks.release(t.a.agent, carried);
      if (relaxed === true) t.clocks.acquireRelaxed(t.c.agent, carried);
      else if (relaxed === false) t.clocks.acquire(t.c.agent, carried);
      t.race.exited(block);
      expect(t.rules()).toEqual(relaxed === null || (relaxed && posted) ? ["H043"] : []);
    }
  });
});

describe("loads under way and bulk copies", () => {
  const bulk = { overtakes: true };

  test("an arrival that does not wait for the load is found, for copies that overtake only", () => {
    const t = checker();
    t.load(t.a);
    t.hand(t.a, t.b, 1);
    t.copy(t.b, "write", t.clocks.engine("tma", bulk));
    expect(t.rules()).toEqual(["H090", "H090", "H090", "H090"]);
    const other = checker();
    other.load(other.a);
    other.hand(other.a, other.b, 1);
    other.copy(other.b, "write");
    expect(other.said).toEqual([]);
  });

  test("nothing is said where the arrival comes behind a use, a fence of either kind or a barrier", () => {
    // The loads of `checker` are instruction 2, and here there whenever an instruction behind it runs.
    const between: readonly ((t: ReturnType<typeof checker>) => void)[] = [
      (t) => t.hand(t.a, t.b, 3),
      (t) => {
        t.clocks.fence(t.a.agent, null);
        t.hand(t.a, t.b, 1);
      },
      (t) => {
        t.clocks.proxyFence(t.a.agent);
        t.hand(t.a, t.b, 1);
      },
      (t) => t.hand(t.a, t.b),
      (t) => {
        t.clocks.step(t.a.agent, 3);
        t.hand(t.a, t.b, 1);
      },
    ];
    for (const act of between) {
      const t = checker();
      t.load(t.a);
      act(t);
      t.copy(t.b, "write", t.clocks.engine("tma", bulk));
      expect(t.said).toEqual([]);
    }
  });

  test("a fence behind the arrival is too late, and so is one by whoever copies", () => {
    const t = checker();
    t.load(t.a);
    t.hand(t.a, t.b, 1);
    t.clocks.proxyFence(t.a.agent);
    t.clocks.proxyFence(t.b.agent);
    t.copy(t.b, "write", t.clocks.engine("tma", bulk));
    expect(t.rules()).toEqual(["H090", "H090", "H090", "H090"]);
  });
});
