/** Lanes by banks for each shared-memory access of a warp, in the layout that was chosen and in the one without padding and swizzle. */
import {
  type BankCell,
  bankCells,
  bankConflicts,
  byteOffset,
  contiguousAxis,
  elementBytes,
  type Layout,
  printLayout,
  type TileAccess,
  type TileProgram,
  tileAccesses,
  withPadding,
} from "@tilewright/ir";

/** One access in one layout. */
export interface BankPicture {
  readonly layout: string;
  readonly wavefronts: number;
  readonly ideal: number;
  /** Worst n-way conflict. */
  readonly ways: number;
  readonly cells: readonly BankCell[];
}

export interface BankMap {
  readonly buffer: string;
  readonly access: string;
  /** Bytes a lane moves. */
  readonly width: number;
  /** Rows or columns close together, no swizzle. */
  readonly before: BankPicture;
  readonly after: BankPicture;
}

/** What an access of shared memory comes to in a layout. */
export function bankPicture(layout: Layout, { width, lanes }: TileAccess, bytes: number): BankPicture {
  const addresses = lanes.map((lane) => (lane === null ? null : byteOffset(layout, lane, bytes)));
  const { wavefronts, ideal, ways } = bankConflicts({ width, addresses });
  return {
    layout: printLayout(layout),
    wavefronts,
    ideal,
    ways,
    cells: bankCells({ width, addresses }),
  };
}

/** A map for each access of each shared tile of a bound program; copies that no thread makes (bulk copies) have none. */
export const bankMaps = (program: TileProgram): readonly BankMap[] =>
  program.buffers.flatMap((buffer) => {
    const { name, space, shape, layout } = buffer;
    if (space !== "shared" || layout === null) return [];
    const bytes = elementBytes(buffer);
    const plain = withPadding(shape, contiguousAxis(program, name), 0);
    return tileAccesses(program, name, bytes).map((access) => ({
      buffer: name,
      access: access.name,
      width: access.width,
      before: bankPicture(plain, access, bytes),
      after: bankPicture(layout, access, bytes),
    }));
  });
