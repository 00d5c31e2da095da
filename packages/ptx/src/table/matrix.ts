/** Warp-level matrices: mma, ldmatrix, stmatrix, movmatrix (PTX ISA 9.0 §9.7.14); sparse products are in sparse.ts. */
import { BLACKWELL_ALL, family, type InstructionRow } from "./row.ts";

const MMA = "mma sync aligned";
const FP8 = "e4m3|e5m2";
export const F8F6F4 = "e4m3|e5m2|e3m2|e2m3|e2m1";
const B8_SPACE = { since: [8, 6, 100], only: BLACKWELL_ALL } as const;
const SHARED = "shared|shared::cta?";
/** With `and` later than with `xor`. */
const POPC = { and: { since: [7, 1, 80] } } as const;
const NEEDS = { "shared::cta": { since: [7, 8, 75] } } as const;
export const SM120 = { since: [8, 7, 120], only: ["sm_120a", "sm_120f", "sm_121a", "sm_121f"] } as const;

export const matrixRows = [
  ...family({ effect: "collective", since: [6, 5, 75], needs: NEEDS }, [
    [`ldmatrix sync aligned m8n8 x1|x2|x4 trans? ${SHARED} b16`, "=u32*X [shared]"],
  ]),
  ...family({ effect: "collective", ...B8_SPACE }, [
    [`ldmatrix sync aligned m16n16 x1|x2 trans ${SHARED} b8`, "=u32*X*2 [shared]"],
    [`ldmatrix sync aligned m8n16 x1|x2|x4 ${SHARED} b8x16 b6x16_p32|b4x16_p64`, "=u32*X [shared]"],
    [`ldmatrix sync aligned m16n16 x1|x2 trans ${SHARED} b8x16 b6x16_p32|b4x16_p64`, "=u32*X*2 [shared]"],
  ]),
  ...family({ effect: "collective", since: [7, 0, 80] }, [
    [`stmatrix sync aligned m8n8 x1|x2|x4 trans? ${SHARED} b16`, "[shared] r:u32*X", [7, 8, 90]],
    [`stmatrix sync aligned m16n8 x1|x2|x4 trans ${SHARED} b8`, "[shared] r:u32*X", B8_SPACE],
    ["movmatrix sync aligned m8n8 trans b16", "=u32 r:u32", [7, 8, 75]],
    // Operands d, a, b, c; registers per lane follow from the shape (the fragment layouts are the emulator's).
    [`${MMA} m8n8k4 row|col row|col f16 f16 f16 f16`, "=f16x2*4 r:f16x2*2 r:f16x2*2 r:f16x2*4", [6, 4, 70]],
    [`${MMA} m8n8k4 row|col row|col f32 f16 f16 f16`, "=f32*8 r:f16x2*2 r:f16x2*2 r:f16x2*4", [6, 4, 70]],
    [`${MMA} m8n8k4 row|col row|col f32 f16 f16 f32`, "=f32*8 r:f16x2*2 r:f16x2*2 r:f32*8", [6, 4, 70]],
    [`${MMA} m16n8k8 row col f16 f16 f16 f16`, "=f16x2*2 r:f16x2*2 r:f16x2*1 r:f16x2*2", [6, 5, 75]],
    [`${MMA} m16n8k8 row col f32 f16 f16 f32`, "=f32*4 r:f16x2*2 r:f16x2*1 r:f32*4", [6, 5, 75]],
    [`${MMA} m16n8k16 row col f16 f16 f16 f16`, "=f16x2*2 r:f16x2*4 r:f16x2*2 r:f16x2*2"],
    [`${MMA} m16n8k16 row col f32 f16 f16 f32`, "=f32*4 r:f16x2*4 r:f16x2*2 r:f32*4"],
    [`${MMA} m16n8k8 row col f32 bf16 bf16 f32`, "=f32*4 r:word*2 r:word*1 r:f32*4"],
    [`${MMA} m16n8k16 row col f32 bf16 bf16 f32`, "=f32*4 r:word*4 r:word*2 r:f32*4"],
    [`${MMA} m16n8k4 row col f32 tf32 tf32 f32`, "=f32*4 r:word*2 r:word*1 r:f32*4"],
    [`${MMA} m16n8k8 row col f32 tf32 tf32 f32`, "=f32*4 r:word*4 r:word*2 r:f32*4"],
    [`${MMA} m16n8k16 row col f32 ${FP8} ${FP8} f32`, "=f32*4 r:word*2 r:word*1 r:f32*4", [8, 7, 89]],
    [`${MMA} m16n8k16 row col f16 ${FP8} ${FP8} f16`, "=f16x2*2 r:word*2 r:word*1 r:f16x2*2", [8, 7, 89]],
    [`${MMA} m16n8k32 row col f32 ${FP8} ${FP8} f32`, "=f32*4 r:word*4 r:word*2 r:f32*4", [8, 4, 89]],
    [`${MMA} m16n8k32 row col f16 ${FP8} ${FP8} f16`, "=f16x2*2 r:word*4 r:word*2 r:f16x2*2", [8, 7, 89]],
    [`${MMA} m8n8k4 row col f64 f64 f64 f64`, "=f64*2 r:f64*1 r:f64*1 r:f64*2"],
    [`${MMA} m8n8k4 row col rn|rz|rm|rp f64 f64 f64 f64`, "=f64*2 r:f64*1 r:f64*1 r:f64*2"],
    [`${MMA} m16n8k4 row col rn|rz|rm|rp? f64 f64 f64 f64`, "=f64*4 r:f64*2 r:f64*1 r:f64*4", [7, 8, 90]],
    [`${MMA} m16n8k8 row col rn|rz|rm|rp? f64 f64 f64 f64`, "=f64*4 r:f64*4 r:f64*2 r:f64*4", [7, 8, 90]],
    [`${MMA} m16n8k16 row col rn|rz|rm|rp? f64 f64 f64 f64`, "=f64*4 r:f64*8 r:f64*4 r:f64*4", [7, 8, 90]],
    [`${MMA} m8n8k16 row col satfinite? s32 u8|s8 u8|s8 s32`, "=s32*2 r:u32*1 r:u32*1 r:s32*2", [6, 5, 75]],
    [`${MMA} m16n8k16 row col satfinite? s32 u8|s8 u8|s8 s32`, "=s32*4 r:u32*2 r:u32*1 r:s32*4"],
    [`${MMA} m16n8k32 row col satfinite? s32 u8|s8 u8|s8 s32`, "=s32*4 r:u32*4 r:u32*2 r:s32*4"],
    [`${MMA} m8n8k32 row col satfinite? s32 u4|s4 u4|s4 s32`, "=s32*2 r:u32*1 r:u32*1 r:s32*2", [6, 5, 75]],
    [`${MMA} m16n8k32 row col satfinite? s32 u4|s4 u4|s4 s32`, "=s32*4 r:u32*2 r:u32*1 r:s32*4"],
    [`${MMA} m16n8k64 row col satfinite? s32 u4|s4 u4|s4 s32`, "=s32*4 r:u32*4 r:u32*2 r:s32*4"],
  ]),
  ...family({ effect: "collective", since: [7, 0, 80], needs: POPC }, [
    [`${MMA} m8n8k128 row col s32 b1 b1 s32 xor|and popc`, "=s32*2 r:u32*1 r:u32*1 r:s32*2", [7, 0, 75]],
    [`${MMA} m16n8k128 row col s32 b1 b1 s32 xor|and popc`, "=s32*4 r:u32*2 r:u32*1 r:s32*4"],
    [`${MMA} m16n8k256 row col s32 b1 b1 s32 xor|and popc`, "=s32*4 r:u32*4 r:u32*2 r:s32*4"],
  ]),
  ...family({ effect: "collective", ...SM120 }, [
    [`${MMA} m16n8k32 row col kind::f8f6f4 f32 ${F8F6F4} ${F8F6F4} f32`, "=f32*4 r:word*4 r:word*2 r:f32*4"],
    [
      `${MMA} m16n8k32 row col kind::f8f6f4 f16 ${F8F6F4} ${F8F6F4} f16`,
      "=f16x2*2 r:word*4 r:word*2 r:f16x2*2",
    ],
    // Block-scaled: after c come scale-A, {byte, thread} selectors of A, scale-B and those of B.
    [
      `${MMA} m16n8k32 row col kind::mxf8f6f4 block_scale scale_vec::1X? f32 ${F8F6F4} ${F8F6F4} f32 ue8m0`,
      "=f32*4 r:word*4 r:word*2 r:f32*4 r:u32*1 u16*2 r:u32*1 u16*2",
    ],
    [
      `${MMA} m16n8k64 row col kind::mxf4 block_scale scale_vec::2X? f32 e2m1 e2m1 f32 ue8m0`,
      "=f32*4 r:word*4 r:word*2 r:f32*4 r:u32*1 u16*2 r:u32*1 u16*2",
    ],
    [
      `${MMA} m16n8k64 row col kind::mxf4nvf4 block_scale scale_vec::2X f32 e2m1 e2m1 f32 ue8m0`,
      "=f32*4 r:word*4 r:word*2 r:f32*4 r:u32*1 u16*2 r:u32*1 u16*2",
    ],
    [
      `${MMA} m16n8k64 row col kind::mxf4nvf4 block_scale scale_vec::4X f32 e2m1 e2m1 f32 ue4m3`,
      "=f32*4 r:word*4 r:word*2 r:f32*4 r:u32*1 u16*2 r:u32*1 u16*2",
    ],
  ]),
] as const satisfies readonly InstructionRow[];
