/** What a program over named axes multiplies and launches: the matrix products whose schedules it takes, and what its parameters are to the kernel. */
import {
  type Checked,
  type Diagnostic,
  defineProblem,
  err,
  ok,
  type Problem,
  roundUp,
  sizeOf,
} from "@tilewright/core";
import type { Paged } from "../tile/types.ts";
import {
  chainFault,
  choosesElements,
  eachAxisStmt,
  isColumnLoop,
  isParameter,
  loopFault,
  type Product,
  partedAxes,
  products,
  readsOf,
  wholeFactors,
} from "./loops.ts";
import {
  type AxisProgram,
  type AxisStmt,
  axisOf,
  batchOf,
  memoryExtent,
  type Named,
  namedIn,
  type Parameter,
  strideAlong,
  toldBy,
} from "./types.ts";

/** Columns that chunks of any schedule divide, or nearly all. */
const INNER = 64;

/** What is not expressed yet. */
export const PROGRAM_SHAPE = "TW3170";

/** The products of a program, each of which but the first multiplies what a tile holds, and what its parameters are to the kernel. */
export interface Anchor {
  /**
   * Whose schedules the program takes: the first product's rows and inner axis, and columns for every tile; of a program without one, of D with a k of 1, whose A and B no
   * kernel reads.
   */
  readonly problem: Problem;
  /** What a launch takes. Parameters that are neither operands of the first product nor stored are what steps of the epilogue read, factors of further products behind them, and further results the last. */
  readonly launched: Problem;
  readonly products: readonly Product[];
  readonly stored: Extract<AxisStmt, { kind: "store" }>;
  /** Parameters that are stored beside it, in front of it. */
  readonly results: readonly Parameter[];
  /** The tile that is stored: the last product's sums, or the first matrix. */
  readonly acc: string;
  /** Whether a loop has parts of an axis. */
  readonly parts: boolean;
  /** Whether a loop over parts chooses elements, as a mask does. */
  readonly selects: boolean;
  /** Whether it chooses them by their position. */
  readonly masks: boolean;
  /** Whether it chooses them between two positions, as a sliding window does. */
  readonly between: boolean;
  /** Whether it rounds positions, as where a row has a head and a query. */
  readonly rounds: boolean;
  /** Whether it applies a soft cap. */
  readonly caps: boolean;
  /** The extent of the axis that several CTAs may have parts of, which a `merge` puts together; null without one. */
  readonly merged: number | null;
  /** By parameter: the operand, as manifests call it. */
  readonly operands: ReadonlyMap<string, OperandName>;
  /** By operand: the axis whose rows lie in pages. */
  readonly paged: ReadonlyMap<OperandName, Paged>;
}

type OperandName = "a" | "b" | "d" | `epilogue${number}`;

const refuse = (name: string, message: string, hint: string): readonly Diagnostic[] => [
  { code: PROGRAM_SHAPE, kind: "unsupported", at: `@${name}`, message, hint },
];

/** The matrix products whose loops the program has, and its parameters. Errors: programs of forms that this release does not schedule. */
export function anchorOf(program: AxisProgram): Checked<Anchor> {
  const fault = (message: string, hint: string) => err(refuse(program.name, message, hint));
  const chain = products(program.body);
  const [product] = chain;
  const stores = program.body.filter((stmt) => stmt.kind === "store");
  const stored = stores.at(-1);
  const stray = eachAxisStmt(program.body.slice(0, -stores.length)).some(({ kind }) => kind === "store");
  if (stored === undefined || stray) return fault("stores nothing, or not at its end", "end with stores");
  const broken = chainFault(program, chain);
  if (broken !== null) return fault(...broken);
  const acc = chain.at(-1)?.acc ?? program.tiles.find(({ axes }) => axes.length === 2)?.name;
  if (acc === undefined) return fault("holds no matrix", "declare a tile of both axes");
  const parameter = (name: string): Parameter => {
    const found = namedIn(program, name);
    if (!isParameter(found)) throw new TypeError("factors and what is stored are parameters");
    return found;
  };
  const d = parameter(stored.param);
  const results = stores.slice(0, -1).map(({ param }) => parameter(param));
  const [m, n] = program.grid;
  for (const { axes } of [namedIn(program, acc), d, ...results, ...program.tiles]) {
    const [rows, columns = n] = axes;
    const inner = chain.slice(0, -1).some((each) => namedIn(program, each.acc).axes[1] === columns);
    if (rows !== m || (columns !== n && !inner))
      return fault("tiles, sums and what is stored differ in axes", `write tiles ${m}, ${n}`);
  }
  const further = chain.slice(1).flatMap(({ a, b }) => [a, b].map((name) => namedIn(program, name)));
  const first = new Set([product?.a, product?.b]);
  const inner = product && namedIn(program, product.acc).axes[1];
  const goesOn = ({ axes }: Named): number => (axes[0] === inner ? 0 : 1);
  const factors = [...new Set(further)]
    .filter(isParameter)
    .filter(({ name }) => !first.has(name))
    .toSorted((x, y) => goesOn(x) - goesOn(y));
  if (factors[0] !== undefined && goesOn(factors[0]) > 0)
    return fault(
      `has no further factor with rows ${inner}, which are columns of %${product?.acc}`,
      `declare a factor with axis ${inner} first`,
    );
  const operands = new Map<string, OperandName>([[stored.param, "d"]]);
  if (product !== undefined) operands.set(product.a, "a").set(product.b, "b");
  const inputs = program.params.filter(
    (each) => !operands.has(each.name) && !factors.includes(each) && !results.includes(each),
  );
  // Columns of tiles that products go on from.
  const between = new Set(chain.slice(0, -1).flatMap((each) => namedIn(program, each.acc).axes.slice(1)));
  const isBetween = ({ axes }: Parameter): boolean =>
    axes.length === 0 ? chain.length > 1 : between.has(axes.at(-1) ?? "");
  for (const param of inputs) {
    const [first, second] = param.axes;
    if (first === undefined && isBetween(param)) continue;
    const column = second ?? (first === m ? n : (first ?? ""));
    if ((column === n || between.has(column)) && (second === undefined || first === m)) continue;
    const others = [...between].map((axis) => `, ${axis}`).join("");
    return fault(
      `has parameter %${param.name}, which is not multiplied and has other axes than the tiles`,
      `its axes can be ${m}, ${n}${others}, or ${m} and one of the others`,
    );
  }
  // B has as many columns as the first factor has rows: those come before what only maps read.
  const steps = [
    ...inputs.filter((each) => !isBetween(each)),
    ...factors,
    ...inputs.filter(isBetween),
    ...results,
  ];
  for (const [i, param] of steps.entries()) {
    const { name } = param;
    if (operands.has(name))
      return results.includes(param)
        ? fault(`stores %${name} twice`, "declare a parameter for each")
        : fault(`multiplies %${name}, which it stores`, "declare another parameter for what is stored");
    operands.set(name, `epilogue${i}`);
  }
  for (const { name } of [d, ...results])
    if (eachAxisStmt(program.body).some((stmt) => readsOf(stmt).includes(name)))
      return fault(`reads %${name}, which it stores`, "keep the value in a tile");
  for (const stmt of program.body) {
    const found = stmt.kind === "for" ? loopFault(program, stmt) : null;
    if (found !== null) return fault(...found);
  }
  const extent = (name: string | undefined): number => axisOf(program, name ?? "").extent;
  const outer = axisOf(program, m).runs;
  const paged = (axis: string | undefined): boolean =>
    axis !== undefined && axisOf(program, axis).runs?.pages !== undefined;
  if (paged(m)) return fault(`has rows of work tiles, ${m}, in pages`, "let the axis of a loop have pages");
  const apartFromProducts = inputs.find(({ axes }) => axes.some(paged));
  if (apartFromProducts !== undefined)
    return fault(`reads %${apartFromProducts.name} in pages and multiplies by nothing of it`, "declare runs");
  for (const param of [d, ...results]) {
    if (outer !== undefined && param.axes[0] === m) continue;
    const missing = batchOf(program).find((axis) => axis.extent > 1 && strideAlong(param, axis.name) === 0);
    if (missing === undefined) continue;
    return fault(
      `stores %${param.name}, which lacks ${missing.name}`,
      `declare %${param.name} with axis ${missing.name}`,
    );
  }
  const matrix = (param: Parameter) => {
    const { dtype, layout, axes } = param;
    return { dtype, layout, ld: strideAlong(param, axes[layout === "row" ? 0 : 1] ?? "") };
  };
  const operand = (name: string | undefined) =>
    name === undefined ? { dtype: "f32" as const } : matrix(parameter(name));
  const whole = (name: string | undefined): number => memoryExtent(axisOf(program, name ?? ""));
  const request = {
    m: extent(m),
    k: product === undefined ? 1 : extent(namedIn(program, product.a).axes[1]),
    a: operand(product?.a),
    b: operand(product?.b),
    d: matrix(d),
  };
  const stepOf = (name: string): number => Number(operands.get(name)?.slice("epilogue".length));
  /** A matrix of sizes of its own, which the epilogue leaves alone; a vector is its only row, one along rows that is stored its only column, a value of the batch's axes alone its only element. */
  const apart = (param: Parameter) => {
    const { name, axes } = param;
    const told = toldBy(program.axes, name);
    const pages = told?.runs?.pages;
    const columns =
      axes.length > 0 ? whole(axes.at(-1)) : told === undefined ? 1 : pages === undefined ? 2 : 1;
    const [rows, operand] =
      axes.length < 2 ? [1, { dtype: param.dtype, ld: columns }] : [whole(axes[0]), matrix(param)];
    if (told?.runs !== undefined && pages?.table === name) {
      const numbers = Math.ceil(told.extent / pages.size);
      const row = { dtype: param.dtype, layout: "row", ld: numbers } as const;
      return { kind: "factor", rows, columns: numbers, operand: row, name } as const;
    }
    if (told?.runs !== undefined) {
      const table = pages && { size: pages.size, table: stepOf(pages.table) };
      const runs = {
        ...{ outer: told.name === m, most: told.extent, total: told.runs.total },
        ...(table && { pages: table }),
      };
      return { kind: "factor", rows, columns, operand: { ...operand, layout: "row" }, runs, name } as const;
    }
    if (!results.includes(param)) {
      const of = param.of !== undefined && operands.get(param.of) === "b" ? ("b" as const) : undefined;
      return { kind: "factor", rows, columns, operand, ...(of && { of }), name } as const;
    }
    const stands = axes.length === 1 && strideAlong(param, m) === 1;
    const column = {
      dtype: param.dtype,
      layout: stands ? "col" : "row",
      ld: stands ? columns : strideAlong(param, m),
    } as const;
    return axes.length === 1
      ? ({ kind: "result", rows: columns, columns: 1, operand: column, name } as const)
      : ({ kind: "result", rows, columns, operand, name } as const);
  };
  const read = inputs
    .filter((param) => !isBetween(param))
    .map((param) => {
      const { name, dtype, axes } = param;
      return axes.length === 1
        ? ({ kind: "load", by: axes[0] === m ? "m" : "n", dtype, name } as const)
        : ({ kind: "source", operand: matrix(param), name } as const);
    });
  const batch = problemsOf(program, product, d, steps);
  const parted = [...partedAxes(program)];
  const parts = parted.length > 0;
  const chooses = (how: Parameters<typeof choosesElements>[1]): boolean =>
    program.body.some((stmt) => isColumnLoop(stmt) && choosesElements(stmt, how));
  const [selects, masks] = [chooses("selects"), chooses("masks")];
  const [rounds, caps] = [chooses("rounds"), chooses("caps")];
  const merge = program.body.findIndex(({ kind }) => kind === "merge");
  const loop = program.body[merge - 1];
  const [mine] = merge < 0 ? [] : parted;
  if (merge >= 0 && (loop?.kind !== "for" || loop.axis !== mine || parted.length > 1))
    return fault("merges what no loop over parts has made", "write merge behind the one loop over parts");
  const merged = mine === undefined ? null : extent(mine);
  const launched = defineProblem({
    ...request,
    m: whole(m),
    n: extent(n),
    epilogue: [...read, ...steps.slice(read.length).map(apart)],
    ...(batch && { batch }),
  });
  if (!launched.ok) return launched;
  const inPages = new Map(
    program.params.flatMap(({ name, axes }) => {
      const [at, which] = [axes.findIndex(paged), operands.get(name)];
      const offsets = axisOf(program, axes[at] ?? m).runs?.offsets ?? "";
      return at < 0 || which === undefined
        ? []
        : [[which, { axis: at === 0 ? 0 : 1, step: stepOf(offsets) } as const] as const];
    }),
  );
  const found = {
    products: chain,
    stored,
    results,
    acc,
    parts,
    selects,
    masks,
    between: chooses("twice"),
    rounds,
    caps,
    merged,
    operands,
    paged: inPages,
  };
  if (chain.length < 2) return ok({ problem: launched.value, launched: launched.value, ...found });
  // Copies are chosen for rows of all matrices, which are others than those of the one product.
  const aligned = (param: Parameter) => {
    const { dtype, layout } = param;
    return { dtype, layout, align: lineAlign(program, param) };
  };
  const right = [product?.b ?? "", ...factors.map(({ name }) => name)].map(parameter).map(aligned);
  const problem = defineProblem({
    ...request,
    a: { ...request.a, align: lineAlign(program, parameter(product?.a ?? "")) },
    // What columns of B that are neighbours in memory ask of a schedule goes for all where it goes for one.
    b: {
      ...right[0],
      layout: right.every(({ layout }) => layout === "col") ? "col" : "row",
      align: Math.min(...right.map(({ align }) => align)),
    },
    d: aligned(d),
    // Tiles that products go on from hold whole chunks of columns.
    n: columnsOf(program, Math.max(extent(n), ...wholeFactors(program, chain).map(extent))),
    epilogue: read.map((step) =>
      step.kind === "source"
        ? { ...step, operand: { dtype: step.operand.dtype, layout: step.operand.layout } }
        : step,
    ),
    ...(batch && { batch: { kind: "strided", count: batch.count } }),
  });
  if (!problem.ok) return problem;
  return ok({ problem: problem.value, launched: launched.value, ...found });
}

/** Columns of a tile that holds so many: whole chunks, and where a loop has parts of an axis, for which few schedules are left, a power of two. */
const columnsOf = (program: AxisProgram, least: number): number =>
  partedAxes(program).size > 0 ? Math.max(INNER, 2 ** Math.ceil(Math.log2(least))) : roundUp(least, INNER);

/** The batch of what is launched: how its matrices lie along the program's axes of the batch. */
function problemsOf(
  program: AxisProgram,
  product: Product | undefined,
  d: Parameter,
  steps: readonly Parameter[],
) {
  const axes = batchOf(program);
  if (axes.length === 0) return null;
  const strides = (param: Named | null): readonly number[] =>
    axes.map(({ name }) => (param !== null && isParameter(param) ? strideAlong(param, name) : 0));
  const factor = (which: "a" | "b") =>
    strides(product === undefined ? null : namedIn(program, product[which]));
  const extents = axes.map(({ extent }) => extent);
  return {
    kind: "strided",
    count: extents.reduce((count, extent) => count * extent, 1),
    axes: { extents, a: factor("a"), b: factor("b"), d: strides(d), steps: steps.map(strides) },
  } as const;
}

/** Bytes, 16 at most, that rows (columns) of a parameter which begins at a multiple of 16 all begin and end at multiples of. */
function lineAlign(program: AxisProgram, { dtype, axes, memory }: Parameter): number {
  const grains = memory.map(({ axis, stride }) => {
    const { extent } = axisOf(program, axis);
    return stride === 1 && axes.includes(axis) ? extent : extent === 1 ? 0 : stride;
  });
  let align = 16;
  while (grains.some((grain) => (grain * sizeOf(dtype)) % align !== 0)) align /= 2;
  return align;
}
