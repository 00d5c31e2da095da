/** Tensor maps as objects: replaced fields, copies with a fence, fences and prefetches. PTX ISA 9.0, chapters 9.7.9.28, 9.7.13.16 and 9.7.13.4. */

import { fieldPlaces, markTensorMap, tensorMapAlign, tensorMapBytes } from "../bulk/map.ts";
import { tensorMapsOf } from "../bulk/maps.ts";
import type { AddressOperand } from "../load/types.ts";
import { type Execution, Issuer } from "../machine/state.ts";
import { aligned } from "./aligned.ts";
import { eachLane, ownPlace } from "./bulk.ts";
import { onWarp, type Row, type Table } from "./row.ts";
import { firstLane, lanesOf } from "./warp.ts";

const fields = Object.keys(fieldPlaces) as readonly (keyof typeof fieldPlaces)[];
/** Fields with an entry for each dimension: their second operand says which. */
const indexed: ReadonlySet<string> = new Set(["global_dim", "global_stride", "box_dim", "element_stride"]);

/** Arena offset of a map in global memory that is written (1), or updated (2). */
function globalMap(
  { machine, warp, instruction }: Execution,
  address: AddressOperand,
  lane: number,
  mode: 1 | 2,
): number {
  const low = machine.address(warp, address, lane);
  const high = machine.lane(warp, address.base, lane, 1);
  return machine.global(warp, lane, instruction, low, high, tensorMapBytes, mode, tensorMapAlign);
}

const replace: Row = (d) => {
  const field = d.choice(...fields);
  const space = d.option("global", "shared::cta");
  d.type();
  const address = d.address(0);
  const index = indexed.has(field) ? d.literal(1) : 0;
  const value = d.use(indexed.has(field) ? 2 : 1, "int");
  const place = fieldPlaces[field];
  return eachLane((issuer) => {
    const { machine, warp, lane, instruction } = issuer;
    let at: number;
    const own = space === "shared::cta";
    if (own) {
      const found = ownPlace(issuer, machine.address(warp, address, lane), tensorMapBytes, tensorMapAlign);
      if (found === null) return;
      at = found.at;
    } else at = globalMap(issuer, address, lane, 2);
    const maps = tensorMapsOf(machine);
    if (!maps.check(warp, instruction, at)) return;
    const view = new DataView(machine.arena.bytes.buffer);
    markTensorMap(view, at);
    const low = machine.lane(warp, value, lane);
    const to = at + place.at + index * place.bytes;
    if (place.bytes === 1) view.setUint8(to, low & 0xff);
    else view.setInt32(to, low - place.bias, true);
    if (place.bytes === 8) view.setInt32(to + 4, machine.lane(warp, value, lane, 1), true);
    if (own)
      for (let k = 0; k < tensorMapBytes; k += 16)
        warp.block.race?.write(warp, lane, at + k, 16, instruction.index);
    else maps.changed(warp, instruction, at);
  });
};

/** Copies a map from shared to global memory and releases it to the tensormap proxy. */
const copyWithFence: Row = (d) => {
  d.choice("cta", "cluster", "gpu", "sys");
  const to = d.address(0);
  const from = d.address(1);
  if (d.literal(2) !== tensorMapBytes) d.refuse(`it copies ${tensorMapBytes} bytes`);
  return aligned(() => (by, mask) => {
    const { machine, warp, instruction } = by;
    const lane = firstLane(mask);
    const source = ownPlace(
      new Issuer(by, lane),
      machine.address(warp, from, lane),
      tensorMapBytes,
      tensorMapAlign,
    );
    if (source === null) return;
    const at = globalMap(by, to, lane, 1);
    for (let k = 0; k < tensorMapBytes; k += 16)
      warp.block.race?.read(warp, lane, source.at + k, 16, instruction.index);
    const maps = tensorMapsOf(machine);
    maps.check(warp, instruction, source.at);
    machine.arena.bytes.copyWithin(at, source.at, source.at + tensorMapBytes);
    maps.changed(warp, instruction, at);
    maps.release(warp, at);
  });
};

/** `fence.proxy.tensormap::generic`: the other fences are in fence.ts. */
export const tensormapFence: Row = (d) => {
  const acquire = d.choice("acquire", "release") === "acquire";
  d.choice("cta", "cluster", "gpu", "sys");
  if (!acquire) return onWarp(({ machine, warp }) => tensorMapsOf(machine).release(warp, null));
  const address = d.address(0);
  if (d.literal(1) !== tensorMapBytes) d.refuse(`it acquires ${tensorMapBytes} bytes`);
  return onWarp(({ machine, warp, instruction }, mask) => {
    const maps = tensorMapsOf(machine);
    for (const lane of lanesOf(mask))
      maps.acquire(warp, instruction, maps.locate(warp, lane, instruction, address.base, address.offset));
  });
};

/** prefetch.tensormap: a hint, but what it names has to be a map. */
export const tensormapPrefetch: Row = (d) => {
  d.option("const", "param");
  const address = d.address(0);
  return eachLane(({ machine, warp, lane, instruction }) => {
    tensorMapsOf(machine).use(warp, lane, instruction, address.base, address.offset);
  });
};

export const tensormapTable: Table = {
  "tensormap.replace.tile": replace,
  "tensormap.cp_fenceproxy": copyWithFence,
};
