/** Hopper's asynchronous warpgroup matrix instructions (PTX ISA 9.0 §9.7.15); sparse forms are in sparse.ts. */
import { family, type InstructionRow } from "./row.ts";

/** `m64n8k16|m64n16k16|…`: n is a multiple of 8 up to 256. */
const shapes = (k: number, ns: readonly number[]): string => ns.map((n) => `m64n${n}k${k}`).join("|");
const multiples = (from: number, to: number, step: number): number[] =>
  Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, i) => from + i * step);
const N = multiples(8, 256, 8);
/** int8 leaves out 40, 56, … (ptxas rejects n40 and n248). */
const N_INT8 = [8, 16, 24, 32, ...multiples(48, 256, 16)];
const FP8 = "e4m3|e5m2";
const HOPPER = { since: [8, 0, 90], only: ["sm_90a"] } as const;
const MMA = "wgmma.mma_async sync aligned";
/** From scale-d on, of operands of 16 bits with two, one and no transpose flag. */
const SIGNED = "!pred/imm imm:-1,1 imm:-1,1";
const TURNED = `${SIGNED} imm:0,1` as const;
const TURNED_BOTH = `${TURNED} imm:0,1` as const;

// Operands: d, a (descriptor or registers), b (descriptor), scale-d, then imm-scale-a, imm-scale-b and the transpose
// flags of those operands that lie in shared memory in a 16-bit type.
export const wgmmaRows = [
  ...family({ effect: "fence", ...HOPPER }, [["wgmma.fence sync aligned", ""]]),
  ...family({ effect: "wait", ...HOPPER }, [["wgmma.wait_group sync aligned", "imm:0:7"]]),
  ...family({ effect: "async", ...HOPPER }, [
    ["wgmma.commit_group sync aligned", ""],
    [`${MMA} ${shapes(16, N)} f32 f16 f16`, `+f32*N/2 r:u64 r:u64 ${TURNED_BOTH}`],
    [`${MMA} ${shapes(16, N)} f32 f16 f16`, `+f32*N/2 r:f16x2*4 r:u64 ${TURNED}`],
    [`${MMA} ${shapes(16, N)} f32 bf16 bf16`, `+f32*N/2 r:u64 r:u64 ${TURNED_BOTH}`],
    [`${MMA} ${shapes(16, N)} f32 bf16 bf16`, `+f32*N/2 r:word*4 r:u64 ${TURNED}`],
    [`${MMA} ${shapes(16, N)} f16 f16 f16`, `+f16x2*N/4 r:u64 r:u64 ${TURNED_BOTH}`],
    [`${MMA} ${shapes(16, N)} f16 f16 f16`, `+f16x2*N/4 r:f16x2*4 r:u64 ${TURNED}`],
    [`${MMA} ${shapes(8, N)} f32 tf32 tf32`, `+f32*N/2 r:u64 r:u64 ${SIGNED}`],
    [`${MMA} ${shapes(8, N)} f32 tf32 tf32`, `+f32*N/2 r:word*4 r:u64 ${SIGNED}`],
    [`${MMA} ${shapes(32, N)} f32 ${FP8} ${FP8}`, `+f32*N/2 r:u64 r:u64 ${SIGNED}`],
    [`${MMA} ${shapes(32, N)} f32 ${FP8} ${FP8}`, `+f32*N/2 r:word*4 r:u64 ${SIGNED}`],
    [`${MMA} ${shapes(32, N)} f16 ${FP8} ${FP8}`, `+f16x2*N/4 r:u64 r:u64 ${SIGNED}`],
    [`${MMA} ${shapes(32, N)} f16 ${FP8} ${FP8}`, `+f16x2*N/4 r:word*4 r:u64 ${SIGNED}`],
  ]),
  ...family({ effect: "async", needs: { "s8.u8": { since: [8, 4, 90] } }, ...HOPPER }, [
    [`${MMA} ${shapes(32, N_INT8)} s32 satfinite? s8|u8 s8|u8`, "+s32*N/2 r:u64 r:u64 !pred/imm"],
    [`${MMA} ${shapes(32, N_INT8)} s32 satfinite? s8|u8 s8|u8`, "+s32*N/2 r:u32*4 r:u64 !pred/imm"],
  ]),
] as const satisfies readonly InstructionRow[];
