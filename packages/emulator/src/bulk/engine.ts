/**
 * The bulk engine: how cp.async.bulk, cp.reduce.async.bulk (`bytes.ts`) and their tensor forms (`tensors.ts`) move, as events. Loads write shared memory and
 * complete on an mbarrier when their event runs; stores read shared memory in one event and write global memory in a second, so
 * that the two kinds of wait_group differ.
 */
import type { EngineTraits } from "../checkers/known.ts";
import type { AsyncOp } from "../checkers/race.ts";
import { completeTx, type Mbarrier } from "../machine/mbarriers.ts";
import { hex, type Issuer, type Machine, type SharedPlace } from "../machine/state.ts";
import { logged, type Traced } from "../trace/recorder.ts";
import { type BulkStore, openStore } from "./groups.ts";
import { type ReduceOp, type ReduceType, reduceInto } from "./reduce.ts";

/** A place in shared memory that a load fills, and the barrier that it completes on. */
export interface Destination {
  readonly place: SharedPlace;
  readonly barrier: Mbarrier;
}

/** What a store does with what is in global memory: nothing, or a reduction. */
export type Reduction = { readonly op: ReduceOp; readonly type: ReduceType } | null;

const always = (): boolean => true;

/** Begin an operation of the engine `name`; null where nobody checks. */
function begin({ warp, lane, instruction }: Issuer, name: string, traits?: EngineTraits): AsyncOp | null {
  const { race } = warp.block;
  return race === null ? null : race.begin(warp, lane, race.clocks.engine(name, traits), instruction);
}

/** An operation of the engine that completes on `barrier`. */
export const beginLoad = (issuer: Issuer, barrier: Mbarrier): AsyncOp | null =>
  begin(issuer, `tma:${barrier.at}`, { overtakes: true });

/** An operation of a thread's store engine. */
export const beginStore = (issuer: Issuer): AsyncOp | null =>
  begin(issuer, `bulk:${issuer.warp.agent}:${issuer.lane}`, { owner: issuer.warp.agent });

/** The second half of a store, which writes global memory: its end is known after a wait for completion only. */
export const beginWrite = (issuer: Issuer): AsyncOp | null =>
  (issuer.warp.block.race?.global ?? null) === null
    ? null
    : begin(issuer, `bulk store:${issuer.warp.agent}:${issuer.lane}`);

/** An operation uses `bytes` bytes of global memory at a generic address. */
export function touchGlobal(
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

/** Post what brings `bytes` bytes to `destination`, and completes on its barrier there. */
export function land(
  issuer: Issuer,
  { place, barrier }: Destination,
  bytes: number,
  op: AsyncOp | null,
  move: () => void,
): void {
  const { machine, warp, instruction } = issuer;
  const traced =
    machine.trace?.issue(warp, instruction, "bulk load", { bytes, into: place, barrier }) ?? null;
  machine.events.post({
    ready: always,
    run: logged(machine.trace, traced, () => {
      if (place.block.exited) {
        issuer.report(
          "H055",
          () =>
            `a copy issued by warp ${warp.id} lands at ${hex(place.at - place.block.sharedBase)} of block ${place.block.index.join(",")}, which has exited`,
        );
        return;
      }
      move();
      completeTx(issuer, barrier, bytes, op);
    }),
  });
}

/** Whether all words of an aligned range are allocated and written. */
function whole(machine: Machine, at: number, bytes: number): boolean {
  const { shadow } = machine.arena;
  for (let k = at >> 2, end = (at + bytes) >> 2; k < end; k++) if (shadow[k] !== 0xff) return false;
  return true;
}

/** Arena offset of global bytes, after the checks that every access has. `mode`: 0 read, 1 write, 2 both. */
export function globalBytes(issuer: Issuer, low: number, high: number, bytes: number, mode: number): number {
  const { machine, warp, lane, instruction } = issuer;
  const at = low >>> 0;
  if (high === globalHigh && (at & 3) === 0 && (bytes & 3) === 0 && whole(machine, at, bytes)) return at;
  return machine.global(warp, lane, instruction, low | 0, high, bytes, mode, 1);
}
const globalHigh = 0x7f00;

/** Report the first byte of a shared source that nothing has written. */
export function sharedSource(issuer: Issuer, at: number, bytes: number): void {
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

/** Post a store of `bytes` bytes from `into`: `read` takes the data and returns what writes it. */
export function twoSteps(
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
export function writeGlobal(
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
