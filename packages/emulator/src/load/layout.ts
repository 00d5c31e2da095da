/** Sizes, alignments and offsets of variables and parameters. */
import { roundUp } from "@tilewright/core";
import type { ParamDecl, ScalarType, VariableDecl } from "@tilewright/ptx";
import { bitsOf } from "../isa/row.ts";
import type { Variable } from "./types.ts";

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

/** Bytes of a block's shared memory that the system reserves: those before the program's on sm_90 and later. */
export const reservedBytes = 1024;
/** Of these, what cooperative groups of several warps use, to the end of what is in use. */
const groupBytes = 32 + 32 * 8;

/**
 * Shared memory that the system reserves, in the kernels that name its registers: those have it where sm_90 has it, before their own. It serves cooperative
 * groups of several warps (`cooperative_groups/details` of CUDA 13.0): words in which warps arrive, one for each size of a group, and from byte 32 on eight
 * bytes for each of 32 warps. Nobody initialises the words, of which every warp clears its own bits first.
 */
export const reservedShared = (): Variable => ({
  ...{ name: reservedSharedName, space: "shared", size: reservedBytes, align: 16 },
  ...{ dynamic: false, offset: 0, given: 32 },
});
export const reservedSharedName = "%reserved_smem";

/** Offsets in it by the name of a register: as an H200 has them (driver 13.0), and offset 0 of later targets as ptxas 13.0 makes it. */
export const reservedOffsets = (target: string): Readonly<Record<string, number>> => ({
  "%reserved_smem_offset_begin": 0,
  "%reserved_smem_offset_end": groupBytes,
  "%reserved_smem_offset_0": Number(/\d+/.exec(target)?.[0] ?? 0) >= 100 ? 64 : 0,
  "%reserved_smem_offset_1": 0,
});

/** Kernel parameters, laid out in order at their alignment: the buffer that cuLaunchKernel fills. */
export function parameterLayout(params: readonly ParamDecl[]): {
  readonly variables: Variable[];
  readonly bytes: number;
} {
  let at = 0;
  const variables = params.map((param): Variable => {
    const size = declaredSize(param);
    const align = param.align ?? sizeOfType(param.type);
    const offset = roundUp(at, align);
    at = offset + size;
    return { name: param.name, space: "param", size, align, dynamic: false, offset };
  });
  return { variables, bytes: at };
}

/** Give each variable an offset, in order; returns the end. */
export function layOut(variables: readonly Variable[], start: number): number {
  let at = start;
  for (const variable of variables) {
    variable.offset = roundUp(at, variable.align);
    at = variable.offset + variable.size;
  }
  return at;
}
