/** Say which thread holds which element: register tiles get an owner, copies from global memory a distribution. */

import { type Atom, findAtom } from "../atoms/atoms.ts";
import { spreadAtom, spreadFactors } from "../atoms/spread.ts";
import { findWarpgroupAtom, type WarpgroupAtom } from "../atoms/warpgroup.ts";
import { dsmemReduction } from "../tile/dsmemReduction.ts";
import { elementBytes } from "../tile/elementBytes.ts";
import { tileExtent } from "../tile/gemm.ts";
import { distribute, ownedAxis, registersPerThread, sliceOwner } from "../tile/ownership.ts";
import { bufferOf, eachStmt, rewriteStmts, withBody } from "../tile/rewrite.ts";
import type { Buffer, Nest, Ownership, OwnershipMode, Stmt, TileProgram } from "../tile/types.ts";
import { writesOf } from "../tile/views.ts";
import type { Pass } from "./pass.ts";

/**
 * The accumulator is owned as the nest says, with the atom's fragment in the place of tier `atom` where the multiplication is one of a warp. A fragment of A follows m and is the same for all threads along n; B the other way round.
 * Staging copies go round the block's threads in vectors of one element along the contiguous axis of global memory.
 */
export const bindOwnership: Pass = {
  name: "bindOwnership",
  summary: "Register tiles get owners, staging copies a distribution over the threads",
  from: "specialised",
  to: "specialised",
  run: bind,
};

function bind(program: TileProgram): TileProgram {
  const { nest } = program;
  if (!nest) return program;
  const owners = new Map<string, Ownership>();
  const step = (extent: number): OwnershipMode[] => [{ tier: "register", extent, stride: 1 }];
  for (const stmt of eachStmt(program.body)) {
    // Some columns lie where those of all do.
    if (stmt.kind !== "mma" || stmt.columns !== undefined) continue;
    const group = findWarpgroupAtom(stmt.atom);
    if (group) {
      const { acc } = group.fragments;
      const swapped = bufferOf(program, stmt.acc.buffer).lanes === 1;
      const fragment = swapped ? { rows: acc.cols, cols: acc.rows } : acc;
      for (const sums of writesOf(stmt))
        owners.set(sums.buffer, accumulatorOwner(nestOf(program, nest, stmt, sums), fragment));
      // Weights come through the registers of those whose sums have their columns.
      if (swapped) owners.set(stmt.b.buffer, heldOwner(nest, stmt, group));
      continue;
    }
    const atom = findAtom(stmt.atom);
    if (atom) {
      const { acc, a, b } = atomOwners(nestOf(program, nest, stmt), atom);
      owners.set(stmt.acc.buffer, acc);
      // Part of a tile that a map makes lies as that does.
      if (stmt.a.extent[1] === bufferOf(program, stmt.a.buffer).shape[1]) owners.set(stmt.a.buffer, a);
      // Weights are made for several steps at once, each of which has its registers.
      const steps = bufferOf(program, stmt.b.buffer).shape[0] / stmt.b.extent[0];
      const each = registersPerThread(b);
      const behind: OwnershipMode[] = steps > 1 ? [{ tier: "register", extent: steps, stride: each }] : [];
      owners.set(stmt.b.buffer, { ...b, rows: [...behind, ...b.rows] });
      if (stmt.scales !== undefined) {
        const factors = factorOwners(nestOf(program, nest, stmt), atom);
        owners.set(stmt.scales.a.buffer, factors.a);
        owners.set(stmt.scales.b.buffer, factors.b);
      }
      continue;
    }
    const n = ownedAxis(nest.n, 1);
    const width = n.reduce((size, f) => (f.tier === "register" ? size * f.extent : size), 1);
    owners.set(stmt.acc.buffer, { rows: ownedAxis(nest.m, width), cols: n });
    const k = stmt.a.extent[1];
    if (bufferOf(program, stmt.a.buffer).space === "register")
      owners.set(stmt.a.buffer, { rows: ownedAxis(nest.m, k), cols: step(k) });
    if (bufferOf(program, stmt.b.buffer).space === "register")
      owners.set(stmt.b.buffer, {
        rows: step(k).map((f) => ({ ...f, stride: width })),
        cols: ownedAxis(nest.n, 1),
      });
  }
  for (const stmt of eachStmt(program.body)) {
    if (stmt.kind !== "reduce" || stmt.into === null) continue;
    const acc = owners.get(stmt.acc.buffer);
    const meeting = dsmemReduction(program);
    if (acc !== undefined && meeting !== null)
      owners.set(stmt.into.buffer, sliceOwner(acc, meeting.axis, meeting.slices));
  }
  const buffers = program.buffers.map(
    (b): Buffer => ({ ...b, own: b.own ?? (b.space === "register" ? (owners.get(b.name) ?? null) : null) }),
  );
  const bound = { ...program, nest: null, buffers };
  const threads = new Map<Stmt, number>();
  for (const role of eachStmt(program.body))
    if (role.kind === "role") for (const stmt of eachStmt(role.body)) threads.set(stmt, role.warps * 32);
  return withBody(
    bound,
    rewriteStmts(bound.body, (stmt) => share(bound, stmt, threads.get(stmt) ?? program.launch.threads)),
  );
}

/** The nest of a product: of sums with other columns than the nest's tile the instructions along n are as many as make them up. */
function nestOf(
  program: TileProgram,
  nest: Nest,
  { acc: whole, atom }: Extract<Stmt, { kind: "mma" }>,
  acc = whole,
): Nest {
  const columns = bufferOf(program, acc.buffer).shape[1];
  const wide = findWarpgroupAtom(atom)?.n;
  if (columns === tileExtent(nest.n)) return nest;
  const sized = nest.n.map((f) => (f.tier === "atom" && wide !== undefined ? { ...f, extent: wide } : f));
  const others = tileExtent(sized.filter(({ tier }) => tier !== "register"));
  const n = sized.map((f) => (f.tier === "register" ? { ...f, extent: columns / others } : f));
  return { ...nest, n };
}

/** Fragments of one K step of an atom, and the accumulator: registers of an atom stand together, tiles along n next to each other. */
function atomOwners(
  nest: Nest,
  atom: Atom,
): { readonly acc: Ownership; readonly a: Ownership; readonly b: Ownership } {
  const { a, b, acc } = atom.fragments;
  return {
    acc: accumulatorOwner(nest, acc),
    a: { rows: spreadAtom(nest.m, a.rows, registersPerThread(a)), cols: a.cols },
    b: { rows: b.rows, cols: spreadAtom(nest.n, b.cols, registersPerThread(b)) },
  };
}

/**
 * Words of scale factors: of A with two lanes for the eights of an atom's rows, and pairs of such lanes for two atoms; of B with the four lanes of a column for four
 * atoms (PTX ISA 9.0, 9.7.14.3: block scaling for mma.sync; thread-id selectors).
 */
function factorOwners(nest: Nest, { fragments }: Atom): { readonly a: Ownership; readonly b: Ownership } {
  const eights = fragments.a.rows.map(
    (f): OwnershipMode => (f.tier === "register" ? { tier: "thread", extent: f.extent, stride: 1 } : f),
  );
  return {
    a: { rows: spreadFactors(nest.m, eights, { lanes: 2, stride: 2 }), cols: [] },
    b: { rows: spreadFactors(nest.n, fragments.b.cols, { lanes: 4, stride: 1 }), cols: [] },
  };
}

/** Fragments of a first factor that has changed places, along k one behind the other. */
function heldOwner(nest: Nest, { b }: Extract<Stmt, { kind: "mma" }>, atom: WarpgroupAtom): Ownership {
  const { a } = atom.fragments;
  const each = registersPerThread(a);
  const steps = b.extent[0] / atom.k;
  const behind: OwnershipMode[] = steps > 1 ? [{ tier: "register", extent: steps, stride: each }] : [];
  return { rows: [...behind, ...a.cols], cols: spreadAtom(nest.n, a.rows, each * steps) };
}

function accumulatorOwner(nest: Nest, acc: Ownership): Ownership {
  const perAtom = registersPerThread(acc);
  const tilesN = nest.n.reduce((count, f) => (f.tier === "register" ? count * f.extent : count), 1);
  return {
    rows: spreadAtom(nest.m, acc.rows, perAtom * tilesN),
    cols: spreadAtom(nest.n, acc.cols, perAtom),
  };
}

/** Bulk copies are made by one thread; all others are shared out over the threads of their role. */
function share(program: TileProgram, stmt: Stmt, threads: number): Stmt {
  if (stmt.kind !== "copy" || stmt.dist !== null || stmt.transport === "tma") return stmt;
  const ends = [bufferOf(program, stmt.src.buffer), bufferOf(program, stmt.dst.buffer)];
  if (ends.some((b) => b.own !== null)) return stmt;
  const fastest = stagedContiguity(program, stmt.src.buffer, stmt.dst.buffer);
  const bytes = elementBytes(bufferOf(program, stmt.dst.buffer));
  const dist = distribute(threads, stmt.dst.extent, fastest, 1, bytes);
  return { ...stmt, dist };
}

/** The contiguous axis of the global matrix that ends up in `dst`: of the source itself, or of what filled the staging registers. */
function stagedContiguity(program: TileProgram, src: string, dst: string): 0 | 1 {
  const source = bufferOf(program, src);
  if (source.layout && source.space === "global") return source.layout.stride[0] === 1 ? 0 : 1;
  for (const stmt of eachStmt(program.body)) {
    if (stmt.kind !== "copy" || (stmt.dst.buffer !== src && stmt.dst.buffer !== dst)) continue;
    const origin = bufferOf(program, stmt.src.buffer);
    if (origin.space === "global" && origin.layout) return origin.layout.stride[0] === 1 ? 0 : 1;
  }
  return 1;
}
