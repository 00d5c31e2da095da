/** Special registers (PTX ISA 9.0 chapter 10): type and requirement. */
import type { ScalarType } from "./ast.ts";
import type { Requirement } from "./table/row.ts";

export interface SpecialRegister extends Requirement {
  readonly type: ScalarType;
}

const xyzw = (name: string): string[] => ["x", "y", "z", "w"].map((c) => `${name}.${c}`);

const since = (
  names: readonly string[],
  type: ScalarType,
  ...from: readonly [number, number, number]
): (readonly [string, SpecialRegister])[] => names.map((name) => [name, { type, since: from }] as const);

/** By name as written, e.g. `%tid.x`. */
export const specialRegisters: ReadonlyMap<string, SpecialRegister> = new Map([
  ...since([...xyzw("%tid"), ...xyzw("%ntid"), ...xyzw("%ctaid"), ...xyzw("%nctaid")], "u32", 1, 0, 10),
  ...since(["%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid"], "u32", 1, 3, 10),
  ...since(["%gridid"], "u64", 3, 0, 30),
  ...since(["%lanemask_eq", "%lanemask_le", "%lanemask_lt", "%lanemask_ge", "%lanemask_gt"], "u32", 2, 0, 20),
  ...since(["%clock", "%clock_hi"], "u32", 1, 0, 10),
  ...since(["%clock64"], "u64", 2, 0, 20),
  ...since(["%globaltimer"], "u64", 3, 1, 30),
  ...since(["%globaltimer_lo", "%globaltimer_hi"], "u32", 3, 1, 30),
  ...since(
    Array.from({ length: 8 }, (_, i) => `%pm${i}`),
    "u32",
    3,
    0,
    20,
  ),
  ...since(
    Array.from({ length: 32 }, (_, i) => `%envreg${i}`),
    "u32",
    2,
    1,
    10,
  ),
  ...since(
    ["%reserved_smem_offset_begin", "%reserved_smem_offset_end", "%reserved_smem_offset_cap"],
    "u32",
    7,
    6,
    80,
  ),
  ...since(["%reserved_smem_offset_0", "%reserved_smem_offset_1"], "u32", 7, 6, 80),
  ...since(["%total_smem_size", "%dynamic_smem_size"], "u32", 4, 1, 20),
  ...since(["%aggr_smem_size"], "u32", 8, 1, 90),
  ...since(
    [...xyzw("%clusterid"), ...xyzw("%nclusterid"), ...xyzw("%cluster_ctaid"), ...xyzw("%cluster_nctaid")],
    "u32",
    7,
    8,
    90,
  ),
  ...since(["%cluster_ctarank", "%cluster_nctarank"], "u32", 7, 8, 90),
  ...since(["%is_explicit_cluster"], "pred", 7, 8, 90),
  ...since(["%current_graph_exec"], "u64", 8, 0, 50),
]);
