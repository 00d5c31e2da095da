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
  ...family({ opcode: "tcgen05.alloc", effect: "system", ...TC }, [
    [`${GROUP} sync aligned shared::cta? b32`, ["[shared]", "r:u32"]],
    [`${GROUP} sync aligned shared::cta? b32`, ["[shared]", COLUMNS]],
  ]),
  ...family({ opcode: "tcgen05.dealloc", effect: "system", ...TC }, [
    [`${GROUP} sync aligned b32`, ["r:u32", "r:u32"]],
    [`${GROUP} sync aligned b32`, ["r:u32", COLUMNS]],
  ]),
  {
    opcode: "tcgen05.relinquish_alloc_permit",
    mods: `${GROUP} sync aligned`,
    args: [],
    ...TC,
    effect: "system",
  },

  // Registers per lane: X, 2X or 4X of the `.xX` repetitions, by the width of a row of the shape.
  ...family({ opcode: "tcgen05.ld", effect: "async", ...TC }, [
    [`sync aligned 32x32b|16x64b ${X128} pack::16b? b32`, ["=b32*X", "[tmem]"]],
    [`sync aligned 16x128b ${X64} pack::16b? b32`, ["=b32*X*2", "[tmem]"]],
    [`sync aligned 16x256b ${X32} pack::16b? b32`, ["=b32*X*4", "[tmem]"]],
    [`sync aligned 16x32bx2 ${X128} pack::16b? b32`, ["=b32*X", "[tmem]", "imm"]],
  ]),
  ...family({ opcode: "tcgen05.ld.red", effect: "async", ...TC_RED }, [
    [`sync aligned 32x32b x2|x4|x8|x16|x32|x64|x128 min|max ${RED_TYPE}`, ["=T*X", "=T", "[tmem]"]],
    [`sync aligned 16x32bx2 x2|x4|x8|x16|x32|x64|x128 min|max ${RED_TYPE}`, ["=T*X", "=T", "[tmem]", "imm"]],
  ]),
  ...family({ opcode: "tcgen05.st", effect: "async", ...TC }, [
    [`sync aligned 32x32b|16x64b ${X128} unpack::16b? b32`, ["[tmem]", "r:b32*X"]],
    [`sync aligned 16x128b ${X64} unpack::16b? b32`, ["[tmem]", "r:b32*X*2"]],
    [`sync aligned 16x256b ${X32} unpack::16b? b32`, ["[tmem]", "r:b32*X*4"]],
    [`sync aligned 16x32bx2 ${X128} unpack::16b? b32`, ["[tmem]", "imm", "r:b32*X"]],
  ]),
  { opcode: "tcgen05.wait::ld", mods: "sync aligned", args: [], ...TC, effect: "wait" },
  { opcode: "tcgen05.wait::st", mods: "sync aligned", args: [], ...TC, effect: "wait" },
  { opcode: "tcgen05.fence::before_thread_sync", mods: "", args: [], ...TC, effect: "fence" },
  { opcode: "tcgen05.fence::after_thread_sync", mods: "", args: [], ...TC, effect: "fence" },

  ...family({ opcode: "tcgen05.cp", effect: "async", ...TC }, [
    [`${GROUP} 128x256b|4x256b|128x128b b8x16.b6x16_p32|b8x16.b4x16_p64?`, ["[tmem]", "r:u64"]],
    [`${GROUP} 64x128b warpx2::02_13|warpx2::01_23 b8x16.b6x16_p32|b8x16.b4x16_p64?`, ["[tmem]", "r:u64"]],
    [`${GROUP} 32x128b warpx4 b8x16.b6x16_p32|b8x16.b4x16_p64?`, ["[tmem]", "r:u64"]],
  ]),
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
  ...family({ opcode: "tcgen05.mma", effect: "async", ...TC }, [
    [`${GROUP} ${KIND} ${COLLECTOR}`, ["[tmem b32]", "r:u64", "r:u64", "r:u32", "r:u32*L?", "!pred/imm"]],
    [`${GROUP} ${KIND} ${SHIFTED}`, ["[tmem b32]", "[tmem b32]", "r:u64", "r:u32", "r:u32*L?", "!pred/imm"]],
    [
      `${GROUP} kind::f16|kind::tf32 ${COLLECTOR}`,
      ["[tmem b32]", "r:u64", "r:u64", "r:u32", "r:u32*L?", "!pred/imm", "imm:0:15"],
    ],
    [
      `${GROUP} kind::f16|kind::tf32 ${SHIFTED}`,
      ["[tmem b32]", "[tmem b32]", "r:u64", "r:u32", "r:u32*L?", "!pred/imm", "imm:0:15"],
    ],
  ]),
  ...SCALED.flatMap(({ kind, since }) => scaledMma(kind, since)),
  ...family({ opcode: "tcgen05.mma.ws", effect: "async", ...TC }, [
    [
      `cta_group::1 ${KIND} ${WS_COLLECTOR}`,
      ["[tmem b32]", "r:u64", "r:u64", "r:u32", "!pred/imm", "r:u64?"],
    ],
    [
      `cta_group::1 ${KIND} ${WS_COLLECTOR}`,
      ["[tmem b32]", "[tmem b32]", "r:u64", "r:u32", "!pred/imm", "r:u64?"],
    ],
  ]),

  {
    opcode: "clusterlaunchcontrol.try_cancel",
    mods: "async shared::cta? mbarrier::complete_tx::bytes multicast::cluster::all? b128",
    args: ["[shared]", "[shared]"],
    since: [8, 6, 100],
    needs: { "multicast::cluster::all": { since: [8, 6, 100], only: [...BLACKWELL, "sm_120a", "sm_120f"] } },
    effect: "async",
  },
  ...family({ opcode: "clusterlaunchcontrol.query_cancel", effect: "pure", since: [8, 6, 100] }, [
    ["is_canceled pred b128", ["=pred", "r:b128"]],
    ["get_first_ctaid v4 b32 b128", ["=_u32*4", "r:b128"]],
    ["get_first_ctaid::x|get_first_ctaid::y|get_first_ctaid::z b32 b128", ["=u32", "r:b128"]],
  ]),
] as const satisfies readonly InstructionRow[];

/** Block-scaled mma: two tensor-memory addresses of scale factors after the instruction descriptor. */
function scaledMma(kind: string, since: readonly [number, number, number]) {
  return [
    ...family({ opcode: "tcgen05.mma", effect: "async", needs: SCALE_NEEDS, ...TC, since }, [
      [
        `${GROUP} ${kind} ${COLLECTOR}`,
        ["[tmem b32]", "r:u64", "r:u64", "r:u32", "[tmem b32]", "[tmem b32]", "!pred/imm"],
      ],
      [
        `${GROUP} ${kind} ${COLLECTOR}`,
        ["[tmem b32]", "[tmem b32]", "r:u64", "r:u32", "[tmem b32]", "[tmem b32]", "!pred/imm"],
      ],
    ]),
  ] as const;
}
