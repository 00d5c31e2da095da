/** Tiles that meet in a statement have matching extents. */
import {
  BLOCK_SCALE,
  isScaled,
  SCALE_FACTORS,
  SCALE_ROWS,
  SCALE_WORDS,
  scaledTypes,
  stepMatrix,
} from "@tilewright/core";
import { SCALE_LANES, scaleTileInRegisters, scaleTileInTensor, scaleWords } from "../scaleTiles.ts";
import { type Mma, reached, type Space, type Stmt, type View } from "../types.ts";
import { bufferAt, type Fault, type Site, type Subject, type Verifier, viewText } from "./verifier.ts";

const differs = (a: View, b: View): boolean => a.extent[0] !== b.extent[0] || a.extent[1] !== b.extent[1];

/** Whole blocks of factors, in the rows and columns that they have in tensor memory or registers. */
const movesBlocks = ({ dst, src, transport }: Extract<Stmt, { kind: "copy" }>): boolean => {
  const [rows, words] = src.extent;
  if (transport === "factors") {
    const [own, columns] = scaleTileInRegisters(src.extent);
    return dst.extent[0] === own && dst.extent[1] === columns;
  }
  const halved = dst.extent[0] > SCALE_LANES;
  const [lanes, columns] = scaleTileInTensor(src.extent, halved);
  return (
    words % SCALE_WORDS === 0 &&
    (!halved || rows % 2 === 0) &&
    dst.extent[0] === lanes &&
    dst.extent[1] === columns
  );
};

export const shapes: Verifier = {
  name: "shapes",
  code: "TW3102",
  property:
    "copy and epilogue move equal rectangles; mma multiplies m x k by k x n into m x n; block-scaled operands have whole blocks of factors, others none",
  from: "nest",
  *check(subject) {
    for (const site of subject.sites) {
      const { stmt } = site;
      const sound =
        stmt.kind !== "copy" ||
        (stmt.transport === "tcgen05.cp" || stmt.transport === "factors"
          ? movesBlocks(stmt)
          : !differs(stmt.dst, stmt.src));
      if (stmt.kind === "copy" && !sound)
        yield {
          at: site,
          message: `copies ${viewText(stmt.src)} into ${viewText(stmt.dst)}`,
          hint: "source and destination need the same rows and columns",
        };
      if ((stmt.kind === "mma" || stmt.kind === "epilogue") && stmt.columns !== undefined) {
        const { from, to, of } = stmt.columns;
        const width = stmt.acc.extent[1];
        if (from >= to || to > of || width % of !== 0)
          yield {
            at: site,
            message: `takes columns ${from} to ${to - 1} of every ${of} of ${width}`,
            hint: `write columns FROM .. TO of ${width}, or of a divisor of it`,
          };
        else if (stmt.kind === "mma" && (stmt.scales !== undefined || stmt.twoLevel !== undefined))
          yield {
            at: site,
            message: "some columns of sums that are scaled or promoted",
            hint: "multiply all columns",
          };
      }
      if (stmt.kind === "epilogue") {
        for (const view of [stmt.dst, ...(stmt.c === null ? [] : [stmt.c])])
          if (differs(view, stmt.acc))
            yield {
              at: site,
              message: `stores ${viewText(stmt.acc)} with ${viewText(view)}`,
              hint: "accumulator, C and D need the same rows and columns",
            };
        for (const { step, view } of stmt.inputs ?? []) {
          const matrix = stepMatrix(subject.program.problem, step);
          const wanted = stmt.acc.extent.map((extent, axis) => (axis === matrix?.across ? 1 : extent));
          if (matrix === null || view.extent.some((extent, axis) => extent !== wanted[axis]))
            yield {
              at: site,
              message: `step ${step} reads ${viewText(view)}`,
              hint:
                matrix === null
                  ? "name a step that reads a matrix or a vector"
                  : `write ${wanted.join(" x ")} of it`,
            };
        }
      }
      if (stmt.kind === "mma") {
        const [m, n] = stmt.acc.extent;
        const [k, own] = stmt.exchanged ? stmt.b.extent.toReversed() : stmt.b.extent;
        const columns = (own ?? 0) + (stmt.beside?.extent[1] ?? 0);
        const fits = stmt.a.extent[0] === m && columns === n && stmt.a.extent[1] === k;
        if (!fits)
          yield {
            at: site,
            message: `multiplies ${viewText(stmt.a)} by ${viewText(stmt.b)} into ${viewText(stmt.acc)}`,
            hint: `for a ${m} x ${n} accumulator A is ${m} x k and B is k x ${n}`,
          };
        yield* factorFaults(subject, site, stmt);
        if (stmt.twoLevel !== undefined)
          yield* sumFaults(subject, site, stmt.acc, stmt.twoLevel.sum, columnFactors(stmt));
        if (stmt.twoLevel !== undefined && stmt.scales !== undefined && stmt.twoLevel.every !== BLOCK_SCALE)
          yield {
            at: site,
            message: `scales sums of ${stmt.twoLevel.every} along k, and factors are for ${BLOCK_SCALE}`,
            hint: `every ${BLOCK_SCALE}`,
          };
      }
      if (stmt.kind === "accumulate") {
        yield* sumFaults(subject, site, stmt.acc, stmt.sum, 1);
        yield* accumulationFaults(subject, site, stmt);
      }
    }
  },
};

/** Factors of columns; of no factors 0, which any number of parts divides. */
const columnFactors = ({ scales }: Mma): number =>
  (scales?.b.extent[0] ?? 0) + (scales?.beside?.extent[0] ?? 0);

type Accumulate = Extract<Stmt, { kind: "accumulate" }>;

/** Sums on their way to the accumulator are a register tile of its dtype, and of its shape, or of columns that divide it so that each part has as many of `factors` as the others. */
function* sumFaults(subject: Subject, site: Site, into: View, part: View, factors: number): Iterable<Fault> {
  const [acc, sums] = [bufferAt(subject, into.buffer), bufferAt(subject, part.buffer)];
  const parts = into.extent[1] / part.extent[1];
  const divides = Number.isInteger(parts) && factors % parts === 0;
  if (
    part.extent[0] !== into.extent[0] ||
    !divides ||
    sums.dtype !== acc.dtype ||
    sums.space !== acc.space ||
    sums === acc
  )
    yield {
      at: site,
      message: `promotes sums of ${sums.dtype} in ${viewText(part)} to ${acc.dtype} in ${viewText(into)}`,
      hint: "a tile of its own, with the accumulator's space, dtype and extents",
    };
}

/** A promotion scales by the factors of one run along k, in registers, where the problem has factors; the products of its sums go over no more of k. */
function* accumulationFaults(subject: Subject, site: Site, stmt: Accumulate): Iterable<Fault> {
  const { blockScales } = subject.program.problem;
  if ((blockScales === undefined) !== (stmt.scales === undefined))
    yield {
      at: site,
      message: `promotes sums ${stmt.scales === undefined ? "without" : "by"} factors, and the problem has ${blockScales === undefined ? "none" : "some"}`,
      hint: blockScales === undefined ? "leave `scaled` out" : "write scaled SFA, SFB",
    };
  for (const [axis, side] of (["a", "b"] as const).entries()) {
    const view = stmt.scales?.[side];
    if (view === undefined) continue;
    const each = (stmt.acc.extent[axis] ?? 0) / view.extent[0];
    if (
      !Number.isInteger(each) ||
      BLOCK_SCALE % each !== 0 ||
      view.extent[1] !== 1 ||
      bufferAt(subject, view.buffer).space !== "register"
    )
      yield {
        at: site,
        message: `scales ${viewText(stmt.acc)} by ${viewText(view)}`,
        hint: "a column of factors in registers, each for 128 rows or columns of the sums or a part of them",
      };
  }
  for (const other of subject.sites) {
    const mma = other.stmt;
    if (mma.kind !== "mma" || mma.acc.buffer !== stmt.sum.buffer) continue;
    if (mma.a.extent[1] > BLOCK_SCALE)
      yield {
        at: other,
        message: `makes sums of ${mma.a.extent[1]} along k that are promoted`,
        hint: `${BLOCK_SCALE} of k at most`,
      };
  }
}

/** Factors in f32: one for each row or for equal runs of them, and for each 128 along k. */
function* blockFactorFaults(site: Site, stmt: Mma, side: "a" | "b", view: View): Iterable<Fault> {
  const [all, k] = side === "a" ? stmt.a.extent : [stmt.acc.extent[1], stmt.b.extent[0]];
  const halves = side === "b" && (stmt.beside ?? stmt.scales?.beside) !== undefined;
  const rows = halves ? all / 2 : all;
  const factors = Math.ceil(k / BLOCK_SCALE);
  if (
    rows % view.extent[0] === 0 &&
    view.extent[1] === factors &&
    BLOCK_SCALE % (rows / view.extent[0]) === 0
  )
    return;
  yield {
    at: site,
    message: `scales ${viewText(stmt[side])} by ${viewText(view)}`,
    hint: `${rows} x ${factors} factors, or fewer rows of them, each for 128 rows or a part of them`,
  };
}

/** Columns in two views have factors in two; those of one tile may have, as they lie in global memory. */
function* besideFaults(site: Site, { beside, scales }: Mma, view: View): Iterable<Fault> {
  const other = scales?.beside;
  if (other === undefined && beside !== undefined)
    yield {
      at: site,
      message: `multiplies ${viewText(beside)} without its factors`,
      hint: "write scaled SFA, SFB beside SFB",
    };
  if (other !== undefined && view.extent.some((extent, axis) => extent !== other.extent[axis]))
    yield {
      at: site,
      message: `scales halves of its columns by ${viewText(view)} and ${viewText(other)}`,
      hint: "as many factors for either half",
    };
}

/** Extents of a tile of blocks of factors in the memory that it is in. */
function inSpace(
  space: Space,
  blocks: readonly [number, number],
  halved: boolean,
): readonly [number, number] {
  if (space === "register") return scaleTileInRegisters(blocks);
  return space === "tensor" ? scaleTileInTensor(blocks, halved) : blocks;
}

/** Block-scaled operands have factors, of whole blocks; others have none, but 8-bit floats where the problem says so. */
function* factorFaults(subject: Subject, site: Site, stmt: Mma): Iterable<Fault> {
  const { blockScales } = subject.program.problem;
  // There `accumulate` has them.
  if (blockScales !== undefined && stmt.scales === undefined && reached(subject.program.stage, "machine"))
    return;
  for (const side of ["a", "b"] as const) {
    const { dtype } = bufferAt(subject, stmt[side].buffer);
    const view = stmt.scales?.[side];
    if (blockScales !== undefined && view !== undefined) {
      yield* blockFactorFaults(site, stmt, side, view);
      if (side === "b") yield* besideFaults(site, stmt, view);
      continue;
    }
    if (blockScales !== undefined) {
      yield { at: site, message: `multiplies ${dtype} without its factors`, hint: "write scaled SFA, SFB" };
      continue;
    }
    if (!isScaled(dtype)) {
      if (view !== undefined)
        yield { at: site, message: `scales ${dtype}, which has no factors`, hint: "leave `scaled` out" };
      continue;
    }
    if (view === undefined) {
      yield { at: site, message: `multiplies ${dtype} without its factors`, hint: "write scaled SFA, SFB" };
      continue;
    }
    if (side === "b") yield* besideFaults(site, stmt, view);
    const { block } = scaledTypes[dtype];
    const [rows, k] = side === "a" ? stmt.a.extent : [stmt.b.extent[1], stmt.b.extent[0]];
    if (rows % SCALE_ROWS !== 0 || k % (block * SCALE_FACTORS) !== 0) {
      yield {
        at: site,
        message: `${rows} x ${k} elements of ${dtype} are no whole blocks of factors`,
        hint: `multiples of ${SCALE_ROWS} rows and ${block * SCALE_FACTORS} elements of K`,
      };
      continue;
    }
    const { space, halves } = bufferAt(subject, view.buffer);
    const blocks = [rows / SCALE_ROWS, scaleWords(k, block)] as const;
    const wanted = inSpace(space, blocks, halves === 0);
    if (view.extent[0] !== wanted[0] || view.extent[1] !== wanted[1])
      yield {
        at: site,
        message: `scales ${viewText(stmt[side])} by ${viewText(view)}`,
        hint: `its factors are ${wanted.join(" x ")} words`,
      };
  }
}
