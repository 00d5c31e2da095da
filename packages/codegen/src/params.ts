/** Parameters as the text of an entry has them. */
import type { ParamSpec } from "@tilewright/core";
import type { ParamOptions } from "@tilewright/ptx";

/** Parameters as an entry declares them: `p_a`, `p_alpha`. */
export const declareParameters = (params: readonly ParamSpec[]): readonly ParamOptions[] =>
  params.map(declared);

/** How a parameter is declared; a tensor map is 128 bytes at a multiple of 64 (PTX ISA, tensor maps). */
function declared(param: ParamSpec): ParamOptions {
  const name = `p_${param.name}`;
  switch (param.kind) {
    case "pointer":
      return { name, type: "u64" };
    case "scalar":
      return { name, type: param.dtype };
    case "tensorMap":
      return { name, type: "b8", length: param.size, align: 64 };
  }
}
