/**
 * Cluster launch control: a running cluster cancels the launch of one that has not started, and does its work. PTX ISA 9.0,
 * chapters 9.7.13.17 and 9.7.13.18. The response is opaque to programs; here it is the first block's index and a word that says
 * what it is.
 */

import type { AddressOperand, Operand, Operation } from "../load/types.ts";
import { completeTx, type Mbarrier, mbarrierAt } from "../machine/mbarriers.ts";
import { type Block, type Execution, hex, type SharedPlace } from "../machine/state.ts";
import { type Decoder, onWarp, type Table } from "./row.ts";
import { sharedAddress } from "./tensor-issue.ts";
import { lanesOf } from "./warp.ts";

const responseBytes = 16;
const barrierBytes = 8;
/** Last word of a response. */
const granted = 0x434c4301;
const refused = 0x434c4300;

const failedName = (block: Block): string => `cluster launch control failed in ${block.rank}`;

/** Where one block gets the response and which barrier tells. */
interface Target {
  readonly place: SharedPlace;
  readonly barrier: Mbarrier;
}

function tryCancel(d: Decoder): Operation {
  const generic = d.option("shared::cta") === null;
  const multicast = d.flag("multicast::cluster::all");
  const response = d.address(0);
  const barrier = d.address(1);
  return onWarp((by, mask) => {
    for (const lane of lanesOf(mask)) request(by, lane, response, barrier, generic, multicast);
  });
}

function request(
  by: Execution,
  lane: number,
  response: AddressOperand,
  barrier: AddressOperand,
  generic: boolean,
  multicast: boolean,
): void {
  const { warp, instruction, machine } = by;
  const { block } = warp;
  const { cluster } = block;
  if (cluster.engines.has(failedName(block)))
    by.report("H089", () => `block rank ${block.rank} asks again after it has read that a request failed`);
  const to = sharedAddress(by, response, lane, generic);
  const signal = sharedAddress(by, barrier, lane, generic);
  const ranks = multicast ? cluster.blocks.map((b) => b.rank) : [block.rank];
  if (to >>> 24 !== block.rank || signal >>> 24 !== block.rank) {
    by.report(
      "H089",
      () =>
        `response at ${hex(to)}, mbarrier at ${hex(signal)}: both have to lie in the block that asks, rank ${block.rank}`,
    );
    return;
  }
  const targets: Target[] = [];
  for (const rank of ranks) {
    const inBlock = (address: number): number => ((address & 0xffffff) | (rank << 24)) >>> 0;
    const place = by.window(inBlock(to), responseBytes, responseBytes);
    const at = by.window(inBlock(signal), barrierBytes, barrierBytes);
    if (place === null || at === null) continue;
    const found = mbarrierAt(by, at);
    if (found !== null) targets.push({ place, barrier: found });
  }
  const { race } = cluster;
  const engine =
    race?.clocks.engine(`launch control:${signal}`, { owner: warp.agent, fencedReads: true }) ?? 0;
  const op = race?.begin(warp, lane, engine, instruction) ?? null;
  if (op !== null) for (const { place } of targets) race?.asyncWrite(op, place.at, responseBytes);
  machine.events.post({
    ready: () => true,
    run: () => {
      if (block.exited) {
        by.report("H043", () => `block rank ${block.rank} has exited with a request in flight`);
        return;
      }
      const first = machine.cancelCluster();
      for (const { place, barrier: told } of targets) {
        if (told.block.exited)
          by.report("H043", () => `the response goes to block rank ${told.block.rank}, which has exited`);
        else {
          const words = first === null ? [0, 0, 0, refused] : [...first, granted];
          machine.arena.words.set(words, place.at >> 2);
          machine.arena.markInitialised(place.at, responseBytes);
          completeTx(by, told, responseBytes, op);
        }
      }
    },
  });
}

/** What the last word of a response says; reports bytes that are none. */
function verdict(by: Execution, words: readonly Operand[], lane: number): "granted" | "refused" | null {
  const [, , , last] = words;
  const word = last === undefined ? 0 : by.machine.lane(by.warp, last, lane);
  if (word === granted) return "granted";
  if (word === refused) return "refused";
  by.report(
    "H089",
    () => `lane ${lane} queries 16 bytes that are no response of clusterlaunchcontrol.try_cancel`,
  );
  return null;
}

const axes = ["get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid::z"] as const;

function queryCancel(d: Decoder): Operation {
  if (d.flag("is_canceled")) {
    d.choice("pred");
    const to = d.def(0, "int");
    const words = wordsOf(d, d.use(1, "int"));
    return onWarp((by, mask) => {
      const { warp, machine } = by;
      for (const lane of lanesOf(mask)) {
        const answer = verdict(by, words, lane);
        if (answer === "refused") warp.block.cluster.engines.set(failedName(warp.block), true);
        machine.setLane(warp, to, lane, Number(answer === "granted"));
      }
    });
  }
  const axis = axes.indexOf(d.choice("get_first_ctaid", ...axes) as (typeof axes)[number]);
  if (axis < 0) d.choice("v4");
  d.choice("b32");
  const to = d.def(0, "int");
  const words = wordsOf(d, d.use(1, "int"));
  const targets = axis < 0 && to.kind === "vector" ? to.elements : [to];
  return onWarp((by, mask) => {
    const { machine, warp } = by;
    for (const lane of lanesOf(mask)) {
      if (verdict(by, words, lane) === "refused")
        by.report("H089", () => `lane ${lane} takes the block index of a request that failed`);
      // The fourth element of the vector is unspecified.
      targets.forEach((target, k) => {
        const word = words[axis < 0 ? k : axis];
        machine.setLane(
          warp,
          target,
          lane,
          k === 3 || word === undefined ? 0 : machine.lane(warp, word, lane),
        );
      });
    }
  });
}

function wordsOf(d: Decoder, operand: Operand): readonly Operand[] {
  if (operand.kind !== "vector" || operand.elements.length !== 4)
    return d.refuse("the response has to be a register of 128 bits");
  return operand.elements;
}

export const launchControlTable: Table = {
  "clusterlaunchcontrol.try_cancel": tryCancel,
  "clusterlaunchcontrol.query_cancel": queryCancel,
};
