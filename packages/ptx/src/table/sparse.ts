/** Products of a sparse A: mma.sp, wgmma.mma_async.sp and tcgen05.mma.sp (PTX ISA 9.0 §9.7.14.6, §9.7.15.6 and §9.7.16.10.9.2). Metadata and selector follow C or B. */
import { F8F6F4, matrixRows, SM120 } from "./matrix.ts";
import type { InstructionRow } from "./row.ts";
import { tcgen05Rows } from "./tcgen05.ts";
import { wgmmaRows } from "./wgmma.ts";

/** `ab`: what a lane holds of A, which is stored by half, and of B. Selectors go from 0 up. */
const mma = (
  mods: string,
  [d, ab, c]: readonly [d: string, ab: string, c: string],
  selectors: number,
  since: readonly [number, number, number],
): InstructionRow => ({
  opcode: "mma",
  mods: `sp|sp::ordered_metadata sync aligned ${mods}`,
  args: [`=${d}`, `r:${ab}`, `r:${ab}`, `r:${c}`, "r:u32", selectors === 0 ? "imm:0" : `imm:0:${selectors}`],
  since,
  needs: { "sp::ordered_metadata": { since: [8, 5, 80] } },
  effect: "collective",
});

const AMPERE = [7, 1, 80] as const;
const wide = (registers: string, count: number) => ["f32*4", `${registers}*${count}`, "f32*4"] as const;
const integers = (count: number) => ["s32*4", `u32*${count}`, "s32*4"] as const;

const mmaRows: readonly InstructionRow[] = [
  ...([2, 4] as const).flatMap((count) => {
    const [k, k32, selectors] = count === 2 ? [16, 8, 3] : [32, 16, 1];
    return [
      mma(`m16n8k${k} row col f16 f16 f16 f16`, ["f16x2*2", `f16x2*${count}`, "f16x2*2"], selectors, AMPERE),
      mma(`m16n8k${k} row col f32 f16 f16 f32`, wide("f16x2", count), selectors, AMPERE),
      mma(`m16n8k${k} row col f32 bf16 bf16 f32`, wide("word", count), selectors, AMPERE),
      mma(`m16n8k${k32} row col f32 tf32 tf32 f32`, wide("word", count), selectors, AMPERE),
    ];
  }),
  mma("m16n8k64 row col f32 e4m3|e5m2 e4m3|e5m2 f32", wide("word", 4), 0, [8, 4, 89]),
  ...(["f32", "f16"] as const).map((d) => ({
    ...mma("", d === "f32" ? wide("word", 4) : ["f16x2*2", "word*4", "f16x2*2"], 0, SM120.since),
    mods: `sp::ordered_metadata sync aligned m16n8k64 row col kind::f8f6f4 ${d} ${F8F6F4} ${F8F6F4} ${d}`,
    only: SM120.only,
  })),
  mma("m16n8k32 row col satfinite? s32 u8|s8 u8|s8 s32", integers(2), 1, AMPERE),
  mma("m16n8k64 row col satfinite? s32 u8|s8 u8|s8 s32", integers(4), 0, AMPERE),
  mma("m16n8k64 row col satfinite? s32 u4|s4 u4|s4 s32", integers(2), 1, AMPERE),
  mma("m16n8k128 row col satfinite? s32 u4|s4 u4|s4 s32", integers(4), 0, AMPERE),
];

/** Block-scaled forms, with twice the K and registers of B. */
const scaledRows: readonly InstructionRow[] = matrixRows
  .filter(({ mods }) => mods.includes("block_scale"))
  .map((row) => ({
    ...row,
    mods: `sp::ordered_metadata ${row.mods.replace(/k(\d+)\b/, (_, k) => `k${Number(k) * 2}`)}`,
    args: [...row.args.slice(0, 2), "r:word*4", "r:f32*4", "r:u32", "imm:0", ...row.args.slice(4)],
  }));

/** As the dense form with twice the K, and metadata and selector behind B. */
const wgmmaSparseRows: readonly InstructionRow[] = wgmmaRows
  .filter(({ opcode }) => opcode === "wgmma.mma_async")
  .map((row) => {
    const mods = row.mods.replace(/k(\d+)\b/g, (_, k) => `k${Number(k) * 2}`);
    const selector = /k64\b/.test(mods) ? "imm:0" : "imm:0:1";
    return {
      ...row,
      mods: `sp ${mods}`,
      args: [...row.args.slice(0, 3), "r:u32", selector, ...row.args.slice(3)],
      since: [8, 2, 90],
      needs: mods.includes("u8") ? { "s8.u8": { since: [8, 4, 90] } } : {},
    };
  });

/** As the dense form, with the metadata's address in tensor memory behind B. */
const tcgen05SparseRows: readonly InstructionRow[] = (tcgen05Rows as readonly InstructionRow[])
  .filter(({ opcode }) => opcode.startsWith("tcgen05.mma"))
  .map((row) => ({
    ...row,
    mods: `sp ${row.mods}`,
    args: [...row.args.slice(0, 3), "[tmem:b32]", ...row.args.slice(3)],
  }));

export const sparseRows: readonly InstructionRow[] = [
  ...mmaRows,
  ...scaledRows,
  ...wgmmaSparseRows,
  ...tcgen05SparseRows,
];
