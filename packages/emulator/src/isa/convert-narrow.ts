/** cvt to and from pairs of elements of 4 and 6 bits, and of ue8m0 scale factors. PTX ISA 9.0, chapter 9.7.9.22. */
import type { Operation } from "../load/types.ts";
import { type Decoder, unary } from "./row.ts";

/** Bits from one element of a pair to the next; the upper element is the first operand. */
const spacing = { e2m1x2: 4, e2m3x2: 8, e3m2x2: 8, ue8m0x2: 8 } as const;
type NarrowPair = keyof typeof spacing;

export const isNarrowPair = (type: string): type is NarrowPair => Object.hasOwn(spacing, type);

/** The row of a conversion one of whose types is a narrow pair. */
export function convertNarrow(d: Decoder, dst: string, src: string): Operation {
  const rounding = d.option("rn", "rz", "rp") ?? d.refuse("only .rn, .rz and .rp are emulated");
  const relu = d.flag("relu");
  d.flag("satfinite");
  if (isNarrowPair(dst)) return encodePair(d, dst, src, rounding, relu);
  if (!isNarrowPair(src)) return d.refuse("the types of this conversion are not emulated");
  const [to, from] = unary(d);
  const scale = src === "ue8m0x2";
  const format = src.slice(0, -2);
  const mask = scale ? 255 : format === "e2m1" ? 15 : 63;
  return {
    kind: "lane",
    emit: (e) => {
      const one = (shift: number): string => {
        const code = `(${e.int(from)}>>>${shift})&${mask}`;
        const value = scale ? `decodeUe8m0(${code})` : `decodeFloat("${format}",${code})`;
        return `to${dst === "bf16x2" ? "Bf16" : "F16"}(${relu ? `reluHalf(${value})` : value})`;
      };
      return e.setInt(to, `(${one(0)})|((${one(spacing[src])})<<16)`);
    },
  };
}

function encodePair(
  d: Decoder,
  dst: NarrowPair,
  src: string,
  rounding: "rn" | "rz" | "rp",
  relu: boolean,
): Operation {
  if (src !== "f32" && src !== "bf16x2") d.refuse("the types of this conversion are not emulated");
  const to = d.def(0, "int");
  const upper = d.use(1, src === "f32" ? "float" : "int");
  const lower = src === "f32" ? d.use(2, "float") : upper;
  const format = dst.slice(0, -2);
  return {
    kind: "lane",
    emit: (e) => {
      const values =
        src === "f32"
          ? [e.f32(upper), e.f32(lower)]
          : [`fromBf16(${e.int(upper)}>>>16)`, `fromBf16(${e.int(upper)}&65535)`];
      const [high, low] = values.map((value) => {
        const kept = relu ? `reluHalf(${value})` : value;
        return dst === "ue8m0x2"
          ? `encodeUe8m0(${kept},"${rounding}")`
          : `encodeFloat("${format}",${kept},"${rounding}","saturate")`;
      });
      return e.setInt(to, `(${low})|((${high})<<${spacing[dst]})`);
    },
  };
}
