/** Exchange among the lanes of a warp: shuffle, vote, match, reduce, elect (PTX ISA 9.0 §9.7.9.6, §9.7.13.9 to §9.7.13.13).
 * The forms without `.sync` have no rows: PTX dropped them for sm_70 and later. */
import { family, type InstructionRow } from "./row.ts";

export const warpRows = [
  ...family({ effect: "collective", since: [8, 6, 100] }, [
    ["shfl.sync up|down|bfly|idx b32", "=_b32|pred b32 u32 u32 u32", [6, 0, 30]],
    ["vote.sync all|any|uni pred", "=pred !pred/imm u32", [6, 0, 30]],
    ["vote.sync ballot b32", "=u32 !pred/imm u32", [6, 0, 30]],
    ["match.any.sync b32|b64", "=u32 T u32", [6, 0, 70]],
    ["match.all.sync b32|b64", "=u32|pred T u32", [6, 0, 70]],
    ["activemask b32", "=b32", [6, 2, 30]],
    ["redux.sync add|min|max u32|s32", "=T T u32", [7, 0, 80]],
    ["redux.sync and|or|xor b32", "=u32 u32 u32", [7, 0, 80]],
    ["redux.sync min|max abs? NaN? f32", "=T T u32", { only: ["sm_100a", "sm_100f", "sm_103a", "sm_103f"] }],
    ["elect.sync", "=_u32&pred u32", [8, 0, 90]],
  ]),
] as const satisfies readonly InstructionRow[];
