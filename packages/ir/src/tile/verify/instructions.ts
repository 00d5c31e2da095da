/** Products are of what their instructions take, and registers are those in which instructions read and leave elements. */
import { type DType, entryOf, memoryType, sizeOf, widensTo } from "@tilewright/core";
import { type Atom, findAtom } from "../../atoms/atoms.ts";
import { findTensorKind, type TensorKind } from "../../atoms/tensorKinds.ts";
import { findWarpgroupAtom, type WarpgroupAtom } from "../../atoms/warpgroup.ts";
import { PATTERN_ROWS } from "../../launch/tensor-copies.ts";
import { linearOffset } from "../../layout/layout.ts";
import { tensorSwizzleName } from "../../layout/swizzle.ts";
import { takesColumn } from "../columns.ts";
import { modeCoordinate, ownedRegisters, registersPerThread } from "../ownership.ts";
import { type TensorPlace, tensorPlace } from "../tensor.ts";
import type { Buffer, Ownership, OwnershipMode, Stmt, Tier, View } from "../types.ts";
import { bufferAt, type Fault, type Site, type Subject, type Verifier } from "./verifier.ts";

type Of<K extends Stmt["kind"]> = Extract<Stmt, { kind: K }>;

export const instructions: Verifier = {
  name: "instructions",
  code: "TW3172",
  property:
    "products are of the dtypes and of whole steps along k of their instruction, whose descriptors say the tiles in shared memory, and whose fragments lie with the threads and in the registers of theirs; loads of tensor memory leave with each thread what its tile says, and stores take that",
  from: "bound",
  *check(subject) {
    const said = new Set<string>();
    for (const site of subject.sites)
      for (const fault of faultsOf(subject, site)) {
        // Several products are of the same tiles.
        if (!said.has(fault.message)) yield fault;
        said.add(fault.message);
      }
  },
};

function* faultsOf(subject: Subject, site: Site): Iterable<Fault> {
  const { stmt } = site;
  if (stmt.kind === "copy" && stmt.transport === "tcgen05.ld")
    yield* moved(subject, site, stmt.dst, stmt.src);
  if (stmt.kind === "copy" && stmt.transport === "tcgen05.st")
    yield* moved(subject, site, stmt.src, stmt.dst);
  if (stmt.kind !== "mma") return;
  if (stmt.columns !== undefined && findWarpgroupAtom(stmt.atom) === null)
    yield { at: site, message: `multiplies some columns by ${stmt.atom}`, hint: "multiply all columns" };
  const [kind, group, atom] = [
    findTensorKind(stmt.atom),
    findWarpgroupAtom(stmt.atom),
    findAtom(stmt.atom),
  ] as const;
  if (kind !== null) yield* ofTensor(subject, site, stmt, kind);
  else if (group !== null) yield* ofWarpgroup(subject, site, stmt, group);
  else if (atom !== null) yield* ofWarp(subject, site, stmt, atom);
  else yield* steps(site, stmt, 1, [stmt.a, stmt.b]);
}

/** tf32 is f32 in memory. */
const isOf = ({ dtype }: Buffer, wanted: DType): boolean => memoryType(dtype) === memoryType(wanted);

const hint = "the atom, and the owners, that --ir machine prints before the edit";

const mistyped = (at: Site, { name, dtype }: Buffer, atom: string): Fault => ({
  at,
  message: `takes %${name}, which is ${dtype}, by ${atom}`,
  hint,
});

const misplaced = (at: Site, { name }: Buffer, atom: string): Fault => ({
  at,
  message: `%${name} does not lie with its threads as ${atom} has it`,
  hint,
});

/** Along k are whole steps; those from registers begin with one. */
function* steps(at: Site, stmt: Of<"mma">, k: number, held: readonly View[] = []): Iterable<Fault> {
  const all = stmt.a.extent[1];
  if (all % k !== 0)
    yield { at, message: `multiplies ${all} along k by steps of ${k}`, hint: `a multiple of ${k}` };
  for (const { buffer, origin } of held)
    if (origin.some((from) => from.kind === "const" && from.value % k !== 0))
      yield { at, message: `begins inside a step of ${k} along k of %${buffer}`, hint: `multiples of ${k}` };
}

/** Where rows and columns of a fragment lie in a tile, from its first element on. */
interface Lines {
  readonly rows: readonly number[];
  readonly cols: readonly number[];
}

const count = (fragment: Ownership, axis: keyof Ownership): number =>
  fragment[axis].reduce((product, { extent }) => product * extent, 1);

/** Coordinates along an axis of a tier's indices from 0 on: those of several tiers add up. */
const coordinates = (factors: readonly OwnershipMode[], tier: Tier, size: number): readonly number[] =>
  Array.from({ length: size }, (_, i) => modeCoordinate(factors, { [tier]: i }));

/** What is known of an owner, which goes from pass to pass as it is. */
function remembering<T>(): (own: Ownership, what: string, make: () => T) => T {
  const known = new WeakMap<Ownership, Map<string, { readonly it: T }>>();
  return (own, what, make) => {
    const all = entryOf(known, own, () => new Map<string, { readonly it: T }>());
    return entryOf(all, what, () => ({ it: make() })).it;
  };
}
const knownLines = remembering<Lines | null>();
const knownFits = remembering<boolean>();

/** What runs of registers of a tile, each with a fragment's elements, have of it; null where they are no such fragments, or not all alike. */
function linesOf(own: Ownership, fragment: Ownership): Lines | null {
  const each = registersPerThread(fragment);
  const registers = registersPerThread(own);
  if (registers % each !== 0) return null;
  const along = (axis: keyof Ownership): readonly number[] | null => {
    const all = coordinates(own[axis], "register", registers);
    const at = (register: number): number => all[register] ?? 0;
    for (let r = each; r < registers; r++) if (at(r) - at(r - (r % each)) !== at(r % each)) return null;
    const lines = new Array<number>(count(fragment, axis)).fill(-1);
    const sides = [fragment[axis], own[axis]] as const;
    const [inFragment, inTile] = sides.map((factors) => ({
      lanes: coordinates(factors, "thread", 32),
      elements: coordinates(factors, "register", each),
    }));
    for (let lane = 0; lane < 32; lane++)
      for (let r = 0; r < each; r++) {
        const line = (inFragment?.lanes[lane] ?? 0) + (inFragment?.elements[r] ?? 0);
        const there = (inTile?.lanes[lane] ?? 0) + (inTile?.elements[r] ?? 0);
        if (lines[line] !== -1 && lines[line] !== there) return null;
        lines[line] = there;
      }
    return lines;
  };
  const [rows, cols] = [along("rows"), along("cols")];
  return rows === null || cols === null ? null : { rows, cols };
}

/** Whether warps, lanes and the first registers of a tile have what those of another have along an axis. */
const agrees = (
  own: readonly OwnershipMode[],
  other: readonly OwnershipMode[],
  { warps, registers }: { readonly warps: number; readonly registers: number },
): boolean =>
  (
    [
      ["warp", warps],
      ["thread", 32],
      ["register", registers],
    ] as const
  ).every(([tier, size]) => areSame(coordinates(own, tier, size), coordinates(other, tier, size)));

const areSame = (a: readonly number[], b: readonly number[]): boolean =>
  a.length === b.length && a.every((line, i) => line === b[i]);
const exchanged = ({ rows, cols }: Ownership): Ownership => ({ rows: cols, cols: rows });

/** Whether all runs of registers of a tile are a fragment of a warpgroup as it is, rows and columns in order; `apart`: but rows of its warps, which lie wherever the sums of the same rows do. */
function isFragment(own: Ownership, fragment: Ownership, apart = false): boolean {
  const each = registersPerThread(fragment);
  const all = (["rows", "cols"] as const).map((axis) =>
    coordinates(own[axis], "register", registersPerThread(own)),
  );
  return (
    agrees(own.rows, fragment.rows, { warps: apart ? 1 : WARPS, registers: each }) &&
    agrees(own.cols, fragment.cols, { warps: WARPS, registers: each }) &&
    all.every((at) => at.every((c, r) => c - (at[r - (r % each)] ?? 0) === at[r % each]))
  );
}

/** By a warp, from fragments: rows of A are the accumulator's, columns of B too, and A's of k are B's, in whatever order they lie. */
function* ofWarp(subject: Subject, at: Site, stmt: Of<"mma">, atom: Atom): Iterable<Fault> {
  const [acc, a] = [bufferAt(subject, stmt.acc.buffer), bufferAt(subject, stmt.a.buffer)];
  const more = stmt.beside === undefined ? [] : [stmt.beside];
  const all = [stmt.b, ...more].map(({ buffer }) => bufferAt(subject, buffer));
  yield* steps(at, stmt, atom.k, [stmt.a, stmt.b]);
  if (stmt.a.extent[1] > atom.k)
    yield { at, message: `multiplies ${stmt.a.extent[1]} along k at once`, hint: `${atom.k}` };
  const typed = [[acc, atom.acc], [a, atom.a], ...all.map((b) => [b, atom.b] as const)] as const;
  for (const [tile, dtype] of typed) if (!isOf(tile, dtype)) yield mistyped(at, tile, atom.name);
  if (acc.own === null || a.own === null) return;
  const lines = (own: Ownership, side: "acc" | "a" | "b", turned = false): Lines | null =>
    knownLines(own, `${side}${turned} ${atom.name}`, () =>
      linesOf(turned ? exchanged(own) : own, atom.fragments[side]),
    );
  const [sums, left] = [lines(acc.own, "acc"), lines(a.own, "a")];
  if (sums === null) yield misplaced(at, acc, atom.name);
  if (left === null || (sums !== null && !areSame(left.rows, sums.rows))) yield misplaced(at, a, atom.name);
  for (const b of all) {
    if (b.own === null) continue;
    const right = lines(b.own, "b", stmt.exchanged === true);
    const fits =
      right !== null &&
      (left === null || areSame(left.cols, right.rows)) &&
      (sums === null || areSame(sums.cols, right.cols));
    if (!fits) yield misplaced(at, b, atom.name);
  }
}

/** Eight columns of sums of a warpgroup. */
const EIGHT = 8;

/** By a warpgroup: from shared memory, where rows and columns are in order, and A from registers. */
function* ofWarpgroup(subject: Subject, at: Site, stmt: Of<"mma">, atom: WarpgroupAtom): Iterable<Fault> {
  const acc = bufferAt(subject, stmt.acc.buffer);
  const swapped = acc.lanes === 1;
  const [a, b] = [bufferAt(subject, stmt.a.buffer), bufferAt(subject, stmt.b.buffer)];
  const [first, second] = swapped ? [b, a] : [a, b];
  const fragments = swapped ? stmt.b : stmt.a;
  yield* steps(at, stmt, atom.k, first.own === null ? [] : [fragments]);
  if (subject.program.stage === "machine" && (stmt.scales !== undefined || stmt.twoLevel !== undefined))
    yield {
      at,
      message: "promotes sums itself",
      hint: "a statement of its own behind the products: accumulate ACC += PART",
    };
  if (!isOf(acc, atom.acc)) yield mistyped(at, acc, atom.name);
  if (!isOf(second, atom.b)) yield mistyped(at, second, atom.name);
  const widened = !swapped && first.space === "shared" && sizeOf(first.dtype) === 1;
  if (!isOf(first, atom.a) && !(widened && widensTo(first.dtype, atom.a)))
    yield mistyped(at, first, atom.name);
  for (const [view, kAxis] of [
    [stmt.a, 1],
    [stmt.b, stmt.exchanged ? 1 : 0],
  ] as const) {
    const tile = bufferAt(subject, view.buffer);
    const fault =
      tile.space !== "shared" || (tile === first && widened) ? null : descriptorFault(tile, kAxis);
    if (fault !== null) yield { at, message: `%${tile.name} ${fault}`, hint };
    else if (tile.space === "shared" && !beginsAtUnit(tile, view))
      yield {
        at,
        message: `begins inside 16 bytes of %${tile.name}`,
        hint: "a multiple of 16 bytes from the tile's start",
      };
  }
  if (first.own !== null) {
    const { own } = first;
    // Columns of A, and rows of B unless it is exchanged, are along k.
    const turned = swapped && stmt.exchanged !== true;
    const what = `a${turned} ${atom.name}`;
    const held = turned ? exchanged(own) : own;
    if (!knownFits(own, what, () => isFragment(held, atom.fragments.a, swapped)))
      yield misplaced(at, first, atom.name);
    const warps = (rows: readonly OwnershipMode[]): readonly number[] => coordinates(rows, "warp", WARPS);
    if (swapped && acc.own !== null && !areSame(warps(held.rows), warps(acc.own.cols)))
      yield misplaced(at, acc, atom.name);
  }
  const { own } = acc;
  if (own === null) return;
  const what = `sums${swapped} ${atom.name} ${Object.values(stmt.columns ?? {}).join()}`;
  const apart = swapped && first.own !== null;
  if (!knownFits(own, `${what} ${apart}`, () => areSums(swapped ? exchanged(own) : own, stmt, atom, apart)))
    yield misplaced(at, acc, atom.name);
}

/** Whether registers are sums of the instructions of a product: from each one's first on, four are of eight columns, and columns follow each other. */
function areSums(
  own: Ownership,
  { columns }: Of<"mma">,
  { m, n, fragments }: WarpgroupAtom,
  apart: boolean,
): boolean {
  const { rows, cols } = fragments.acc;
  const part = { rows, cols: cols.filter(({ stride, tier }) => tier !== "register" || stride === 1) };
  if (!isFragment(own, part, apart)) return false;
  const each = registersPerThread(fragments.acc);
  const places = new Map(ownedRegisters(own).map((e) => [e.register, e]));
  const begins = [...places.values()].filter(({ register, row, col }) =>
    columns === undefined
      ? register % each === 0
      : row % m === 0 && takesColumn(columns, col) && ((col % columns.of) - columns.from) % n === 0,
  );
  return begins.every(({ register, row, col }) =>
    Array.from({ length: n / EIGHT }, (_, i) => places.get(register + (each * EIGHT * i) / n)).every(
      (there, i) =>
        there !== undefined &&
        there.row === row &&
        there.col === col + EIGHT * i &&
        takesColumn(columns, there.col),
    ),
  );
}

/** Bytes of a core matrix's row, and of a step of a descriptor's address. */
const UNIT = 16;

/** Why no descriptor of wgmma says a tile along whose `kAxis` k runs; null where one does. */
function descriptorFault({ layout, dtype, shape }: Buffer, kAxis: 0 | 1): string | null {
  if (layout === null) return null;
  const size = sizeOf(dtype);
  const swizzle = tensorSwizzleName(layout.swizzle);
  const contiguous = layout.stride[0] === 1 && layout.panels?.axis !== 1 ? 0 : 1;
  const panel = (layout.panels?.extent ?? shape[contiguous]) * size;
  const across = (layout.stride[contiguous === 0 ? 1 : 0] ?? 0) * size;
  // Pieces of 32 bytes are permuted by later engines only.
  if (swizzle === null || swizzle === "128B_ATOM_32B" || across !== panel)
    return "has a layout that matrix descriptors cannot express";
  if (contiguous !== kAxis && size !== 2)
    return `is not contiguous along k, and only operands of 16 bits are transposed`;
  const span = swizzle === "none" ? UNIT : Number.parseInt(swizzle, 10);
  if (panel !== span) return `has rows of ${panel} bytes, which do not fill swizzle ${swizzle}`;
  const next = (layout.panels?.step ?? 0) * size;
  const whole = swizzle === "none" ? UNIT : PATTERN_ROWS * span;
  return next % whole === 0
    ? null
    : `has panels ${next} bytes apart, which are no whole patterns of ${whole}`;
}

/** Whether a view begins where an address of a descriptor can, as far as numbers say. */
function beginsAtUnit({ layout, dtype }: Buffer, view: View): boolean {
  const begin = constants(view);
  return layout === null || begin === null || (linearOffset(layout, begin) * sizeOf(dtype)) % UNIT === 0;
}

/** Into tensor memory, whose places `tensorMemory` and `layouts` judge. */
function* ofTensor(subject: Subject, at: Site, stmt: Of<"mma">, kind: TensorKind): Iterable<Fault> {
  yield* steps(at, stmt, kind.k);
  for (const side of ["acc", "a", "b"] as const) {
    const tile = bufferAt(subject, stmt[side].buffer);
    if (!kind[side].some((dtype) => isOf(tile, dtype))) yield mistyped(at, tile, kind.name);
    if (
      tile.space === "tensor" &&
      (side === "b" || (side === "a" && bufferAt(subject, stmt.acc.buffer).lanes === 1))
    )
      yield {
        at,
        message: `takes %${tile.name} in tensor memory as its second factor`,
        hint: "the first, of rows in lanes",
      };
    if (side !== "acc" && tile.layout !== null && tensorSwizzleName(tile.layout.swizzle) === null)
      yield { at, message: `%${tile.name} has a swizzle that matrix descriptors cannot say`, hint };
  }
}

/** Registers of a load or a store (PTX ISA, tcgen05.ld, tcgen05.st): a lane each thread and a column each register, or, of 16 lanes, four registers as those of eight columns of mma's sums. */
function* moved(subject: Subject, at: Site, dst: View, src: View): Iterable<Fault> {
  const [tile, from] = [bufferAt(subject, dst.buffer), bufferAt(subject, src.buffer)];
  const place = tensorPlace(from);
  const { own } = tile;
  if (own === null || place === null) return;
  const across = place.lanes === 0 ? 1 : 0;
  const source = src.origin[place.lanes];
  if (source.kind !== "const" || source.value !== 0) {
    yield { at, message: "moves rows from another lane on than the first", hint: "rows from 0 on" };
    return;
  }
  // Halves of columns side by side are moved whole.
  if (place.form === "split" && src.extent[across] < place.columns) return;
  const registers = registersPerThread(own);
  const fits = knownFits(own, `loads ${place.form} ${place.stacks} ${place.lanes}`, () => {
    const [held, wanted] = [
      place.lanes === 0 ? own : exchanged(own),
      loadsOf(place, registers / place.stacks),
    ];
    const all = { warps: WARPS, registers };
    return agrees(held.rows, wanted.rows, all) && agrees(held.cols, wanted.cols, all);
  });
  if (!fits) yield misplaced(at, tile, at.stmt.kind === "copy" ? at.stmt.transport : "");
}

const WARPS = 4;
const warp = (extent: number, stride = 1): OwnershipMode => ({ tier: "warp", extent, stride });
const lane = (extent: number, stride = 1): OwnershipMode => ({ tier: "thread", extent, stride });
const register = (extent: number, stride = 1): OwnershipMode => ({ tier: "register", extent, stride });

/** What loads leave with threads, a `share` of registers for each stack of rows: along the lanes, and across. */
function loadsOf({ form, stacks }: TensorPlace, share: number): Ownership {
  switch (form) {
    case "rows":
      return { rows: [register(stacks, share), warp(WARPS), lane(32)], cols: [register(share)] };
    case "half":
      return {
        rows: [warp(WARPS), register(2, 2), lane(8, 4)],
        cols: [register(Math.max(1, share / 4), 4), lane(4), register(2)],
      };
    case "split":
      return { rows: [warp(2), lane(32)], cols: [warp(2, 2), register(share)] };
  }
}

/** Where a view begins, as numbers. */
function constants({ origin }: View): readonly [number, number] | null {
  const [row, col] = origin;
  return row.kind === "const" && col.kind === "const" ? [row.value, col.value] : null;
}
