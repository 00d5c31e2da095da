/** Element types agree where tiles meet. */
import { type DType, dtypes, memoryType, mixes, productDType } from "@tilewright/core";
import { widensIntoFragments } from "../../atoms/atoms.ts";
import { bufferAt, type Verifier } from "./verifier.ts";

const multiplies = (a: DType, b: DType): boolean => mixes(memoryType(a), memoryType(b));

/** Accumulators of an operand dtype: its usual one, and f16 for the narrow floats (mma.f16 accumulates in f16 too). */
const accumulates = (a: DType, acc: DType): boolean =>
  dtypes[a].acc === acc || (acc === "f16" && dtypes[a].bits <= 16 && dtypes[a].kind === "float");

export const dtypesAgree: Verifier = {
  name: "dtypes",
  code: "TW3103",
  property:
    "copies keep the dtype, or widen it into fragments, or on the way through registers to shared memory; A and B of an mma go together and with the accumulator",
  from: "nest",
  *check(subject) {
    const dtype = (name: string): DType => bufferAt(subject, name).dtype;
    for (const site of subject.sites) {
      const { stmt } = site;
      if (stmt.kind === "copy") {
        const [src, dst] = [dtype(stmt.src.buffer), dtype(stmt.dst.buffer)];
        const spaces = [stmt.src, stmt.dst].map(({ buffer }) => bufferAt(subject, buffer).space);
        const widens =
          (spaces.join() === "shared,register" ||
            (spaces.join() === "global,shared" && stmt.transport === "direct")) &&
          widensIntoFragments(src, dst);
        if (memoryType(src) !== memoryType(dst) && !widens)
          yield {
            at: site,
            message: `copies ${src} into ${dst}`,
            hint: "a copy does not convert, except e4m3 to 16 bits: from shared memory into fragments, or by transport direct into shared memory; the epilogue does",
          };
      }
      if (stmt.kind === "mma") {
        const [a, b, acc] = [dtype(stmt.a.buffer), dtype(stmt.b.buffer), dtype(stmt.acc.buffer)];
        if (!multiplies(a, b)) yield { at: site, message: `multiplies ${a} by ${b}`, hint: `make B ${a}` };
        else if (!accumulates(productDType(a, b), acc))
          yield {
            at: site,
            message: `accumulates products of ${productDType(a, b)} in ${acc}`,
            hint: `accumulate in ${dtypes[productDType(a, b)].acc}`,
          };
      }
    }
  },
};
