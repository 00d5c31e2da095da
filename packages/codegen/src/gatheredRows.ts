/** Bulk copies of rows that an index names, four at a time: lanes of a warp issue those of a tile side by side, each with the rows that it has looked up before the tile's loop. */
import { WARP } from "@tilewright/core";
import { type Expr, GATHERED_ROWS, type TensorRange } from "@tilewright/ir";
import { imm } from "@tilewright/ptx";
import type { Pred, Reg } from "./code.ts";
import type { Context } from "./context.ts";
import { type RowIndex, rowCoordinate } from "./rowIndex.ts";

/** A copy of each lane. */
export interface GatheredBox {
  /** What the first lane fills; the next one's lies `GATHERED_ROWS` rows further on. */
  readonly box: TensorRange;
  /** Lanes that have such rows; null: all. */
  readonly lanes: Pred | null;
  /** Rows in memory of the lane's. */
  readonly rows: readonly Reg<"u32">[];
}

/** The copies of a tile's boxes by lanes, and the bytes between those of two lanes. `origin`: row of the matrix at which the tile begins, `first` further on. */
export function gatheredBoxes(
  ctx: Context,
  index: RowIndex,
  boxes: readonly TensorRange[],
  origin: Expr,
  first: Reg<"u32"> | null,
): { readonly copies: readonly GatheredBox[]; readonly bytes: number } {
  const { values } = ctx;
  const [start] = boxes;
  const groupOf = ({ row }: TensorRange): number => (row - (start?.row ?? 0)) / GATHERED_ROWS;
  const groups = 1 + Math.max(0, ...boxes.map(groupOf));
  const next = boxes.find((box) => groupOf(box) === 1);
  const own = values.scale(values.lane(), GATHERED_ROWS);
  const reg = first === null ? own : values.sum(own, first);
  const copies = boxes
    .filter((box) => groupOf(box) % WARP === 0)
    .map((box): GatheredBox => {
      const left = groups - groupOf(box);
      const rows = Array.from({ length: GATHERED_ROWS }, (_, i) =>
        rowCoordinate(ctx, index, origin, { key: reg.name, reg, bits: null }, box.row + i),
      );
      return { box, rows, lanes: left >= WARP ? null : firstLanes(ctx, left) };
    });
  return { copies, bytes: next && start ? next.offset - start.offset : 0 };
}

const firstLanes = (ctx: Context, count: number): Pred =>
  ctx.invariant(`lanes below ${count}`, (code) => {
    const p = ctx.entry.reg("pred", "p");
    code.emit(null, "setp.lt.u32", p, ctx.values.lane(), imm(count));
    return p;
  });
