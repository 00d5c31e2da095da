/** What a warp does in a statement over elements: instructions that it issues, and those of special functions among them. */
import { dtypes, type FunctionName, isRounding, nodesOf } from "@tilewright/core";
import { type ElementStmt, elementDomain, elementSources } from "../../tile/elements.ts";
import { registersPerThread } from "../../tile/ownership.ts";
import type { Buffer, ElementExpr, Stmt, View } from "../../tile/types.ts";
import { workOf } from "../epilogue.ts";
import { type Engine, engineRow, type Machine } from "../machine.ts";

/** Lanes of a warp, and warps of a warpgroup: one for each scheduler of an SM. */
export const [LANES, SCHEDULERS] = [32, 4] as const;

/** Cycles of a scheduler, and cycles that nothing else of the warp hides. */
export interface Elements {
  readonly cycles: number;
  /** Of the lanes of special functions, beside these. */
  readonly functions: number;
  readonly latency: number;
}

/**
 * Cycles of an instruction of a warp: 128 lanes of an SM multiply and add, 64 compare and convert, 16 are those of special functions (CUDA C++ Programming Guide, throughput of native arithmetic instructions). A conversion
 * to 16 bits makes two elements.
 */
const cyclesOf = { plain: 1, compared: 2, special: 8, rounded: 1 } as const;

/** Cycles from a shuffle, or a load from shared memory, to what reads it (seen in chains of them on an H200: 23 to 33), and of a meeting of the warps of a tile. */
const SHUFFLED = 30;
export const MET = 60;

/** Elements of a view that a thread of `warps` warps holds or moves: those in registers may be held by several. */
export function held({ buffer, extent }: View, buffers: ReadonlyMap<string, Buffer>, warps: number): number {
  const tile = buffers.get(buffer);
  const elements = extent[0] * extent[1];
  if (tile?.own == null) return Math.max(1, elements / (warps * LANES));
  return Math.max(1, (registersPerThread(tile.own) * elements) / (tile.shape[0] * tile.shape[1]));
}

/** Functions that compare. */
const compares: ReadonlySet<FunctionName> = new Set(["max", "min", "select"]);

/** Cycles of an expression for each element of a warp: a product that is added is one instruction with its sum. */
function ofExpression(value: ElementExpr): Pick<Elements, "cycles" | "functions"> {
  const all = nodesOf(value).flatMap((node) => (node.kind === "apply" && !isRounding(node.fn) ? [node] : []));
  const fused = all.filter(
    ({ fn, args }) =>
      (fn === "add" || fn === "sub") && args.some((arg) => arg.kind === "apply" && arg.fn === "mul"),
  ).length;
  const of = (fn: FunctionName) => {
    if (compares.has(fn)) return { plain: cyclesOf.compared, special: 0 };
    // exp2 is the instruction itself.
    return fn === "exp2" ? { plain: 0, special: 1 } : workOf(fn);
  };
  const works = all.map(({ fn }) => of(fn));
  const special = works.reduce((sum, work) => sum + work.special, 0);
  return {
    // An instruction of special functions is issued as any other.
    cycles: works.reduce((sum, work) => sum + work.plain, special - fused) * cyclesOf.plain,
    functions: special * cyclesOf.special,
  };
}

/** A statement's elements, by each of so many warps. */
export function elementsOf(stmt: ElementStmt, buffers: ReadonlyMap<string, Buffer>, warps: number): Elements {
  const { cycles, functions } = ofExpression(stmt.value);
  if (stmt.kind === "map") {
    const dst = buffers.get(stmt.dst.buffer);
    const stored = dst?.dtype !== "f32" ? cyclesOf.rounded : dst.space === "register" ? 0 : cyclesOf.plain;
    const count = held(stmt.dst, buffers, warps);
    return { cycles: count * (cycles + stored), functions: count * functions, latency: 0 };
  }
  const [, columns] = elementDomain(stmt);
  const source = elementSources(stmt.value).find(({ extent }) => extent[1] === columns);
  const count = source === undefined ? 1 : held(source, buffers, warps);
  const joined = stmt.op === "max" ? cyclesOf.compared : cyclesOf.plain;
  return {
    functions: count * functions,
    cycles: count * (cycles + joined) + held(stmt.dst, buffers, warps) * ROUNDS * (1 + joined),
    latency: ROUNDS * SHUFFLED + (stmt.via === null ? 0 : MET + 2 * SHUFFLED),
  };
}

/** Of a row's reduction among the four lanes that share it. */
const ROUNDS = 2;

/** A warpgroup, or part of one, of a role. */
export interface Agent {
  readonly number: number;
  readonly warps: number;
  readonly of: number;
  readonly elected: boolean;
}

/** Elements of k of an instruction whose operands have 16 bits. */
const STEP = 16;

/** Cycles of the engine, bytes read from shared memory and FLOP of an agent's part of a product. */
export function productOf(
  engine: Engine,
  { acc, a, b }: Extract<Stmt, { kind: "mma" }>,
  buffers: ReadonlyMap<string, Buffer>,
  machine: Machine,
  { warps, of, elected }: Agent,
) {
  const [rows, columns, k] = [acc.extent[0], acc.extent[1], a.extent[1]];
  const { asynchronous, fullRows } = engineRow(engine);
  const flops = (2 * rows * columns * k * (elected ? 1 : warps)) / of;
  const busy = asynchronous
    ? fullRows === 0
      ? 1
      : Math.min(1, rows / fullRows)
    : Math.min(1, warps / SCHEDULERS);
  const rate = (machine.flopsPerCycle[engine] ?? 1) * busy * (machine.sustained[engine] ?? 1);
  const sizeOf = ({ buffer }: View): number => {
    const tile = buffers.get(buffer);
    return tile?.space === "shared" ? dtypes[tile.dtype].bits / 8 : 0;
  };
  // Instructions of 64 rows (128 lanes of tensor memory) read B each; warpgroups have rows first.
  const panel = fullRows === 0 ? 64 : fullRows;
  const panels = Math.ceil(rows / panel);
  const groups = elected ? 1 : Math.ceil(of / SCHEDULERS);
  const down = Math.min(groups, panels);
  const own = elected ? 1 : Math.max(1, warps / SCHEDULERS);
  const bytes = asynchronous
    ? own * (panels / down) * k * (Math.min(rows, panel) * sizeOf(a) + (columns * down * sizeOf(b)) / groups)
    : 0;
  const instructions = Math.max(1, Math.round((panels / down) * (k / STEP)));
  return { cycles: flops / rate, bytes, flops, instructions };
}

/** Registers that a thread holds of a whole tile. */
export function heldWhole(buffers: ReadonlyMap<string, Buffer>, name: string): number {
  const own = buffers.get(name)?.own;
  return own == null ? 0 : registersPerThread(own);
}
