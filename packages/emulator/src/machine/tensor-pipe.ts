/**
 * The tensor core's own instructions in flight: tcgen05.mma, cp, shift and commit. Those of one block (of one pair, for
 * cta_group::2) run in the order of issue, which is more than the ISA promises: what its pipelines leave open is found by the
 * clocks instead, an engine per issuing thread. PTX ISA 9.0, chapters 9.7.16.5 and 9.7.16.6.
 */

import type { AsyncOp, Carried, Clocks } from "../checkers/race.ts";
import { type TensorAccess, tensorMemories } from "../memory/tensor-memory.ts";
import { logged } from "../trace/recorder.ts";
import {
  type Block,
  type ClusterState,
  type Execution,
  engineOf,
  hex,
  Issuer,
  type Machine,
  popcount,
  type Warp,
} from "./state.ts";

/** An instruction that one thread issues. */
export class TensorIssue extends Issuer {
  readonly group: 1 | 2;
  /** For the checks of shared memory; null when order is not checked. */
  readonly op: AsyncOp | null;
  /** For the checks of tensor memory: the same operation. */
  readonly access: TensorAccess;

  constructor(by: Execution, lane: number, group: 1 | 2) {
    super(by, lane);
    this.group = group;
    const { warp, instruction } = by;
    const { race } = warp.block;
    const access = { warp, instruction, op: null, clocks: null, inOrder: true, before: null };
    this.op = null;
    this.access = access;
    if (race === null) return;
    const { clocks } = race;
    const engine = tensorEngine(clocks, warp, lane);
    noteIssuer(warp, lane, engine);
    const op = race.begin(warp, lane, engine, instruction);
    this.op = op;
    this.access = { ...access, op, clocks, before: fencedEngine(clocks, engine) };
  }
}

/** The other block of the pair, whose rank differs in the last bit; null where the cluster has none. */
const peerOf = (block: Block): Block | null => block.cluster.blocks[block.rank ^ 1] ?? null;

/** The blocks whose tensor memory and shared memory an instruction touches, the even one first. */
export function blocksOf(block: Block, group: 1 | 2): readonly Block[] {
  const peer = group === 2 ? peerOf(block) : null;
  if (peer === null) return [block];
  return block.rank % 2 === 0 ? [block, peer] : [peer, block];
}

/** The engine of a thread's mma, cp and shift, which are ordered among themselves. */
const tensorEngine = (clocks: Clocks, warp: Warp, lane: number): number =>
  clocks.engine(`tcgen05:${warp.agent}:${lane}`, { inOrder: true, owner: warp.agent });

const issuersName = (warp: Warp): string => `tcgen05 issuers of ${warp.agent}`;

/** Engines of those lanes of `mask` that have issued something. */
export function issuingEngines(warp: Warp, mask: number): readonly number[] {
  const lanes = warp.block.cluster.engines.get(issuersName(warp)) as Map<number, number> | undefined;
  return [...(lanes ?? [])].filter(([lane]) => (mask >>> lane) & 1).map(([, engine]) => engine);
}

function noteIssuer(warp: Warp, lane: number, engine: number): void {
  engineOf<Map<number, number>>(warp.block, issuersName(warp), () => new Map()).set(lane, engine);
}

/** Advanced by tcgen05.fence::before_thread_sync: what of an engine the fence hands to other threads' tcgen05. */
export const fencedEngine = (clocks: Clocks, engine: number): number =>
  clocks.engine(`before:${clocks.engineName(engine)}`);

interface Queue {
  /** Instructions issued and run. */
  issued: number;
  run: number;
}

function queueOf(block: Block, group: 1 | 2): Queue {
  const name = `tcgen05 queue ${group === 2 ? block.rank >> 1 : `of ${block.rank}`}`;
  return engineOf(block, name, () => ({ issued: 0, run: 0 }));
}

const groupName = "tcgen05 cta_group";

/** All tcgen05 instructions of a kernel name one cta_group, and a pair has two blocks that live (H087, H088). */
export function checkGroup(by: Execution, group: 1 | 2): boolean {
  const { warp } = by;
  const known = engineOf(warp.block, groupName, () => group);
  if (known !== group)
    by.report("H087", () => `cta_group::${group} here, while the kernel has used cta_group::${known} before`);
  if (group === 1) return true;
  const peer = peerOf(warp.block);
  if (peer === null) {
    by.report(
      "H087",
      () =>
        `cta_group::2 in block rank ${warp.block.rank} of a cluster of ${warp.block.cluster.blocks.length}: it has no peer`,
    );
    return false;
  }
  if (!peer.exited) return true;
  by.report("H088", () => `the peer, block rank ${peer.rank}, has exited`);
  return false;
}

/**
 * Begin an instruction of the tensor core: one thread issues it (H023). Null when it cannot be carried out.
 * Check the memories it touches with `op` and `access` at once, then hand the work to `issueTensor`.
 */
export function beginTensor(by: Execution, mask: number, group: 1 | 2): TensorIssue | null {
  const { warp } = by;
  const lane = 31 - Math.clz32(mask & -mask);
  if (popcount(mask) !== 1)
    by.report("H023", () => `issued by lanes ${hex(mask)} of warp ${warp.id}; one thread issues it`);
  if (!checkGroup(by, group)) return null;
  return new TensorIssue(by, lane, group);
}

/**
 * Queue the work of an instruction: `run` is called after that of all instructions issued before it.
 *
 * @param products multiply-adds; 0 for what is no product.
 * @param touches whether it uses memory of its blocks, which then must not have exited (H088).
 */
export function issueTensor(issue: TensorIssue, run: () => void, products = 0, touches = true): void {
  const { machine } = issue;
  const queue = queueOf(issue.warp.block, issue.group);
  const turn = queue.issued;
  queue.issued += 1;
  const traced = machine.trace?.issue(issue.warp, issue.instruction, "tcgen05", { products, queue }) ?? null;
  machine.events.post({
    ready: () => queue.run === turn,
    run: logged(machine.trace, traced, () => {
      queue.run += 1;
      if (touches) checkAlive(issue);
      run();
    }),
  });
}

function checkAlive(issue: TensorIssue): void {
  const gone = blocksOf(issue.warp.block, issue.group).find((block) => block.exited);
  if (gone !== undefined)
    issue.report(
      "H088",
      () => `block rank ${gone.rank} has exited before the tensor core came to this instruction`,
    );
}

/** A cluster ends: all tensor memory has to have been given back (H088). */
export function checkTensorLeaks(machine: Machine, cluster: ClusterState): void {
  for (const { block, allocations } of tensorMemories(cluster))
    for (const { column, columns, instruction, warp } of allocations)
      machine.report(
        "H088",
        instruction,
        warp,
        () =>
          `block rank ${block.rank} ends with columns ${column} to ${column + columns - 1} still allocated`,
      );
}

/**
 * What a commit hands on: the completion of the thread's own operations, and of every engine's operations that the thread
 * knows, since its own began after them. What its warp did itself is not handed on.
 */
export function committed(clocks: Clocks, warp: Warp, lane: number): Carried {
  const carried = clocks.empty();
  const row = warp.agent * clocks.stride;
  for (let agent = clocks.warps; agent < clocks.agents; agent++) {
    const known = clocks.known[row + agent] ?? 0;
    if (known > 0) clocks.complete(agent, known, carried);
  }
  const engine = tensorEngine(clocks, warp, lane);
  clocks.complete(engine, clocks.newest(engine), carried);
  return carried;
}
