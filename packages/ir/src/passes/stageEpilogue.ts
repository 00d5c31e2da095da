/** Send D through shared memory, from where bulk tensor stores take it while the block goes on, or the threads in long rows. */
import { largestDivisor } from "@tilewright/core";
import { add, lit, mod, mul, sub, v } from "../tile/expr.ts";
import { bufferOf, childrenOf, rewriteStmts, takeDirective, wholeView, withBody } from "../tile/rewrite.ts";
import type { Buffer, Epilogue, Expr, OwnershipMode, Stmt, TileProgram } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

/** Bulk copies read shared memory at multiples of 128 bytes (PTX ISA, cp.async.bulk.tensor). */
const BULK_ALIGN = 128;

/** Name of the shared tile. */
const TILE = "sD";

/**
 * Directive `epilogue way=tma|threads cols=C slots=S aliased=0|1`: the epilogue passes D through a shared tile of all rows of the accumulator and C of its columns, as often as
 * that takes, by turns through S slots: one is filled while others are stored. A tile's parts go round whole slots, so that every tile begins with the first:
 * S is lowered to a divisor of their number. Meaning does not change; the last tile's stores may still be read from shared memory when the next tile begins.
 * `threads`: each warp stores what it has put there itself, from one slot; with `late=1` the tile lies where the rings are, which have been read by then.
 */
export const stageEpilogue: Pass = {
  name: "stageEpilogue",
  summary: "D goes to memory through a shared tile, by bulk tensor stores or by the threads",
  from: "specialised",
  to: "specialised",
  run(program) {
    const taken = takeDirective(program, "epilogue");
    const way = taken ? taken.args.way : "direct";
    if (!taken || way === "direct") return taken?.program ?? program;
    return stage(taken.program, {
      cols: taken.args.cols,
      slots: taken.args.slots,
      threads: way === "threads",
      late: taken.args.aliased === 1,
    });
  },
};

interface Staging {
  readonly cols: number;
  readonly slots: number;
  /** The threads store. */
  readonly threads: boolean;
  readonly late: boolean;
}

function stage(program: TileProgram, { cols, slots, threads, late }: Staging): TileProgram {
  const turns = new Map<Epilogue, Expr>();
  const count = number(program.body, lit(0), turns);
  const [stmt] = turns.keys();
  if (stmt === undefined) return program;
  const [rows, width] = stmt.acc.extent;
  const part = cols > 0 && width % cols === 0 ? cols : width;
  const parts = width / part;
  const rounds = count === null ? 1 : largestDivisor(count * parts, slots);
  const tile: Buffer = {
    name: TILE,
    space: "shared",
    dtype: bufferOf(program, stmt.dst.buffer).dtype,
    shape: [rows, part],
    slots: rounds,
    layout: null,
    own: null,
    align: BULK_ALIGN,
    ...(late ? { aliased: late } : {}),
    ...halvesOf(program, stmt),
  };
  const body = rewriteStmts(program.body, (each) => {
    const turn = each.kind === "epilogue" ? turns.get(each) : undefined;
    if (each.kind !== "epilogue" || turn === undefined) return each;
    return {
      ...each,
      via: { ...wholeView(tile), slot: mod(mul(turn, parts), rounds) },
      ...(threads ? { stores: 1 } : {}),
    };
  });
  return { ...withBody(program, body), buffers: [...program.buffers, tile] };
}

/** Number the epilogues of a tile from `first` on; how many there are, or null where loops do not say. */
function number(stmts: readonly Stmt[], first: Expr, into: Map<Epilogue, Expr>): number | null {
  let count: number | null = 0;
  for (const stmt of stmts) {
    const from: Expr = add(first, count ?? 0);
    if (stmt.kind === "epilogue") {
      if (stmt.via === null) into.set(stmt, from);
      count = count === null ? null : count + 1;
    } else if (stmt.kind === "for") {
      const once = number(stmt.body, lit(0), new Map());
      const fixed = stmt.from.kind === "const" && stmt.to.kind === "const";
      number(stmt.body, add(from, mul(sub(v(stmt.var), stmt.from), once ?? 0)), into);
      const times = fixed ? stmt.to.value - stmt.from.value : null;
      count =
        count === null || once === null
          ? null
          : once === 0
            ? count
            : times === null
              ? null
              : count + times * once;
    } else {
      const inner = number(childrenOf(stmt), from, into);
      count = count === null || inner === null ? null : count + inner;
    }
  }
  return count;
}

/** A pair's blocks stage what they own: each half lies in its own block. */
export function halvesOf(program: TileProgram, stmt: Epilogue): Pick<Buffer, "halves"> {
  const own = bufferOf(program, stmt.acc.buffer).own;
  const across = (factors: readonly OwnershipMode[] | undefined): boolean =>
    factors?.some((f) => f.tier === "cluster" && f.extent > 1) === true;
  return across(own?.rows) ? { halves: 0 } : across(own?.cols) ? { halves: 1 } : {};
}
