/** What the one-dimensional forms move: cp.async.bulk and cp.reduce.async.bulk. */
import type { Issuer, SharedPlace } from "../machine/state.ts";
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
import { reduceInto } from "./reduce.ts";

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
    land(issuer, destination, bytes, op, () => {
      const from = bytes === 0 ? 0 : globalBytes(issuer, source.low, source.high, bytes, 0);
      machine.arena.bytes.copyWithin(place.at, from, from + bytes);
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
  land(issuer, destination, bytes, op, () => {
    sharedSource(issuer, source.at, bytes);
    if (reduction === null) machine.arena.bytes.copyWithin(place.at, source.at, source.at + bytes);
    else {
      const view = new DataView(machine.arena.bytes.buffer);
      reduceInto(reduction.op, reduction.type, view, place.at, view, source.at, bytes, machine.sums);
    }
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
