/** tcgen05.mma and tcgen05.mma.ws. PTX ISA 9.0, chapters 9.7.16.10.9.1 and 9.7.16.10.9.3. */
import { type Tcgen05ScaleVector, tcgen05KindRow } from "@tilewright/ptx";
import type { Operand, Operation } from "../load/types.ts";
import { type Known, type MmaForm, resolveProduct } from "../machine/tcgen05-issue.ts";
import { runProduct } from "../machine/tcgen05-product.ts";
import { beginTensor, issueTensor } from "../machine/tensor-pipe.ts";
import type { Decoder } from "./row.ts";

const kinds = ["f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4"] as const;
const uses = ["fill", "use", "lastuse", "discard"] as const;

/** The row of `tcgen05.mma`, its first word and `mma` having been read. */
export function tcgen05Mma(d: Decoder, weightStationary: boolean): Operation {
  const sparse = d.flag("sp");
  const group = d.option("cta_group::1", "cta_group::2") === "cta_group::2" ? 2 : 1;
  const kind = kinds.find((name) => d.flag(`kind::${name}`)) ?? d.refuse("needs a kind");
  const scaled = d.flag("block_scale");
  const scaleVector = scaled ? vectorOf(d, kind) : null;
  const shifted = d.flag("ashift");
  const collector = collectorOf(d, weightStationary);
  const address = d.address(0);
  const a = d.use(1, "int");
  const aInTensor = a.kind === "address";
  if (shifted && !aInTensor) d.refuse(".ashift is for A in tensor memory");
  if (shifted && (collector.use === "fill" || collector.use === "use"))
    d.refuse(".ashift does not go with collector::a::fill or collector::a::use");
  const b = d.use(2, "int");
  let next = 3;
  const metadata = sparse ? d.address(next++) : null;
  const descriptor = d.use(next++, "int");
  const scaleA = scaled ? d.address(next++) : null;
  const scaleB = scaled ? d.address(next++) : null;
  let accumulate = d.use(next++, "int");
  let disabled: readonly Operand[] | null = null;
  if (accumulate.kind === "vector") {
    disabled = accumulate.elements;
    if (disabled.length !== 4 * group) d.refuse(`the mask of disabled lanes has ${4 * group} registers`);
    accumulate = d.use(next++, "int");
  }
  const more = next < d.operandCount;
  const columnMask = weightStationary && more ? d.use(next, "int") : null;
  const scaleD = !weightStationary && more ? d.literal(next) : 0;
  if (scaleD < 0 || scaleD > 15) d.refuse("scale-input-d is 0 to 15");
  const form: MmaForm = {
    kind,
    group,
    weightStationary,
    aInTensor,
    scaleVector,
    sparse,
    metadata,
    d: address,
    a,
    b,
    descriptor,
    scaleA,
    scaleB,
    disabled,
    accumulate,
    scaleD,
    columnMask,
    shifted,
    collector,
  };
  return {
    kind: "warp",
    bind: () => {
      const descriptors = new Map<number, Known>();
      return (by, mask) => {
        const issue = beginTensor(by, mask, group);
        if (issue === null) return;
        const product = resolveProduct(form, issue, descriptors);
        if (product === null) return;
        const { m, n } = product.descriptor;
        const { k } = tcgen05KindRow(kind);
        issueTensor(issue, () => runProduct(product), m * n * k * (sparse ? 2 : 1));
      };
    },
  };
}

function vectorOf(d: Decoder, kind: (typeof kinds)[number]): Tcgen05ScaleVector {
  const name = d.option("scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16", "block32");
  switch (name) {
    case "scale_vec::1X":
      return 1;
    case "scale_vec::2X":
      return 2;
    case "scale_vec::4X":
    case "block16":
      return 4;
    case "block32":
      return kind === "mxf8f6f4" ? 1 : 2;
    case null:
      if (kind === "mxf4nvf4") d.refuse("kind::mxf4nvf4 has to say its scale vector size");
      return kind === "mxf8f6f4" ? 1 : 2;
  }
}

function collectorOf(d: Decoder, weightStationary: boolean): MmaForm["collector"] {
  for (const buffer of weightStationary ? (["b0", "b1", "b2", "b3"] as const) : (["a"] as const))
    for (const use of uses) if (d.flag(`collector::${buffer}::${use}`)) return { buffer, use };
  return { buffer: weightStationary ? "b0" : "a", use: "discard" };
}
