/** Allocation of tensor memory, and the fences of tcgen05. PTX ISA 9.0, chapters 9.7.16.7 and 9.7.16.11. */

import { severalLanes } from "../checkers/shadow.ts";
import type { Operation } from "../load/types.ts";
import { type Block, type Execution, engineOf, type WaitState, type Warp } from "../machine/state.ts";
import { checkGroup, fencedEngine, issuingEngines } from "../machine/tensor-pipe.ts";
import { columnUnit, type TensorMemory, tensorColumns, tensorMemory } from "../memory/tensor-memory.ts";
import { together } from "./aligned.ts";
import { type Decoder, onWarp } from "./row.ts";
import { sharedAddress } from "./tensor-issue.ts";
import { tensorMoves } from "./tensor-move.ts";

/** A request to the allocator that has not been granted yet. With cta_group::2 both blocks of the pair make it. */
interface Request extends WaitState {
  readonly kind: "alloc" | "dealloc";
  readonly columns: number;
  /** dealloc: the address to give back. */
  readonly column: number;
  readonly by: Execution;
  /** First column given; null until granted. dealloc: 0. */
  granted: number | null;
}

const isRequest = (wait: WaitState | null): wait is Request => wait !== null && "granted" in wait;

/** Requests of a pair that wait for the other block, by rank. */
const waiting = (block: Block): Map<number, Request> =>
  engineOf(block, `tcgen05 allocator ${block.rank >> 1}`, () => new Map());

const groupOf = (d: Decoder): 1 | 2 => (d.choice("cta_group::1", "cta_group::2") === "cta_group::2" ? 2 : 1);

const isSize = (columns: number): boolean =>
  columns >= columnUnit && columns <= tensorColumns && (columns & (columns - 1)) === 0;

/** Report what is wrong with a request; false when it must not be made. */
function checkSize(by: Execution, columns: number): boolean {
  if (isSize(columns)) return true;
  by.report(
    "H087",
    () => `${columns >>> 0} columns; a power of two from ${columnUnit} to ${tensorColumns} is needed`,
  );
  return false;
}

function checkAlloc(by: Execution, columns: number): boolean {
  const memory = tensorMemory(by.warp.block);
  if (memory.relinquished) {
    by.report("H087", () => `the block has executed tcgen05.relinquish_alloc_permit before`);
    return false;
  }
  if (!checkSize(by, columns)) return false;
  const { smallest } = memory;
  if (smallest !== null && columns > smallest)
    by.report("H087", () => `${columns} columns after an allocation of ${smallest}: sizes may not rise`);
  return true;
}

/** Whether the allocation can be given back, reporting why not. */
function checkDealloc({ by, column, columns }: Request, group: 1 | 2): boolean {
  const { warp } = by;
  const memory = tensorMemory(warp.block);
  const found = memory.allocations.find((a) => a.column === column && a.columns === columns);
  if (found === undefined) {
    by.report("H087", () => {
      const held = memory.allocations.map((a) => `${a.columns} columns at ${a.column}`).join(", ");
      return `${columns} columns at ${column} are given back; allocated are ${held === "" ? "none" : held}`;
    });
    return false;
  }
  if (found.group !== group)
    by.report("H087", () => `cta_group::${group} gives back what cta_group::${found.group} has allocated`);
  const clocks = warp.block.race?.clocks ?? null;
  if (clocks === null) return true;
  const [open] = memory.unfinished(warp, clocks, column, columns);
  if (open !== undefined)
    by.report(
      "H083",
      () =>
        `columns ${column} to ${column + columns - 1} are given back while ${open.instruction.text.split(" ")[0]} of warp ${open.warp.id} in block rank ${open.warp.block.rank} may still use them`,
    );
  return true;
}

const clockOf = (warp: Warp): number => {
  const { race } = warp.block;
  return race === null ? 0 : (race.clocks.known[warp.agent * race.clocks.stride + warp.agent] ?? 0);
};

/** Try to grant requests that belong together: the same place in all their blocks. */
function grant(requests: readonly Request[], group: 1 | 2): void {
  const memories = requests.map(({ by }) => tensorMemory(by.warp.block));
  const [first] = requests;
  if (first === undefined) return;
  if (first.kind === "dealloc") {
    for (const [k, request] of requests.entries()) {
      const memory = memories[k];
      const found = memory?.allocations.find(
        (a) => a.column === request.column && a.columns === request.columns,
      );
      if (checkDealloc(request, group) && memory !== undefined && found !== undefined) memory.release(found);
      request.granted = 0;
    }
    first.by.machine.touch();
    return;
  }
  const column = commonPlace(memories, first.columns);
  if (column === null) return;
  for (const [k, request] of requests.entries()) {
    const { by, columns } = request;
    const { warp, instruction } = by;
    memories[k]?.allocate({ column, columns, group, warp, instruction, clock: clockOf(warp) });
    request.granted = column;
  }
  first.by.machine.touch();
}

/** The lowest column at which `columns` are free in all memories. */
function commonPlace(memories: readonly TensorMemory[], columns: number): number | null {
  for (let column = 0; column + columns <= tensorColumns; column += columns)
    if (memories.every((memory) => memory.isFree(column, columns))) return column;
  return null;
}

/** Register the request, with its peer's where there are two, and see whether it can be granted. */
function ask(request: Request, group: 1 | 2): void {
  if (group === 1) {
    grant([request], group);
    return;
  }
  const { block } = request.by.warp;
  const requests = waiting(block);
  requests.set(block.rank, request);
  const other = requests.get(block.rank ^ 1);
  if (other === undefined) return;
  if (other.kind !== request.kind || other.columns !== request.columns)
    request.by.report(
      "H087",
      () =>
        `${request.kind} of ${request.columns} columns, while the peer executes ${other.kind} of ${other.columns}`,
    );
  grant([request, other], group);
  if (request.granted === null) return;
  requests.delete(block.rank);
  requests.delete(other.by.warp.block.rank);
}

function describe(request: Request, group: 1 | 2): string {
  const { block } = request.by.warp;
  if (group === 2 && !waiting(block).has(block.rank ^ 1))
    return `the peer, block rank ${block.rank ^ 1}, in tcgen05.${request.kind}`;
  const held = tensorMemory(block).allocations.reduce((n, a) => n + a.columns, 0);
  return `${request.columns} columns of tensor memory, ${held} of ${tensorColumns} are allocated`;
}

/** A wait that makes its request when it is first asked and passes once it is granted. */
function collectively(
  group: 1 | 2,
  make: (by: Execution) => Omit<Request, keyof WaitState> | null,
  done: (request: Request) => void,
): Operation {
  return together(() => (by, lanes) => {
    if (lanes.wait === null) {
      if (!checkGroup(by, group)) return true;
      const fields = make(by);
      if (fields === null) return true;
      const request: Request = { ...fields, generation: 0, describe: () => describe(request, group) };
      lanes.wait = request;
      ask(request, group);
    }
    const { wait } = lanes;
    if (!isRequest(wait)) return true;
    if (wait.granted === null && group === 1) grant([wait], 1);
    if (wait.granted === null) {
      const other = group === 2 ? waiting(by.warp.block).get(by.warp.block.rank ^ 1) : undefined;
      if (other !== undefined) ask(wait, group);
    }
    if (wait.granted === null) return false;
    lanes.wait = null;
    done(wait);
    return true;
  });
}

export function tensorAlloc(d: Decoder): Operation {
  const group = groupOf(d);
  const generic = d.option("shared::cta") === null;
  const destination = d.address(0);
  const size = d.use(1, "int");
  return collectively(
    group,
    (by) => {
      const columns = by.machine.lane(by.warp, size, 0) >>> 0;
      if (!checkAlloc(by, columns)) return null;
      return { kind: "alloc", columns, column: 0, by, granted: null };
    },
    ({ by, granted }) => {
      const { machine, warp, instruction } = by;
      const address = sharedAddress(by, destination, 0, generic);
      const at = machine.shared(warp, 0, instruction, address, 4, 1);
      // The whole warp may read what it has stored without more ado.
      warp.block.race?.write(warp, severalLanes, at, 4, instruction.index);
      machine.arena.words[at >> 2] = granted ?? 0;
      machine.countTraffic("shared", 0, 4);
    },
  );
}

export function tensorDealloc(d: Decoder): Operation {
  const group = groupOf(d);
  const address = d.use(0, "int");
  const size = d.use(1, "int");
  return collectively(
    group,
    (by) => {
      const { machine, warp } = by;
      const columns = machine.lane(warp, size, 0) >>> 0;
      const column = machine.lane(warp, address, 0) & 0xffff;
      if (!checkSize(by, columns)) return null;
      return { kind: "dealloc", columns, column, by, granted: null };
    },
    () => undefined,
  );
}

export function tensorRelinquish(d: Decoder): Operation {
  const group = groupOf(d);
  return together(() => (by) => {
    if (checkGroup(by, group)) tensorMemory(by.warp.block).relinquished = true;
    return true;
  });
}

/** before_thread_sync: what the thread has issued so far is handed over by the next barrier. after_thread_sync: see Clocks. */
export function tensorFence(side: "before" | "after"): Operation {
  return onWarp(({ warp }, mask) => {
    const { race } = warp.block;
    if (race === null) return;
    const { clocks } = race;
    if (side === "after") {
      clocks.tensorFenceAfter(warp.agent);
      return;
    }
    const { load, store } = tensorMoves(warp);
    const engines = [...issuingEngines(warp, mask)];
    for (const op of [load, store]) if (op !== null) engines.push(op.engine);
    for (const engine of engines)
      clocks.waited(warp.agent, fencedEngine(clocks, engine), clocks.newest(engine));
  });
}
