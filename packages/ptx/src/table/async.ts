/** Asynchronous copies: cp.async, bulk and tensor copies, tensor maps, st.async and red.async (PTX ISA 9.0 §9.7.9.25 to §9.7.9.27). */
import { BLACKWELL, HOPPER_AND_BLACKWELL, type InstructionRow } from "./row.ts";

const HINT = "L2::cache_hint?";
const POLICY = "b64@L2::cache_hint";
const BYTES = "mbarrier::complete_tx::bytes";
const DIM = "1d|2d|3d|4d|5d";
const LOAD_MODE = "tile|tile::gather4|im2col|im2col::w|im2col::w::128?";
const STORE_MODE = "tile|tile::scatter4|im2col_no_offs?";
const GROUP = "cta_group::1|cta_group::2?";
const IM2COL = "b16*#@im2col|im2col::w|im2col::w::128";
const BULK_INT = "s32|u32|s64|u64";
const NEEDS = {
  "shared::cta": { since: [8, 6, 90] },
  "cta_group::1": { since: [8, 6, 100], only: BLACKWELL },
  "cta_group::2": { since: [8, 6, 100], only: BLACKWELL },
  "tile::gather4": { since: [8, 6, 100], only: BLACKWELL },
  "tile::scatter4": { since: [8, 6, 100], only: BLACKWELL },
  "im2col::w": { since: [8, 6, 100], only: BLACKWELL },
  "im2col::w::128": { since: [8, 6, 100], only: BLACKWELL },
  cp_mask: { since: [8, 6, 100] },
} as const;
const STORE_NEEDS = { ...NEEDS, "shared::cta": { since: [8, 0, 90] } } as const;
const CP_ASYNC_NEEDS = {
  "shared::cta": { since: [7, 8, 80] },
  "L2::cache_hint": { since: [7, 4, 80] },
  "L2::64B": { since: [7, 4, 80] },
  "L2::128B": { since: [7, 4, 80] },
  "L2::256B": { since: [7, 4, 80] },
} as const;

export const asyncRows = [
  // cp-size is a literal; a shorter src-size zero-fills, a true ignore-src zero-fills all.
  {
    opcode: "cp.async",
    mods: `ca shared|shared::cta global ${HINT} L2::64B|L2::128B|L2::256B?`,
    args: ["[shared]", "[global]", "imm:4,8,16", "u32?", POLICY],
    since: [7, 0, 80],
    needs: CP_ASYNC_NEEDS,
    effect: "async",
  },
  {
    opcode: "cp.async",
    mods: `cg shared|shared::cta global ${HINT} L2::64B|L2::128B|L2::256B?`,
    args: ["[shared]", "[global]", "imm:16", "u32?", POLICY],
    since: [7, 0, 80],
    needs: CP_ASYNC_NEEDS,
    effect: "async",
  },
  {
    opcode: "cp.async",
    mods: `ca shared|shared::cta global ${HINT} L2::64B|L2::128B|L2::256B?`,
    args: ["[shared]", "[global]", "imm:4,8,16", "!r:pred", POLICY],
    since: [7, 5, 80],
    needs: CP_ASYNC_NEEDS,
    effect: "async",
  },
  {
    opcode: "cp.async",
    mods: `cg shared|shared::cta global ${HINT} L2::64B|L2::128B|L2::256B?`,
    args: ["[shared]", "[global]", "imm:16", "!r:pred", POLICY],
    since: [7, 5, 80],
    needs: CP_ASYNC_NEEDS,
    effect: "async",
  },
  { opcode: "cp.async.commit_group", mods: "", args: [], since: [7, 0, 80], effect: "async" },
  { opcode: "cp.async.wait_group", mods: "", args: ["imm"], since: [7, 0, 80], effect: "wait" },
  { opcode: "cp.async.wait_all", mods: "", args: [], since: [7, 0, 80], effect: "wait" },
  {
    opcode: "cp.async.mbarrier.arrive",
    mods: "noinc? shared|shared::cta? b64",
    args: ["[shared]"],
    since: [7, 0, 80],
    needs: { "shared::cta": { since: [7, 8, 80] } },
    effect: "async",
  },

  {
    opcode: "cp.async.bulk",
    mods: `shared::cluster|shared::cta global ${BYTES} ${HINT}`,
    args: ["[shared]", "[global]", "u32", "[shared]", POLICY],
    since: [8, 0, 90],
    needs: NEEDS,
    effect: "async",
  },
  {
    opcode: "cp.async.bulk",
    mods: `shared::cluster global ${BYTES} multicast::cluster ${HINT}`,
    args: ["[shared]", "[global]", "u32", "[shared]", "b16", POLICY],
    since: [8, 0, 90],
    needs: NEEDS,
    effect: "async",
  },
  {
    opcode: "cp.async.bulk",
    mods: `shared::cluster shared::cta ${BYTES}`,
    args: ["[shared]", "[shared]", "u32", "[shared]"],
    since: [8, 0, 90],
    effect: "async",
  },
  {
    opcode: "cp.async.bulk",
    mods: `global shared::cta bulk_group ${HINT} cp_mask?`,
    args: ["[global]", "[shared]", "u32", POLICY, "b16@cp_mask"],
    since: [8, 0, 90],
    needs: STORE_NEEDS,
    effect: "async",
  },
  {
    opcode: "cp.async.bulk.prefetch",
    mods: `L2 global ${HINT}`,
    args: ["[global]", "u32", POLICY],
    since: [8, 0, 90],
    effect: "hint",
  },
  { opcode: "cp.async.bulk.commit_group", mods: "", args: [], since: [8, 0, 90], effect: "async" },
  { opcode: "cp.async.bulk.wait_group", mods: "read?", args: ["imm"], since: [8, 0, 90], effect: "wait" },
  {
    opcode: "cp.reduce.async.bulk",
    mods: `shared::cluster shared::cta ${BYTES} and|or|xor b32|b64`,
    args: ["[shared]", "[shared]", "u32", "[shared]"],
    since: [8, 0, 90],
    effect: "async",
  },
  {
    opcode: "cp.reduce.async.bulk",
    mods: `shared::cluster shared::cta ${BYTES} add|min|max|inc|dec ${BULK_INT}`,
    args: ["[shared]", "[shared]", "u32", "[shared]"],
    since: [8, 0, 90],
    effect: "async",
  },
  {
    opcode: "cp.reduce.async.bulk",
    mods: `global shared::cta bulk_group ${HINT} and|or|xor b32|b64`,
    args: ["[global]", "[shared]", "u32", POLICY],
    since: [8, 0, 90],
    effect: "async",
  },
  {
    opcode: "cp.reduce.async.bulk",
    mods: `global shared::cta bulk_group ${HINT} add|min|max|inc|dec ${BULK_INT}|f32|f64|f16|bf16`,
    args: ["[global]", "[shared]", "u32", POLICY],
    since: [8, 0, 90],
    effect: "async",
  },
  {
    opcode: "cp.reduce.async.bulk",
    mods: `global shared::cta bulk_group ${HINT} add noftz f16|bf16`,
    args: ["[global]", "[shared]", "u32", POLICY],
    since: [8, 0, 90],
    effect: "async",
  },

  // `.cta_group` stands before the destination in much generated code; ptxas takes both places.
  {
    opcode: "cp.async.bulk.tensor",
    mods: `${DIM} ${GROUP} shared::cluster|shared::cta global ${LOAD_MODE} ${BYTES} multicast::cluster? ${GROUP} ${HINT}`,
    args: ["[shared]", "[tensor]", "[shared]", IM2COL, "b16@multicast::cluster", POLICY],
    since: [8, 0, 90],
    needs: NEEDS,
    effect: "async",
  },
  {
    opcode: "cp.async.bulk.tensor",
    mods: `${DIM} global shared::cta ${STORE_MODE} bulk_group ${HINT}`,
    args: ["[tensor]", "[shared]", POLICY],
    since: [8, 0, 90],
    needs: STORE_NEEDS,
    effect: "async",
  },
  {
    opcode: "cp.reduce.async.bulk.tensor",
    mods: `${DIM} global shared::cta add|min|max|inc|dec|and|or|xor tile|im2col_no_offs? bulk_group ${HINT}`,
    args: ["[tensor]", "[shared]", POLICY],
    since: [8, 0, 90],
    effect: "async",
  },
  {
    opcode: "cp.async.bulk.prefetch.tensor",
    mods: `${DIM} L2 global ${LOAD_MODE} ${HINT}`,
    args: ["[tensor]", IM2COL, POLICY],
    since: [8, 0, 90],
    needs: NEEDS,
    effect: "hint",
  },

  {
    opcode: "st.async",
    mods: `weak? shared::cluster? ${BYTES}? v2|v4? b32|b64|u32|u64|s32|s64|f32|f64`,
    args: ["[shared]", "V:T", "[shared]"],
    since: [8, 1, 90],
    effect: "async",
  },
  {
    opcode: "red.async",
    mods: `relaxed cluster shared::cluster? ${BYTES} inc|dec u32`,
    args: ["[shared]", "T", "[shared]"],
    since: [8, 1, 90],
    effect: "async",
  },
  {
    opcode: "red.async",
    mods: `relaxed cluster shared::cluster? ${BYTES} min|max u32|s32`,
    args: ["[shared]", "T", "[shared]"],
    since: [8, 1, 90],
    effect: "async",
  },
  {
    opcode: "red.async",
    mods: `relaxed cluster shared::cluster? ${BYTES} and|or|xor b32`,
    args: ["[shared]", "T", "[shared]"],
    since: [8, 1, 90],
    effect: "async",
  },
  {
    opcode: "red.async",
    mods: `relaxed cluster shared::cluster? ${BYTES} add u32|s32|u64`,
    args: ["[shared]", "T", "[shared]"],
    since: [8, 1, 90],
    effect: "async",
  },

  {
    opcode: "tensormap.replace.tile",
    mods: "global_address global|shared::cta? b1024 b64",
    args: ["[]", "b64"],
    since: [8, 3, 90],
    only: HOPPER_AND_BLACKWELL,
    effect: "write",
  },
  {
    opcode: "tensormap.replace.tile",
    mods: "rank global|shared::cta? b1024 b32",
    args: ["[]", "b32"],
    since: [8, 3, 90],
    only: HOPPER_AND_BLACKWELL,
    effect: "write",
  },
  {
    opcode: "tensormap.replace.tile",
    mods: "box_dim|global_dim|element_stride global|shared::cta? b1024 b32",
    args: ["[]", "imm:0:4", "b32"],
    since: [8, 3, 90],
    only: HOPPER_AND_BLACKWELL,
    effect: "write",
  },
  {
    opcode: "tensormap.replace.tile",
    mods: "global_stride global|shared::cta? b1024 b64",
    args: ["[]", "imm:0:4", "b64"],
    since: [8, 3, 90],
    only: HOPPER_AND_BLACKWELL,
    effect: "write",
  },
  {
    opcode: "tensormap.replace.tile",
    mods: "elemtype|interleave_layout|swizzle_mode|fill_mode global|shared::cta? b1024 b32",
    args: ["[]", "imm"],
    since: [8, 3, 90],
    only: HOPPER_AND_BLACKWELL,
    effect: "write",
  },
  {
    opcode: "tensormap.cp_fenceproxy",
    mods: "global shared::cta tensormap::generic release cta|cluster|gpu|sys sync aligned",
    args: ["[global]", "[shared]", "imm:128"],
    since: [8, 3, 90],
    effect: "fence",
  },
] as const satisfies readonly InstructionRow[];
