/** Layouts describe their tiles and give every element its own place. */
import { interleavedFault, isInjective, panelsFault } from "../../layout/layout.ts";
import { swizzleFault } from "../../layout/swizzle.ts";
import { printLayout } from "../../layout/text.ts";
import { elementBytes } from "../elementBytes.ts";
import { blockShape } from "../rewrite.ts";
import { isFactors } from "../scaleTiles.ts";
import type { Buffer } from "../types.ts";
import type { Fault, Verifier } from "./verifier.ts";

export const layouts: Verifier = {
  name: "layouts",
  code: "TW3112",
  property:
    "layouts have the buffer's shape, give no two elements the same address, and swizzles move whole elements; global ones have no swizzle, registers no layout",
  from: "nest",
  *check({ program }) {
    for (const buffer of program.buffers) yield* checkBuffer(buffer);
  },
};

function* checkBuffer(buffer: Buffer): Iterable<Fault> {
  const { layout, space } = buffer;
  if (layout === null) {
    if (space === "global")
      yield { at: buffer, message: "has no layout", hint: "write layout (ROWS,COLS):(STRIDE,STRIDE)" };
    return;
  }
  if (space === "register") {
    yield { at: buffer, message: "a register tile with a layout", hint: "write own rows(…) cols(…)" };
    return;
  }
  const [rows, cols] = blockShape(buffer);
  if (
    layout.shape.length !== 2 ||
    layout.stride.length !== 2 ||
    layout.shape[0] !== rows ||
    layout.shape[1] !== cols
  ) {
    yield {
      at: buffer,
      message: `layout ${printLayout(layout)} is not of shape ${rows} x ${cols}`,
      hint: `write (${rows},${cols}):(…)`,
    };
    return;
  }
  const broken = layout.panels === undefined ? null : panelsFault(layout, layout.panels);
  if (broken !== null) {
    yield {
      at: buffer,
      message: broken,
      hint: "write panels<AXIS,EXTENT,STEP>, for instance panels<1,64,8192>",
    };
    return;
  }
  const uneven = layout.interleaved === undefined ? null : interleavedFault(layout, layout.interleaved);
  if (uneven !== null) {
    yield {
      at: buffer,
      message: uneven,
      hint: "write interleaved<AXIS,RUNS,STEP>, for instance interleaved<1,4,4096>",
    };
    return;
  }
  // Its problem's factors may have rows that are one and the same.
  const repeats = space === "global" && layout.interleaved?.step === 0 && isFactors(buffer.name);
  if (!repeats && !isInjective(layout))
    yield {
      at: buffer,
      message: `layout ${printLayout(layout)} gives two elements the same address`,
      hint: `a row stride of ${cols} or more with column stride 1, or the other way round`,
    };
  const { swizzle } = layout;
  if (space === "global" && layout.panels !== undefined)
    yield { at: buffer, message: "panels in global memory", hint: "matrices of the caller are plain" };
  if (space === "global" && layout.interleaved !== undefined && !repeats)
    yield {
      at: buffer,
      message: "a interleaved axis in global memory",
      hint: "matrices of the caller are plain",
    };
  if (swizzle === null) return;
  const fault = swizzleFault(swizzle);
  if (fault !== null) yield { at: buffer, message: fault, hint: "for instance swizzle<3,4,3>" };
  else if (2 ** swizzle.base < elementBytes(buffer))
    yield {
      at: buffer,
      message: "the swizzle splits elements",
      hint: `a base of ${Math.log2(elementBytes(buffer))} or more`,
    };
  if (space === "global")
    yield { at: buffer, message: "a swizzle in global memory", hint: "matrices of the caller are plain" };
}
