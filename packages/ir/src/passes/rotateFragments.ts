/** Double-buffer the register fragments: step kk multiplies while step kk + 1 loads, across chunks too. */
import { cond } from "../tile/cond.ts";
import { add, div, lit, mod, substituteExpr, v } from "../tile/expr.ts";
import { bufferOf, rewriteStmts, takeDirective, withBody } from "../tile/rewrite.ts";
import type { Copy, Expr, For, Stmt, TileProgram, View } from "../tile/types.ts";
import { withReads } from "../tile/views.ts";
import type { Pass } from "./pass.ts";

type Wait = Extract<Stmt, { kind: "wait" }>;

/**
 * Directive `rotate slots=2 store=S`. Fragment slots alternate by step, so the steps of a chunk must be even in number.
 * `store`: step before which the late half of a prefetching copy (registers -> shared) stands; it must precede the last step,
 * where the next chunk is waited for. Where warps will be told apart (`roles`) this is done after that, by `rotateInRoles`.
 */
export const rotateFragments: Pass = {
  name: "rotateFragments",
  summary: "Fragments of the next K step load while this one multiplies, across chunks too",
  from: "pipelined",
  to: "pipelined",
  run(program) {
    return program.directives.some((d) => d.name === "roles") ? program : rotateAll(program);
  },
};

/** What the directive asks; the program as it is without one. `asks`: the first chunk is waited for only where there is one. */
export function rotateAll(program: TileProgram, asks = false): TileProgram {
  const taken = takeDirective(program, "rotate");
  if (!taken) return program;
  const slots = taken.args.slots;
  return rotate(taken.program, slots, taken.args.store, asks);
}

function rotate(input: TileProgram, slots: number, store: number, asks: boolean): TileProgram {
  const fragments = new Set<string>();
  const body = rewriteStmts(input.body, (stmt) => {
    if (stmt.kind !== "for" || stmt.unroll) return stmt;
    const parts = matchSteadyState(input, stmt);
    if (!parts) return stmt;
    for (const copy of parts.loads) fragments.add(copy.dst.buffer);
    return rotated(parts, slots, store, asks);
  });
  return {
    ...withBody(input, body),
    buffers: input.buffers.map((b) => (fragments.has(b.name) ? { ...b, slots } : b)),
  };
}

interface SteadyState {
  readonly loop: For;
  readonly wait: Wait;
  readonly early: readonly Stmt[];
  readonly steps: For;
  readonly loads: readonly Copy[];
  readonly multiply: readonly Stmt[];
  readonly late: readonly Stmt[];
  readonly release: Stmt;
}

/** `for t { wait; early; for step unroll { fragment loads; multiply }; late; release }`, as pipelineRing leaves it. */
function matchSteadyState(program: TileProgram, loop: For): SteadyState | null {
  const [wait, ...rest] = loop.body;
  const release = rest.pop();
  const position = rest.findIndex((s) => s.kind === "for" && s.unroll);
  const steps = rest[position];
  if (wait?.kind !== "wait" || release?.kind !== "release" || steps?.kind !== "for") return null;
  const loads = steps.body.filter(
    (s): s is Copy => s.kind === "copy" && bufferOf(program, s.dst.buffer).space === "register",
  );
  const multiply = steps.body.filter((s) => s.kind !== "copy");
  return {
    loop,
    wait,
    release,
    steps,
    loads,
    multiply,
    early: rest.slice(0, position),
    late: rest.slice(position + 1),
  };
}

function rotated(parts: SteadyState, slots: number, store: number, asks: boolean): readonly Stmt[] {
  const { loop, steps, loads } = parts;
  const [chunk, step] = [v(loop.var), v(steps.var)];
  const count = steps.to.kind === "const" ? steps.to.value : 0;
  const last = count - 1;
  const nextStep = add(step, 1);
  // Step kk + 1 of chunk t is step (kk + 1) % count of chunk t + (kk + 1) / count.
  const nextChunk = add(chunk, div(nextStep, count));
  const next = new Map<string, Expr>([
    [loop.var, nextChunk],
    [steps.var, mod(nextStep, count)],
  ]);
  const start = new Map<string, Expr>([
    [loop.var, loop.from],
    [steps.var, lit(0)],
  ]);
  const loadAt = (copy: Copy, values: ReadonlyMap<string, Expr>, slot: Expr): Copy => ({
    ...copy,
    src: substituteView(copy.src, values),
    dst: { ...copy.dst, slot },
  });
  const slotted = new Set(loads.map((copy) => copy.dst.buffer));
  const read = (view: View): View => (slotted.has(view.buffer) ? { ...view, slot: mod(step, slots) } : view);
  const when = (at: number, body: readonly Stmt[]): Stmt[] =>
    body.length === 0 ? [] : [{ kind: "if", cond: cond(step, "==", at), body: body }];

  const body: Stmt[] = [
    ...when(0, parts.early),
    ...when(Math.min(store, last - 1), parts.late),
    ...when(last, [
      parts.release,
      {
        kind: "if",
        cond: cond(add(chunk, 1), "<", loop.to),
        body: [{ ...parts.wait, at: add(chunk, 1) }],
      },
    ]),
    ...loads.map((copy) => ({
      ...loadAt(copy, next, mod(nextStep, slots)),
      when: cond(nextChunk, "<", loop.to),
    })),
    ...parts.multiply.map((s): Stmt => (s.kind === "mma" ? withReads(s, read) : s)),
  ];
  const first: Stmt = { ...parts.wait, at: loop.from };
  const any = cond(loop.from, "<", loop.to);
  return [
    asks ? { kind: "if", cond: any, body: [first] } : first,
    ...loads.map((copy) => ({ ...loadAt(copy, start, lit(0)), ...(asks ? { when: any } : {}) })),
    { ...loop, body: [{ ...steps, body }] },
  ];
}

function substituteView(view: View, values: ReadonlyMap<string, Expr>): View {
  const [r, c] = view.origin;
  return {
    ...view,
    slot: substituteExpr(view.slot, values),
    origin: [substituteExpr(r, values), substituteExpr(c, values)],
  };
}
