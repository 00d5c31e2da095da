/**
 * The bulk engine: what cp.async.bulk, cp.reduce.async.bulk and their tensor forms move, as events. Loads write shared memory and
 * complete on an mbarrier when their event runs; stores read shared memory in one event and write global memory in a second, so
 * that the two kinds of wait_group differ.
 */
import type { TensorMapSpec } from "@tilewright/core";
import type { AsyncOp } from "../checkers/race.ts";
import { completeTx, type Mbarrier } from "../machine/mbarriers.ts";
import { hex, type Issuer, type Machine, type SharedPlace } from "../machine/state.ts";
import { logged, type Traced } from "../trace/recorder.ts";
import { type Box, bytesOf, pieces, rowSwizzle, rowsOf, walkBox } from "./box.ts";
import { type BulkStore, openStore } from "./groups.ts";
import type { MapGeometry } from "./map.ts";
import { tensorMapsOf } from "./maps.ts";
import { type ReduceOp, type ReduceType, reduceInto } from "./reduce.ts";

/** A place in shared memory that a load fills, and the barrier that it completes on. */
export interface Destination {
  readonly place: SharedPlace;
  readonly barrier: Mbarrier;
}

/** What a store does with what is in global memory: nothing, or a reduction. */
export type Reduction = { readonly op: ReduceOp; readonly type: ReduceType } | null;

const always = (): boolean => true;

/** Begin an operation of the engine that completes on `barrier`. */
function beginLoad({ warp, lane, instruction }: Issuer, barrier: Mbarrier): AsyncOp | null {
  const { race } = warp.block;
  if (race === null) return null;
  return race.begin(warp, lane, race.clocks.engine(`tma:${barrier.at}`, { overtakes: true }), instruction);
}

/** The same for the event log: what a load brings to `destination`. */
function logLoad({ machine, warp, instruction }: Issuer, { place, barrier }: Destination, bytes: number) {
  return machine.trace?.issue(warp, instruction, "bulk load", { bytes, into: place, barrier }) ?? null;
}

/** Begin an operation of a thread's store engine. */
function beginStore({ warp, lane, instruction }: Issuer): AsyncOp | null {
  const { race } = warp.block;
  if (race === null) return null;
  const engine = race.clocks.engine(`bulk:${warp.agent}:${lane}`, { owner: warp.agent });
  return race.begin(warp, lane, engine, instruction);
}

/** Begin the second half of a store, which writes global memory: its end is known after a wait for completion only. */
function beginWrite({ warp, lane, instruction }: Issuer): AsyncOp | null {
  const { race } = warp.block;
  if (race === null || race.global === null) return null;
  const engine = race.clocks.engine(`bulk store:${warp.agent}:${lane}`);
  return race.begin(warp, lane, engine, instruction);
}

/** An operation uses `bytes` bytes of global memory at a generic address. */
function touchGlobal(
  { warp }: Issuer,
  op: AsyncOp | null,
  low: number,
  high: number,
  bytes: number,
  kind: "read" | "write",
  reduces = false,
): void {
  const { race } = warp.block;
  if (op !== null && race !== null && high === globalHigh)
    race.global?.async(race, op, low >>> 0, bytes, kind, reduces);
}

/** Report a copy whose block is gone when it lands. Returns whether it is. */
function gone(issuer: Issuer, { place }: Destination): boolean {
  if (!place.block.exited) return false;
  issuer.report(
    "H055",
    () =>
      `a copy issued by warp ${issuer.warp.id} lands at ${hex(place.at - place.block.sharedBase)} of block ${place.block.index.join(",")}, which has exited`,
  );
  return true;
}

/** Whether all words of an aligned range are allocated and written. */
function whole(machine: Machine, at: number, bytes: number): boolean {
  const { shadow } = machine.arena;
  for (let k = at >> 2, end = (at + bytes) >> 2; k < end; k++) if (shadow[k] !== 0xff) return false;
  return true;
}

/** Arena offset of global bytes, after the checks that every access has. `mode`: 0 read, 1 write, 2 both. */
function globalBytes(issuer: Issuer, low: number, high: number, bytes: number, mode: number): number {
  const { machine, warp, lane, instruction } = issuer;
  const at = low >>> 0;
  if (high === globalHigh && (at & 3) === 0 && (bytes & 3) === 0 && whole(machine, at, bytes)) return at;
  return machine.global(warp, lane, instruction, low | 0, high, bytes, mode, 1);
}
const globalHigh = 0x7f00;

/** Report the first byte of a shared source that nothing has written. */
function sharedSource(issuer: Issuer, at: number, bytes: number): void {
  if (whole(issuer.machine, at, bytes)) return;
  for (let k = at; k < at + bytes; k++)
    if (!issuer.machine.arena.isInitialised(k)) {
      issuer.report(
        "H006",
        () =>
          `lane ${issuer.lane} copies ${bytes} bytes of shared memory, byte ${k - at} of which was never written`,
      );
      return;
    }
}

// ---------------------------------------------------------------- one-dimensional

/** Global to shared memory, once for each destination. */
export function loadBytes(
  issuer: Issuer,
  destinations: readonly Destination[],
  source: { readonly low: number; readonly high: number },
  bytes: number,
): void {
  const { machine, warp } = issuer;
  machine.countTraffic("global", bytes, 0);
  for (const destination of destinations) {
    const { place, barrier } = destination;
    const op = beginLoad(issuer, barrier);
    if (op !== null) warp.block.race?.asyncWrite(op, place.at, bytes);
    touchGlobal(issuer, op, source.low, source.high, bytes, "read");
    machine.arena.markInitialised(place.at, bytes);
    machine.countTraffic("shared", 0, bytes);
    machine.events.post({
      ready: always,
      run: logged(machine.trace, logLoad(issuer, destination, bytes), () => {
        if (gone(issuer, destination)) return;
        const from = bytes === 0 ? 0 : globalBytes(issuer, source.low, source.high, bytes, 0);
        machine.arena.bytes.copyWithin(place.at, from, from + bytes);
        completeTx(issuer, barrier, bytes, op);
      }),
    });
  }
}

/** Shared memory of this block to shared memory of any block of the cluster, copied or reduced into what is there. */
export function moveShared(
  issuer: Issuer,
  destination: Destination,
  source: SharedPlace,
  bytes: number,
  reduction: Reduction,
): void {
  const { machine, warp } = issuer;
  const { place, barrier } = destination;
  const op = beginLoad(issuer, barrier);
  const { race } = warp.block;
  if (op !== null && race !== null) {
    race.asyncRead(op, source.at, bytes);
    race.asyncWrite(op, place.at, bytes);
  }
  if (reduction === null) machine.arena.markInitialised(place.at, bytes);
  machine.countTraffic("shared", bytes, bytes);
  machine.events.post({
    ready: always,
    run: logged(machine.trace, logLoad(issuer, destination, bytes), () => {
      if (gone(issuer, destination)) return;
      sharedSource(issuer, source.at, bytes);
      if (reduction === null) machine.arena.bytes.copyWithin(place.at, source.at, source.at + bytes);
      else {
        const view = new DataView(machine.arena.bytes.buffer);
        reduceInto(reduction.op, reduction.type, view, place.at, view, source.at, bytes, machine.sums);
      }
      completeTx(issuer, barrier, bytes, op);
    }),
  });
}

/** Shared to global memory in a bulk group; bit b of `mask` lets byte b of every 16 be written. */
export function storeBytes(
  issuer: Issuer,
  source: SharedPlace,
  target: { readonly low: number; readonly high: number },
  bytes: number,
  reduction: Reduction,
  mask: number,
): void {
  const { machine, warp } = issuer;
  const op = beginStore(issuer);
  if (op !== null) warp.block.race?.asyncRead(op, source.at, bytes);
  const write = beginWrite(issuer);
  if (mask === 0xffff)
    touchGlobal(issuer, write, target.low, target.high, bytes, "write", reduction !== null);
  machine.countTraffic("shared", bytes, 0);
  machine.countTraffic("global", reduction === null ? 0 : bytes, bytes);
  twoSteps(issuer, source, bytes, op, write, () => {
    sharedSource(issuer, source.at, bytes);
    const data = machine.arena.bytes.slice(source.at, source.at + bytes);
    return () => {
      if (mask === 0xffff) writeGlobal(issuer, target.low, target.high, data, 0, bytes, reduction);
      else
        for (let k = 0; k < bytes; k++)
          if (((mask >> (k & 15)) & 1) === 1)
            writeGlobal(issuer, target.low + k, target.high, data, k, k + 1, null);
    };
  });
}

/** Post a store of `bytes` bytes from `into`: `read` takes the data and returns what writes it. */
function twoSteps(
  issuer: Issuer,
  into: SharedPlace,
  bytes: number,
  op: AsyncOp | null,
  write: AsyncOp | null,
  read: () => () => void,
): void {
  const { machine, warp, lane, instruction } = issuer;
  const traced: Traced | null =
    machine.trace?.issue(warp, instruction, "bulk store", { bytes, into }) ?? null;
  const store: BulkStore = { lane, op, write, instruction, read: false, written: false, traced };
  openStore(warp, store);
  machine.events.post({
    ready: always,
    run: () => {
      const put = read();
      store.read = true;
      machine.touch();
      machine.events.post({
        ready: always,
        run: logged(machine.trace, traced, () => {
          put();
          store.written = true;
          machine.touch();
        }),
      });
    },
  });
}

/** Bytes [from, to) of `data` to global memory, the first of them at `low`. */
function writeGlobal(
  issuer: Issuer,
  low: number,
  high: number,
  data: Uint8Array,
  from: number,
  to: number,
  reduction: Reduction,
): void {
  if (to <= from) return;
  const { arena, sums } = issuer.machine;
  const at = globalBytes(issuer, low, high, to - from, reduction === null ? 1 : 2);
  if (reduction === null)
    arena.bytes.set(from === 0 && to === data.length ? data : data.subarray(from, to), at);
  else
    reduceInto(
      reduction.op,
      reduction.type,
      new DataView(arena.bytes.buffer),
      at,
      new DataView(data.buffer, data.byteOffset),
      from,
      to - from,
      sums,
    );
}

// ---------------------------------------------------------------- tensors

/**
 * tf32 maps round f32 to nearest even, and NaN becomes 0x7fffe000. `.ftz` types copy subnormals as they are and flush
 * them in reductions only. Both as measured on an H200.
 */
const converter = (dtype: TensorMapSpec["dtype"]): ((bits: number) => number) | null =>
  dtype === "tf32" || dtype === "tf32.ftz" ? roundTf32 : null;

const infinity = 0x7f800000;
function roundTf32(bits: number): number {
  const magnitude = bits & 0x7fffffff;
  if (magnitude > infinity) return 0x7fffe000;
  return magnitude === infinity ? bits : (bits + 0xfff + ((bits >> 13) & 1)) & ~0x1fff;
}

/** The constant that fills outside elements of maps with NaN fill, in every 16 bits. */
const nanFill = 0x7ff7;

/** A box to shared memory, once for each destination; elements outside the tensor are filled, and count in the bytes. */
export function loadBox(
  issuer: Issuer,
  destinations: readonly Destination[],
  map: MapGeometry,
  box: Box,
): void {
  const { machine, warp } = issuer;
  const bytes = bytesOf(map, box);
  let fetched = 0;
  const rows: { readonly at: number; readonly bytes: number }[] = [];
  walkBox(map, box, (_row, global, from, to) => {
    fetched += to - from;
    if (to > from) rows.push({ at: map.low + global + from, bytes: to - from });
  });
  machine.countTraffic("global", fetched, 0);
  for (const destination of destinations) {
    const { place, barrier } = destination;
    const op = beginLoad(issuer, barrier);
    if (op !== null) tensorMapsOf(machine).used(map, op);
    for (const row of rows) touchGlobal(issuer, op, row.at, map.high, row.bytes, "read");
    const base = place.at - place.block.sharedBase;
    pieces(map, box, base, (at, size) => {
      const to = place.block.sharedBase + at;
      if (op !== null) warp.block.race?.asyncWrite(op, to, size);
      // The gaps of padded types hold nothing that may be read (PTX ISA 9.0, 5.5.1.1).
      if (map.usedBytes === 16) machine.arena.markInitialised(to, size);
      else for (let k = 0; k < size; k += 16) machine.arena.markInitialised(to + k, map.usedBytes);
    });
    machine.countTraffic("shared", 0, bytes);
    machine.events.post({
      ready: always,
      run: logged(machine.trace, logLoad(issuer, destination, bytes), () => {
        if (gone(issuer, destination)) return;
        fillBox(issuer, place, map, box);
        completeTx(issuer, barrier, bytes, op);
      }),
    });
  }
}

function fillBox(issuer: Issuer, place: SharedPlace, map: MapGeometry, box: Box): void {
  const { arena } = issuer.machine;
  const { spec, rowBytes, pitch, low, high } = map;
  const { sharedBase } = place.block;
  const base = place.at - sharedBase;
  const count = rowBytes >> 2;
  const convert = converter(spec.dtype);
  const scratch = new Uint8Array(rowBytes);
  const scratchWords = new Int32Array(scratch.buffer);
  const fill = spec.fill === "nan" ? (nanFill << 16) | nanFill : 0;
  walkBox(map, box, (row, global, from, to) => {
    const address = base + row * pitch;
    let words = arena.words;
    let first = 0;
    if (from === 0 && to === rowBytes && convert === null)
      first = globalBytes(issuer, low + global, high, rowBytes, 0) >> 2;
    else {
      scratchWords.fill(fill);
      if (to > from) {
        const at = globalBytes(issuer, low + global + from, high, to - from, 0);
        scratch.set(arena.bytes.subarray(at, at + to - from), from);
        if (convert !== null)
          for (let k = from >> 2; k < to >> 2; k++) scratchWords[k] = convert(scratchWords[k] ?? 0);
      }
      words = scratchWords;
    }
    const flip = rowSwizzle(spec.swizzle, address);
    const target = arena.words;
    if (map.usedBytes !== 16) {
      spread(map, words, first, (k, word) => {
        target[(sharedBase + ((address + 4 * k) ^ flip)) >> 2] = word;
      });
      return;
    }
    if (flip === 0) {
      const start = (sharedBase + address) >> 2;
      if (words === target) target.copyWithin(start, first, first + count);
      else target.set(words, start);
      return;
    }
    for (let k = 0; k < count; k++)
      target[(sharedBase + ((address + 4 * k) ^ flip)) >> 2] = words[first + k] as number;
  });
}

/** The words of a packed row as they lie in shared memory: those of sixteen elements at the beginning of every 16 bytes. */
function spread(
  { usedBytes, sharedRowBytes }: MapGeometry,
  words: Int32Array,
  first: number,
  put: (word: number, value: number) => void,
): void {
  const used = usedBytes >> 2;
  for (let group = 0; group < sharedRowBytes / 16; group++)
    for (let k = 0; k < used; k++) put(4 * group + k, words[first + group * used + k] as number);
}

/** A box from shared memory in a bulk group; elements outside the tensor are left out. */
export function storeBox(
  issuer: Issuer,
  source: SharedPlace,
  map: MapGeometry,
  box: Box,
  reduction: Reduction,
): void {
  const { machine, warp } = issuer;
  const op = beginStore(issuer);
  if (op !== null) tensorMapsOf(machine).used(map, op);
  const { sharedBase } = source.block;
  const base = source.at - sharedBase;
  pieces(map, box, base, (at, size) => {
    if (op !== null) warp.block.race?.asyncRead(op, sharedBase + at, size);
  });
  machine.countTraffic("shared", bytesOf(map, box), 0);
  let stored = 0;
  const write = beginWrite(issuer);
  walkBox(map, box, (_row, global, from, to) => {
    stored += to - from;
    if (to > from)
      touchGlobal(issuer, write, map.low + global + from, map.high, to - from, "write", reduction !== null);
  });
  machine.countTraffic("global", reduction === null ? 0 : stored, stored);
  twoSteps(issuer, source, bytesOf(map, box), op, write, () => {
    const { rowBytes, low, high } = map;
    if (stored === rowsOf(map, box) * rowBytes)
      pieces(map, box, base, (at, size) => sharedSource(issuer, sharedBase + at, size));
    else checkInside(issuer, source, map, box);
    const data = gatherBox(machine, source, map, box);
    return () => {
      walkBox(map, box, (row, global, from, to) => {
        const bytes = data.subarray(row * rowBytes, (row + 1) * rowBytes);
        writeGlobal(issuer, low + global + from, high, bytes, from, to, reduction);
        const end = tail(machine, low + global, to, rowBytes);
        writeGlobal(issuer, low + global + to, high, bytes, to, end, reduction);
      });
    };
  });
}

/** What lies inside the tensor has to be written; the rest of the box goes nowhere. */
function checkInside(issuer: Issuer, source: SharedPlace, map: MapGeometry, box: Box): void {
  const { sharedBase } = source.block;
  const base = source.at - sharedBase;
  walkBox(map, box, (row, _global, first, last) => {
    const address = base + row * map.pitch;
    const flip = rowSwizzle(map.spec.swizzle, address);
    const [from, to] = [first, last].map((at) => (at * 16) / map.usedBytes) as [number, number];
    for (let k = from; k < to; k += 8)
      sharedSource(issuer, sharedBase + ((address + k) ^ flip), Math.min(8, to - k));
  });
}

/**
 * Stores end at multiples of 16 bytes: where a tensor's row ends within one, its padding is written too (as on an H200). Where the
 * padding belongs to no allocation nothing is: the hardware's allocations are coarser.
 */
function tail(machine: Machine, row: number, to: number, rowBytes: number): number {
  let end = to;
  const limit = Math.min(rowBytes, Math.ceil(to / 16) * 16);
  while (end < limit && machine.arena.isAllocated(row + end)) end += 1;
  return end;
}

/**
 * The box's rows without swizzle and padding. Maps of 6-bit elements, which loads bring as b6x16_p32, take them as b6p2x16 here: an element in
 * the low bits of each byte (PTX ISA 9.0, 5.5.1.1; no GPU has been compared).
 */
function gatherBox(machine: Machine, source: SharedPlace, map: MapGeometry, box: Box): Uint8Array {
  const { words } = machine.arena;
  const { sharedBase } = source.block;
  const base = source.at - sharedBase;
  const padded = map.usedBytes !== 16;
  const count = map.sharedRowBytes >> 2;
  const rows = rowsOf(map, box);
  const data = new Int32Array(rows * count);
  for (let row = 0; row < rows; row++) {
    const address = base + row * map.pitch;
    const flip = rowSwizzle(map.spec.swizzle, address);
    for (let k = 0; k < count; k++)
      data[row * count + k] = words[(sharedBase + ((address + 4 * k) ^ flip)) >> 2] as number;
  }
  const bytes = new Uint8Array(data.buffer);
  if (!padded) return bytes;
  const packed = new Uint8Array(rows * map.rowBytes);
  for (let k = 0; k < bytes.length; k++) {
    const code = ((bytes[k] ?? 0) & 63) << ((6 * k) & 7);
    const at = (6 * k) >> 3;
    packed[at] = (packed[at] ?? 0) | code;
    if (code > 255) packed[at + 1] = code >> 8;
  }
  return packed;
}
