/** Blackwell: tensor memory and tcgen05, cluster launch control (PTX ISA 9.0 §9.7.16, §9.7.13.17); sparse forms have no rows. */
import { BLACKWELL, type InstructionRow } from "./row.ts";

const TC = { since: [8, 6, 100], only: BLACKWELL } as const;
/** Reduction on load is in the later datacentre parts only. */
const TC_RED = {
  since: [8, 8, 101],
  only: ["sm_101a", "sm_101f", "sm_103a", "sm_103f", "sm_110a", "sm_110f"],
} as const;
const GROUP = "cta_group::1|cta_group::2";
const KIND = "kind::f16|kind::tf32|kind::f8f6f4|kind::i8";
const COLLECTOR = "collector::a::fill|collector::a::use|collector::a::lastuse|collector::a::discard?";
/** A shifted A is not kept for another instruction. */
const SHIFTED =
  "ashift.collector::a::lastuse|ashift.collector::a::discard|ashift|collector::a::fill|collector::a::use|collector::a::lastuse|collector::a::discard?";
const WS_COLLECTOR = `${["b0", "b1", "b2", "b3"]
  .flatMap((b) => ["fill", "use", "lastuse", "discard"].map((u) => `collector::${b}::${u}`))
  .join("|")}?`;
/** Columns of tensor memory are allocated in powers of two. */
const COLUMNS = "imm:32,64,128,256,512";
const X128 = "x1|x2|x4|x8|x16|x32|x64|x128";
const RED_TYPE = "f32|abs.f32|NaN.f32|abs.NaN.f32|u32|s32";
const X64 = "x1|x2|x4|x8|x16|x32|x64";
const X32 = "x1|x2|x4|x8|x16|x32";
/** Kinds with their scale vector sizes; leaving the size out came later than writing it. */
const SCALED = [
  { kind: "kind::mxf8f6f4 block_scale scale_vec::1X|block32", since: [8, 6, 100] },
  { kind: "kind::mxf4 block_scale scale_vec::2X|block32", since: [8, 6, 100] },
  { kind: "kind::mxf8f6f4|kind::mxf4 block_scale", since: [8, 8, 100] },
  { kind: "kind::mxf4nvf4 block_scale scale_vec::2X|scale_vec::4X|block16|block32", since: [8, 7, 100] },
] as const;

const SCALE_NEEDS = {
  block16: { since: [8, 8, 100], only: BLACKWELL },
  block32: { since: [8, 8, 100], only: BLACKWELL },
} as const;

export const tcgen05Rows = [
  {
    opcode: "tcgen05.alloc",
    mods: `${GROUP} sync aligned shared::cta? b32`,
    args: ["[shared]", "r:u32"],
    ...TC,
    effect: "system",
  },
  {
    opcode: "tcgen05.alloc",
    mods: `${GROUP} sync aligned shared::cta? b32`,
    args: ["[shared]", COLUMNS],
    ...TC,
    effect: "system",
  },
  {
    opcode: "tcgen05.dealloc",
    mods: `${GROUP} sync aligned b32`,
    args: ["r:u32", "r:u32"],
    ...TC,
    effect: "system",
  },
  {
    opcode: "tcgen05.dealloc",
    mods: `${GROUP} sync aligned b32`,
    args: ["r:u32", COLUMNS],
    ...TC,
    effect: "system",
  },
  {
    opcode: "tcgen05.relinquish_alloc_permit",
    mods: `${GROUP} sync aligned`,
    args: [],
    ...TC,
    effect: "system",
  },

  // Registers per lane: X, 2X or 4X of the `.xX` repetitions, by the width of a row of the shape.
  {
    opcode: "tcgen05.ld",
    mods: `sync aligned 32x32b|16x64b ${X128} pack::16b? b32`,
    args: ["=b32*X", "[tmem]"],
    ...TC,
    effect: "async",
  },
  {
    opcode: "tcgen05.ld",
    mods: `sync aligned 16x128b ${X64} pack::16b? b32`,
    args: ["=b32*X*2", "[tmem]"],
    ...TC,
    effect: "async",
  },
  {
    opcode: "tcgen05.ld",
    mods: `sync aligned 16x256b ${X32} pack::16b? b32`,
    args: ["=b32*X*4", "[tmem]"],
    ...TC,
    effect: "async",
  },
  {
    opcode: "tcgen05.ld",
    mods: `sync aligned 16x32bx2 ${X128} pack::16b? b32`,
    args: ["=b32*X", "[tmem]", "imm"],
    ...TC,
    effect: "async",
  },
  {
    opcode: "tcgen05.ld.red",
    mods: `sync aligned 32x32b x2|x4|x8|x16|x32|x64|x128 min|max ${RED_TYPE}`,
    args: ["=T*X", "=T", "[tmem]"],
    ...TC_RED,
    effect: "async",
  },
  {
    opcode: "tcgen05.ld.red",
    mods: `sync aligned 16x32bx2 x2|x4|x8|x16|x32|x64|x128 min|max ${RED_TYPE}`,
    args: ["=T*X", "=T", "[tmem]", "imm"],
    ...TC_RED,
    effect: "async",
  },
  {
    opcode: "tcgen05.st",
    mods: `sync aligned 32x32b|16x64b ${X128} unpack::16b? b32`,
    args: ["[tmem]", "r:b32*X"],
    ...TC,
    effect: "async",
  },
  {
    opcode: "tcgen05.st",
    mods: `sync aligned 16x128b ${X64} unpack::16b? b32`,
    args: ["[tmem]", "r:b32*X*2"],
    ...TC,
    effect: "async",
  },
  {
    opcode: "tcgen05.st",
    mods: `sync aligned 16x256b ${X32} unpack::16b? b32`,
    args: ["[tmem]", "r:b32*X*4"],
    ...TC,
    effect: "async",
  },
  {
    opcode: "tcgen05.st",
    mods: `sync aligned 16x32bx2 ${X128} unpack::16b? b32`,
    args: ["[tmem]", "imm", "r:b32*X"],
    ...TC,
    effect: "async",
  },
  { opcode: "tcgen05.wait::ld", mods: "sync aligned", args: [], ...TC, effect: "wait" },
  { opcode: "tcgen05.wait::st", mods: "sync aligned", args: [], ...TC, effect: "wait" },
  { opcode: "tcgen05.fence::before_thread_sync", mods: "", args: [], ...TC, effect: "fence" },
  { opcode: "tcgen05.fence::after_thread_sync", mods: "", args: [], ...TC, effect: "fence" },

  {
    opcode: "tcgen05.cp",
    mods: `${GROUP} 128x256b|4x256b|128x128b b8x16.b6x16_p32|b8x16.b4x16_p64?`,
    args: ["[tmem]", "r:u64"],
    ...TC,
    effect: "async",
  },
  {
    opcode: "tcgen05.cp",
    mods: `${GROUP} 64x128b warpx2::02_13|warpx2::01_23 b8x16.b6x16_p32|b8x16.b4x16_p64?`,
    args: ["[tmem]", "r:u64"],
    ...TC,
    effect: "async",
  },
  {
    opcode: "tcgen05.cp",
    mods: `${GROUP} 32x128b warpx4 b8x16.b6x16_p32|b8x16.b4x16_p64?`,
    args: ["[tmem]", "r:u64"],
    ...TC,
    effect: "async",
  },
  { opcode: "tcgen05.shift", mods: `${GROUP} down`, args: ["[tmem]"], ...TC, effect: "async" },
  {
    opcode: "tcgen05.commit",
    mods: `${GROUP} mbarrier::arrive::one shared::cluster? multicast::cluster? b64`,
    args: ["[shared]", "r:u16@multicast::cluster"],
    ...TC,
    effect: "async",
  },

  // Operands: [d], a (descriptor, or [a] in tensor memory), b (descriptor), instruction descriptor,
  // then the disabled output lanes (4 words, 8 for a CTA pair), whether d is read, and an exponent that scales d.
  {
    opcode: "tcgen05.mma",
    mods: `${GROUP} ${KIND} ${COLLECTOR}`,
    args: ["[tmem b32]", "r:u64", "r:u64", "r:u32", "r:u32*L?", "!pred/imm"],
    ...TC,
    effect: "async",
  },
  {
    opcode: "tcgen05.mma",
    mods: `${GROUP} ${KIND} ${SHIFTED}`,
    args: ["[tmem b32]", "[tmem b32]", "r:u64", "r:u32", "r:u32*L?", "!pred/imm"],
    ...TC,
    effect: "async",
  },
  {
    opcode: "tcgen05.mma",
    mods: `${GROUP} kind::f16|kind::tf32 ${COLLECTOR}`,
    args: ["[tmem b32]", "r:u64", "r:u64", "r:u32", "r:u32*L?", "!pred/imm", "imm:0:15"],
    ...TC,
    effect: "async",
  },
  {
    opcode: "tcgen05.mma",
    mods: `${GROUP} kind::f16|kind::tf32 ${SHIFTED}`,
    args: ["[tmem b32]", "[tmem b32]", "r:u64", "r:u32", "r:u32*L?", "!pred/imm", "imm:0:15"],
    ...TC,
    effect: "async",
  },
  ...SCALED.flatMap(({ kind, since }) => scaledMma(kind, since)),
  {
    opcode: "tcgen05.mma.ws",
    mods: `cta_group::1 ${KIND} ${WS_COLLECTOR}`,
    args: ["[tmem b32]", "r:u64", "r:u64", "r:u32", "!pred/imm", "r:u64?"],
    ...TC,
    effect: "async",
  },
  {
    opcode: "tcgen05.mma.ws",
    mods: `cta_group::1 ${KIND} ${WS_COLLECTOR}`,
    args: ["[tmem b32]", "[tmem b32]", "r:u64", "r:u32", "!pred/imm", "r:u64?"],
    ...TC,
    effect: "async",
  },

  {
    opcode: "clusterlaunchcontrol.try_cancel",
    mods: "async shared::cta? mbarrier::complete_tx::bytes multicast::cluster::all? b128",
    args: ["[shared]", "[shared]"],
    since: [8, 6, 100],
    needs: { "multicast::cluster::all": { since: [8, 6, 100], only: [...BLACKWELL, "sm_120a", "sm_120f"] } },
    effect: "async",
  },
  {
    opcode: "clusterlaunchcontrol.query_cancel",
    mods: "is_canceled pred b128",
    args: ["=pred", "r:b128"],
    since: [8, 6, 100],
    effect: "pure",
  },
  {
    opcode: "clusterlaunchcontrol.query_cancel",
    mods: "get_first_ctaid v4 b32 b128",
    args: ["=_u32*4", "r:b128"],
    since: [8, 6, 100],
    effect: "pure",
  },
  {
    opcode: "clusterlaunchcontrol.query_cancel",
    mods: "get_first_ctaid::x|get_first_ctaid::y|get_first_ctaid::z b32 b128",
    args: ["=u32", "r:b128"],
    since: [8, 6, 100],
    effect: "pure",
  },
] as const satisfies readonly InstructionRow[];

/** Block-scaled mma: two tensor-memory addresses of scale factors after the instruction descriptor. */
function scaledMma(kind: string, since: readonly [number, number, number]) {
  return [
    {
      opcode: "tcgen05.mma",
      mods: `${GROUP} ${kind} ${COLLECTOR}`,
      args: ["[tmem b32]", "r:u64", "r:u64", "r:u32", "[tmem b32]", "[tmem b32]", "!pred/imm"],
      ...TC,
      since,
      needs: SCALE_NEEDS,
      effect: "async",
    },
    {
      opcode: "tcgen05.mma",
      mods: `${GROUP} ${kind} ${COLLECTOR}`,
      args: ["[tmem b32]", "[tmem b32]", "r:u64", "r:u32", "[tmem b32]", "[tmem b32]", "!pred/imm"],
      ...TC,
      since,
      needs: SCALE_NEEDS,
      effect: "async",
    },
  ] as const;
}
