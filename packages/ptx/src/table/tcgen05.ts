/** Blackwell: tensor memory and tcgen05, cluster launch control (PTX ISA 9.0 §9.7.16, §9.7.13.17); sparse forms are in sparse.ts. */
import { BLACKWELL, family, type InstructionRow } from "./row.ts";

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
const WS_COLLECTOR = ["b0", "b1", "b2", "b3"]
  .flatMap((b) => ["fill", "use", "lastuse", "discard"].map((u) => `collector::${b}::${u}`))
  .join("|");
const WS = `cta_group::1 ${KIND} ${WS_COLLECTOR}?`;
const CANCEL = "mbarrier::complete_tx::bytes multicast::cluster::all?";
const CANCEL_ALL = { since: [8, 6, 100], only: [...BLACKWELL, "sm_120a", "sm_120f"] } as const;
/** Columns of tensor memory are allocated in powers of two. */
const COLUMNS = "imm:32,64,128,256,512";
const NARROW = "b8x16.b6x16_p32|b8x16.b4x16_p64?";
const X128 = "x1|x2|x4|x8|x16|x32|x64|x128";
const RED = "x2|x4|x8|x16|x32|x64|x128 min|max f32|abs.f32|NaN.f32|abs.NaN.f32|u32|s32";
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

/** From B on. */
const SCALED_OPERANDS = "r:u64 r:u32 [tmem:b32] [tmem:b32] !pred/imm";

export const tcgen05Rows = [
  ...family({ effect: "system", ...TC }, [
    [`tcgen05.alloc ${GROUP} sync aligned shared::cta? b32`, "[shared] r:u32"],
    [`tcgen05.alloc ${GROUP} sync aligned shared::cta? b32`, `[shared] ${COLUMNS}`],
    [`tcgen05.dealloc ${GROUP} sync aligned b32`, "r:u32 r:u32"],
    [`tcgen05.dealloc ${GROUP} sync aligned b32`, `r:u32 ${COLUMNS}`],
    [`tcgen05.relinquish_alloc_permit ${GROUP} sync aligned`, ""],
  ]),
  ...family({ effect: "async", ...TC }, [
    // Registers per lane: X, 2X or 4X of the `.xX` repetitions, by the width of a row of the shape.
    [`tcgen05.ld sync aligned 32x32b|16x64b ${X128} pack::16b? b32`, "=b32*X [tmem]"],
    [`tcgen05.ld sync aligned 16x128b ${X64} pack::16b? b32`, "=b32*X*2 [tmem]"],
    [`tcgen05.ld sync aligned 16x256b ${X32} pack::16b? b32`, "=b32*X*4 [tmem]"],
    [`tcgen05.ld sync aligned 16x32bx2 ${X128} pack::16b? b32`, "=b32*X [tmem] imm"],
    [`tcgen05.st sync aligned 32x32b|16x64b ${X128} unpack::16b? b32`, "[tmem] r:b32*X"],
    [`tcgen05.st sync aligned 16x128b ${X64} unpack::16b? b32`, "[tmem] r:b32*X*2"],
    [`tcgen05.st sync aligned 16x256b ${X32} unpack::16b? b32`, "[tmem] r:b32*X*4"],
    [`tcgen05.st sync aligned 16x32bx2 ${X128} unpack::16b? b32`, "[tmem] imm r:b32*X"],
  ]),
  ...family({ effect: "async", ...TC_RED }, [
    [`tcgen05.ld.red sync aligned 32x32b ${RED}`, "=T*X =T [tmem]"],
    [`tcgen05.ld.red sync aligned 16x32bx2 ${RED}`, "=T*X =T [tmem] imm"],
  ]),
  ...family({ effect: "wait", ...TC }, [
    ["tcgen05.wait::ld sync aligned", ""],
    ["tcgen05.wait::st sync aligned", ""],
  ]),
  ...family({ effect: "fence", ...TC }, [
    ["tcgen05.fence::before_thread_sync", ""],
    ["tcgen05.fence::after_thread_sync", ""],
  ]),
  ...family({ effect: "async", ...TC }, [
    [`tcgen05.cp ${GROUP} 128x256b|4x256b|128x128b ${NARROW}`, "[tmem] r:u64"],
    [`tcgen05.cp ${GROUP} 64x128b warpx2::02_13|warpx2::01_23 ${NARROW}`, "[tmem] r:u64"],
    [`tcgen05.cp ${GROUP} 32x128b warpx4 ${NARROW}`, "[tmem] r:u64"],
    [`tcgen05.shift ${GROUP} down`, "[tmem]"],
    [
      `tcgen05.commit ${GROUP} mbarrier::arrive::one shared::cluster? multicast::cluster? b64`,
      "[shared] r:u16@multicast::cluster",
    ],
    // Operands: [d], a (descriptor, or [a] in tensor memory), b (descriptor), instruction descriptor,
    // then the disabled output lanes (4 words, 8 for a CTA pair), whether d is read, and an exponent that scales d.
    [`tcgen05.mma ${GROUP} ${KIND} ${COLLECTOR}`, "[tmem:b32] r:u64 r:u64 r:u32 r:u32*L? !pred/imm"],
    [`tcgen05.mma ${GROUP} ${KIND} ${SHIFTED}`, "[tmem:b32] [tmem:b32] r:u64 r:u32 r:u32*L? !pred/imm"],
    [
      `tcgen05.mma ${GROUP} kind::f16|kind::tf32 ${COLLECTOR}`,
      "[tmem:b32] r:u64 r:u64 r:u32 r:u32*L? !pred/imm imm:0:15",
    ],
    [
      `tcgen05.mma ${GROUP} kind::f16|kind::tf32 ${SHIFTED}`,
      "[tmem:b32] [tmem:b32] r:u64 r:u32 r:u32*L? !pred/imm imm:0:15",
    ],
  ]),
  ...SCALED.flatMap(({ kind, since }) => scaledMma(kind, since)),
  ...family({ effect: "async", ...TC }, [
    [`tcgen05.mma.ws ${WS}`, "[tmem:b32] r:u64 r:u64 r:u32 !pred/imm r:u64?"],
    [`tcgen05.mma.ws ${WS}`, "[tmem:b32] [tmem:b32] r:u64 r:u32 !pred/imm r:u64?"],
  ]),
  ...family({ effect: "async", since: [8, 6, 100], needs: { "multicast::cluster::all": CANCEL_ALL } }, [
    [`clusterlaunchcontrol.try_cancel async shared::cta? ${CANCEL} b128`, "[shared] [shared]"],
  ]),
  ...family({ effect: "pure", since: [8, 6, 100] }, [
    ["clusterlaunchcontrol.query_cancel is_canceled pred b128", "=pred r:b128"],
    ["clusterlaunchcontrol.query_cancel get_first_ctaid v4 b32 b128", "=_u32*4 r:b128"],
    [
      "clusterlaunchcontrol.query_cancel get_first_ctaid::x|get_first_ctaid::y|get_first_ctaid::z b32 b128",
      "=u32 r:b128",
    ],
  ]),
] as const satisfies readonly InstructionRow[];

/** Block-scaled mma: two tensor-memory addresses of scale factors after the instruction descriptor. */
function scaledMma(kind: string, since: readonly [number, number, number]) {
  return family({ effect: "async", needs: SCALE_NEEDS, ...TC, since }, [
    [`tcgen05.mma ${GROUP} ${kind} ${COLLECTOR}`, `[tmem:b32] r:u64 ${SCALED_OPERANDS}`],
    [`tcgen05.mma ${GROUP} ${kind} ${COLLECTOR}`, `[tmem:b32] [tmem:b32] ${SCALED_OPERANDS}`],
  ]);
}
