/** The model's kernel of a bound program: what the IR says, and nothing of the schedule that it came from. */

import { sizeOf } from "@tilewright/core";
import { findAtom } from "../atoms/atoms.ts";
import { findTensorKind } from "../atoms/tensorKinds.ts";
import { findWarpgroupAtom } from "../atoms/warpgroup.ts";
import { elementBytes } from "../tile/elementBytes.ts";
import { eachStmt } from "../tile/rewrite.ts";
import { TENSOR_LANES } from "../tile/tensor.ts";
import type { Buffer, Copy, OwnershipMode, Stmt, TileProgram, Tiles } from "../tile/types.ts";
import { codesOf } from "../tile/weights.ts";
import type { ModelKernel } from "./kernel.ts";
import { type Engine, engineOfFeature } from "./machine.ts";
import { epilogueLoadOf } from "./source.ts";

/** Bytes of a sector: what a store fills or writes in parts. */
const SECTOR = 32;

const product = (factors: readonly OwnershipMode[], tiers: readonly OwnershipMode["tier"][]): number =>
  factors.reduce((size, { tier, extent }) => (tiers.includes(tier) ? size * extent : size), 1);

/** What multiplies with an atom; null where the model does not know it. */
export function engineOfAtom(name: string): Engine | null {
  if (name === "fma") return "fma";
  const atom = findTensorKind(name) ?? findWarpgroupAtom(name) ?? findAtom(name);
  return atom === null ? null : engineOfFeature(atom.feature);
}

/** What multiplies with an atom, and the rows and columns that one instruction (warp, thread) takes; null where the model does not know it. */
function engineOf(
  name: string,
  acc: Buffer,
  unit: number,
): { readonly engine: Engine; readonly instruction: ModelKernel["instruction"] } | null {
  const [tensor, group] = [findTensorKind(name), findWarpgroupAtom(name)];
  const engine = engineOfAtom(name);
  if (engine === null) return null;
  if (tensor !== null) {
    const lanes = acc.lanes ?? 0;
    const across = acc.shape[lanes === 0 ? 1 : 0];
    return { engine, instruction: [Math.min(TENSOR_LANES, acc.shape[lanes] / unit), across] };
  }
  if (group !== null) return { engine, instruction: [group.m, group.n] };
  if (acc.own === null) return null;
  const tiers = engine === "fma" ? (["register"] as const) : (["thread", "register", "atom"] as const);
  return { engine, instruction: [product(acc.own.rows, tiers), product(acc.own.cols, tiers)] };
}

/**
 * `residents`: blocks an SM holds, which depends on registers that only ptxas knows. Null where the program is not bound, or multiplies in a
 * way that the model does not have.
 */
export function kernelOf(program: TileProgram, residents: number): ModelKernel | null {
  const stmts = eachStmt(program.body);
  const one = <K extends Stmt["kind"]>(kind: K): Extract<Stmt, { kind: K }> | undefined =>
    stmts.find((stmt): stmt is Extract<Stmt, { kind: K }> => stmt.kind === kind);
  const [mma, tiles, epilogue] = [one("mma"), one("tiles"), one("epilogue")];
  const buffers = new Map(program.buffers.map((buffer) => [buffer.name, buffer]));
  const acc = buffers.get(mma?.acc.buffer ?? "");
  if (mma === undefined || tiles === undefined || epilogue === undefined || acc === undefined) return null;
  const unit = program.launch.pair === true ? 2 : 1;
  const found = engineOf(mma.atom, acc, unit);
  if (found === null) return null;

  const load = stmts.find((stmt): stmt is Copy => stmt.kind === "copy" && stmt.src.buffer === "A");
  const bulk = load === undefined || load.transport === "tma";
  const ring = program.rings.find((each) => each.buffers.includes(load?.dst.buffer ?? ""));
  return {
    ...found,
    tile: [acc.shape[0], acc.shape[1], load?.src.extent[1] ?? mma.a.extent[1]],
    swapped: acc.lanes === 1,
    unit,
    threads: program.launch.threads,
    stages: ring?.slots ?? 1,
    specialised: stmts.some((stmt) => stmt.kind === "role"),
    meets: false,
    boxBytes: bulk ? boxBytes(buffers.get(load?.dst.buffer ?? "")) : 128,
    copyVector: bulk ? null : [load?.vector[0] ?? 1, load?.vector[0] ?? 1],
    through: !bulk && load?.transport !== "cp.async",
    across: 0,
    words: false,
    widened: false,
    work: null,
    transposedBytes: 0,
    // Parts of a chunk in registers by turns.
    madeAhead: new Set(stmts.flatMap((s) => (s.kind === "map" && codesOf(s) ? [s.dst.buffer] : []))).size > 1,
    promotions: 0,
    factors: null,
    sets: Math.max(1, multiplyingWarps(stmts) / WARPGROUP),
    halves: 0,
    multicast: stmts.some((stmt) => stmt.kind === "copy" && stmt.multicast !== null)
      ? program.launch.cluster
      : [1, 1],
    residents: Math.max(1, residents),
    sched: schedOf(tiles),
    workers: null,
    // A second accumulator, or ping-pong roles.
    overlap: acc.slots > 1 || (tiles.loop?.of ?? 1) > 1,
    storeBytes: epilogue.via === null ? storeBytes(program, epilogue, acc) : SECTOR,
    // Of fragments whose lanes have two columns each.
    storeSpan: SECTOR,
    storeGaps: false,
    storeBox: epilogue.via === null ? null : boxBytes(buffers.get(epilogue.via.buffer)),
    addend: epilogueLoadOf(program.problem, {
      c: epilogue.c !== null && epilogue.c.buffer !== "C",
      steps: epilogue.inputs !== undefined,
    }),
    raster: tiles.raster,
    split: tiles.split?.extent ?? 1,
    streamk: tiles.streamK?.blocks ?? 0,
    combine: stmts.find((stmt) => stmt.kind === "reduce")?.by ?? "last",
  };
}

const WARPGROUP = 4;

/** Warps of the roles that multiply. */
const multiplyingWarps = (stmts: readonly Stmt[]): number =>
  stmts.reduce(
    (sum, stmt) =>
      stmt.kind === "role" && eachStmt(stmt.body).some(({ kind }) => kind === "mma") ? sum + stmt.warps : sum,
    0,
  );

function schedOf({ loop }: Tiles): ModelKernel["sched"] {
  if (loop === null) return "tiles";
  // A counter's numbers come as early as the launch control's responses.
  return loop.by === "ring" ? "clc" : "persistent";
}

/** Bytes of a row of a bulk copy's box: of a panel where the tile has some. */
function boxBytes(tile: Buffer | undefined): number {
  const layout = tile?.layout;
  if (tile === undefined || layout === null || layout === undefined) return 128;
  const contiguous = tile.shape[layout.stride[0] === 1 ? 0 : 1];
  return Math.min(128, (layout.panels?.extent ?? contiguous) * elementBytes(tile));
}

/** Neighbouring lanes store neighbouring vectors, except where a lane holds a row. */
function storeBytes(
  program: TileProgram,
  { acc, vector }: Extract<Stmt, { kind: "epilogue" }>,
  sums: Buffer,
): number {
  const own = program.buffers.find(({ name }) => name === acc.buffer)?.own ?? sums.own;
  const lanes = own === null ? 1 : product(own.cols, ["thread"]);
  return Math.min(SECTOR, lanes * vector * sizeOf(program.problem.d.dtype));
}
