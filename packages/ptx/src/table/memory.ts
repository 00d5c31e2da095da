/** Loads, stores, prefetch and cache control (PTX ISA 9.0 §9.7.9). */
import type { InstructionRow } from "./row.ts";

const LOAD_SPACE = "const|global|local|param|param::entry|param::func|shared|shared::cta|shared::cluster";
const STORE_SPACE = "global|local|param|param::func|shared|shared::cta|shared::cluster";
const SCOPE = "cta|cluster|gpu|sys";
const L1 = "L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate";
const L2 = "L2::evict_last|L2::evict_normal|L2::evict_first";
const PREFETCH = "L2::64B|L2::128B|L2::256B";
const VEC = "v2|v4|v8";
const TYPE = "b8|b16|b32|b64|b128|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64";
const POLICY = "b64@L2::cache_hint";

const NEEDS = {
  "shared::cta": { since: [7, 8, 30] },
  "shared::cluster": { since: [7, 8, 90] },
  "param::entry": { since: [8, 3, 70] },
  "param::func": { since: [8, 3, 70] },
  cluster: { since: [7, 8, 90] },
  "L1::evict_normal": { since: [7, 4, 70] },
  "L1::evict_unchanged": { since: [7, 4, 70] },
  "L1::evict_first": { since: [7, 4, 70] },
  "L1::evict_last": { since: [7, 4, 70] },
  "L1::no_allocate": { since: [7, 4, 70] },
  // The L2 eviction priorities stand beside 256-bit accesses only.
  "L2::evict_last": { since: [8, 8, 100] },
  "L2::evict_normal": { since: [8, 8, 100] },
  "L2::evict_first": { since: [8, 8, 100] },
  "L2::cache_hint": { since: [7, 4, 80] },
  "L2::64B": { since: [7, 4, 75] },
  "L2::128B": { since: [7, 4, 75] },
  "L2::256B": { since: [7, 4, 80] },
  v8: { since: [8, 8, 100] },
  b128: { since: [8, 3, 70] },
} as const;

export const memoryRows = [
  {
    opcode: "ld",
    mods: `weak? ${LOAD_SPACE}? ca|cg|cs|lu|cv? ${L1}? ${L2}? L2::cache_hint? ${PREFETCH}? ${VEC}? ${TYPE}`,
    args: ["=_V:T~", "[]", POLICY],
    since: [1, 0, 10],
    needs: NEEDS,
    effect: "read",
  },
  {
    opcode: "ld",
    mods: `volatile ${LOAD_SPACE}? ${PREFETCH}? ${VEC}? ${TYPE}`,
    args: ["=_V:T~", "[]"],
    since: [1, 0, 10],
    needs: NEEDS,
    effect: "read",
  },
  {
    opcode: "ld",
    mods: `relaxed|acquire ${SCOPE} global|shared|shared::cta|shared::cluster? ${L1}? ${L2}? L2::cache_hint? ${PREFETCH}? ${VEC}? ${TYPE}`,
    args: ["=_V:T~", "[]", POLICY],
    since: [6, 0, 70],
    needs: NEEDS,
    effect: "read",
  },
  {
    opcode: "ld",
    mods: `mmio relaxed sys global? ${TYPE}`,
    args: ["=_V:T~", "[]"],
    since: [8, 2, 70],
    needs: NEEDS,
    effect: "read",
  },
  {
    opcode: "ld",
    mods: `weak? global ca|cg|cs? nc ${L1}? ${L2}? L2::cache_hint? ${PREFETCH}? ${VEC}? ${TYPE}`,
    args: ["=_V:T~", "[global]", POLICY],
    since: [3, 1, 32],
    needs: NEEDS,
    effect: "read",
  },
  {
    opcode: "ldu",
    mods: `global? ${VEC}? ${TYPE}`,
    args: ["=_V:T~", "[global]"],
    since: [2, 0, 20],
    needs: NEEDS,
    effect: "read",
  },
  {
    opcode: "st",
    mods: `weak? ${STORE_SPACE}? wb|cg|cs|wt? ${L1}? ${L2}? L2::cache_hint? ${VEC}? ${TYPE}`,
    args: ["[]", "V:T~", POLICY],
    since: [1, 0, 10],
    needs: NEEDS,
    effect: "write",
  },
  {
    opcode: "st",
    mods: `volatile ${STORE_SPACE}? ${VEC}? ${TYPE}`,
    args: ["[]", "V:T~"],
    since: [1, 0, 10],
    needs: NEEDS,
    effect: "write",
  },
  {
    opcode: "st",
    mods: `relaxed|release ${SCOPE} global|shared|shared::cta|shared::cluster? ${L1}? ${L2}? L2::cache_hint? ${VEC}? ${TYPE}`,
    args: ["[]", "V:T~", POLICY],
    since: [6, 0, 70],
    needs: NEEDS,
    effect: "write",
  },
  {
    opcode: "st",
    mods: `mmio relaxed sys global? ${TYPE}`,
    args: ["[]", "V:T~"],
    since: [8, 2, 70],
    needs: NEEDS,
    effect: "write",
  },
  { opcode: "prefetch", mods: "global|local? L1|L2", args: ["[]"], since: [2, 0, 20], effect: "hint" },
  {
    opcode: "prefetch",
    mods: "global L2::evict_last|L2::evict_normal",
    args: ["[global]"],
    since: [7, 4, 80],
    effect: "hint",
  },
  { opcode: "prefetch", mods: "const|param? tensormap", args: ["[]"], since: [8, 0, 90], effect: "hint" },
  { opcode: "prefetchu", mods: "L1", args: ["[]"], since: [2, 0, 20], effect: "hint" },
  {
    opcode: "applypriority",
    mods: "global? L2::evict_normal",
    args: ["[global]", "imm:128:128"],
    since: [7, 4, 80],
    effect: "hint",
  },
  {
    opcode: "discard",
    mods: "global? L2",
    args: ["[global]", "imm:128:128"],
    since: [7, 4, 80],
    effect: "write",
  },
  {
    opcode: "createpolicy.fractional",
    mods: "L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged L2::evict_first|L2::evict_unchanged? b64",
    args: ["=b64", "f32?"],
    since: [7, 4, 80],
    effect: "pure",
  },
  {
    opcode: "createpolicy.range",
    mods: "global? L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged L2::evict_first|L2::evict_unchanged? b64",
    args: ["=b64", "[global]", "u32", "u32"],
    since: [7, 4, 80],
    effect: "pure",
  },
  { opcode: "createpolicy.cvt", mods: "L2 b64", args: ["=b64", "b64"], since: [7, 4, 80], effect: "pure" },
  { opcode: "alloca", mods: "u32|u64", args: ["=T", "T", "imm?"], since: [7, 3, 52], effect: "system" },
  { opcode: "stacksave", mods: "u32|u64", args: ["=T"], since: [7, 3, 52], effect: "system" },
  { opcode: "stackrestore", mods: "u32|u64", args: ["T"], since: [7, 3, 52], effect: "system" },
] as const satisfies readonly InstructionRow[];
