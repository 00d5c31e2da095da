/** What tells the consumers of a ring that a slot has been filled, and its producers that it has been read. */
import { WARP } from "@tilewright/core";
import { holdsResponses } from "../../tile/elected.ts";
import { v } from "../../tile/expr.ts";
import { feedsEpilogue, filledByCopies } from "../../tile/operandRings.ts";
import type { Arriver, BarrierRef, Reach, Ring, Role, Stmt, TileProgram } from "../../tile/types.ts";
import { multicastPeers } from "../multicastCopies.ts";
import { isOne, loadedByThreads, readByTensorCores, sharedAxes, usesTensorMemory } from "./ringReaders.ts";

/** Threads of a warpgroup. */
const WARPGROUP = 128;

interface Releasing {
  readonly program: TileProgram;
  readonly role: Role;
  readonly loadsOverlapped: boolean;
}

/** Tells a slot's producers that it has been read. `loadsOverlapped`: the role loads accumulators whose chunks share columns. */
export function arrivals(
  { program, role, loadsOverlapped }: Releasing,
  ring: Ring,
  pipeline: string,
): readonly Stmt[] {
  const blocks = blocksOf(program);
  const pair = program.launch.pair === true;
  const barrier: BarrierRef = { ring: ring.name, edge: "empty", pipeline };
  const elected = isOne(program, role);
  const met: readonly Stmt[] = elected ? [] : [{ kind: "warp.sync" }];
  const warp: Arriver = elected ? "thread" : "warp";
  const before: readonly Stmt[] = [{ kind: "fence", what: "tensor-before" }];
  if (
    ring.transport === "tcgen05.mma" ||
    (ring.transport === "tcgen05.st" && !readByTensorCores(program, ring))
  )
    return [...before, ...met, { kind: "mbar.arrive", barrier, by: warp, to: pair ? "leader" : "own" }];
  if (holdsResponses(ring))
    return [
      // Columns that accumulators do not share are loaded behind the accumulators' own release.
      ...(loadsOverlapped && !elected ? before : []),
      ...met,
      { kind: "mbar.arrive", barrier, by: warp, to: blocks > 1 ? "first" : "own" },
    ];
  const axes = [...sharedAxes(program, ring)].sort().join("");
  const peers: Reach<"arrive"> & Reach<"commit"> =
    axes === "" ? "own" : axes === "m" ? "peers-m" : axes === "n" ? "peers-n" : "peers-mn";
  if (readByTensorCores(program, ring))
    return [{ kind: "tcgen05.commit", barrier, to: peers === "own" && pair ? "pair" : peers }];
  // An arrive does not wait for loads that are under way, and a bulk copy writes past them: without this, double-buffered fragments had elements of the
  // chunk after next on an H200 (docs/perf/mma.md). All lanes load, one arrives.
  const feeds = feedsEpilogue(program, ring);
  // Of what an epilogue has read nothing goes to the other proxy: that the loads are done is enough.
  const loaded: readonly Stmt[] = feeds
    ? [{ kind: "fence", what: "cta" }, { kind: "warp.sync" }]
    : loadedByThreads(program, ring)
      ? [{ kind: "fence", what: "async" }, { kind: "warp.sync" }]
      : [];
  if (feeds && usesTensorMemory(program))
    return [...loaded, { kind: "mbar.arrive", barrier, by: "warp", to: "own" }];
  return [...loaded, { kind: "mbar.arrive", barrier, by: arriver(program, role, ring), to: peers }];
}

/** Threads for which one arrives, so that the edge counts all of them. */
function arriver(program: TileProgram, role: Role, ring: Ring): Arriver {
  const { empty } = ring;
  const arrivals = empty?.kind === "mbarrier" ? empty.arrivals : 0;
  const peers = multicastPeers(program, ring);
  const threads = role.warps * WARP;
  const groups = [
    [WARPGROUP, "warpgroup"],
    [WARP, "warp"],
    [1, "thread"],
  ] as const;
  const found = groups.find(([size]) => (threads / size) * peers === arrivals);
  if (found === undefined || (peers > 1 && found[0] < peers))
    throw new RangeError(
      `the empty edge of %${ring.name} counts ${arrivals} arrivals; ${threads} threads arrive by warpgroup, by warp or each${peers > 1 ? ` at ${peers} blocks` : ""}`,
    );
  return found[1];
}

/** Bytes of a response of the launch control (PTX ISA, clusterlaunchcontrol.try_cancel). */
const RESPONSE_BYTES = 16;

const blocksOf = ({ launch }: TileProgram): number => launch.cluster[0] * launch.cluster[1];

/** What completes the phase of a full barrier, where the copies themselves do not. */
export function filled(program: TileProgram, ring: Ring, barrier: BarrierRef): readonly Stmt[] {
  switch (ring.transport) {
    case "tcgen05.mma":
      return [{ kind: "tcgen05.commit", barrier, to: program.launch.pair === true ? "pair" : "own" }];
    case "tcgen05.st":
      return [
        { kind: "fence", what: "tensor-before" },
        { kind: "warp.sync" },
        { kind: "mbar.arrive", barrier, by: "warp", to: "own" },
      ];
    case "cp.async":
      return [{ kind: "mbar.arrive", barrier, by: "copies", to: "own" }];
    case "direct":
      return [
        // What threads compute has its fence where it is computed.
        ...(filledByCopies(program, ring) ? [{ kind: "fence", what: "async" } as const] : []),
        { kind: "warp.sync" },
        { kind: "mbar.arrive", barrier, by: "warp", to: "own" },
      ];
    case "atomic":
      return [{ kind: "mbar.arrive", barrier, by: "thread", to: blocksOf(program) > 1 ? "cluster" : "own" }];
    default:
      return [];
  }
}

/** The request for a work tile; the barriers of the slot are armed before it, in every block of the cluster. */
export function requested(
  program: TileProgram,
  { name, transport }: Ring,
  barrier: BarrierRef,
): readonly Stmt[] {
  const to: Reach<"expect"> = blocksOf(program) > 1 ? "cluster" : "own";
  return [
    ...(transport === "clc"
      ? [{ kind: "mbar.expect", barrier, bytes: RESPONSE_BYTES, to, leader: false } as const]
      : []),
    { kind: "request", ring: name, at: v(barrier.pipeline) },
  ];
}
