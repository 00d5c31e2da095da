/** Tile coordinates of a block from its number, in the order of the raster: the arithmetic of `rasterPlace` as instructions. */
import { must, type Raster, type RasterMath, rasterPlace } from "@tilewright/ir";
import { imm } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import { COUNTED_RASTER } from "./refusals.ts";
import type { Count } from "./sizes.ts";
import type { Values } from "./values.ts";

/** A register, or null for 0. */
export type Coordinate = Reg<"u32"> | null;

/** A value of the arithmetic: a register, or what is known when the kernel is made. */
type Value = Reg<"u32"> | number;

/** Tile row and column of number `index` of the raster, this block's unless given; null where there is one only. */
export function rasterise(
  { values }: { readonly values: Values },
  raster: Raster,
  tilesM: Count,
  tilesN: Count,
  index: Reg<"u32"> = values.block(),
): [Coordinate, Coordinate] {
  if (tilesM === 1) return [null, tilesN === 1 ? null : index];
  if (tilesN === 1) return [index, null];
  if (typeof tilesM !== "number" || typeof tilesN !== "number")
    return rasteriseCounted(values, raster, tilesM, tilesN, index);
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

/** The same where the launch says how many tiles there are. */
function rasteriseCounted(
  values: Values,
  raster: Raster,
  tilesM: Count,
  tilesN: Count,
  index: Reg<"u32">,
): [Coordinate, Coordinate] {
  switch (raster.kind) {
    case "row":
      return [values.divide(index, tilesN), values.modulo(index, tilesN, Number.POSITIVE_INFINITY)];
    case "col":
      return [values.modulo(index, tilesM, Number.POSITIVE_INFINITY), values.divide(index, tilesM)];
    case "grouped":
    case "snake":
      return groups(values, raster, tilesM, tilesN, index);
    case "hilbert":
    case "blocked":
      return must<never>(null, COUNTED_RASTER);
  }
}

/** Groups of tile rows, the last one shorter. */
function groups(
  values: Values,
  raster: { readonly kind: "grouped" | "snake"; readonly group: number },
  tilesM: Count,
  tilesN: Count,
  index: Reg<"u32">,
): [Coordinate, Coordinate] {
  const { group } = raster;
  const inGroup = typeof tilesN === "number" ? group * tilesN : values.scale(tilesN, group);
  const number = values.divide(index, inGroup);
  const first = values.scale(number, group);
  const before =
    typeof inGroup === "number" ? values.scale(number, inGroup) : values.product(number, inGroup);
  const local = values.difference(index, before);
  const size = values.least(
    values.difference(typeof tilesM === "number" ? imm(tilesM) : tilesM, first),
    imm(group),
  );
  const col = values.divide(local, size);
  const row = values.sum(first, values.modulo(local, size, Number.POSITIVE_INFINITY));
  if (raster.kind === "grouped") return [row, col];
  const last = typeof tilesN === "number" ? imm(tilesN - 1) : values.difference(tilesN, imm(1));
  const back = values.difference(last, col);
  return [row, values.choose(values.modulo(number, 2, Number.POSITIVE_INFINITY), imm(1), col, back)];
}
