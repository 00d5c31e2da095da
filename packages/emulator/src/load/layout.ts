/** Sizes, alignments and offsets of variables and parameters. */
import type { ParamDecl, ScalarType, VariableDecl } from "@tilewright/ptx";
import { bitsOf } from "../isa/row.ts";
import type { Variable } from "./types.ts";

export const alignUp = (value: number, align: number): number => Math.ceil(value / align) * align;

const sizeOfType = (type: ScalarType): number => Math.max(1, bitsOf(type) / 8);

/** Bytes of a declaration; 0 for an array whose size is left open. */
export function declaredSize(
  decl: { readonly type: ScalarType; readonly dims: readonly (number | null)[] },
  vector = 1,
): number {
  return decl.dims.reduce<number>((size, dim) => size * (dim ?? 0), sizeOfType(decl.type) * vector);
}

/** A variable as declared; its offset is set when its space is laid out. */
export function variableOf(decl: VariableDecl, space: Variable["space"]): Variable {
  return {
    name: decl.name,
    space,
    size: declaredSize(decl, decl.vector),
    align: decl.align ?? sizeOfType(decl.type) * decl.vector,
    dynamic: decl.linkage === "extern" && space === "shared",
    offset: 0,
  };
}

/**
 * Shared memory that the system reserves for cooperative groups of several warps (`cooperative_groups/details` of CUDA 13.0): words in which
 * warps arrive, one for each size of a group, and from byte 32 on eight bytes for each of 32 warps. Here it is a static variable of the
 * kernels that name its register. Nobody initialises the words, of which every warp clears its own bits first.
 */
export const reservedShared = (): Variable => ({
  ...{ name: reservedSharedName, space: "shared", size: 32 + 32 * 8, align: 16 },
  ...{ dynamic: false, offset: 0, given: 32 },
});
export const reservedSharedName = "%reserved_smem_offset_1";

/** Kernel parameters, laid out in order at their alignment: the buffer that cuLaunchKernel fills. */
export function parameterLayout(params: readonly ParamDecl[]): {
  readonly variables: Variable[];
  readonly bytes: number;
} {
  let at = 0;
  const variables = params.map((param): Variable => {
    const size = declaredSize(param);
    const align = param.align ?? sizeOfType(param.type);
    const offset = alignUp(at, align);
    at = offset + size;
    return { name: param.name, space: "param", size, align, dynamic: false, offset };
  });
  return { variables, bytes: at };
}

/** Give each variable an offset, in order; returns the end. */
export function layOut(variables: readonly Variable[], start: number): number {
  let at = start;
  for (const variable of variables) {
    variable.offset = alignUp(at, variable.align);
    at = variable.offset + variable.size;
  }
  return at;
}
