/** Tiles that the matrix instructions of a kind have, and the swizzles that go with their operands. */
import { dtypes, isScaled, type Problem, SCALE_FACTORS, SCALE_ROWS, scaledTypes } from "@tilewright/core";
import { nearestMultiple, TENSOR_LANES } from "@tilewright/ir";
import { tcgen05ShapeFaults } from "@tilewright/ptx";
import type { TensorSchedule } from "../schedule.ts";
import { axesOf, nearest, type Rule, rule, type Subject, transposed } from "./rule.ts";

const shapeFaults = ({ s, kind, problem }: Subject, m: number, n: number): readonly string[] =>
  tcgen05ShapeFaults(
    { kind: kind.kind, group: s.ctaGroup, weightStationary: false, aInTensor: false, scaleVector: null },
    m,
    n,
    // The second operand of the instructions: B, or A where they have changed places.
    dtypes[problem[s.swapAB ? "a" : "b"].dtype].bits === 8 && transposed(problem, s.swapAB ? "a" : "b"),
  );

/** Rows of one instruction: a tile of more takes several, each with columns of its own. */
const instructionRows = (s: TensorSchedule): number => Math.min(axesOf(s).m, TENSOR_LANES * s.ctaGroup);

/** Rows that a tile may have: those of an instruction, or of several with a block's full lanes. */
function legalM(subject: Subject): readonly number[] {
  const { s, kind } = subject;
  const full = TENSOR_LANES * s.ctaGroup;
  const { n } = axesOf(s);
  // Factors lie with 128 rows of a block.
  const fewest = kind.scaled === true ? full : full / 2;
  const known = (m: number): boolean =>
    shapeFaults(subject, m, 256).every((fault) => !fault.startsWith("M ="));
  return [full / 2, full, 2 * full].filter(
    (m) => m >= fewest && known(Math.min(m, full)) && (m <= full || n > 0),
  );
}

/** Extents of N that the instruction has with this M, ascending. */
const legalN = (subject: Subject): readonly number[] =>
  Array.from({ length: 32 }, (_, i) => 8 * (i + 1)).filter(
    (n) => shapeFaults(subject, instructionRows(subject.s), n).length === 0,
  );

/** Elements in a row of a tile whose elements under 8 bits are spread over a byte each, and the one swizzle it has (cuTensorMapEncodeTiled). */
const SPREAD_ROW = 128;
const SPREAD_SWIZZLE = "128B";

/** Operands whose elements are spread as they are copied. */
const spreadOperands = ({ kind, problem: { a, b } }: Subject): readonly string[] =>
  kind.packed === true ? [] : [a, b].flatMap(({ dtype }) => (dtypes[dtype].bits < 8 ? [dtype] : []));

/** Elements of 32 bits in a row of 128 bytes, which is what instructions take of them with M or N contiguous. */
const WORD_ROW = 32;
const words = (problem: Problem, side: "a" | "b"): boolean => dtypes[problem[side].dtype].bits === 32;

export const instructionRules: readonly Rule[] = [
  rule("TW2401", "tile", (subject) => {
    const { s, kind } = subject;
    const { lanes, m } = axesOf(s);
    const legal = legalM(subject);
    if (legal.includes(m)) return null;
    const best = nearest(m, legal);
    const other =
      s.ctaGroup === 2
        ? m === TENSOR_LANES / 2
          ? ", or ctaGroup=1"
          : ""
        : m === 4 * TENSOR_LANES
          ? ", or ctaGroup=2"
          : "";
    return {
      message: `tile ${lanes} ${m}: kind::${kind.kind} on ${s.ctaGroup === 2 ? "a pair of blocks" : "one block"} is served with ${legal.join(", ")} rows in lanes`,
      hint: `nearest legal: tile ${lanes} ${best}${other}`,
    };
  }),
  rule("TW2402", "tile", (subject) => {
    const { s } = subject;
    const across = s.swapAB ? "m" : "n";
    const { n } = axesOf(s);
    const legal = legalN(subject);
    if (legal.includes(n)) return null;
    const fault = shapeFaults(subject, instructionRows(s), n).find((text) => text.startsWith("N ="));
    return {
      message: `tile ${across} ${n}: ${fault ?? "not served"}`,
      hint: `nearest legal: tile ${across} ${nearest(n, legal)}`,
    };
  }),
  rule("TW2403", "tile", ({ s, kind }) => {
    if (s.tileK % kind.k === 0 && s.tileK > 0) return null;
    return {
      message: `tile k ${s.tileK} is no multiple of the ${kind.k} of kind::${kind.kind}`,
      hint: `nearest legal: tile k ${nearestMultiple(s.tileK, kind.k)}`,
    };
  }),
  rule("TW2421", "swizzle", (subject) => {
    const { s } = subject;
    const [dtype] = spreadOperands(subject);
    if (dtype === undefined || s.swizzle === SPREAD_SWIZZLE) return null;
    return {
      message: `swizzle ${s.swizzle}: copies that spread ${dtype} over bytes have ${SPREAD_SWIZZLE}`,
      hint: `nearest legal: swizzle=${SPREAD_SWIZZLE}`,
    };
  }),
  rule("TW2422", "tile", (subject) => {
    const { s } = subject;
    const [dtype] = spreadOperands(subject);
    if (dtype === undefined || (s.tileK > 0 && s.tileK % SPREAD_ROW === 0)) return null;
    return {
      message: `tile k ${s.tileK}: copies that spread ${dtype} over bytes take rows of ${SPREAD_ROW} elements`,
      hint: `nearest legal: tile k ${nearestMultiple(s.tileK, SPREAD_ROW)}`,
    };
  }),
  rule("TW2423", "tile", ({ s, kind }) => {
    if (kind.scaled !== true || (s.tileN > 0 && s.tileN % SCALE_ROWS === 0)) return null;
    return {
      message: `tile n ${s.tileN}: scale factors of B come in blocks of ${SCALE_ROWS} columns`,
      hint: `nearest legal: tile n ${nearest(s.tileN, [SCALE_ROWS, 2 * SCALE_ROWS])}`,
    };
  }),
  rule("TW2424", "tile", ({ s, problem }) => {
    const { dtype } = problem.a;
    if (!isScaled(dtype)) return null;
    const each = scaledTypes[dtype].block * SCALE_FACTORS;
    if (s.tileK > 0 && s.tileK % each === 0) return null;
    return {
      message: `tile k ${s.tileK}: scale factors of ${dtype} come in blocks for ${each} elements of K`,
      hint: `nearest legal: tile k ${nearestMultiple(s.tileK, each)}`,
    };
  }),
  rule("TW2425", "swapAB", ({ s, kind }) =>
    kind.scaled === true && s.swapAB
      ? {
          message: `scale factors of kind::${kind.kind} are served with rows of D in lanes`,
          hint: "nearest legal: swapAB=off",
        }
      : null,
  ),
  rule("TW2426", "swizzle", ({ s, problem }) => {
    const across = (["a", "b"] as const).some((side) => words(problem, side) && transposed(problem, side));
    if (!across || s.swizzle === SPREAD_SWIZZLE) return null;
    return {
      message: `swizzle ${s.swizzle}: ${problem.a.dtype} with M or N contiguous has rows of 128 bytes`,
      hint: `nearest legal: swizzle=${SPREAD_SWIZZLE}`,
    };
  }),
  rule("TW2427", "tile", ({ s, problem }) => {
    const wrong = (["a", "b"] as const).flatMap((side) => {
      const extent = side === "a" ? s.tileM : s.tileN;
      const uneven =
        words(problem, side) && transposed(problem, side) && extent % (WORD_ROW * s.ctaGroup) !== 0;
      return uneven ? [{ axis: side === "a" ? "m" : "n", extent }] : [];
    });
    const [first] = wrong;
    if (first === undefined) return null;
    const step = WORD_ROW * s.ctaGroup;
    return {
      message: `tile ${first.axis} ${first.extent}: rows of ${problem.a.dtype} with M or N contiguous have ${WORD_ROW} elements in each block`,
      hint: `nearest legal: tile ${first.axis} ${nearestMultiple(first.extent, step)}`,
    };
  }),
];
