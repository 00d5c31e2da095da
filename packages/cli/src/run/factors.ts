/** Scale factors of block-scaled matrices from files: rows of codes or of f32, as quantisers make them, into the order that kernels read. */
import {
  BLOCK_SCALE,
  type BlockFactors,
  blockFactors,
  bytesOfStorage,
  type Checked,
  type Diagnostic,
  type DType,
  err,
  ok,
  type Problem,
  packScales,
  type ScaleFormat,
  scaleMatrix,
} from "@tilewright/core";
import { codes, problemWith } from "../codes.ts";
import type { Context } from "../context.ts";
import { loadMatrix } from "../files/load.ts";
import type { Matrix } from "../files/tensor.ts";
import type { Matrices } from "./files.ts";

const names = ["sfa", "sfb"] as const;
type Name = (typeof names)[number];
export type FactorFiles = Readonly<Partial<Record<Name, Matrix>>>;

const operandOf = { sfa: "a", sfb: "b" } as const;

/** Element types of files that hold codes of a format. */
const holdsCodes: Readonly<Record<ScaleFormat, readonly DType[]>> = { ue8m0: ["u8"], ue4m3: ["u8", "e4m3"] };

/** What a file of factors has to be. */
interface Wanted {
  readonly rows: number;
  readonly factors: number;
  readonly dtypes: readonly DType[];
  /** `ue8m0 codes`, `f32 factors`. */
  readonly what: string;
  readonly hint: string;
  /** Elements of K under a factor. */
  readonly block: number;
}

/** The factors of A or B as a file has them; null where it has none. */
function wantedOf(problem: Problem, which: "a" | "b"): Wanted | null {
  const [matrix, blocks] = [scaleMatrix(problem, which), blockFactors(problem, which)];
  if (blocks !== null) {
    const { rows, factors } = blocks;
    const what = "f32 factors";
    return { rows, factors, dtypes: ["f32"], what, hint: "save them as float32", block: BLOCK_SCALE };
  }
  if (matrix === null) return null;
  const { rows, factors, format, block } = matrix;
  const what = `${format} codes`;
  return { rows, factors, dtypes: holdsCodes[format], what, hint: "save the codes as uint8", block };
}

/** Load the files that are named; all errors at once. */
export function loadFactors(
  context: Context,
  args: Readonly<Partial<Record<Name, string | undefined>>>,
): Checked<FactorFiles> {
  const errors: Diagnostic[] = [];
  const files: Partial<Record<Name, Matrix>> = {};
  for (const name of names) {
    const path = args[name];
    if (path === undefined) continue;
    const matrix = loadMatrix(context, path);
    if (matrix.ok) files[name] = matrix.value;
    else errors.push(...matrix.error);
  }
  return errors.length > 0 ? err(errors) : ok(files);
}

/** Factors that the problem has no place for, of another shape or type, or missing beside a matrix from a file. */
export function checkFactors(
  problem: Problem,
  matrices: Matrices,
  files: FactorFiles,
): readonly Diagnostic[] {
  return names.flatMap((name): readonly Diagnostic[] => {
    const which = operandOf[name];
    const [file, matrix] = [files[name], wantedOf(problem, which)];
    const letter = which.toUpperCase();
    if (file === undefined) {
      if (matrix === null || matrices[which] === undefined) return [];
      const message = `${letter} comes from a file, and its scale factors do not`;
      const hint = `give --${name}: ${matrix.rows} x ${matrix.factors} ${matrix.what}`;
      return [problemWith(codes.conflict, `--${which}`, message, { hint })];
    }
    if (matrix === null)
      return [
        problemWith(
          codes.conflict,
          `--${name}`,
          `${letter} is ${problem[which].dtype}, which has no scale factors`,
          {
            hint: "mxf8, mxf4, nvf4 and their kin have, and e4m3 and e5m2 with --block-scales",
          },
        ),
      ];
    const found: Diagnostic[] = [];
    if (file.rows !== matrix.rows || file.cols !== matrix.factors)
      found.push(
        problemWith(
          codes.shapeMismatch,
          `--${name}`,
          `${file.source} has shape (${file.rows}, ${file.cols}); ${letter} has ${matrix.rows} x ${matrix.factors} scale factors, one for ${matrix.block} elements of K`,
          {
            hint: `save them as (${matrix.rows}, ${matrix.factors}), ${problem.blockScales?.[which] === "128x128" ? "128 rows" : "rows"} of ${which === "a" ? "A" : "B's columns"}`,
          },
        ),
      );
    if (!matrix.dtypes.includes(file.dtype))
      found.push(
        problemWith(codes.lossyInput, `--${name}`, `${file.source} holds ${file.dtype}, no ${matrix.what}`, {
          hint: matrix.hint,
        }),
      );
    if (problem.batch.kind !== "none")
      found.push(
        problemWith(codes.conflict, "--batch", "a file holds the factors of one matrix, not of a batch", {
          hint: "leave --batch out",
        }),
      );
    return found;
  });
}

/** The factors of a file in the order that kernels read; null where there is no file. */
export function factorBytes(problem: Problem, name: Name, files: FactorFiles): Uint8Array | null {
  const [file, matrix] = [files[name], scaleMatrix(problem, operandOf[name])];
  const blocks = blockFactors(problem, operandOf[name]);
  if (file !== undefined && blocks !== null) return placeFactors(blocks, file);
  if (file === undefined || matrix === null) return null;
  const stored = bytesOfStorage(file.data);
  if (file.layout === "row") return packScales(matrix, stored);
  const rows = Uint8Array.from(
    { length: matrix.rows * matrix.factors },
    (_, i) => stored[Math.floor(i / matrix.factors) + (i % matrix.factors) * matrix.rows] ?? 0,
  );
  return packScales(matrix, rows);
}

/** Factors in f32 where kernels read them. */
function placeFactors({ rows, factors, strides, bytes }: BlockFactors, { data, layout }: Matrix): Uint8Array {
  const stored = bytesOfStorage(data);
  const [from, to] = [new DataView(stored.buffer, stored.byteOffset), new DataView(new ArrayBuffer(bytes))];
  for (let row = 0; row < rows; row++)
    for (let factor = 0; factor < factors; factor++) {
      const at = layout === "row" ? row * factors + factor : row + factor * rows;
      to.setFloat32(4 * (row * strides[0] + factor * strides[1]), from.getFloat32(4 * at, true), true);
    }
  return new Uint8Array(to.buffer);
}
