/** Loads, stores, prefetch and cache control (PTX ISA 9.0 §9.7.9). */
import { family, type InstructionRow } from "./row.ts";

const SCOPE = "cta|cluster|gpu|sys";
const SHARED = "shared|shared::cta|shared::cluster";
/** Spaces behind no cache of L1 and L2 policies: hints are for global and generic addresses. */
const LOAD_OTHER = `const|local|param|param::entry|param::func|${SHARED}`;
const STORE_OTHER = `local|param|param::func|${SHARED}`;
const L1 = "L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate";
const L2 = "L2::evict_last|L2::evict_normal|L2::evict_first";
const HINT = "L2::cache_hint?";
const POLICY = "r:u64@L2::cache_hint";
const PREFETCH = "L2::64B|L2::128B|L2::256B?";

const BITS_8_16_32 = ["b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "f32"];
const BITS_32 = ["b32", "u32", "s32", "f32"];
const BITS_64 = ["b64", "u64", "s64", "f64"];
const vectors = (v: string, types: readonly string[]): string[] => types.map((t) => `${v}.${t}`);
/** Types and vectors of at most 128 bits. */
const UP_TO_128 = [
  ...BITS_8_16_32,
  ...BITS_64,
  "b128",
  ...vectors("v2", [...BITS_8_16_32, ...BITS_64]),
  ...vectors("v4", BITS_8_16_32),
].join("|");
/** The 256-bit accesses of Blackwell, for global memory. */
const WIDE = [...vectors("v8", BITS_32), ...vectors("v4", BITS_64)].join("|");
const SCALAR = [...BITS_8_16_32, ...BITS_64].join("|");

const L1_HINT = { since: [7, 4, 70] } as const;
const NEEDS = {
  "shared::cta": { since: [7, 8, 30] },
  "shared::cluster": { since: [7, 8, 90] },
  "param::entry": { since: [8, 3, 70] },
  "param::func": { since: [8, 3, 70] },
  cluster: { since: [7, 8, 90] },
  "L1::evict_normal": L1_HINT,
  "L1::evict_unchanged": L1_HINT,
  "L1::evict_first": L1_HINT,
  "L1::evict_last": L1_HINT,
  "L1::no_allocate": L1_HINT,
  "L2::cache_hint": { since: [7, 4, 80] },
  "L2::64B": { since: [7, 4, 75] },
  "L2::128B": { since: [7, 4, 75] },
  "L2::256B": { since: [7, 4, 80] },
  b128: { since: [8, 3, 70] },
  "sys.b128": { since: [8, 4, 70] },
} as const;

export const memoryRows = [
  ...family({ opcode: "ld", effect: "read", since: [1, 0, 10] }, [
    [
      `weak? global? ca|cg|cs|lu|cv|${L1}? ${HINT} ${PREFETCH} ${UP_TO_128}`,
      ["=_V:T~", "[]", POLICY],
      { needs: NEEDS },
    ],
    [
      `weak? global? ${L1}? ${L2}? ${HINT} ${PREFETCH} ${WIDE}`,
      ["=_V:T~", "[]", POLICY],
      { since: [8, 8, 100], needs: NEEDS },
    ],
    [`weak? ${LOAD_OTHER} ca|cg|cs|lu|cv? ${UP_TO_128}`, ["=_V:T~", "[]"], { needs: NEEDS }],
    [`volatile global? ${PREFETCH} ${UP_TO_128}`, ["=_V:T~", "[]"], { needs: NEEDS }],
    [`volatile ${SHARED} ${UP_TO_128}`, ["=_V:T~", "[]"], { needs: NEEDS }],
    [
      `relaxed|acquire ${SCOPE} global? ${L1}? ${HINT} ${PREFETCH} ${UP_TO_128}`,
      ["=_V:T~", "[]", POLICY],
      { since: [6, 0, 70], needs: NEEDS },
    ],
    [
      `relaxed|acquire ${SCOPE} global? ${L1}? ${L2}? ${HINT} ${PREFETCH} ${WIDE}`,
      ["=_V:T~", "[]", POLICY],
      { since: [8, 8, 100], needs: NEEDS },
    ],
    [
      `relaxed|acquire ${SCOPE} ${SHARED} ${UP_TO_128}`,
      ["=_V:T~", "[]"],
      { since: [6, 0, 70], needs: NEEDS },
    ],
    [`mmio relaxed sys global? ${SCALAR}`, ["=_V:T~", "[]"], { since: [8, 2, 70] }],
    [
      `global ca|cg|cs? nc ${HINT} ${PREFETCH} ${UP_TO_128}`,
      ["=_V:T~", "[global]", POLICY],
      { since: [3, 1, 32], needs: NEEDS },
    ],
    [
      `global nc ${L1} ${HINT} ${PREFETCH} ${UP_TO_128}`,
      ["=_V:T~", "[global]", POLICY],
      { since: [7, 4, 70], needs: NEEDS },
    ],
    [
      `global nc ${L1}? ${L2}? ${HINT} ${PREFETCH} ${WIDE}`,
      ["=_V:T~", "[global]", POLICY],
      { since: [8, 8, 100], needs: NEEDS },
    ],
  ]),
  {
    opcode: "ldu",
    mods: `global? ${UP_TO_128}`,
    args: ["=_V:T~", "[global]"],
    since: [2, 0, 20],
    needs: NEEDS,
    effect: "read",
  },
  ...family({ opcode: "st", effect: "write", since: [1, 0, 10] }, [
    [`weak? global? wb|cg|cs|wt|${L1}? ${HINT} ${UP_TO_128}`, ["[]", "V:T~", POLICY], { needs: NEEDS }],
    [
      `weak? global? ${L1}? ${L2}? ${HINT} ${WIDE}`,
      ["[]", "V:T~", POLICY],
      { since: [8, 8, 100], needs: NEEDS },
    ],
    [`weak? ${STORE_OTHER} wb|cg|cs|wt? ${UP_TO_128}`, ["[]", "V:T~"], { needs: NEEDS }],
    [`volatile global? ${UP_TO_128}`, ["[]", "V:T~"], { needs: NEEDS }],
    [`volatile ${SHARED} ${UP_TO_128}`, ["[]", "V:T~"], { needs: NEEDS }],
    [
      `relaxed|release ${SCOPE} global? ${L1}? ${HINT} ${UP_TO_128}`,
      ["[]", "V:T~", POLICY],
      { since: [6, 0, 70], needs: NEEDS },
    ],
    [
      `relaxed|release ${SCOPE} global? ${L1}? ${L2}? ${HINT} ${WIDE}`,
      ["[]", "V:T~", POLICY],
      { since: [8, 8, 100], needs: NEEDS },
    ],
    [`relaxed|release ${SCOPE} ${SHARED} ${UP_TO_128}`, ["[]", "V:T~"], { since: [6, 0, 70], needs: NEEDS }],
    [`mmio relaxed sys global? ${SCALAR}`, ["[]", "V:T~"], { since: [8, 2, 70] }],
  ]),
  ...family({ opcode: "prefetch", effect: "hint" }, [
    ["global|local? L1|L2", ["[]"], { since: [2, 0, 20] }],
    ["global L2::evict_last|L2::evict_normal", ["[global]"], { since: [7, 4, 80] }],
    ["const|param? tensormap", ["[]"], { since: [8, 0, 90] }],
  ]),
  { opcode: "prefetchu", mods: "L1", args: ["[]"], since: [2, 0, 20], effect: "hint" },
  {
    opcode: "applypriority",
    mods: "global? L2::evict_normal",
    args: ["[global]", "imm:128"],
    since: [7, 4, 80],
    effect: "hint",
  },
  {
    opcode: "discard",
    mods: "global? L2",
    args: ["[global]", "imm:128"],
    since: [7, 4, 80],
    effect: "write",
  },
  {
    opcode: "createpolicy.fractional",
    mods: "L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged L2::evict_first|L2::evict_unchanged? b64",
    args: ["=u64", "f32?"],
    since: [7, 4, 80],
    effect: "pure",
  },
  {
    opcode: "createpolicy.range",
    mods: "global? L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged L2::evict_first|L2::evict_unchanged? b64",
    args: ["=u64", "[global]", "u32", "u32"],
    since: [7, 4, 80],
    effect: "pure",
  },
  { opcode: "createpolicy.cvt", mods: "L2 b64", args: ["=u64", "u64"], since: [7, 4, 80], effect: "pure" },
  { opcode: "alloca", mods: "u64", args: ["=T", "T", "imm?"], since: [7, 3, 52], effect: "system" },
  { opcode: "stacksave", mods: "u64", args: ["=T"], since: [7, 3, 52], effect: "system" },
  { opcode: "stackrestore", mods: "u64", args: ["r:T"], since: [7, 3, 52], effect: "system" },
] as const satisfies readonly InstructionRow[];
