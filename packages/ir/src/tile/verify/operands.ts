/** Global buffers are the operands of the problem. */
import { type Operand, operandShape, operandStrides, type Problem } from "../../problem.ts";
import { nearestHint } from "../text/nearest.ts";
import type { Buffer } from "../types.ts";
import type { Fault, Verifier } from "./verifier.ts";

const letters = { A: "a", B: "b", C: "c", D: "d" } as const;
type Letter = keyof typeof letters;
const isLetter = (name: string): name is Letter => Object.hasOwn(letters, name);

export const operands: Verifier = {
  name: "operands",
  code: "TW3104",
  property:
    "global buffers are %A, %B, %C, %D with the problem's shape, dtype, strides and alignment; inputs are not written",
  from: "nest",
  *check({ program, sites, buffers }) {
    const { problem } = program;
    for (const buffer of program.buffers) {
      if (buffer.space !== "global") continue;
      if (!isLetter(buffer.name))
        yield {
          at: buffer,
          message: `global buffer %${buffer.name} is no operand`,
          hint: nearestHint(buffer.name, Object.keys(letters), "%") ?? "operands are %A, %B, %C and %D",
        };
      else yield* compare(buffer, buffer.name, problem);
    }
    for (const name of ["A", "B", "D"])
      if (buffers.get(name)?.space !== "global")
        yield {
          at: `%${name}`,
          message: `there is no global buffer %${name}`,
          hint: `declare global %${name}`,
        };
    for (const site of sites) {
      const { stmt } = site;
      if (stmt.kind !== "copy" && stmt.kind !== "fill" && stmt.kind !== "epilogue") continue;
      const { buffer } = stmt.dst;
      if (buffer !== "D" && buffers.get(buffer)?.space === "global")
        yield { at: site, message: `writes %${buffer}, an input`, hint: "write %D or a tile" };
    }
  },
};

function* compare(buffer: Buffer, name: Letter, problem: Problem): Iterable<Fault> {
  const operand: Operand | null = problem[letters[name]];
  if (operand === null) {
    yield {
      at: buffer,
      message: "the problem has no C",
      hint: "remove the buffer, or give the problem a beta",
    };
    return;
  }
  const [rows, cols] = operandShape(problem, letters[name]);
  const [rowStride, colStride] = operandStrides(operand);
  const expected: readonly (readonly [string, unknown, unknown])[] = [
    ["dtype", buffer.dtype, operand.dtype],
    ["shape", buffer.shape.join(" x "), `${rows} x ${cols}`],
    ["strides", buffer.layout?.stride.join(", ") ?? "none", `${rowStride}, ${colStride}`],
    ["slots", buffer.slots, 1],
  ];
  for (const [what, found, wanted] of expected)
    if (found !== wanted)
      yield {
        at: buffer,
        message: `${what} ${found}, where the problem says ${wanted}`,
        hint: `write ${wanted}`,
      };
  if (buffer.align > operand.align)
    yield {
      at: buffer,
      message: `claims an alignment of ${buffer.align} bytes, where the problem guarantees ${operand.align}`,
      hint: `write align ${operand.align}, or raise the problem's alignment`,
    };
}
