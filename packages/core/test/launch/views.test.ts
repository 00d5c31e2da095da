import { describe, expect, test } from "vitest";
import { lifetimesOf, matrixLayout, packedView, reshapedView, transposedView } from "../../src/index.ts";

const view = packedView("x", [2, 3, 4]);

describe("strided views", () => {
  test("axes that follow each other in memory become one, or several", () => {
    expect(reshapedView(view, [6, -1])).toEqual({ storage: "x", offset: 0, shape: [6, 4], strides: [4, 1] });
    expect(reshapedView(view, [2, 12])?.strides).toEqual([12, 1]);
    expect(reshapedView(transposedView(view, [1, 0, 2]), [3, 2, 2, 2])?.strides).toEqual([4, 12, 2, 1]);
  });

  test("a transposed matrix has no other shape without a copy, and sizes that do not fit have none", () => {
    expect(reshapedView(transposedView(view, [1, 0, 2]), [3, 8])).toBeNull();
    expect(reshapedView(view, [5, 5])).toBeNull();
  });

  test("a matrix is read by rows or by columns; a slice of one has its leading dimension", () => {
    const matrix = packedView("x", [6, 8]);
    expect(matrixLayout(matrix)).toEqual({ layout: "row", ld: 8 });
    expect(matrixLayout(transposedView(matrix, [1, 0]))).toEqual({ layout: "col", ld: 8 });
    expect(matrixLayout({ ...matrix, shape: [6, 3] })).toEqual({ layout: "row", ld: 8 });
    expect(matrixLayout({ ...matrix, shape: [3, 4], strides: [16, 2] })).toBeNull();
  });

  test("lifetimes reach from the first to the last step that touches a tensor", () => {
    expect([...lifetimesOf([["a"], ["a", "b"], ["b"], ["a"]], (name) => name.length)]).toEqual([
      ["a", { bytes: 1, first: 0, last: 3 }],
      ["b", { bytes: 1, first: 1, last: 2 }],
    ]);
  });
});
