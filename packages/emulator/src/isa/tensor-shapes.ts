/**
 * Which word of tensor memory each lane's registers are in tcgen05.ld and st: PTX ISA 9.0, chapter 9.7.16.2.3, whose figures
 * are tables here. l is the lane, r the register; the shapes of 16 rows hold the 8x8 pieces that mma.sync fragments are made of.
 */

/** A place relative to the instruction's address. */
interface TensorPlace {
  readonly row: number;
  readonly column: number;
}

interface ShapeRow {
  /** Lanes of tensor memory that one access covers. */
  readonly rows: 16 | 32;
  /** Registers of each lane, and columns, per repetition (`.x1`). */
  readonly registers: 1 | 2 | 4;
  readonly columns: number;
  /** Half-warps make accesses of their own, the second at an offset that is an operand. */
  readonly halves: boolean;
  readonly place: (l: number, r: number) => TensorPlace;
}

export const tensorShapes = {
  "32x32b": {
    rows: 32,
    registers: 1,
    columns: 1,
    halves: false,
    place: (l, r) => ({ row: l, column: r }),
  },
  /** Both halves of the warp read the same 16 rows, at addresses of their own. */
  "16x32bx2": {
    rows: 16,
    registers: 1,
    columns: 1,
    halves: true,
    place: (l, r) => ({ row: l & 15, column: r }),
  },
  "16x64b": {
    rows: 16,
    registers: 1,
    columns: 2,
    halves: false,
    place: (l, r) => ({ row: (l >> 2) + 8 * (l & 1), column: 2 * r + ((l >> 1) & 1) }),
  },
  "16x128b": {
    rows: 16,
    registers: 2,
    columns: 4,
    halves: false,
    place: (l, r) => ({ row: (l >> 2) + 8 * (r & 1), column: 4 * (r >> 1) + (l & 3) }),
  },
  /** The fragment of D in mma.sync and wgmma. */
  "16x256b": {
    rows: 16,
    registers: 4,
    columns: 8,
    halves: false,
    place: (l, r) => ({ row: (l >> 2) + 8 * ((r >> 1) & 1), column: 8 * (r >> 2) + 2 * (l & 3) + (r & 1) }),
  },
} as const satisfies Readonly<Record<string, ShapeRow>>;

export type TensorShapeName = keyof typeof tensorShapes;

export const tensorShape = (name: TensorShapeName): ShapeRow => tensorShapes[name];
