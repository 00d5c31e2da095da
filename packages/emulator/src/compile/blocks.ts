/** Basic blocks: lane and warp instructions, then what ends the block. */
import type { Instruction, Kernel } from "../load/types.ts";
import { gatherVectors } from "./vector.ts";

export interface Block {
  readonly id: number;
  /** Runs of lane instructions between warp instructions, in order. */
  readonly pieces: readonly Piece[];
  /** The branch, exit or wait at the end; null where the block just falls into the next. */
  readonly terminator: Instruction | null;
  readonly successors: readonly number[];
  readonly first: number;
  /** In a loop that polls memory with strong reads and writes nothing: the warp may be waiting for another block. */
  readonly polls: boolean;
}

export type Piece =
  | {
      readonly kind: "region";
      /** All instructions have a vector form: a full warp runs it as WebAssembly. */
      readonly vector: boolean;
      readonly instructions: readonly Instruction[];
    }
  | { readonly kind: "warp"; readonly instruction: Instruction };

/**
 * Longest run compiled as one function. V8 does not optimise functions beyond 60 KB of bytecode (40 times slower, measured),
 * and a checked memory access takes some 300 bytes; besides, shorter functions are optimised sooner.
 */
const longestRegion = 96;

const ends = (instruction: Instruction): boolean =>
  instruction.operation.kind !== "lane" && instruction.operation.kind !== "warp";

/** Blocks in program order; branch targets are the first instructions of blocks. */
export function basicBlocks(kernel: Kernel): readonly Block[] {
  const { instructions } = kernel;
  const leaders = new Set<number>([0]);
  for (const instruction of instructions) {
    const { operation } = instruction;
    if (ends(instruction)) leaders.add(instruction.index + 1);
    if (operation.kind === "branch") leaders.add(operation.target);
    if (operation.kind === "indexed-branch") for (const target of operation.targets) leaders.add(target);
  }
  const starts = [...leaders].filter((k) => k < instructions.length).sort((a, b) => a - b);
  const blockAt = new Map(starts.map((start, id) => [start, id] as const));
  const raw = starts.map((start, id) => {
    const run = instructions.slice(start, starts[id + 1] ?? instructions.length);
    const last = run.at(-1);
    const terminator = last !== undefined && ends(last) ? last : null;
    return {
      id,
      first: start,
      run,
      terminator,
      successors: successorsOf(terminator, id, starts.length, blockAt),
    };
  });
  // Loops that write nothing that others see: those of the graph without the blocks that write.
  const writes = raw.map((b) => b.run.some((i) => publishes(i) && !rereads(i)));
  const loops = loopBlocks(
    raw.map((b) => (writes[b.id] === true ? [] : b.successors.filter((s) => writes[s] !== true))),
  );
  const polling = new Set(raw.filter((b) => b.run.some((i) => i.strongRead)).map((b) => loops[b.id] ?? null));
  return raw.map(({ id, first, run, terminator, successors }) => {
    const body = terminator === null ? run : run.slice(0, -1);
    const component = loops[id] ?? null;
    const polls = component !== null && polling.has(component);
    return { id, first, pieces: pieces(body), terminator, successors, polls };
  });
}

const publishes = ({ traffic }: Instruction): boolean =>
  traffic !== null && traffic.written > 0 && traffic.space !== "local";

/** Atomics that leave memory as it is when they come again: the reads of spin locks and of compare-and-swap loops. */
const rereads = (instruction: Instruction): boolean =>
  instruction.strongRead && /^atom\..*\b(cas|exch|or|and)\b/.test(instruction.mnemonic);

/**
 * Whether an instruction of lanes hands knowledge on or takes it over. It is a region by itself, so that the race checker has heard of all lanes' accesses before
 * it, and of none behind it.
 */
export const isStrong = ({ traffic, mnemonic }: Instruction): boolean =>
  traffic !== null && /^(atom|red)\b|\.(volatile|relaxed|acquire|release|cv|wt)\b/.test(mnemonic);

function pieces(body: readonly Instruction[]): readonly Piece[] {
  const out: Piece[] = [];
  let run: Instruction[] = [];
  const flush = (): void => {
    for (const { vector, run: stretch } of gatherVectors(run))
      for (let k = 0; k < stretch.length; k += longestRegion)
        out.push({ kind: "region", vector, instructions: stretch.slice(k, k + longestRegion) });
    run = [];
  };
  for (const instruction of body) {
    if (instruction.operation.kind === "warp") {
      flush();
      out.push({ kind: "warp", instruction });
    } else {
      const alone = isStrong(instruction);
      if (alone) flush();
      run.push(instruction);
      if (alone) flush();
    }
  }
  flush();
  return out;
}

function successorsOf(
  terminator: Instruction | null,
  id: number,
  count: number,
  blockAt: ReadonlyMap<number, number>,
): readonly number[] {
  const next = id + 1 < count ? [id + 1] : [];
  if (terminator === null) return next;
  const { operation, guard } = terminator;
  const fallsThrough = guard !== null ? next : [];
  switch (operation.kind) {
    case "branch":
      return [blockAt.get(operation.target) ?? 0, ...fallsThrough];
    case "indexed-branch":
      return [...new Set(operation.targets.map((t) => blockAt.get(t) ?? 0)), ...fallsThrough];
    case "exit":
      return fallsThrough;
    case "wait":
      return next;
    case "lane":
    case "warp":
      return next;
  }
}

/** For each block the number of the strongly connected component it loops in, or null (Tarjan). */
function loopBlocks(successors: readonly (readonly number[])[]): readonly (number | null)[] {
  const count = successors.length;
  const index = new Int32Array(count).fill(-1);
  const low = new Int32Array(count);
  const onStack = new Uint8Array(count);
  const stack: number[] = [];
  const component: (number | null)[] = new Array<number | null>(count).fill(null);
  let counter = 0;
  // Iterative: nvcc's kernels have thousands of blocks.
  for (let root = 0; root < count; root++) {
    if (index[root] !== -1) continue;
    const work: { node: number; next: number }[] = [{ node: root, next: 0 }];
    while (work.length > 0) {
      const frame = work.at(-1);
      if (frame === undefined) break;
      const { node } = frame;
      if (frame.next === 0) {
        index[node] = counter;
        low[node] = counter;
        counter += 1;
        stack.push(node);
        onStack[node] = 1;
      }
      const target = successors[node]?.[frame.next];
      if (target !== undefined) {
        frame.next += 1;
        if (index[target] === -1) work.push({ node: target, next: 0 });
        else if (onStack[target] === 1) low[node] = Math.min(low[node] ?? 0, index[target] ?? 0);
        continue;
      }
      work.pop();
      const parent = work.at(-1);
      if (parent !== undefined) low[parent.node] = Math.min(low[parent.node] ?? 0, low[node] ?? 0);
      if (low[node] === index[node]) {
        const members: number[] = [];
        let member: number | undefined;
        do {
          member = stack.pop();
          if (member === undefined) break;
          onStack[member] = 0;
          members.push(member);
        } while (member !== node);
        const loops = members.length > 1 || (successors[node]?.includes(node) ?? false);
        if (loops) for (const m of members) component[m] = node;
      }
    }
  }
  return component;
}
