/** Make shared tiles explicit: `mma` reads shared memory, a copy per K chunk fills it. */
import { sizeOf } from "../dtype.ts";
import { bufferOf, rewriteStmts, takeDirective, wholeView, withBody, wordArg } from "../tile/rewrite.ts";
import type { Buffer, Stmt, TileProgram, Transport, View } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

/** 16 bytes: the widest access of shared memory, and what cp.async and ldmatrix rows need. */
const SHARED_ALIGN = 16;

const transports: Readonly<Record<string, Transport>> = {
  direct: "direct",
  "cp.async": "cp.async",
  tma: "tma",
};

/** Directive `stage operands=ab|a|b transport=direct|cp.async|tma`; without it operands are read from global memory. */
export const stageOperands: Pass = {
  name: "stageOperands",
  summary: "A and B pass through shared tiles, one copy per K chunk",
  from: "nest",
  to: "staged",
  run: (program) => stage({ ...program, stage: "staged" }),
};

function stage(input: TileProgram): TileProgram {
  const taken = takeDirective(input, "stage");
  if (!taken) return input;
  const operands = wordArg(taken.args, "operands", "ab");
  const transport = transports[wordArg(taken.args, "transport", "direct")] ?? "direct";
  const added: Buffer[] = [];

  const throughShared = (view: View, name: string): { readonly view: View; readonly copies: Stmt[] } => {
    const source = bufferOf(input, view.buffer);
    if (source.space !== "global") return { view, copies: [] };
    const shared: Buffer = {
      name,
      space: "shared",
      dtype: source.dtype,
      shape: view.extent,
      slots: 1,
      layout: null,
      own: null,
      align: Math.max(SHARED_ALIGN, sizeOf(source.dtype)),
    };
    added.push(shared);
    const dst = wholeView(shared);
    return {
      view: dst,
      copies: [
        {
          kind: "copy",
          dst,
          src: view,
          transport,
          guard: [true, true],
          when: null,
          dist: null,
          vector: [1, 1],
          multicast: null,
        },
      ],
    };
  };

  const body = rewriteStmts(input.body, (stmt) => {
    if (stmt.kind !== "mma") return stmt;
    const a = operands.includes("a") ? throughShared(stmt.a, "sA") : { view: stmt.a, copies: [] };
    const b = operands.includes("b") ? throughShared(stmt.b, "sB") : { view: stmt.b, copies: [] };
    return [...a.copies, ...b.copies, { ...stmt, a: a.view, b: b.view }];
  });
  return { ...withBody(taken.program, body), buffers: [...input.buffers, ...added] };
}
