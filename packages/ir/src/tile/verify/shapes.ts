/** Tiles that meet in a statement have matching extents. */
import type { View } from "../types.ts";
import { type Verifier, viewText } from "./verifier.ts";

const differs = (a: View, b: View): boolean => a.extent[0] !== b.extent[0] || a.extent[1] !== b.extent[1];

export const shapes: Verifier = {
  name: "shapes",
  code: "TW3102",
  property: "copy and epilogue move equal rectangles; mma multiplies m x k by k x n into m x n",
  from: "nest",
  *check({ sites }) {
    for (const site of sites) {
      const { stmt } = site;
      if (stmt.kind === "copy" && differs(stmt.dst, stmt.src))
        yield {
          at: site,
          message: `copies ${viewText(stmt.src)} into ${viewText(stmt.dst)}`,
          hint: "source and destination need the same rows and columns",
        };
      if (stmt.kind === "epilogue") {
        for (const view of [stmt.dst, ...(stmt.c === null ? [] : [stmt.c])])
          if (differs(view, stmt.acc))
            yield {
              at: site,
              message: `stores ${viewText(stmt.acc)} with ${viewText(view)}`,
              hint: "accumulator, C and D need the same rows and columns",
            };
      }
      if (stmt.kind === "mma") {
        const [m, n] = stmt.acc.extent;
        const fits =
          stmt.a.extent[0] === m && stmt.b.extent[1] === n && stmt.a.extent[1] === stmt.b.extent[0];
        if (!fits)
          yield {
            at: site,
            message: `multiplies ${viewText(stmt.a)} by ${viewText(stmt.b)} into ${viewText(stmt.acc)}`,
            hint: `for a ${m} x ${n} accumulator A is ${m} x k and B is k x ${n}`,
          };
      }
    }
  },
};
