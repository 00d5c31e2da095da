/** What the kernels of a launch take of the problem: arrays, sizes, problems of a batch, rows of experts. */
import { type BatchAxis, dtypeNames, type SizeName } from "@tilewright/core";
import type { ArrayDeclaration, Distance, RunsDeclaration, SizeDeclaration } from "../types.ts";
import { type Clause, integerClause, optional, parseClauses, printClauses } from "./clause.ts";
import { type Cursor, parseCodes } from "./cursor.ts";
import { launchClause } from "./kernelSteps.ts";

const operands = ["a", "b", "c", "d", "sfa", "sfb"] as const;
const sizePattern = /^(?:[mnk]|ld(?:[abcd]|epilogue\d+)|stride[ABCD])$/;

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

const distanceClause: Clause<Distance> = {
  keyword: "batch",
  syntax: "DISTANCE",
  default: undefined,
  print: printDistance,
  parse: parseDistance,
};

const arrayClauses = {
  strides: {
    keyword: "strides",
    syntax: "(ROWS, COLUMNS)",
    default: undefined,
    print: (strides) => `(${strides.map(printDistance).join(", ")})`,
    parse: (c) => {
      const token = c.peek();
      const [row, column, ...more] = c.list("the strides", () => parseDistance(c));
      if (row === undefined || column === undefined || more.length > 0)
        return c.fail(token, parseCodes.syntax, "an array has two strides", "strides(ROWS, COLUMNS)");
      return [row, column];
    },
  } satisfies Clause<ArrayDeclaration["strides"]>,
  at: optional(launchClause("at")),
  every: optional(integerClause("every", 0, undefined)),
  batch: optional(distanceClause),
  axes: optional<readonly BatchAxis[]>({
    keyword: "axes",
    syntax: "(EXTENT / BELOW : ELEMENTS, …)",
    default: undefined,
    print: (axes) =>
      `(${(axes ?? []).map(({ extent, below, stride }) => `${extent} / ${below} : ${stride}`).join(", ")})`,
    parse: (c) =>
      c.list("the axes of the batch", () => {
        const extent = c.integer("the extent of the axis", 1);
        c.expect("/", "behind the extent");
        const below = c.integer("the problems below the axis", 1);
        c.expect(":", "before the elements");
        return { extent, below, stride: c.integer("the elements from neighbour to neighbour", 0) };
      }),
  }),
  rows: optional(integerClause("rows", 1, undefined)),
  groups: optional(integerClause("groups", 1, undefined)),
};

export const arraySyntax =
  "array %NAME DTYPE strides(ROWS, COLUMNS) at BYTES every N batch DISTANCE axes(EXTENT / BELOW : ELEMENTS, …) rows N groups N";

/** `array %a bf16 strides(lda, 1) batch strideA` */
export const printArray = (array: ArrayDeclaration): string =>
  `array %${array.name} ${array.dtype}${printClauses(arrayClauses, array, new Map())}`;

/** Called after the keyword. */
export function parseArray(c: Cursor): ArrayDeclaration {
  const token = c.peek();
  const text = c.name("the array's name");
  const step = /^epilogue(\d+)$/.exec(text)?.[1];
  const name =
    step === undefined ? operands.find((one) => one === text) : (`epilogue${Number(step)}` as const);
  if (name === undefined)
    return c.fail(
      token,
      parseCodes.unknownName,
      `no operand is called %${text}`,
      `one of: ${operands.map((one) => `%${one}`).join(", ")}, %epilogue0`,
    );
  return { name, dtype: c.oneOf(dtypeNames, "dtype"), ...parseClauses(c, arrayClauses, "the array") };
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
  stored: optional<readonly string[]>({
    keyword: "stored",
    syntax: "(%BUFFER, …)",
    default: undefined,
    print: (names) => `(${(names ?? []).map((name) => `%${name}`).join(", ")})`,
    parse: (c) => c.list("the buffers", () => c.name("a buffer")),
  }),
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
