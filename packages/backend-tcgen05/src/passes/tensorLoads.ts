/** Loads of tensor tiles into registers: how many columns they take, and who then holds what. */

import { WARP } from "@tilewright/core";
import type { Buffer, OwnershipMode, Stmt, TensorForm, TensorPlace, TileProgram, View } from "@tilewright/ir";
import { registerBuffer, TENSOR_LANES } from "@tilewright/ir";

const WARPS = TENSOR_LANES / WARP;

/** Columns of the narrowest load of half the lanes: 16x256b (PTX ISA, tcgen05.ld). */
const HALF_COLUMNS = 8;

const moveBy =
  (transport: "tcgen05.ld" | "tcgen05.st") =>
  (dst: View, src: View): Stmt => ({
    kind: "copy",
    dst,
    src,
    transport,
    guard: [false, false],
    when: null,
    dist: null,
    vector: [1, 1],
    multicast: null,
  });

export const loadOf = moveBy("tcgen05.ld");
export const storeOf = moveBy("tcgen05.st");

/** The name, or one like it that no buffer has. */
export const freshName = ({ buffers }: Pick<TileProgram, "buffers">, name: string): string =>
  buffers.some((b) => b.name === name) ? freshName({ buffers }, `${name}_`) : name;

/** Columns that one step takes of an accumulator. */
export function stepOf({ form, columns }: TensorPlace, most: number): number {
  if (form === "split" || columns <= most) return columns;
  const step = divisorUpTo(columns, most);
  return form === "half" ? Math.max(HALF_COLUMNS, step) : step;
}

/** Loads take 1, 2, 4, … 128 columns (PTX ISA, tcgen05.ld). */
function divisorUpTo(n: number, most: number): number {
  let d = 1;
  while (2 * d <= most && n % (2 * d) === 0) d *= 2;
  return d;
}

const factor = (tier: OwnershipMode["tier"], extent: number, stride: number): OwnershipMode => ({
  tier,
  extent,
  stride,
});

/**
 * Who holds what of a step: lanes 32 w to 32 w + 31 belong to warp w, and the load's shape says which lane takes what (PTX ISA, tcgen05.ld): 32x32b a row
 * a lane, 16x256b the fragment of D in mma.sync.
 */
export function loadedTile(
  acc: Buffer,
  { form, lanes, stacks, rows }: TensorPlace,
  columns: number,
  name: string,
): Buffer {
  // The halves of a pair's tile lie one behind the other.
  const halves = acc.halves === lanes ? [factor("cluster", 2, 1)] : [];
  const across: Readonly<
    Record<TensorForm, readonly [rows: readonly OwnershipMode[], columns: readonly OwnershipMode[]]>
  > = {
    rows: [
      [
        ...(stacks > 1 ? [factor("register", stacks, columns)] : []),
        factor("warp", WARPS, 1),
        factor("thread", WARP, 1),
      ],
      [factor("register", columns, 1)],
    ],
    half: [
      [factor("warp", WARPS, 1), factor("register", 2, 2), factor("thread", 8, 4)],
      [
        ...(columns > HALF_COLUMNS ? [factor("register", columns / HALF_COLUMNS, 4)] : []),
        factor("thread", 4, 1),
        factor("register", 2, 1),
      ],
    ],
    split: [
      [factor("warp", rows / WARP, 1), factor("thread", WARP, 1)],
      [factor("warp", 2, rows / WARP), factor("register", columns / 2, 1)],
    ],
  };
  const [inLanes, inColumns] = across[form];
  const own = [[...halves, ...inLanes], inColumns] as const;
  const shape = [acc.shape[lanes], columns] as const;
  return {
    ...registerBuffer(name, acc.dtype, lanes === 0 ? shape : [shape[1], shape[0]]),
    own: lanes === 0 ? { rows: own[0], cols: own[1] } : { rows: own[1], cols: own[0] },
  };
}
