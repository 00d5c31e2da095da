/** Sums in registers of warpgroups: matrix instructions read and write them while their threads go on (PTX ISA, wgmma.mma_async). */
import type { Columns, Stmt, TileProgram } from "../../types.ts";
import { Broken } from "./machine.ts";

/** What the warps of a role, or of a block without roles, have of products that accumulate in registers. */
export interface RegisterSums {
  /** How faults call them. */
  readonly label: string;
  /** Products under way, and what their end changes at a step of the role. */
  running: {
    readonly group: number;
    /** Register tiles that they write or read, and the columns. */
    readonly tiles: readonly string[];
    readonly columns: Columns | null;
    readonly end: (step: number) => void;
  }[];
  /** Groups so far. */
  products: number;
  /** A fence stands behind the last group, and behind whatever threads have done with registers of sums. */
  ordered: boolean;
  /** Columns of tiles of sums that have been promoted since products were made in them. */
  readonly promoted: Map<string, number>;
  /** What tiles hold. */
  readonly tiles: Map<string, "zeros" | "products" | "what was read">;
}

export const newSums = (label: string): RegisterSums => ({
  label,
  running: [],
  products: 0,
  ordered: false,
  promoted: new Map(),
  tiles: new Map(),
});

/** Whether products of some columns (null: of all) are those of others. */
export const commonColumns = (a: Columns | null, b: Columns | null): boolean =>
  a === null || b === null || (a.from < b.to && b.from < a.to);

/** Sums in registers are read, some columns of them. */
export function readSums(sums: RegisterSums, tile: string, columns: Columns | null): void {
  sums.ordered = false;
  if (columns === null || columns.to === columns.of) sums.tiles.set(tile, "what was read");
  const running = sums.running.filter(
    (each) => each.tiles.includes(tile) && commonColumns(each.columns, columns),
  );
  if (running.length === 0) return;
  const open = running.some(({ group }) => group > sums.products);
  throw new Broken(
    "order",
    sums.label,
    `reads or writes sums while products into them are under way${open ? ", in no group that a wait could wait for" : ""}`,
    open ? "wgmma.commit behind the products, then wgmma.wait" : "wait for the products first (wgmma.wait)",
  );
}

/** Columns of a tile of sums that a promotion takes. */
export function summedColumns(
  { buffers }: TileProgram,
  { sum: { buffer, origin, extent } }: Extract<Stmt, { kind: "accumulate" }>,
): Columns {
  const from = origin[1].kind === "const" ? origin[1].value : 0;
  return {
    from,
    to: from + extent[1],
    of: buffers.find(({ name }) => name === buffer)?.shape[1] ?? extent[1],
  };
}

/** Sums in `part` are added to those in a tile, its columns in their order and each once. */
export function accumulateSums(sums: RegisterSums, tile: string, part: string, columns: Columns): void {
  if (sums.tiles.get(part) !== "products" || (sums.promoted.get(part) ?? 0) !== columns.from)
    throw new Broken(
      "order",
      sums.label,
      `promotes %${part}, in which no products are that were not promoted`,
      "promote once behind the products of each run, columns in their order",
    );
  readSums(sums, part, columns);
  sums.promoted.set(part, columns.to);
  const held = sums.tiles.get(tile);
  if (held !== "zeros" && held !== "products") addsToStale(sums, tile, held !== undefined);
  sums.tiles.set(tile, "products");
}

/** Sums begin with zeros. */
export function zeroSums(sums: RegisterSums, tile: string, once: boolean): void {
  if (once && sums.tiles.has(tile)) return;
  readSums(sums, tile, null);
  sums.tiles.set(tile, "zeros");
}

/** Products take registers that threads have written, and go on without them. `keeps`: whether they are added to the sums; null: not known. */
export function registersUse(
  sums: RegisterSums,
  tile: string,
  keeps: boolean | null,
  columns: Columns | null,
): void {
  const broken = (what: string, hint: string): never => {
    throw new Broken("order", sums.label, what, hint);
  };
  if (!sums.ordered)
    broken(
      "multiplies without a wgmma.fence behind its last group of products and its last access to the sums",
      "wgmma.fence before the first product of each group",
    );
  const held = sums.tiles.get(tile);
  if (keeps === true && held !== "zeros" && held !== "products") addsToStale(sums, tile, held !== undefined);
  if (keeps === false && held === "products" && columns === null) overwritesUnread(sums, tile);
  sums.tiles.set(tile, "products");
  sums.promoted.delete(tile);
}

export function addsToStale(sums: RegisterSums, tile: string, earlier: boolean): never {
  throw new Broken(
    "order",
    sums.label,
    earlier
      ? `adds products to what %${tile} held of the work tile before`
      : `adds products to %${tile}, which nobody has written`,
    "write '=', or 'keep' with the condition that it is not the first chunk",
  );
}

export function overwritesUnread(sums: RegisterSums, tile: string): never {
  throw new Broken("order", sums.label, `overwrites products in %${tile} that nobody has read`, "write '+='");
}

/** The products since the last of these are a group. */
export function commitProducts(sums: RegisterSums): void {
  sums.products++;
  sums.ordered = false;
}

/** All groups but the last `pending` are done. */
export function waitForProducts(sums: RegisterSums, pending: number, step: number): void {
  const done = ({ group }: RegisterSums["running"][number]): boolean => group <= sums.products - pending;
  for (const each of sums.running) if (done(each)) each.end(step);
  sums.running = sums.running.filter((each) => !done(each));
}
