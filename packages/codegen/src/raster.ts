/** Tile coordinates of a block from its number, in the order of the raster: the arithmetic of `rasterPlace` as instructions. */
import { type Raster, type RasterMath, rasterPlace } from "@tilewright/ir";
import { imm } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Values } from "./values.ts";

/** A register, or null for 0. */
export type Coordinate = Reg<"u32"> | null;

/** A value of the arithmetic: a register, or what is known when the kernel is made. */
type Value = Reg<"u32"> | number;

/** Tile row and column of number `index` of the raster, this block's unless given; null where there is one only. */
export function rasterise(
  { values }: { readonly values: Values },
  raster: Raster,
  tilesM: number,
  tilesN: number,
  index: Reg<"u32"> = values.block(),
): [Coordinate, Coordinate] {
  if (tilesM === 1) return [null, tilesN === 1 ? null : index];
  if (tilesN === 1) return [index, null];
  const [row, col] = rasterPlace<Value>(
    registers(values, index, tilesM * tilesN),
    raster,
    [tilesM, tilesN],
    index,
  );
  if (typeof row === "number" || typeof col === "number")
    throw new TypeError("a grid of more than one row and column has no fixed coordinate");
  return [row, col];
}

/** Arithmetic on registers; what is known is folded. `index` is below `count`. Only registers are divided. */
function registers(values: Values, index: Reg<"u32">, count: number): RasterMath<Value> {
  const operand = (x: Value) => (typeof x === "number" ? imm(x) : x);
  const register = (x: Value): Reg<"u32"> => {
    if (typeof x === "number") throw new TypeError(`a raster divides the constant ${x}`);
    return x;
  };
  return {
    of: (value) => value,
    add(a, b) {
      if (a === 0) return b;
      if (typeof a !== "number") return b === 0 ? a : values.sum(a, operand(b));
      return typeof b === "number" ? a + b : values.sum(b, imm(a));
    },
    sub(a, b) {
      if (typeof a === "number" && typeof b === "number") return a - b;
      return b === 0 ? a : values.difference(operand(a), operand(b));
    },
    mul: (a, factor) => (typeof a === "number" ? a * factor : values.scale(a, factor)),
    div: (a, divisor) => values.divide(register(a), divisor),
    mod: (a, divisor) => values.modulo(register(a), divisor, a === index ? count : Number.POSITIVE_INFINITY),
    min: (a, b) => values.least(register(a), operand(b)),
    less: (a, b, yes, no) =>
      yes === no ? yes : values.choose(operand(a), operand(b), operand(yes), operand(no)),
  };
}
