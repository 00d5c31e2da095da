import {
  defineProblem,
  type ProblemRequest,
  parseProblem,
  printProblem,
  referenceGemm,
} from "@tilewright/core";
import { describe, expect, test } from "vitest";

const small = { m: 2, n: 3, k: 2 } as const;
const define = (request: Partial<ProblemRequest>) => defineProblem({ ...small, ...request });

describe("requests", () => {
  test.each([
    [{ op: "ffn" }, "map(silu(acc)*up)", "halves"],
    [{ op: "ffn", act: "gelu" }, "map(gelu(acc)*up)", "halves"],
    [{ op: "ffn", act: "gelu", epilogue: "acc + b[n]" }, "map(gelu(acc)*up)|bias(n,f32)", "halves"],
    [
      { op: "ffn", gated: "interleaved", b: { layout: "col" }, epilogue: "silu(acc + g[n]) * (up + u[n])" },
      "load(n,f32)|load(n,f32)|map(silu(acc+$0)*(up+$1))",
      "interleaved",
    ],
    [{ op: "ffn", gated: "matrices" }, "map(silu(acc)*up)|factor(2,3,f32:row:3:16)", "matrices"],
  ] as const)("%j", (request, epilogue, gated) => {
    const made = define(request);
    if (!made.ok) throw new Error(JSON.stringify(made.error));
    const text = printProblem(made.value);
    expect(text).toContain(`gated=${gated} `);
    expect(text).toContain(` epilogue=${epilogue}`);
    const b = { halves: "row:6", interleaved: "col:2", matrices: "row:3" }[gated];
    expect(text).toContain(`b=f32:${b}:16`);
    expect(parseProblem(text)).toMatchObject({ ok: true, value: { gated } });
  });

  test.each([
    [{ gated: "halves" }, "epilogue"],
    [{ gated: "halves", epilogue: "relu | silu(acc) * up" }, "epilogue[0]"],
    [{ gated: "halves", epilogue: "silu(acc) * up | acc + up" }, "epilogue[1]"],
    [{ op: "ffn", beta: 1 }, "beta"],
    [{ op: "ffn", gated: "interleaved" }, "b.layout"],
    [{ op: "ffn", symbolic: { m: {}, n: {} } }, "symbolic"],
    [{ op: "ffn", symbolic: { ldb: {} } }, "symbolic"],
    [{ op: "ffn", dtype: "f64" }, "acc"],
    [{ op: "ffn", gated: "matrices", dtype: "mxf8" }, "b.dtype"],
    [{ op: "ffn", gated: "matrices", batch: { kind: "strided", count: 2, strideB: 0 } }, "batch.strideB"],
    [{ gated: "matrices", epilogue: "silu(acc)*up|factor(2,3,f32:col:2:16)" }, "epilogue[1].operand"],
    [{ gated: "matrices", epilogue: "silu(acc)*up|factor(1,3,f32:row:3:16)" }, "epilogue[1]"],
    [
      { gated: "matrices", epilogue: "silu(acc)*up|factor(2,3,f32:row:3:16)|factor(2,3,f32:row:3:16)" },
      "epilogue",
    ],
  ] as const)("refused: %j", (request, at) => {
    const made = define(request);
    expect(!made.ok && made.error.map(({ code, at }) => [code, at])).toEqual([["TW1018", at]]);
  });

  test("an activation without an ffn is no request", () => {
    const made = define({ act: "silu" });
    expect(!made.ok && made.error.map(({ code, at }) => [code, at])).toEqual([["TW1018", "act"]]);
  });
});

describe("the reference pairs the columns of B", () => {
  const a = Float64Array.of(1, 2, -1, 0.5);
  // Wg is 2 x 3, Wu likewise.
  const gate = [1, 2, 3, 4, 5, 6];
  const up = [-1, 1, 0.5, 2, 0, 1];
  const sums = (w: readonly number[], row: number, col: number): number =>
    (a[2 * row] ?? 0) * (w[col] ?? 0) + (a[2 * row + 1] ?? 0) * (w[3 + col] ?? 0);
  const wanted = Array.from({ length: 6 }, (_, i) => {
    const [row, col] = [Math.floor(i / 3), i % 3];
    return Math.max(0, sums(gate, row, col)) * sums(up, row, col);
  });
  test.each([
    ["halves", "row", [1, 2, 3, -1, 1, 0.5, 4, 5, 6, 2, 0, 1]],
    ["halves", "col", [1, 4, 2, 5, 3, 6, -1, 2, 1, 0, 0.5, 1]],
    ["interleaved", "col", [1, 4, -1, 2, 2, 5, 1, 0, 3, 6, 0.5, 1]],
    ["matrices", "col", [1, 4, 2, 5, 3, 6], [-1, 2, 1, 0, 0.5, 1]],
  ] as const)("%s, %s", (gated, layout, b, ...second) => {
    const made = define({ op: "ffn", act: "relu", gated, b: { layout } });
    if (!made.ok) throw new Error(JSON.stringify(made.error));
    const steps = [null, Float64Array.from(second.flat())];
    expect([...referenceGemm(made.value, { a, b: Float64Array.from(b), steps }).d.values]).toEqual(wanted);
  });
});
