/** mov, cvt, cvta and address-space queries (PTX ISA 9.0 §9.7.9). */
import { BLACKWELL_ALL, family, type InstructionRow } from "./row.ts";

const INT = "u8|u16|u32|u64|s8|s16|s32|s64";
/** Saturation is for conversions whose source has values that the destination lacks. */
const NARROWING = (["u", "s"] as const)
  .flatMap((d) =>
    [8, 16, 32, 64].flatMap((to) =>
      (["u", "s"] as const).flatMap((s) =>
        [8, 16, 32, 64]
          .filter((from) => from > to || (from === to && s !== d) || (from < to && s === "s" && d === "u"))
          .map((from) => `${d}${to}.${s}${from}`),
      ),
    ),
  )
  .join("|");
const SPACES = "global|shared|shared::cta|shared::cluster|local|const|param|param::entry";
const CLUSTER_SPACES = {
  "shared::cta": { since: [7, 8, 30] },
  "shared::cluster": { since: [7, 8, 90] },
  param: { since: [7, 7, 70] },
  "param::entry": { since: [8, 3, 70] },
} as const;
/** Narrow float formats came with Blackwell's architecture targets. */
const FP46 = { since: [8, 6, 100], only: BLACKWELL_ALL } as const;
const STOCHASTIC = {
  since: [8, 7, 100],
  only: ["sm_100a", "sm_100f", "sm_103a", "sm_103f"],
} as const;

export const moveRows = [
  ...family({ effect: "pure", since: [1, 0, 10] }, [
    ["mov u16|u32|u64|s16|s32|s64|b16|b32|b64|f32|f64", "=T s:T"],
    ["mov pred", "=pred !pred/s"],
    ["mov b128", "=T r:T", [8, 3, 70]],
    ["mov b16", "=b16 b8*2", [8, 6, 30]],
    ["mov b16", "=_b8*2 b16", [8, 6, 30]],
    ["mov b32", "=b32 b16*2"],
    ["mov b32", "=_b16*2 b32"],
    ["mov b32", "=b32 b8*4"],
    ["mov b32", "=_b8*4 b32"],
    ["mov b64", "=b64 b32*2"],
    ["mov b64", "=_b32*2 b64"],
    ["mov b64", "=b64 b16*4"],
    ["mov b64", "=_b16*4 b64"],
    ["mov b128", "=b128 b64*2", [8, 3, 70]],
    ["mov b128", "=_b64*2 r:b128", [8, 3, 70]],
    ["mov b128", "=b128 b32*4", [8, 3, 70]],
    ["mov b128", "=_b32*4 r:b128", [8, 3, 70]],
    [`isspacep ${SPACES}`, "=pred r:u64", { since: [2, 0, 20], needs: CLUSTER_SPACES }],
    [`cvta ${SPACES} u64`, "=T s:T", { since: [2, 0, 20], needs: CLUSTER_SPACES }],
    [`cvta.to ${SPACES} u64`, "=T T", { since: [2, 0, 20], needs: CLUSTER_SPACES }],
    // Conversions. A rounding modifier is due exactly where the value may not fit the destination.
    [`cvt ${INT} ${INT}`, "=D~ T~"],
    [`cvt sat ${NARROWING}`, "=D~ T~"],
    [`cvt rni|rzi|rmi|rpi ftz? sat? ${INT} f32`, "=D~ T"],
    [`cvt rni|rzi|rmi|rpi sat? ${INT} f16|f64`, "=D~ T", [1, 0, 13]],
    [`cvt rn|rz|rm|rp ftz? sat? f32 ${INT}`, "=D T~"],
    [`cvt rn|rz|rm|rp sat? f16|f64 ${INT}`, "=D T~", [1, 0, 13]],
    ["cvt ftz? sat? f32 f16", "=D T"],
    ["cvt sat? f64 f16", "=D T", [1, 0, 13]],
    ["cvt ftz? sat? f64 f32", "=D T", [1, 0, 13]],
    ["cvt rni|rzi|rmi|rpi? sat? f16 f16", "=D T"],
    ["cvt rni|rzi|rmi|rpi? ftz? sat? f32 f32", "=D T"],
    ["cvt rni|rzi|rmi|rpi? sat? f64 f64", "=D T", [1, 0, 13]],
    ["cvt rn|rz|rm|rp ftz? sat? f16 f32", "=D T"],
    ["cvt rn|rz|rm|rp sat? f16 f64", "=D T", [1, 0, 13]],
    ["cvt rn|rz|rm|rp ftz? sat? f32 f64", "=D T", [1, 0, 13]],
    ["cvt ftz? f32 bf16", "=D T", { since: [7, 1, 80], needs: { ftz: { since: [7, 8, 90] } } }],
    ["cvt f64 bf16", "=D T", [7, 8, 90]],
    [`cvt rni|rzi|rmi|rpi ${INT} bf16`, "=D T", [7, 8, 90]],
    [`cvt rn|rz|rm|rp bf16 ${INT}|f16|f64`, "=D T", [7, 8, 90]],
    ["cvt rn|rz|rm|rp f16 bf16", "=D T", [7, 8, 90]],
    ["cvt rni|rzi|rmi|rpi bf16 bf16", "=D T", [7, 8, 90]],
  ]),
  ...family({ effect: "pure", since: [7, 0, 80], needs: { satfinite: { since: [8, 1, 80] } } }, [
    ["cvt rn|rz|rm|rp bf16 f32", "=D T", { needs: { rm: { since: [7, 8, 90] }, rp: { since: [7, 8, 90] } } }],
    ["cvt rn|rz relu? satfinite? f16|bf16 f32", "=D T"],
    ["cvt rn|rz relu? satfinite? f16x2|bf16x2 f32", "=D T T"],
    ["cvt rs relu? satfinite? f16x2|bf16x2 f32", "=D T T r:word", { ...STOCHASTIC, needs: {} }],
    ["cvt rna satfinite? tf32 f32", "=D T", { needs: { satfinite: { since: [8, 1, 89] } } }],
  ]),
  ...family({ effect: "pure", since: [7, 8, 90] }, [
    ["cvt rn|rz satfinite? relu? tf32 f32", "=D T", { needs: { satfinite: { since: [8, 6, 100] } } }],
    ["cvt rn satfinite relu? e4m3x2|e5m2x2 f32", "=D T T", [8, 1, 89]],
    ["cvt rn satfinite relu? e4m3x2|e5m2x2 f16x2", "=D T", [8, 1, 89]],
    ["cvt rn relu? f16x2 e4m3x2|e5m2x2", "=D T", [8, 1, 89]],
    ["cvt rs relu? satfinite e4m3x4|e5m2x4|e2m3x4|e3m2x4|e2m1x4 f32", "=D T*4 r:word", STOCHASTIC],
    ["cvt rn satfinite relu? e2m1x2|e2m3x2|e3m2x2 f32", "=D T T", FP46],
    ["cvt rn relu? f16x2 e2m1x2|e2m3x2|e3m2x2", "=D T", FP46],
    ["cvt rz|rp satfinite? ue8m0x2 f32", "=D T T", FP46],
    ["cvt rz|rp satfinite? ue8m0x2 bf16x2", "=D T", FP46],
    ["cvt rn bf16x2 ue8m0x2", "=D T", FP46],
    ["cvt.pack sat u16|s16 s32", "=u32 s32 s32", [6, 5, 72]],
    ["cvt.pack sat u8|s8 s32 b32", "=u32 s32 s32 b32", [6, 5, 72]],
    ["cvt.pack sat u4|s4|u2|s2 s32 b32", "=u32 s32 s32 b32", [6, 5, 75]],
    ["mapa shared::cluster u32|u64", "=T s:T u32"],
    ["mapa u64", "=T s:T u32"],
    ["getctarank shared::cluster u32|u64", "=u32 s:T"],
    ["getctarank u64", "=u32 s:T"],
  ]),
] as const satisfies readonly InstructionRow[];
