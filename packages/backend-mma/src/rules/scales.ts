/** Block-scaled operands: scale factors come in blocks of 128 rows, beside elements that may share bytes. */
import { SCALE_ROWS } from "@tilewright/core";
import { nearestMultiple } from "@tilewright/ir";
import { isPacked } from "../atoms.ts";
import { type Rule, rule } from "./rule.ts";

export const scaleRules: readonly Rule[] = [
  rule("TW2231", "tile", ({ s, atom }) => {
    if (atom.scaledForm === null) return null;
    const extents = [
      ["m", s.tileM],
      ["n", s.tileN],
    ] as const;
    return extents.flatMap(([axis, extent]) =>
      extent > 0 && extent % SCALE_ROWS === 0
        ? []
        : [
            {
              message: `tile ${axis} ${extent}: scale factors of ${atom.a} come in blocks of ${SCALE_ROWS} ${axis === "m" ? "rows" : "columns"}`,
              hint: `nearest legal: tile ${axis} ${nearestMultiple(extent, SCALE_ROWS)}`,
            },
          ],
    );
  }),
  rule("TW2232", "copy", ({ s, atom }) => {
    if (atom.scaledForm === null || s.copy === "cp.async") return null;
    if (s.copy === "tma")
      return {
        message: "block-scaled operands and their scale factors are copied by the threads that multiply them",
        hint: "nearest legal: copy=cp.async",
      };
    return isPacked(atom.a)
      ? {
          message: `two elements of ${atom.a} share a byte, and copy=direct stores single ones`,
          hint: "nearest legal: copy=cp.async",
        }
      : null;
  }),
  rule("TW2233", "sharedLayout", ({ s, atom }) =>
    atom.scaledForm !== null && !isPacked(atom.a) && s.copy === "direct" && s.sharedLayout !== "plain"
      ? {
          message: `slots with scale factors begin at multiples of no swizzle that single elements of ${atom.a} want`,
          hint: "nearest legal: sharedLayout=plain, or copy=cp.async",
        }
      : null,
  ),
];
