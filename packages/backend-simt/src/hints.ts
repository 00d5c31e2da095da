/** What ptxas is told of a kernel. */
import { type DType, sizeOf } from "@tilewright/core";
import type { LaunchHints, TileProgram } from "@tilewright/ir";

/** What the kernel reads and stores, with repetitions. */
const dtypesOf = ({ buffers, problem }: TileProgram): readonly DType[] => [
  ...buffers.map(({ dtype }) => dtype),
  ...problem.epilogue.flatMap((step) =>
    "operand" in step ? [step.operand.dtype] : "dtype" in step ? [step.dtype] : [],
  ),
];

/** Left alone, ptxas 13.0 lowers its register aim for kernels with 16-bit values, and meets it by spilling some. */
export const hints = (program: TileProgram): LaunchHints => ({
  ctas: dtypesOf(program).some((dtype) => sizeOf(dtype) < 4) ? 1 : null,
  keeps: ["addresses"],
});
