/** Make register fragments explicit: the K chunk becomes an unrolled loop of steps, each loading what its multiply-adds read. */
import { type DType, WEIGHT_K } from "@tilewright/core";
import { findAtom, widensIntoFragments } from "../atoms/atoms.ts";
import { add, lit, mul, v } from "../tile/expr.ts";
import { registerBuffer } from "../tile/gemm.ts";
import { bufferOf, directed, eachStmt, rewriteStmts, wholeView, withBody } from "../tile/rewrite.ts";
import { scaleTileInRegisters } from "../tile/scaleTiles.ts";
import type { Buffer, Stmt, TileProgram, View } from "../tile/types.ts";
import { withViews } from "../tile/views.ts";
import { codesOf, rowsOfWeights } from "../tile/weights.ts";
import type { Pass } from "./pass.ts";

/**
 * Directive `fragment step=S first=a|b`: S elements of k a step (the atom's k), the fragments of A (absent) or of B first; scale factors come with them. Operands already
 * in registers stay as they are. A fragment has the dtype that the atom multiplies: narrower elements are widened as they are loaded.
 */
export const loadFragments: Pass = {
  name: "loadFragments",
  summary: "Operands of the multiply-adds are register fragments, one K step at a time",
  from: "staged",
  to: "staged",
  run: directed("fragment", (program, { first, step }) => split(program, step, first === "b")),
};

function split(input: TileProgram, step: number, reversed: boolean): TileProgram {
  const added: Buffer[] = [];
  const made = new Map(
    eachStmt(input.body).flatMap((stmt) =>
      codesOf(stmt) === null ? [] : [[writtenBy(stmt), stmt] as const],
    ),
  );
  const body = rewriteStmts(input.body, (stmt) => {
    if (made.has(writtenBy(stmt))) return [];
    if (stmt.kind !== "mma") return stmt;
    const weights = made.get(stmt.b.buffer);
    if (weights?.kind === "map") return ofWeights(input, stmt, weights, step, added);
    const held = bufferOf(input, stmt.a.buffer).space === "register";
    const atom = findAtom(stmt.atom);
    if (held && atom === null) return stmt;
    const chunk = stmt.a.extent[1];
    const dtypeOf = ({ buffer }: View, multiplied: DType | undefined): DType => {
      const { dtype } = bufferOf(input, buffer);
      return multiplied !== undefined && widensIntoFragments(dtype, multiplied) ? multiplied : dtype;
    };
    const a = registerBuffer(nameOf(stmt.a), dtypeOf(stmt.a, atom?.a), [stmt.a.extent[0], step]);
    const b = registerBuffer(nameOf(stmt.b), dtypeOf(stmt.b, atom?.b), [step, stmt.b.extent[1]]);
    added.push(...(held ? [] : [a]), b);
    const offset = mul(v("kk"), step);
    const part = sliceOf(stmt.a, 1, offset, step);
    /** Scale factors of a step: whole words of them, each to the lanes of its row. */
    const factors = (view: View): { readonly view: View; readonly load: Stmt } => {
      const words = view.extent[1] / (chunk / step);
      const tile = registerBuffer(nameOf(view), "s32", scaleTileInRegisters([view.extent[0], words]));
      added.push(tile);
      const from = sliceOf(view, 1, mul(v("kk"), words), words);
      return { view: wholeView(tile), load: { ...load(tile, from, input), transport: "factors" } };
    };
    const loads = [...(held ? [] : [load(a, part, input)]), load(b, sliceOf(stmt.b, 0, offset, step), input)];
    const scales = stmt.scales && { a: factors(stmt.scales.a), b: factors(stmt.scales.b) };
    const steps: Stmt[] = [
      ...(scales === undefined ? [] : [scales.a.load, scales.b.load]),
      ...(reversed ? loads.reverse() : loads),
      {
        ...stmt,
        a: held ? part : wholeView(a),
        b: wholeView(b),
        ...(scales && { scales: { a: scales.a.view, b: scales.b.view } }),
      },
    ];
    return { kind: "for", var: "kk", from: lit(0), to: lit(chunk / step), unroll: true, body: steps };
  });
  const buffers = input.buffers.filter(({ name }) => !made.has(name));
  return { ...withBody(input, body), buffers: [...buffers, ...added] };
}

const writtenBy = (stmt: Stmt): string => (stmt.kind === "map" ? stmt.dst.buffer : "");

/** Weights are made of whole blocks of codes, the steps of one behind the other; each step loads what it multiplies of A. */
function ofWeights(
  input: TileProgram,
  stmt: Extract<Stmt, { kind: "mma" }>,
  weights: Extract<Stmt, { kind: "map" }>,
  step: number,
  added: Buffer[],
): Stmt {
  const [chunk, block] = [stmt.a.extent[1], WEIGHT_K];
  const a = registerBuffer(nameOf(stmt.a), bufferOf(input, stmt.a.buffer).dtype, [stmt.a.extent[0], step]);
  const b = registerBuffer("fB", bufferOf(input, stmt.b.buffer).dtype, [block, stmt.b.extent[1]]);
  added.push(a, b);
  const from = mul(v("kb"), block);
  const words = codesOf(weights);
  const part = withViews({ ...weights, dst: wholeView(b) }, (view) =>
    view.buffer === b.name ? view : rowsOfWeights(view, chunk, from, block, view === words),
  );
  const offset = add(from, mul(v("kk"), step));
  const steps: Stmt[] = [
    load(a, sliceOf(stmt.a, 1, offset, step), input),
    { ...stmt, a: wholeView(a), b: sliceOf(wholeView(b), 0, mul(v("kk"), step), step) },
  ];
  const inner: Stmt = {
    kind: "for",
    var: "kk",
    from: lit(0),
    to: lit(block / step),
    unroll: true,
    body: steps,
  };
  return { kind: "for", var: "kb", from: lit(0), to: lit(chunk / block), unroll: true, body: [part, inner] };
}

/** `fA` of `A` and of `sA`. */
const nameOf = ({ buffer }: View): string => `f${buffer.replace(/^s(?=.)/, "")}`;

function sliceOf(view: View, axis: 0 | 1, offset: ReturnType<typeof mul>, extent: number): View {
  const [r, c] = view.origin;
  return axis === 0
    ? { ...view, origin: [add(r, offset), c], extent: [extent, view.extent[1]] }
    : { ...view, origin: [r, add(c, offset)], extent: [view.extent[0], extent] };
}

function load(dst: Buffer, src: View, program: TileProgram): Extract<Stmt, { kind: "copy" }> {
  const guarded = bufferOf(program, src.buffer).space === "global";
  return {
    kind: "copy",
    dst: wholeView(dst),
    src,
    transport: "direct",
    guard: [guarded, guarded],
    when: null,
    dist: null,
    vector: [1, 1],
    multicast: null,
  };
}
