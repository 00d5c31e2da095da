/** What the tensor forms move: boxes of a tensor map, with its swizzle, its padding and the fill outside the tensor. */

import type { TensorMapSpec } from "@tilewright/core";
import { roundUp } from "@tilewright/core";
import type { Issuer, Machine, SharedPlace } from "../machine/state.ts";
import { type Box, bytesOf, pieces, rowSwizzle, rowsOf, walkBox } from "./box.ts";
import {
  beginLoad,
  beginStore,
  beginWrite,
  type Destination,
  globalBytes,
  land,
  type Reduction,
  sharedSource,
  touchGlobal,
  twoSteps,
  writeGlobal,
} from "./engine.ts";
import type { MapGeometry } from "./map.ts";
import { tensorMapsOf } from "./maps.ts";

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
    land(issuer, destination, bytes, op, () => fillBox(issuer, place, map, box));
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
  const limit = Math.min(rowBytes, roundUp(to, 16));
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
