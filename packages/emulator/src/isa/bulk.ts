/** One-dimensional bulk copies and reductions, and bulk groups: PTX ISA 9.0, chapters 9.7.9.25.4 and 9.7.9.25.5. */
import { loadBytes, moveShared, storeBytes } from "../bulk/bytes.ts";
import type { Destination, Reduction } from "../bulk/engine.ts";
import { commitStores, waitStores } from "../bulk/groups.ts";
import { type ReduceOp, reduceTypeOf } from "../bulk/reduce.ts";
import type { AddressOperand, Operand, Operation } from "../load/types.ts";
import { mbarrierAt, mbarrierBytes } from "../machine/mbarriers.ts";
import { hex, Issuer, type SharedPlace } from "../machine/state.ts";
import { type Decoder, onWarp, type Row, type Table } from "./row.ts";
import { lanesOf } from "./warp.ts";

/** Copies move multiples of this many bytes between multiples of it. */
const unit = 16;

/** Direction of a copy: the order in which its mnemonic names the spaces. */
export type Direction = "load" | "store" | "move";

export function directionOf(d: Decoder): Direction {
  const [to, from] = d.mnemonic.split(".").filter((word) => word === "global" || word.startsWith("shared"));
  while (d.option("global", "shared::cluster", "shared::cta") !== null);
  return to === "global" ? "store" : from === "global" ? "load" : "move";
}

/** An operand that is an address operand with its base: its words in one lane. */
const wideAddress = (
  issuer: Issuer,
  operand: AddressOperand,
): { readonly low: number; readonly high: number } => ({
  low: issuer.address(operand),
  high: issuer.value(operand.base, 1),
});

/** A place in the executing block's own window; null after H003 or what `window` reports. */
export function ownPlace(issuer: Issuer, address: number, bytes: number, align: number): SharedPlace | null {
  if (address >>> 24 !== issuer.warp.block.rank) {
    issuer.report(
      "H003",
      () =>
        `lane ${issuer.lane} uses ${hex(address)}, an address in block ${address >>> 24} of the cluster, as its own`,
    );
    return null;
  }
  return issuer.window(address, bytes, align);
}

/**
 * Where a load goes, with the barrier of each place: one, or that of each block in `multicast` at the same offsets. With
 * `pair` (`.cta_group::2`) the barrier may be in the other block of the pair; each copy then signals the one of its pair.
 * Null after reporting.
 */
export function destinationsOf(
  issuer: Issuer,
  address: number,
  barrier: number,
  bytes: number,
  align: number,
  multicast: number | null,
  pair: boolean,
): readonly Destination[] | null {
  const { lane } = issuer;
  const count = issuer.warp.block.cluster.blocks.length;
  if (multicast !== null && (multicast === 0 || multicast >= 2 ** count)) {
    issuer.report(
      "H053",
      () => `lane ${lane} multicasts to blocks ${hex(multicast)} of a cluster of ${count}`,
    );
    return null;
  }
  const home = address >>> 24;
  const target = barrier >>> 24;
  const ranks = multicast === null ? [home] : lanesOf(multicast);
  if (multicast === null && target !== home && !(pair && (target ^ home) === 1)) {
    issuer.report("H053", () =>
      pair
        ? `lane ${lane} copies to block ${home} of the cluster and completes on a barrier of block ${target}, outside its pair`
        : `lane ${lane} copies to block ${home} of the cluster and completes on a barrier of block ${target}`,
    );
    return null;
  }
  const found: Destination[] = [];
  for (const rank of ranks) {
    const place = issuer.window(within(rank, address), bytes, align);
    const other = pair ? (rank & ~1) | (target & 1) : rank;
    const at = issuer.window(within(other, barrier), mbarrierBytes, mbarrierBytes);
    const state = at === null ? null : mbarrierAt(issuer, at, "engine");
    if (place !== null && state !== null) found.push({ place, barrier: state });
  }
  return found;
}

/** The same offset in the window of another block. */
const within = (rank: number, address: number): number => rank * 2 ** 24 + (address & 0xffffff);

/** Run once for each lane that executes. */
export const eachLane = (act: (issuer: Issuer) => void): Operation =>
  onWarp((by, mask) => {
    for (const lane of lanesOf(mask)) act(new Issuer(by, lane));
  });

/** The size operand in one lane; null after H053. */
function sizeOf(issuer: Issuer, operand: Operand): number | null {
  const bytes = issuer.value(operand) >>> 0;
  if (bytes % unit === 0) return bytes;
  issuer.report(
    "H053",
    () => `lane ${issuer.lane} copies ${bytes} bytes; bulk copies move multiples of ${unit}`,
  );
  return null;
}

/** Whether a global address is a multiple of 16; H004 otherwise, which ends the launch. */
function alignedGlobal(issuer: Issuer, low: number, high: number): boolean {
  if (low % unit === 0) return true;
  issuer.machine.global(issuer.warp, issuer.lane, issuer.instruction, low, high, unit, 0, unit);
  return false;
}

const reduceOps = ["add", "min", "max", "inc", "dec", "and", "or", "xor"] as const;

/** The operation of a reduction without its type. */
export const reduceOpOf = (d: Decoder): ReduceOp => d.choice(...reduceOps);

/** cp.async.bulk and cp.reduce.async.bulk. */
const copy = (d: Decoder, reduction: Reduction): Operation => {
  const direction = directionOf(d);
  const masked = d.flag("cp_mask");
  const multicast = d.flag("multicast::cluster");
  d.choice("mbarrier::complete_tx::bytes", "bulk_group");
  const to = d.address(0);
  const from = d.address(1);
  const size = d.use(2, "int");
  let next = 3;
  const barrier = direction === "store" ? null : d.address(next++);
  const mask = multicast ? d.use(next++, "int") : null;
  const bytesMask = masked ? d.use(next++, "int") : null;
  if (direction === "store")
    return eachLane((issuer) => {
      const bytes = sizeOf(issuer, size);
      if (bytes === null) return;
      const source = ownPlace(issuer, issuer.address(from), bytes, unit);
      const { low, high } = wideAddress(issuer, to);
      if (source === null || !alignedGlobal(issuer, low, high)) return;
      const lanes = bytesMask === null ? 0xffff : issuer.value(bytesMask) & 0xffff;
      storeBytes(issuer, source, { low, high }, bytes, reduction, lanes);
    });
  if (barrier === null) return d.refuse("it needs an mbarrier");
  return eachLane((issuer) => {
    const bytes = sizeOf(issuer, size);
    if (bytes === null) return;
    const destinations = destinationsOf(
      issuer,
      issuer.address(to),
      issuer.address(barrier),
      bytes,
      unit,
      mask === null ? null : issuer.value(mask) & 0xffff,
      false,
    );
    if (destinations === null) return;
    if (direction === "load") {
      const { low, high } = wideAddress(issuer, from);
      if (alignedGlobal(issuer, low, high)) loadBytes(issuer, destinations, { low, high }, bytes);
      return;
    }
    const source = ownPlace(issuer, issuer.address(from), bytes, unit);
    const [destination] = destinations;
    if (source !== null && destination !== undefined)
      moveShared(issuer, destination, source, bytes, reduction);
  });
};

/** cp.async.bulk.prefetch: a hint. */
const prefetch: Row = (d) => {
  d.address(0);
  d.use(1, "int");
  return { kind: "lane", emit: () => "" };
};

const commit: Row = () =>
  onWarp(({ warp, machine, instruction }, mask) => {
    commitStores(warp, lanesOf(mask));
    machine.trace?.commit(warp, instruction, "bulk store");
  });

const wait: Row = (d) => {
  const readOnly = d.flag("read");
  const newest = d.literal(0);
  return {
    kind: "wait",
    members: "none",
    bind:
      () =>
      ({ warp, machine }, group, mask) => {
        const { race } = warp.block;
        const { trace } = machine;
        const missing = waitStores(
          warp,
          lanesOf(mask),
          newest,
          readOnly,
          (op) => race?.clocks.waited(warp.agent, op.engine, op.clock),
          (stores) => {
            const operations = stores.map(({ traced }) => traced);
            trace?.awaitedOperations(warp, "bulk store", operations, readOnly);
          },
        );
        if (missing === null) {
          group.wait = null;
          return true;
        }
        group.wait = {
          generation: 0,
          describe: () => `${readOnly ? "reads of " : ""}${missing} bulk groups`,
        };
        return false;
      },
  };
};

export const bulkTable: Table = {
  "cp.async.bulk": (d) => copy(d, null),
  "cp.reduce.async.bulk": (d) => {
    const op = reduceOpOf(d);
    d.flag("noftz");
    return copy(d, { op, type: reduceTypeOf(d.type()) ?? d.refuse("not a type of reductions") });
  },
  "cp.async.bulk.prefetch": prefetch,
  "cp.async.bulk.commit_group": commit,
  "cp.async.bulk.wait_group": wait,
};
