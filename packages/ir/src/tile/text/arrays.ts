/** What the kernels of a launch take of the problem: arrays, sizes, problems of a batch, rows of experts. */
import { type BatchAxis, dtypeNames, type GroupBlocks, type SizeName } from "@tilewright/core";
import type {
  ArrayDeclaration,
  Distance,
  RegionDeclaration,
  RegionName,
  RunsDeclaration,
  SizeDeclaration,
} from "../types.ts";
import { integerClause, optional, optionalFlag, parseClauses, printClauses } from "./clause.ts";
import { type Cursor, parseCodes } from "./cursor.ts";
import { clauseOf, type Field, integer, list, name, record } from "./fields.ts";
import { launchClause } from "./launchExpressions.ts";

const operands = ["a", "b", "c", "d", "sfa", "sfb"] as const;
const sizePattern = /^(?:[mnk]|ld(?:[abcd]|epilogue\d+)|stride[ABCD])$/;

/** One of these names, or an operand of a step. */
export const operandName = <T extends string>(c: Cursor, names: readonly T[]): T | `epilogue${number}` => {
  const token = c.peek();
  const name = c.name("an operand");
  const step = /^epilogue(\d+)$/.exec(name)?.[1];
  if (step !== undefined) return `epilogue${Number(step)}`;
  return (
    names.find((one) => one === name) ??
    c.fail(
      token,
      parseCodes.unknownName,
      `%${name} is no operand`,
      `one of: ${names.map((n) => `%${n}`).join(", ")}, %epilogue0`,
    )
  );
};

/** `2 * lda * m` */
const printDistance = ({ times, sizes }: Distance): string =>
  [...(times === 1 && sizes.length > 0 ? [] : [times]), ...sizes].join(" * ");

function parseDistance(c: Cursor): Distance {
  const sizes: SizeName[] = [];
  let times = 1;
  do {
    const token = c.peek();
    if (token.kind === "number") {
      times *= c.integer("the number of elements", 0);
      continue;
    }
    const name = c.word("a number of elements or a size of the launch");
    if (!sizePattern.test(name))
      c.fail(
        token,
        parseCodes.unknownName,
        `'${name}' is no size`,
        "one of: m, n, k, lda, …, strideA, …, ldepilogue0, …",
      );
    sizes.push(name as SizeName);
  } while (c.eat("*"));
  return { times, sizes };
}

const distance: Field<Distance> = { what: "a distance", print: printDistance, parse: parseDistance };

const batchAxis = record<BatchAxis>("an axis of the batch", "{extent} / {below} : {stride}", {
  extent: integer("the extent of the axis", 1),
  below: integer("the problems below the axis", 1),
  stride: integer("the elements from neighbour to neighbour", 0),
});

const groupBlocks = record<GroupBlocks>("the blocks", "({rows} + {slack})", {
  rows: integer("the rows of a block", 1),
  slack: integer("the rows that each group is moved on by", 0),
});

const arrayClauses = {
  strides: clauseOf<ArrayDeclaration["strides"]>(
    "strides",
    "(ROWS, COLUMNS)",
    record("the strides", "({0}, {1})", [distance, distance]),
    undefined,
  ),
  region: optionalFlag("region"),
  batch: optional(clauseOf<Distance>("batch", "DISTANCE", distance, undefined)),
  axes: optional(
    clauseOf<readonly BatchAxis[]>("axes", "(EXTENT / BELOW : ELEMENTS, …)", list(batchAxis), undefined),
  ),
  rows: optional(integerClause("rows", 1, undefined)),
  groups: optional(integerClause("groups", 1, undefined)),
  blocks: optional(clauseOf<GroupBlocks>("blocks", "(ROWS + SLACK)", groupBlocks, undefined)),
};

export const arraySyntax =
  "array %NAME DTYPE strides(ROWS, COLUMNS) region batch DISTANCE axes(EXTENT / BELOW : ELEMENTS, …) rows N groups N blocks(ROWS + SLACK)";

/** `array %a bf16 strides(lda, 1) batch strideA` */
export const printArray = (array: ArrayDeclaration): string =>
  `array %${array.name} ${array.dtype}${printClauses(arrayClauses, array, new Map())}`;

/** Called after the keyword. */
export function parseArray(c: Cursor): ArrayDeclaration {
  const name = operandName(c, operands);
  return { name, dtype: c.oneOf(dtypeNames, "dtype"), ...parseClauses(c, arrayClauses, "the array") };
}

const regionNames = ["counters", "partials", "maps", "a", "b"] as const;

const regionClauses = {
  at: launchClause("at"),
  stride: optional(integerClause("stride", 0, undefined)),
  each: optional(integerClause("each", 1, undefined)),
  threads: optional(integerClause("threads", 1, undefined)),
  count: optional(launchClause("count")),
  bytes: launchClause("bytes"),
};

export const regionSyntax = "region %NAME at BYTES stride BYTES each N threads N count N bytes BYTES";

/** `region %partials at 128 stride 65536 each 4 threads 128 count 16 bytes 4194304` */
export const printRegion = (region: RegionDeclaration): string =>
  `region %${region.name}${printClauses(regionClauses, region, new Map())}`;

/** Called after the keyword. */
export function parseRegion(c: Cursor): RegionDeclaration {
  const name: RegionName = operandName(c, regionNames);
  return { name, ...parseClauses(c, regionClauses, "the region") };
}

/** `size %m 1 .. 4096`, `size %m 128 .. 4096 multiple 128` */
export const printSize = ({ name, least, most, multiple }: SizeDeclaration): string =>
  `size %${name} ${least} .. ${most}${multiple === undefined ? "" : ` multiple ${multiple}`}`;

/** Called after the keyword. */
export function parseSize(c: Cursor): SizeDeclaration {
  const token = c.peek();
  const text = c.name("the size's name");
  const name = (["m", "n", "k"] as const).find((one) => one === text);
  if (name === undefined)
    return c.fail(token, parseCodes.unknownName, `%${text} is no size`, "one of: %m, %n, %k");
  const least = c.integer("the least that it may be", 0);
  c.expect("..", "between the least and the most");
  const most = c.integer("the most that it may be", least);
  return c.eat("multiple")
    ? { name, least, most, multiple: c.integer("what divides it", 1) }
    : { name, least, most };
}

const runsClauses = {
  step: integerClause("step", 0, undefined),
  most: integerClause("most", 0, undefined),
  total: integerClause("total", 0, undefined),
  pages: optional(integerClause("pages", 1, undefined)),
  table: optional(integerClause("table", 0, undefined)),
  stored: optional(
    clauseOf<readonly string[]>("stored", "(%BUFFER, …)", list(name("a buffer"), "the buffers"), undefined),
  ),
};

export const runsSyntax = "runs %FIRST %COUNT step N most N total N pages N table N stored(%BUFFER, …)";

/** `runs %first0 %count0 step 0 most 128 total 4096 stored(%D)` */
export const printRuns = (runs: RunsDeclaration): string =>
  `runs %${runs.first} %${runs.count}${printClauses(runsClauses, runs, new Map())}`;

/** Called after the keyword. */
export const parseRuns = (c: Cursor): RunsDeclaration => ({
  first: c.name("where a run begins"),
  count: c.name("the rows of a run"),
  ...parseClauses(c, runsClauses, "the runs"),
});
