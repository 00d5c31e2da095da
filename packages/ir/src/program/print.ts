/** Programs over named axes as text, read back by parse.ts to an equal object. */
import { printExpression } from "@tilewright/core";
import { printNumber } from "../tile/text/clause.ts";
import { versionLine } from "../tile/text/version.ts";
import type { AxisProgram, AxisStmt, NamedExpr } from "./types.ts";

/** The text, with a final newline. */
export function printAxisProgram({ name, axes, params, tiles, grid, body }: AxisProgram): string {
  const lines = [
    versionLine,
    `tile.kernel @${name} stage nest {`,
    ...axes.map((axis) => `  axis ${axis.name} = ${axis.extent}${axis.whole ? " whole" : ""}`),
    ...params.map(
      (p) => `  param %${p.name} ${p.dtype}[${p.axes.join(", ")}]${p.layout === "col" ? " layout col" : ""}`,
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

const textOf = (value: NamedExpr): string =>
  printExpression(value, (leaf) => (leaf.kind === "position" ? leaf.axis : `%${leaf.name}`));

function linesOf(stmt: AxisStmt, indent: string): readonly string[] {
  switch (stmt.kind) {
    case "fill":
      return [`${indent}fill %${stmt.tile} = ${printNumber(stmt.value)}`];
    case "for":
      return [
        `${indent}for ${stmt.axis} {`,
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
    case "store":
      return [`${indent}store %${stmt.param} = ${textOf(stmt.value)}`];
  }
}
