/** Read copies of A and B that a kernel before this one has transposed. */
import { directed } from "../tile/rewrite.ts";
import { TRANSPOSED_ALIGN, transposedStrides } from "../tile/transposed.ts";
import type { Buffer } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

/** Directive `transpose operands=ab|a|b`; without it matrices are read where the launch has them. */
export const transposeOperands: Pass = {
  name: "transposeOperands",
  summary: "A kernel before this one leaves A and B transposed in the workspace",
  from: "nest",
  to: "nest",
  run: directed("transpose", (program, { operands }) => {
    return {
      ...program,
      buffers: program.buffers.map((b): Buffer => {
        const which = b.name === "A" ? "a" : b.name === "B" ? "b" : null;
        if (b.space !== "global" || which === null || !operands.includes(which)) return b;
        const stride = transposedStrides(program.problem, which);
        return {
          ...b,
          layout: { shape: b.shape, stride, swizzle: null },
          align: TRANSPOSED_ALIGN,
          transposed: true,
        };
      }),
    };
  }),
};
