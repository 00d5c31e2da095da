/** Programs over named axes as text, read back by parse.ts to an equal object. */
import { printExpression } from "@tilewright/core";
import { printNumber } from "../tile/text/clause.ts";
import { versionLine } from "../tile/text/version.ts";
import {
  type AxisDeclaration,
  type AxisProgram,
  type AxisRuns,
  type AxisStmt,
  memoryExtent,
  type NamedExpr,
  type Parameter,
  packedStrides,
  toldBy,
} from "./types.ts";

/** The text, with a final newline. */
export function printAxisProgram({ name, axes, params, tiles, grid, body }: AxisProgram): string {
  const lines = [
    versionLine,
    `tile.kernel @${name} stage nest {`,
    ...axes.map(
      ({ name, extent, whole, batch, runs }) =>
        `  axis ${name} = ${extent}${whole ? " whole" : batch ? " batch" : ""}${runs ? runsText(runs) : ""}`,
    ),
    ...params.flatMap(({ name, dtype, memory, of }) =>
      // Declared with their axis.
      toldBy(axes, name) !== undefined
        ? []
        : [
            `  param %${name} ${dtype}[${memory.map(({ axis }) => axis).join(", ")}]${layoutOf(axes, memory)}${of === undefined ? "" : ` of %${of}`}`,
          ],
    ),
    ...tiles.map((t) => `  tile %${t.name} ${t.dtype}[${t.axes.join(", ")}]`),
    "",
    `  tiles ${grid.join(", ")} {`,
    ...body.flatMap((stmt) => linesOf(stmt, "    ")),
    "  }",
    "}",
  ];
  return `${lines.join("\n")}\n`;
}

const runsText = ({ offsets, along, total, pages }: AxisRuns): string =>
  `${pages === undefined ? " runs" : ` pages %${pages.table} of ${pages.size} rows`} %${offsets} along ${along} of ${total}`;

/** Nothing where the axes lie packed in their order. */
function layoutOf(axes: readonly AxisDeclaration[], memory: Parameter["memory"]): string {
  const extents = memory.map(({ axis }) => {
    const found = axes.find(({ name }) => name === axis);
    return found === undefined ? 1 : memoryExtent(found);
  });
  const strides = memory.map(({ stride }) => stride);
  const are = (packed: readonly number[]): boolean => packed.every((stride, i) => strides[i] === stride);
  if (are(packedStrides(extents))) return "";
  const [next = 1, last = 1] = extents.slice(-2);
  const outer = packedStrides([...extents.slice(0, -2), last, next]);
  if (extents.length > 1 && are([...outer.slice(0, -2), 1, outer.at(-2) ?? 1])) return " layout col";
  return ` strides ${strides.join(", ")}`;
}

/** A word may have a hyphen in it: behind the name of an axis a minus stands apart. */
const textOf = (value: NamedExpr): string =>
  printExpression(value, (leaf) =>
    leaf.kind !== "position" ? `%${leaf.name}` : leaf.end ? `end(${leaf.axis})` : leaf.axis,
  ).replaceAll(/(?<![%\w])([A-Za-z_]\w*)-/g, "$1 - ");

function linesOf(stmt: AxisStmt, indent: string): readonly string[] {
  switch (stmt.kind) {
    case "fill":
      return [`${indent}fill %${stmt.tile} = ${printNumber(stmt.value)}`];
    case "for":
      return [
        `${indent}for ${stmt.axis}${stmt.all ? " all" : ""} {`,
        ...stmt.body.flatMap((inner) => linesOf(inner, `${indent}  `)),
        `${indent}}`,
      ];
    case "mma":
      return [`${indent}mma %${stmt.acc} += %${stmt.a} * %${stmt.b}`];
    case "map":
      return [`${indent}map %${stmt.tile} = ${textOf(stmt.value)}`];
    case "reduce":
      return [
        `${indent}reduce %${stmt.tile} ${stmt.adds ? "+=" : "="} ${stmt.op}(${textOf(stmt.value)}) along ${stmt.along}`,
      ];
    case "merge":
      return [
        `${indent}merge ${stmt.of.map((name, i) => `%${name} %${stmt.from[i]}`).join(", ")} {`,
        ...stmt.body.flatMap((inner) => linesOf(inner, `${indent}  `)),
        `${indent}}`,
      ];
    case "store":
      return [`${indent}store %${stmt.param} = ${textOf(stmt.value)}`];
  }
}
