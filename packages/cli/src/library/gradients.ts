/** The products that the gradients of a matrix product are made of, as problems: `launchers/python/_torch_reference.py` calls them by these suffixes. */
import type { Operand, Problem, ProblemRequest, SizeName } from "@tilewright/core";

type Extent = "m" | "n" | "k";

export interface GradientProblem {
  /** Behind the operation's name and an underscore. */
  readonly suffix: "product" | "da" | "db";
  readonly request: ProblemRequest;
}

/** Steps whose gradient needs no value of the forward pass. */
const linear: ReadonlySet<string> = new Set(["bias", "residual", "cast", "output"]);

const flipped = (operand: Operand): "row" | "col" => (operand.layout === "row" ? "col" : "row");

/** A product of the same batch; `extents` says which of the problem's own its m, n and k are. */
function product(
  problem: Problem,
  extents: readonly [Extent, Extent, Extent],
  operands: Pick<ProblemRequest, "a" | "b" | "d">,
): ProblemRequest {
  const { batch, precision, symbolic } = problem;
  const sizes = Object.fromEntries(
    (["m", "n", "k"] as const).map((name, i) => [name, problem[extents[i] ?? "m"]]),
  );
  const free = (["m", "n", "k"] as const).flatMap((name, i) => {
    const range = symbolic?.[(extents[i] ?? "m") satisfies SizeName];
    return range === undefined ? [] : [[name, range] as const];
  });
  const { batch: copies } = symbolic ?? {};
  const ranges = [...free, ...(copies === undefined ? [] : [["batch", copies] as const])];
  return {
    ...(sizes as { m: number; n: number; k: number }),
    ...operands,
    ...(precision === undefined ? {} : { precision }),
    ...(batch.kind === "strided" ? { batch: { kind: "strided", count: batch.count } } : {}),
    ...(ranges.length === 0 ? {} : { symbolic: Object.fromEntries(ranges) }),
  };
}

/**
 * `da` and `db`: the gradients of A and B as they lie in memory, from that of D (row-major, of A's dtype) and the other operand where it is. `product`: A.B
 * alone, where the epilogue's gradient needs what it began with.
 */
export function gradientProblems(problem: Problem): readonly GradientProblem[] {
  const { a, b, d, epilogue } = problem;
  const plain = ({ dtype, layout }: Operand) => ({ dtype, layout });
  const given = (layout: "row" | "col") => ({ dtype: a.dtype, layout });
  const made = (operand: Operand) => ({ dtype: operand.dtype, layout: "row" }) as const;
  const da =
    a.layout === "row"
      ? product(problem, ["m", "k", "n"], {
          a: given("row"),
          b: { dtype: b.dtype, layout: flipped(b) },
          d: made(a),
        })
      : product(problem, ["k", "m", "n"], { a: plain(b), b: given("col"), d: made(a) });
  const db =
    b.layout === "row"
      ? product(problem, ["k", "n", "m"], {
          a: { dtype: a.dtype, layout: flipped(a) },
          b: given("row"),
          d: made(b),
        })
      : product(problem, ["n", "k", "m"], { a: given("col"), b: plain(a), d: made(b) });
  const before = product(problem, ["m", "n", "k"], { a: plain(a), b: plain(b), d: plain(d) });
  return [
    ...(epilogue.every(({ kind }) => linear.has(kind))
      ? []
      : [{ suffix: "product", request: before } as const]),
    { suffix: "da", request: da },
    { suffix: "db", request: db },
  ];
}
