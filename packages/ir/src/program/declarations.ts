/** Declarations of programs over named axes: axes, and parameters and tiles along them. */
import { type DType, dtypeNames, dtypes, LEAST_PAGE, roundUp } from "@tilewright/core";
import { type Cursor, ParseFailure, parseCodes } from "../tile/text/cursor.ts";
import { nearestHint } from "../tile/text/nearest.ts";
import { type AxisDeclaration, memoryExtent, type Named, type Parameter, packedStrides } from "./types.ts";

/** Largest extent of an axis: sizes of problems end there (TW1002). */
const MOST = 2 ** 31 - 1;
const LAYOUTS = ["row", "col"] as const;

type Axes = ReadonlyMap<string, AxisDeclaration>;
/** A parameter, where `global`, or a tile. */
export type Declared = (Named | Parameter) & { readonly global: boolean };

/** `axis n = 96 whole`, `axis h = 8 batch`, `axis q = 512 runs %offsets along b of 2048`, `axis s = 512 pages %table of 16 rows %lengths along b of 2048`: the parameters that these declare, too. */
export function readAxis(c: Cursor, declared: Map<string, AxisDeclaration>): readonly Declared[] {
  const token = c.peek();
  const name = c.word("the axis's name");
  if (declared.has(name)) c.fail(token, parseCodes.repeated, `two axes are called ${name}`, "rename one");
  c.expect("=", "before the extent");
  const extent = c.integer("the extent of an axis", 1, MOST);
  const whole = c.eat("whole");
  const batch = !whole && c.eat("batch");
  const pages = batch || !c.eat("pages") ? null : readPages(c);
  if (batch || (pages === null && !c.eat("runs"))) {
    declared.set(name, { name, extent, whole, batch });
    return [];
  }
  const offsets = c.name(pages === null ? "the offsets" : "the numbers of rows");
  c.expect("along", "before the axis of the batch");
  const at = c.peek();
  const along = axisName(c, declared);
  if ([...declared.values()].find((axis) => axis.batch)?.name !== along)
    c.bad(at, `${along} is not the first axis of the batch`, "runs are along that");
  c.expect("of", "before the elements of all runs");
  const all = c.peek();
  const total = c.integer("the elements of all runs", 1, MOST);
  if (pages !== null && total % pages.size !== 0)
    c.bad(all, `${total} elements are no whole pages of ${pages.size}`, `${roundUp(total, pages.size)}`);
  declared.set(name, {
    name,
    extent,
    whole,
    batch,
    runs: { offsets, along, total, ...(pages && { pages }) },
  });
  const parameter = (name: string, stride: number): Declared => {
    const memory = [{ axis: along, stride }];
    return { name, dtype: "s32", axes: [], global: true, layout: "row", memory };
  };
  const table = pages && parameter(pages.table, Math.ceil(extent / pages.size));
  return [parameter(offsets, 1), ...(table === null ? [] : [table])];
}

/** `%table of 16 rows`, before the parameter with the numbers of rows. */
function readPages(c: Cursor): { readonly size: number; readonly table: string } {
  const table = c.name("the table of pages");
  c.expect("of", "before the rows of a page");
  const at = c.peek();
  const size = c.integer("the rows of a page", LEAST_PAGE, MOST);
  if (!Number.isInteger(Math.log2(size)))
    c.bad(at, `pages of ${size} rows`, `a power of two: ${2 ** Math.floor(Math.log2(size))}`);
  c.expect("rows", "before the numbers of rows");
  return { size, table };
}

/** `%A f16[h, m, k] layout col`, `%A f16[m, h, k] strides 640, 80, 1` */
export function readDeclaration(
  c: Cursor,
  declared: Axes,
  taken: ReadonlyMap<string, Named>,
  global: boolean,
): Declared {
  const token = c.peek();
  const name = c.name(global ? "the parameter" : "the tile");
  if (taken.has(name)) c.fail(token, parseCodes.repeated, `two are called %${name}`, "rename one");
  const typed = c.peek();
  const dtype = c.oneOf(dtypeNames as readonly DType[], "dtype");
  if (dtypes[dtype].kind === "scaled")
    c.bad(typed, `${dtype} has scale factors, which programs over axes lack`, "use f16");
  c.expect("[", "before the axes");
  const axes = [axisName(c, declared)];
  while (c.eat(",")) axes.push(axisName(c, declared));
  c.expect("]", "after the axes");
  const tiled = axes.filter((axis) => declared.get(axis)?.batch !== true);
  if (!global && tiled.length < axes.length)
    c.bad(
      token,
      `%${name} has an axis of the batch, of which a work tile has one position`,
      "leave it out: a tile has rows and columns",
    );
  if (tiled.length > 2 || (tiled.length === 0 && !global))
    c.bad(
      token,
      `%${name} has ${tiled.length} axes${global ? " beside those of the batch" : ""}`,
      "write 2, or 1",
    );
  if (new Set(axes).size < axes.length)
    c.fail(
      token,
      parseCodes.repeated,
      `%${name} has axis ${axes[0]} twice`,
      "declare another axis of the same extent",
    );
  if (!global) return { name, dtype, axes: tiled, global };
  const made = { name, dtype, axes: tiled, global, ...memoryOf(c, declared, name, axes, tiled) };
  return c.eat("of") ? { ...made, of: bufferOf(c, made, taken) } : made;
}

/** `of %K`: a parameter before, in whose rows this one's lie. */
function bufferOf(c: Cursor, { name, dtype, memory }: Parameter, taken: ReadonlyMap<string, Named>): string {
  const token = c.peek();
  const other = c.name("the parameter in whose buffer it lies");
  const found = taken.get(other);
  const strides = (of: Parameter): string => of.memory.map(({ stride }) => stride).join(", ");
  if (
    found === undefined ||
    !("memory" in found) ||
    found.dtype !== dtype ||
    strides(found) !== memory.map(({ stride }) => stride).join(", ")
  )
    c.bad(
      token,
      `%${name} does not lie in the rows of %${other}`,
      "name a parameter that is declared before, of the same dtype and strides",
    );
  return other;
}

/** How a parameter lies: packed with the last axis contiguous, or the one before, or as strides say. */
function memoryOf(
  c: Cursor,
  declared: Axes,
  name: string,
  axes: readonly string[],
  tiled: readonly string[],
): Pick<Parameter, "layout" | "memory"> {
  const token = c.peek();
  const last = axes.length - 1;
  const col = axes.length > 1 && c.eat("layout") && c.oneOf(LAYOUTS, "layout") === "col";
  const order = axes.map((_, i) => (col && i >= last - 1 ? 2 * last - 1 - i : i));
  const packed = packedStrides(
    order.map((i) => {
      const axis = declared.get(axes[i] ?? "");
      return axis === undefined ? 1 : memoryExtent(axis);
    }),
  );
  const strides = order.map((i) => packed[i] ?? 1);
  if (!col && c.eat("strides"))
    for (const [i, axis] of axes.entries()) {
      if (i > 0) c.expect(",", "between strides");
      strides[i] = c.integer(`the stride along ${axis}`, 0, MOST);
    }
  const memory = axes.map((axis, i) => ({ axis, stride: strides[i] ?? 1 }));
  const [rows, columns] = tiled.map((axis) => memory.find((each) => each.axis === axis)?.stride ?? 0);
  const layout = columns === undefined || columns === 1 ? "row" : "col";
  if (tiled.length === 0) return { layout: "row", memory };
  if (Math.min(rows ?? 0, columns ?? 1) !== 1 || (columns === undefined && rows !== 1))
    c.bad(
      token,
      `%${name} is contiguous along none of ${tiled.join(" and ")}`,
      `let elements along ${tiled.at(-1)} be neighbours`,
    );
  return { layout, memory };
}

/** An axis that is declared. */
export function axisName(c: Cursor, declared: Axes): string {
  const token = c.peek();
  const name = c.word("an axis");
  if (declared.has(name)) return name;
  if (c.suspects.has(name)) throw new ParseFailure(null);
  return c.fail(
    token,
    parseCodes.unknownName,
    `no axis is called ${name}`,
    nearestHint(name, [...declared.keys()]) ??
      (declared.size > 0 ? `axes: ${[...declared.keys()].join(", ")}` : "declare it: axis NAME = EXTENT"),
  );
}

/** An axis that work tiles and loops have parts of. */
export function tileAxis(c: Cursor, declared: Axes): string {
  const token = c.peek();
  const name = axisName(c, declared);
  if (declared.get(name)?.batch !== true) return name;
  return c.bad(
    token,
    `${name} is an axis of the batch`,
    "every work tile has one position along it; leave it out",
  );
}
