/** Keep the accumulators in tensor memory; the epilogue takes them out a few columns at a time. */
import { add, lit, mul, v } from "../tile/expr.ts";
import { registerBuffer } from "../tile/gemm.ts";
import { bufferOf, eachStmt, numberArg, rewriteStmts, takeDirective, withBody } from "../tile/rewrite.ts";
import { TENSOR_LANES } from "../tile/tensor.ts";
import type { Buffer, Expr, Stmt, TileProgram, View } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

type Epilogue = Extract<Stmt, { kind: "epilogue" }>;

/** The register tile that holds the columns being stored, and the variable that counts them. */
const PART = "part";
const STEP = "ct";

/** Lanes of a warp, and warps whose lanes are all rows of tensor memory. */
const WARP = 32;
const WARPS = TENSOR_LANES / WARP;

/**
 * Directive `accumulate columns=C`: the accumulator becomes a tensor tile, and every epilogue a loop over C columns of it (fewer where C does not
 * divide them), each loaded into registers in which a lane holds one row. The last step stands behind the loop, so that the tile can be given
 * back before its elements are stored. Without the directive accumulators stay in registers.
 */
export const accumulateInTensor: Pass = {
  name: "accumulateInTensor",
  summary: "Accumulators move to tensor memory; epilogues load them a few columns at a time",
  from: "staged",
  to: "staged",
  run(program) {
    const taken = takeDirective(program, "accumulate");
    if (!taken) return program;
    const input = taken.program;
    const names = new Set<string>();
    for (const stmt of eachStmt(input.body)) if (stmt.kind === "mma") names.add(stmt.acc.buffer);
    const [name] = names;
    if (name === undefined) return input;
    const acc = bufferOf(input, name);
    const columns = divisorUpTo(acc.shape[1], numberArg(taken.args, "columns", WARP));
    const part = partOf(acc, columns);
    const body = rewriteStmts(input.body, (stmt) =>
      stmt.kind === "epilogue" && stmt.acc.buffer === name ? inSteps(stmt, columns) : stmt,
    );
    return {
      ...withBody(input, body),
      buffers: [...input.buffers.map((b): Buffer => (b === acc ? { ...b, space: "tensor" } : b)), part],
    };
  },
};

/** Loads take 1, 2, 4, … 128 columns (PTX ISA, tcgen05.ld). */
function divisorUpTo(n: number, most: number): number {
  let d = 1;
  while (2 * d <= most && n % (2 * d) === 0) d *= 2;
  return d;
}

/** Row r of the tile lies in lane r of tensor memory, and lanes 32 w to 32 w + 31 belong to warp w (PTX ISA, tcgen05.ld). */
const partOf = (acc: Buffer, columns: number): Buffer => ({
  ...registerBuffer(PART, acc.dtype, [acc.shape[0], columns]),
  own: {
    rows: [
      // The halves of a pair's tile lie one behind the other.
      ...(acc.halves === 0 ? [{ tier: "cluster", extent: 2, stride: 1 } as const] : []),
      { tier: "warp", extent: WARPS, stride: 1 },
      { tier: "thread", extent: WARP, stride: 1 },
    ],
    cols: [{ tier: "register", extent: columns, stride: 1 }],
  },
});

function inSteps(stmt: Epilogue, columns: number): readonly Stmt[] {
  const count = stmt.acc.extent[1] / columns;
  const step = (at: Expr): readonly Stmt[] => {
    const shifted = (view: View): View => ({
      ...view,
      origin: [view.origin[0], add(view.origin[1], mul(at, columns))],
      extent: [view.extent[0], columns],
    });
    const part: View = {
      buffer: PART,
      slot: lit(0),
      origin: [lit(0), lit(0)],
      extent: [stmt.acc.extent[0], columns],
    };
    return [
      {
        kind: "copy",
        dst: part,
        src: shifted(stmt.acc),
        transport: "tcgen05.ld",
        guard: [false, false],
        when: null,
        dist: null,
        vector: [1, 1],
        multicast: null,
      },
      { ...stmt, dst: shifted(stmt.dst), acc: part, c: stmt.c && shifted(stmt.c) },
    ];
  };
  const loop: Stmt = {
    kind: "for",
    var: STEP,
    from: lit(0),
    to: lit(count - 1),
    unroll: true,
    body: step(v(STEP)),
  };
  return [...(count > 1 ? [loop] : []), ...step(lit(count - 1))];
}

/** Whether a program accumulates in tensor memory. */
export const accumulatesInTensor = (program: TileProgram): boolean =>
  program.buffers.some((b) => b.space === "tensor");
