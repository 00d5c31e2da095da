/** Which schedules a program over axes may take: those of its product, and smaller ones where its other tiles need the room. */
import type { Schedule, Target } from "@tilewright/core";
import type { Backend } from "../backend.ts";
import type { Machine } from "../model/machine.ts";
import type { Plan } from "../plans.ts";
import { printSchedule } from "../schedule/codec.ts";
import type { TileProgram } from "../tile/types.ts";
import type { Anchor } from "./anchor.ts";
import { rowNest } from "./rowNest.ts";

/** A tile program that a program over axes may be put on, and the schedule of its product that it is of; null of rows without a product. */
export interface Nest {
  readonly base: TileProgram;
  readonly plan: Plan | null;
}

/** Nests that a program may be put on: those of the product's schedules, the given one's, or the one of programs without a product. */
export function* nestsOf(
  backend: Backend,
  anchor: Anchor,
  { target, machine }: { readonly target: Target; readonly machine?: Machine | undefined },
  given: readonly Plan[] | null,
): Iterable<Nest> {
  const { problem, products } = anchor;
  const [product = null] = products;
  const rows = product === null ? rowNest(anchor, target.arch) : null;
  if (rows !== null) yield { base: rows, plan: null };
  if (product === null) return;
  const nestOf = (plan: Plan): Nest => ({ base: backend.tile(problem, plan.schedule, target), plan });
  if (given !== null) yield* given.map(nestOf);
  else {
    const schedules = [...backend.schedules(problem, target, machine)];
    const legal = (schedule: Schedule): boolean => backend.check(problem, schedule, target).length === 0;
    // Of those that hold a row of what the next product multiplies few are tried before their smaller forms.
    const wide = schedules.filter((schedule) => columnsOf(schedule) >= problem.n);
    const widest = schedules.toSorted((x, y) => columnsOf(y) - columnsOf(x));
    const first = (wide.length > 0 ? wide : widest).slice(0, FIRST);
    const before = products.length > 1 ? [...first, ...others(first).filter(legal)] : [];
    const single = before.flatMap(singleFragments).filter(legal);
    for (const schedule of [...before, ...single, ...schedules])
      yield nestOf({ backend, schedule, text: printSchedule(backend.schedule, schedule) });
  }
}

const columnsOf = ({ tile }: Schedule): number => (Array.isArray(tile) ? Number(tile[1]) : 0);

/** Of a schedule that reads fragments ahead, which loops in loops with roles cannot, one that does not. */
const singleFragments = (schedule: Schedule): readonly Schedule[] =>
  typeof schedule.frag === "number" && schedule.frag > 1 ? [{ ...schedule, frag: 1 }] : [];

/** Schedules that others are made of. */
const FIRST = 6;

/**
 * Schedules with half the rows, with half the chunk, and with both, and with a quarter of the rows, for what a program holds beside its product's operands; with twice the columns, which a
 * program's tiles may have to hold; and with half the rows a warp.
 */
const others = (schedules: readonly Schedule[]): readonly Schedule[] =>
  [
    [2, 1],
    [1, 1, 2],
    [2, 1, 2],
    [1, 2, 1],
    [2, 2, 1],
    [2, 2, 2],
    [2, 1, 1, 2],
    [2, 1, 2, 2],
    [4, 1, 1, 2],
  ].flatMap(([rows = 1, columns = 1, chunk = 1, each = 1]) =>
    schedules.flatMap((schedule) => {
      const { tile, warp } = schedule;
      if (!Array.isArray(tile) || (each > 1 && !Array.isArray(warp))) return [];
      const [m = 0, n = 0, k = 0] = tile.map(Number);
      const made = { ...schedule, tile: [m / rows, n * columns, k / chunk] };
      if (!Array.isArray(warp)) return [made];
      const [down = 0, across = 0] = warp.map(Number);
      return [{ ...made, warp: [down / each, across] }];
    }),
  );
