/** Asynchronous copies: cp.async, bulk and tensor copies, tensor maps, st.async and red.async (PTX ISA 9.0 §9.7.9.25 to §9.7.9.27). */
import { BLACKWELL, family, HOPPER_AND_BLACKWELL, type InstructionRow } from "./row.ts";

const TENSOR = "cp.async.bulk.tensor";
const HINT = "L2::cache_hint?";
const POLICY = "r:u64@L2::cache_hint";
const BYTES = "mbarrier::complete_tx::bytes";
const DIM = "1d|2d|3d|4d|5d";
/** Convolution modes need a channel and at least a spatial dimension beside the batch. */
const CONV = "3d|4d|5d";
const IM2COL = "im2col|im2col::w|im2col::w::128";
const GROUP = "cta_group::1|cta_group::2?";
/** Operation and type of a bulk reduction into global memory. */
const BULK_GLOBAL = [
  ...["and", "or", "xor"].flatMap((op) => ["b32", "b64"].map((t) => `${op}.${t}`)),
  ...["u32", "s32", "u64", "f32", "f64"].map((t) => `add.${t}`),
  "add.noftz.f16|add.noftz.bf16",
  ...["min", "max"].flatMap((op) => ["u32", "s32", "u64", "s64", "f16", "bf16"].map((t) => `${op}.${t}`)),
  "inc.u32|dec.u32",
].join("|");
const OPERATIONS = "add|min|max|inc|dec|and|or|xor";
const NEEDS = {
  "shared::cta": { since: [8, 6, 90] },
  "cta_group::1": { since: [8, 6, 100], only: BLACKWELL },
  "cta_group::2": { since: [8, 6, 100], only: BLACKWELL },
  // Into the own CTA's shared memory on every target from sm_100 on, consumer ones too.
  "im2col::w": { since: [8, 6, 100] },
  "shared::cluster.im2col::w": { since: [8, 6, 100], only: BLACKWELL },
  "L2.im2col::w": { since: [8, 6, 100], only: BLACKWELL },
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

const FROM_GLOBAL = `shared|shared::cta global ${HINT} L2::64B|L2::128B|L2::256B?` as const;
/** Reductions of integers into shared memory. */
const BULK_SHARED =
  "and.b32|or.b32|xor.b32|add.u32|add.s32|add.u64|min.u32|min.s32|max.u32|max.s32|inc.u32|dec.u32";

export const asyncRows = [
  ...family({ effect: "async", since: [7, 0, 80], needs: CP_ASYNC_NEEDS }, [
    // cp-size is a literal; a shorter src-size zero-fills, a true ignore-src zero-fills all.
    [`cp.async ca ${FROM_GLOBAL}`, `[shared] [global] imm:4,8,16 u32? ${POLICY}`],
    [`cp.async cg ${FROM_GLOBAL}`, `[shared] [global] imm:16 u32? ${POLICY}`],
    [`cp.async ca ${FROM_GLOBAL}`, `[shared] [global] imm:4,8,16 !pred ${POLICY}`, [7, 5, 80]],
    [`cp.async cg ${FROM_GLOBAL}`, `[shared] [global] imm:16 !pred ${POLICY}`, [7, 5, 80]],
    ["cp.async.commit_group", "", { needs: {} }],
  ]),
  ...family({ effect: "wait", since: [7, 0, 80] }, [
    ["cp.async.wait_group", "imm"],
    ["cp.async.wait_all", ""],
  ]),
  ...family({ effect: "async", since: [7, 0, 80], needs: { "shared::cta": { since: [7, 8, 80] } } }, [
    ["cp.async.mbarrier.arrive noinc? shared|shared::cta? b64", "[shared]"],
  ]),
  ...family({ effect: "async", since: [8, 0, 90], needs: NEEDS }, [
    // Sizes in bytes, multiples of 16; operands of the destination's, source's and barrier's address in this order.
    [
      `cp.async.bulk shared::cluster|shared::cta global ${BYTES} ${HINT}`,
      `[shared] [global] u32%16 [shared] ${POLICY}`,
    ],
    [
      `cp.async.bulk shared::cluster global ${BYTES} multicast::cluster ${HINT}`,
      `[shared] [global] u32%16 [shared] u16 ${POLICY}`,
    ],
  ]),
  ...family({ effect: "async", since: [8, 0, 90] }, [
    [`cp.async.bulk shared::cluster shared::cta ${BYTES}`, "[shared] [shared] u32%16 [shared]"],
    [
      `cp.async.bulk global shared::cta bulk_group ${HINT} cp_mask?`,
      `[global] [shared] u32%16 ${POLICY} u16@cp_mask`,
      { needs: STORE_NEEDS },
    ],
  ]),
  ...family({ effect: "hint", since: [8, 0, 90] }, [
    [`cp.async.bulk.prefetch L2 global ${HINT}`, `[global] u32%16 ${POLICY}`],
  ]),
  ...family({ effect: "async", since: [8, 0, 90] }, [["cp.async.bulk.commit_group", ""]]),
  ...family({ effect: "wait", since: [8, 0, 90] }, [["cp.async.bulk.wait_group read?", "imm"]]),
  ...family({ effect: "async", since: [8, 0, 90] }, [
    [
      `cp.reduce.async.bulk shared::cluster shared::cta ${BYTES} ${BULK_SHARED}`,
      "[shared] [shared] u32%16 [shared]",
    ],
    [
      `cp.reduce.async.bulk global shared::cta bulk_group ${HINT} ${BULK_GLOBAL}`,
      `[global] [shared] u32%16 ${POLICY}`,
    ],
    [
      `${TENSOR} ${DIM} shared::cluster global tile? ${BYTES} multicast::cluster? ${GROUP} ${HINT}`,
      `[shared] [tensor] [shared] u16@multicast::cluster ${POLICY}`,
      { needs: NEEDS },
    ],
    [
      `${TENSOR} ${DIM} shared::cta global tile? ${BYTES} ${GROUP} ${HINT}`,
      `[shared] [tensor] [shared] ${POLICY}`,
      { since: [8, 6, 90], needs: NEEDS },
    ],
    [
      `${TENSOR} 2d shared::cluster global tile::gather4 ${BYTES} multicast::cluster? ${GROUP} ${HINT}`,
      `[shared] [tensor] [shared] u16@multicast::cluster ${POLICY}`,
      { since: [8, 6, 100], only: BLACKWELL, needs: NEEDS },
    ],
    [
      `${TENSOR} 2d shared::cta global tile::gather4 ${BYTES} ${GROUP} ${HINT}`,
      `[shared] [tensor] [shared] ${POLICY}`,
      { since: [8, 6, 100], needs: NEEDS },
    ],
    // im2col takes an offset for each spatial dimension, im2col::w a halo and an offset.
    [
      `${TENSOR} ${CONV} shared::cluster global ${IM2COL} ${BYTES} multicast::cluster? ${GROUP} ${HINT}`,
      `[shared] [tensor] [shared] r:u16*I u16@multicast::cluster ${POLICY}`,
      { needs: NEEDS },
    ],
    [
      `${TENSOR} ${CONV} shared::cta global ${IM2COL} ${BYTES} ${GROUP} ${HINT}`,
      `[shared] [tensor] [shared] r:u16*I ${POLICY}`,
      { since: [8, 6, 90], needs: NEEDS },
    ],
    [`${TENSOR} ${DIM} global shared::cta tile? bulk_group ${HINT}`, `[tensor] [shared] ${POLICY}`],
    [
      `${TENSOR} 2d global shared::cta tile::scatter4 bulk_group ${HINT}`,
      `[tensor] [shared] ${POLICY}`,
      { since: [8, 6, 100], only: BLACKWELL },
    ],
    [`${TENSOR} ${CONV} global shared::cta im2col_no_offs bulk_group ${HINT}`, `[tensor] [shared] ${POLICY}`],
    [
      `cp.reduce.async.bulk.tensor ${DIM} global shared::cta ${OPERATIONS} tile? bulk_group ${HINT}`,
      `[tensor] [shared] ${POLICY}`,
    ],
    [
      `cp.reduce.async.bulk.tensor ${CONV} global shared::cta ${OPERATIONS} im2col_no_offs bulk_group ${HINT}`,
      `[tensor] [shared] ${POLICY}`,
    ],
  ]),
  ...family({ effect: "hint", since: [8, 0, 90] }, [
    [`cp.async.bulk.prefetch.tensor ${DIM} L2 global tile? ${HINT}`, `[tensor] ${POLICY}`],
  ]),
  ...family({ effect: "hint", since: [8, 6, 100], only: BLACKWELL }, [
    [`cp.async.bulk.prefetch.tensor 2d L2 global tile::gather4 ${HINT}`, `[tensor] ${POLICY}`],
  ]),
  ...family({ effect: "hint", since: [8, 0, 90], needs: NEEDS }, [
    [`cp.async.bulk.prefetch.tensor ${CONV} L2 global ${IM2COL} ${HINT}`, `[tensor] r:u16*I ${POLICY}`],
  ]),
  ...family({ effect: "async", since: [8, 1, 90] }, [
    [
      `st.async weak? shared::cluster? ${BYTES} b32|b64|u32|u64|s32|s64|f32|f64|v2.b32|v2.b64|v2.u32|v2.u64|v2.s32|v2.s64|v2.f32|v2.f64|v4.b32|v4.u32|v4.s32|v4.f32`,
      "[shared] V:T [shared]",
    ],
    [
      `red.async relaxed cluster shared::cluster? ${BYTES} inc.u32|dec.u32|min.u32|min.s32|max.u32|max.s32|and.b32|or.b32|xor.b32|add.u32|add.s32|add.u64`,
      "[shared] T [shared]",
    ],
  ]),
  ...family({ effect: "write", since: [8, 3, 90], only: HOPPER_AND_BLACKWELL }, [
    ["tensormap.replace.tile global_address global|shared::cta? b1024 b64", "[] u64"],
    ["tensormap.replace.tile rank global|shared::cta? b1024 b32", "[] u32"],
    [
      "tensormap.replace.tile box_dim|global_dim|element_stride global|shared::cta? b1024 b32",
      "[] imm:0:4 u32",
    ],
    ["tensormap.replace.tile global_stride global|shared::cta? b1024 b64", "[] imm:0:4 u64"],
    [
      "tensormap.replace.tile elemtype|interleave_layout|swizzle_mode|fill_mode global|shared::cta? b1024 b32",
      "[] imm",
    ],
  ]),
  ...family({ effect: "fence", since: [8, 3, 90] }, [
    [
      "tensormap.cp_fenceproxy global shared::cta tensormap::generic release cta|cluster|gpu|sys sync aligned",
      "[global] [shared] imm:128",
    ],
  ]),
] as const satisfies readonly InstructionRow[];
