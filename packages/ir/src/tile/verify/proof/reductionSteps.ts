/** The statements of one reduction, in order: what each does to its state, and what has to hold before it. */
import { mergeOf, reducingThreads } from "../../dsmemReduction.ts";
import { elementBytes } from "../../elementBytes.ts";
import { evaluateExpr, sameValue } from "../../expr.ts";
import { bufferOf } from "../../rewrite.ts";
import type { Expr, ReductionStmt, Stmt, TileProgram } from "../../types.ts";
import { bulkReductionFinding } from "./bulkReduction.ts";
import type { Finding } from "./rules.ts";

export type Of<K extends Stmt["kind"]> = Extract<Stmt, { readonly kind: K }>;
export type Tiles = Of<"tiles">;
export type Report = (at: Stmt, message: string, hint: string, rule?: Finding["rule"]) => void;

/** What has happened in a line of statements so far. */
export interface State {
  /** It is that of a kernel behind the main one. */
  readonly behind: boolean;
  /** Tiles that were handed in, and read. */
  stored: Set<string>;
  taken: Set<string>;
  /** Partial tiles were handed in; behind that, fenced at the scope of the GPU, and met by all threads. */
  handed: boolean;
  fenced: boolean;
  met: boolean;
  counted: Expr | null;
  /** Only who has seen all CTAs counted goes on; behind a fence of its own it sees their partial tiles. */
  last: boolean;
  acquired: boolean;
  /** Partial tiles read. */
  loaded: boolean;
  read: number | null | undefined;
  cleared: boolean;
  zeroed: boolean;
  /** Of a cluster: all CTAs run; slices were sent, so many bytes told of, waited for and added. */
  running: boolean;
  sent: number | null;
  left: number | null;
  expected: boolean;
  arrived: boolean;
  summed: boolean;
}

export const fresh = (): State => ({
  behind: false,
  stored: new Set(),
  taken: new Set(),
  handed: false,
  fenced: false,
  met: false,
  counted: null,
  last: false,
  acquired: false,
  loaded: false,
  read: undefined,
  cleared: false,
  zeroed: false,
  running: false,
  sent: null,
  left: null,
  expected: false,
  arrived: false,
  summed: false,
});

interface At {
  readonly program: TileProgram;
  readonly tiles: Tiles;
  readonly combine: Of<"reduce">;
  readonly state: State;
  readonly report: Report;
}

/** Whether an expression is what the counter of a work tile comes to. */
export function isComplete({ streamK: share, split }: Tiles, e: Expr): boolean {
  if (share === undefined) return e.kind === "const" && e.value === (split?.extent ?? 1);
  if (share.counted !== undefined && sameValue(e, share.counted.chunks)) return true;
  // At one launch's sizes; a tile without a chunk counts as one.
  return e.kind === "const" && Math.max(1, evaluateExpr(e, new Map())) === share.chunks;
}

/** What each CTA adds: 1, or the chunks of its part. */
function isOwnCount({ streamK: share }: Tiles, e: Expr): boolean {
  if (share === undefined) return e.kind === "const" && e.value === 1;
  return e.kind === "var" && e.name === share.count;
}

const handsIn: Readonly<Record<string, ReductionStmt["kind"]>> = {
  last: "partial.store",
  kernel: "partial.store",
  slices: "partial.store",
  atomics: "partial.reduce",
  bulk: "partial.reduce",
};

export function step(at: At, stmt: Stmt): void {
  const { program, tiles, combine, state, report } = at;
  const published = (): void => {
    if (!state.handed)
      report(stmt, "counts before a partial tile is handed in", `${handsIn[combine.by]} stands in front`);
    else if (!state.fenced)
      report(
        stmt,
        "counts partial tiles that no fence has published: others may see the count and not the tile",
        "fence gpu behind the stores",
      );
    else if (!state.met)
      report(
        stmt,
        "one thread counts while others may still store",
        "a barrier of all threads that hold accumulators in front",
      );
  };
  const atBarrier = (id: number): void => {
    const wanted = reducingThreads(program) === program.launch.threads;
    if (wanted !== (id === 0))
      report(
        stmt,
        `meets at barrier ${id}, which is ${id === 0 ? "that of all threads of the block" : "no barrier of the whole block"}`,
        wanted ? "write 0" : "a barrier of the role alone: write 11",
      );
  };
  ofTheSum(at, stmt);
  if (state.behind && stmt.kind !== "partial.load" && stmt.kind !== "partial.add") {
    report(stmt, `'${stmt.kind}' in a kernel that finds all partial tiles`, "leave it out");
    return;
  }
  switch (stmt.kind) {
    case "partial.store":
    case "partial.reduce": {
      const found =
        stmt.kind === "partial.reduce" && stmt.by === "bulk" ? bulkReductionFinding(program, stmt) : null;
      if (found !== null) report(found.stmt ?? stmt, found.message, found.hint, found.rule);
      if (handsIn[combine.by] !== stmt.kind || ("by" in stmt && stmt.by !== combine.by))
        report(stmt, `is not how tiles are combined by ${combine.by}`, `write ${handsIn[combine.by]}`);
      if (state.stored.has(stmt.acc.buffer)) report(stmt, "hands in a partial tile twice", "once");
      state.stored.add(stmt.acc.buffer);
      Object.assign(state, { handed: true, fenced: false, met: false });
      return;
    }
    case "fence":
      if (stmt.what !== "gpu") return;
      if (state.last) state.acquired = true;
      else if (state.handed) state.fenced = true;
      return;
    case "barrier":
      atBarrier(stmt.id);
      if (state.handed && stmt.arrive !== true) state.met = true;
      return;
    case "counter.add":
      published();
      if (state.counted !== null) report(stmt, "counts a second time", "each CTA counts once");
      if (!isOwnCount(tiles, stmt.by))
        report(
          stmt,
          "adds what is not the CTA's own part",
          tiles.streamK === undefined ? "write counter.add 1" : `write counter.add %${tiles.streamK.count}`,
        );
      state.counted = stmt.by;
      return;
    case "counter.leave":
      atBarrier(stmt.id);
      if (state.counted === null)
        report(stmt, "asks for a count to which nobody has added", "counter.add in front");
      if (!isComplete(tiles, stmt.unless))
        report(
          stmt,
          "waits for a number to which the counter does not come, or comes too early",
          `write the ${tiles.streamK === undefined ? "CTAs" : "K chunks"} of a tile`,
        );
      state.last = true;
      return;
    case "counter.clear":
      if (!state.last) report(stmt, "clears the counter while others have to count", "behind counter.leave");
      state.cleared = true;
      return;
    case "partial.load":
    case "partial.add": {
      if (!state.last)
        report(stmt, "reads partial tiles before all CTAs are counted", "counter.leave in front");
      else if (!state.acquired)
        report(
          stmt,
          "reads partial tiles without a fence behind the count: it may see what was there before",
          "fence gpu behind counter.leave",
        );
      if (stmt.kind === "partial.load") {
        if (state.taken.has(stmt.acc.buffer)) report(stmt, "reads a partial tile twice", "once");
        state.loaded = true;
        state.taken.add(stmt.acc.buffer);
        return;
      }
      if (!state.loaded) report(stmt, "adds to what the registers had", "partial.load in front");
      if (state.read !== undefined) report(stmt, "adds partial tiles twice", "once");
      const parts = tiles.split === null ? null : tiles.split.extent - 1;
      if (stmt.partials !== parts)
        report(
          stmt,
          `adds ${stmt.partials ?? "as many"} partial tiles, and the tile has ${parts ?? "those of its shares"} behind the first`,
          parts === null ? "leave out partials" : `write partials ${parts}`,
        );
      state.read = stmt.partials;
      return;
    }
    case "merge": {
      const parts = (tiles.split?.extent ?? 1) - 1;
      if (stmt.of.some((name) => !state.stored.has(name) || !state.taken.has(name)))
        report(
          stmt,
          `merges ${stmt.of.map((name) => `%${name}`).join(", ")}, of which one is not handed in and read`,
          "partial.store and partial.load of each in front",
        );
      if (stmt.partials !== parts || stmt.of[0] !== combine.acc.buffer || stmt.of.length !== stmt.from.length)
        report(
          stmt,
          `merges ${stmt.partials} partial tiles of ${stmt.of.length} tiles from ${stmt.from.length}`,
          `write partials ${parts}, the accumulator first, and a tile for each`,
        );
      state.read = stmt.partials;
      return;
    }
    case "partial.clear":
      if (!state.loaded) report(stmt, "clears the sum before it is read", "partial.load in front");
      state.zeroed = true;
      return;
    case "slices":
      atBarrier(stmt.id);
      published();
      return;
    case "cluster.wait":
      state.running = true;
      return;
    case "dsmem.send":
      if (!state.running)
        report(stmt, "stores in memory of CTAs that may not have begun", "cluster.wait in front");
      state.sent = slicesOf(stmt);
      return;
    case "dsmem.leave":
      if (state.sent === null) report(stmt, "leaves before its slices are sent", "dsmem.send in front");
      state.left = stmt.slices;
      return;
    case "dsmem.expect":
      inSlices(at, stmt);
      if (state.expected) report(stmt, "tells of bytes twice", "the mbarrier counts one arrival");
      state.expected = true;
      return;
    case "dsmem.wait":
      if (!state.expected)
        report(stmt, "waits for an mbarrier at which nobody arrives", "dsmem.expect in front");
      state.arrived = true;
      return;
    case "dsmem.add":
      if (!state.arrived) report(stmt, "adds slices that may not have come", "dsmem.wait in front");
      if (stmt.partials !== tiles.split?.extent)
        report(
          stmt,
          `adds ${stmt.partials} slices, and ${tiles.split?.extent ?? 1} CTAs send one each`,
          `write partials ${tiles.split?.extent ?? 1}`,
        );
      state.summed = true;
      return;
    default:
      report(stmt, `'${stmt.kind}' is no part of a reduction`, "put it in front, or behind");
  }
}

/** Every statement of a reduction is about the tile that is reduced, and the slice that each CTA goes on with. */
function ofTheSum({ combine, report }: At, stmt: Stmt): void {
  const merged = mergeOf(combine);
  if (merged !== null && "acc" in stmt && merged.of.includes(stmt.acc.buffer)) return;
  const wanted = (["acc", "into"] as const).find(
    (field) => field in stmt && (stmt as Partial<Of<"reduce">>)[field]?.buffer !== combine[field]?.buffer,
  );
  if (wanted !== undefined)
    report(
      stmt,
      `is about another tile than %${combine[wanted]?.buffer ?? ""}, of which the CTAs have parts`,
      `write %${combine[wanted]?.buffer ?? ""}`,
    );
}

const slicesOf = ({ acc, into }: Of<"dsmem.send">): number =>
  (acc.extent[0] / into.extent[0]) * (acc.extent[1] / into.extent[1]);

/** Whoever waits for slices has one of its own, and as many bytes come as the others send. */
function inSlices({ program, tiles, combine, state, report }: At, stmt: Of<"dsmem.expect">): void {
  const blocks = tiles.split?.extent ?? 1;
  const staying = state.left ?? blocks;
  if (state.sent === null) report(stmt, "tells of slices that nobody sends", "dsmem.send in front");
  else if (staying !== state.sent)
    report(
      stmt,
      `${staying} CTAs wait for slices, and there are ${state.sent}`,
      `write dsmem.leave slices ${state.sent}`,
    );
  const { into } = combine;
  if (into === null) return;
  const bytes = (blocks - 1) * into.extent[0] * into.extent[1] * elementBytes(bufferOf(program, into.buffer));
  if (stmt.bytes !== bytes)
    report(
      stmt,
      `tells of ${stmt.bytes} bytes, and ${blocks - 1} CTAs send ${bytes}`,
      `write dsmem.expect ${bytes}`,
    );
}
