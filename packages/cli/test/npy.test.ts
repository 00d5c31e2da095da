import { execFileSync } from "node:child_process";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { decodeArray, encodeArray } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { loadMatrix } from "../src/files/load.ts";
import { encodeNpy } from "../src/files/npy.ts";
import type { Matrix } from "../src/files/tensor.ts";
import { contextIn } from "./harness.ts";
import { scratch } from "./scratch.ts";

const fixtures = fileURLToPath(new URL("fixtures", import.meta.url));
/** The matrix that make.py stores: (i - 5) / 4, exact in every dtype. */
const expected = Array.from({ length: 12 }, (_, i) => (i - 5) / 4);

const load = (source: string, cwd = fixtures) => loadMatrix(contextIn(cwd), source);

/** Values in C order, whatever the file's. */
function rowMajor({ rows, cols, dtype, data, layout }: Matrix): readonly number[] {
  const values = decodeArray(dtype, data, rows * cols);
  return Array.from({ length: rows * cols }, (_, i) => {
    const [row, col] = [Math.floor(i / cols), i % cols];
    return values[layout === "row" ? i : col * rows + row] ?? Number.NaN;
  });
}

describe("files written by NumPy", () => {
  test.each([
    ["f32_c.npy", "f32", "row"],
    ["f32_fortran.npy", "f32", "col"],
    ["f16_c.npy", "f16", "row"],
    ["f16_fortran.npy", "f16", "col"],
    ["f64.npy", "f64", "row"],
    ["weights.safetensors#w.f32", "f32", "row"],
    ["weights.safetensors#w.f16", "f16", "row"],
    ["weights.safetensors#w.bf16", "bf16", "row"],
  ])("%s holds %s in %s order", (source, dtype, layout) => {
    const matrix = load(source);
    if (!matrix.ok) throw new Error(matrix.error.map((d) => d.message).join());
    expect(matrix.value).toMatchObject({ rows: 3, cols: 4, dtype, layout });
    expect(rowMajor(matrix.value)).toEqual(expected);
  });
});

describe("refused, with the reason", () => {
  test.each([
    ["big_endian.npy", "TW7023", "big_endian.npy is big-endian (dtype >f4)"],
    ["rank3.npy", "TW7024", "rank3.npy has shape (2, 3, 4), which is rank 3; a matrix has rank 2"],
    ["rank1.npy", "TW7024", "rank1.npy has shape (7,), which is rank 1; a matrix has rank 2"],
    ["empty.npy", "TW7024", "empty.npy has shape (0, 4): it holds no elements"],
    ["bool.npy", "TW7022", "bool.npy holds bool (b1), which is not read"],
    ["i64.npy", "TW7022", "i64.npy holds int64 (i8), which is not read"],
    ["complex.npy", "TW7022", "complex.npy holds complex64 (c8), which is not read"],
    ["structured.npy", "TW7020", "structured.npy is not a .npy file of numbers: Malformed .npy header"],
    ["missing.npy", "TW7010", "cannot read missing.npy: there is no such file"],
    ["make.py", "TW7013", "make.py is in no format that is read"],
    ["weights.safetensors", "TW7031", "weights.safetensors does not say which tensor"],
    ["weights.safetensors#w.f3", "TW7031", "weights.safetensors has no tensor 'w.f3'"],
    ["weights.safetensors#__metadata__", "TW7031", "weights.safetensors has no tensor '__metadata__'"],
    ["weights.safetensors#w.i64", "TW7032", "weights.safetensors#w.i64 has dtype I64, which is not read"],
  ])("%s", (source, code, message) => {
    expect(load(source)).toMatchObject({ ok: false, error: [{ code, message, kind: "invalid" }] });
  });

  const whole = readFileSync(join(fixtures, "f32_c.npy"));
  test.each([
    ["inside the magic", 4, "TW7021", "truncated: its bytes do not fill what its header says"],
    ["inside the header", 40, "TW7021", "truncated: its bytes do not fill what its header says"],
    [
      "inside an element",
      whole.length - 3,
      "TW7021",
      "truncated: its bytes do not fill what its header says",
    ],
    [
      "between elements",
      whole.length - 8,
      "TW7021",
      "holds 10 elements where its shape (3, 4) needs 12: it is truncated",
    ],
    [
      "after the header",
      whole.length - 48,
      "TW7021",
      "holds 0 elements where its shape (3, 4) needs 12: it is truncated",
    ],
  ])("a file cut off %s", (_where, length, code, message) => {
    using folder = scratch();
    writeFileSync(join(folder.path, "cut.npy"), whole.subarray(0, length));
    expect(load("cut.npy", folder.path)).toMatchObject({
      ok: false,
      error: [{ code, message: expect.stringContaining(message) }],
    });
  });

  test("bytes beyond what the shape needs, and files that are no .npy at all", () => {
    using folder = scratch();
    writeFileSync(join(folder.path, "long.npy"), Buffer.concat([whole, Buffer.alloc(8)]));
    writeFileSync(join(folder.path, "text.npy"), "these are not the bytes you are looking for");
    expect(load("long.npy", folder.path)).toMatchObject({
      error: [{ message: "long.npy holds 14 elements where its shape (3, 4) needs 12" }],
    });
    expect(load("text.npy", folder.path)).toMatchObject({
      error: [{ code: "TW7020", message: "text.npy is not a .npy file of numbers: Not an .npy file" }],
    });
  });

  const weights = readFileSync(join(fixtures, "weights.safetensors"));
  test.each([
    [
      "too short for a length",
      weights.subarray(0, 5),
      "it is shorter than the 8 bytes of its header's length",
    ],
    ["a header cut off", weights.subarray(0, 60), "is cut off"],
    [
      "a header that is no JSON",
      Buffer.concat([weights.subarray(0, 8), Buffer.from("x"), weights.subarray(9)]),
      "its header is not the JSON",
    ],
    [
      "a huge header",
      Buffer.concat([Buffer.from([0, 0, 0, 0, 0, 0, 0, 1]), weights.subarray(8)]),
      "its header would be",
    ],
    ["a tensor cut off", weights.subarray(0, weights.length - 100), "'w.bf16' ends at byte"],
  ])("safetensors: %s", (_what, bytes, message) => {
    using folder = scratch();
    writeFileSync(join(folder.path, "x.safetensors"), bytes);
    expect(load("x.safetensors#w.bf16", folder.path)).toMatchObject({
      ok: false,
      error: [{ code: "TW7030", message: expect.stringContaining(message) }],
    });
  });

  test("safetensors: a tensor whose bytes do not fit its shape", () => {
    using folder = scratch();
    const text = weights.toString("latin1").replace('"F16", "shape": [3, 4]', '"F16", "shape": [3, 5]');
    writeFileSync(join(folder.path, "x.safetensors"), text, "latin1");
    expect(load("x.safetensors#w.f16", folder.path)).toMatchObject({
      error: [
        {
          message:
            "x.safetensors is not a whole safetensors file: 'w.f16' is said to lie in bytes 48 to 72, where its shape needs 30",
        },
      ],
    });
  });
});

describe("writing", () => {
  const encode = (dtype: "f32" | "f16" | "bf16") => encodeNpy([3, 4], dtype, encodeArray(dtype, expected));

  test.each(["f32", "f16"] as const)("%s comes back as it was", (dtype) => {
    using folder = scratch();
    writeFileSync(join(folder.path, "x.npy"), encode(dtype));
    const back = load("x.npy", folder.path);
    expect(back).toMatchObject({
      ok: true,
      value: { rows: 3, cols: 4, dtype, layout: "row", data: encodeArray(dtype, expected) },
    });
  });

  test("bf16, which NumPy lacks, is widened to float32", () => {
    using folder = scratch();
    writeFileSync(join(folder.path, "x.npy"), encode("bf16"));
    const back = load("x.npy", folder.path);
    expect(back).toMatchObject({ ok: true, value: { dtype: "f32" } });
    if (back.ok) expect(rowMajor(back.value)).toEqual(expected);
  });

  const python = (() => {
    try {
      execFileSync("python3", ["-c", "import numpy"], { stdio: "ignore" });
      return true;
    } catch {
      return false;
    }
  })();
  test.skipIf(!python)("NumPy reads what is written", () => {
    using folder = scratch();
    copyFileSync(join(fixtures, "f32_c.npy"), join(folder.path, "want.npy"));
    writeFileSync(join(folder.path, "f32.npy"), encode("f32"));
    writeFileSync(join(folder.path, "f16.npy"), encode("f16"));
    const script =
      "import numpy as n; w = n.load('want.npy'); a = n.load('f32.npy'); b = n.load('f16.npy'); print((a == w).all(), (b == w).all(), a.dtype, b.dtype)";
    expect(execFileSync("python3", ["-c", script], { cwd: folder.path, encoding: "utf8" }).trim()).toBe(
      "True True float32 float16",
    );
  });
});
