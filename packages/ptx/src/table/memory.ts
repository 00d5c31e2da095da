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
  ...family({ effect: "read", since: [1, 0, 10], needs: NEEDS }, [
    [`ld weak? global? ca|cg|cs|lu|cv|${L1}? ${HINT} ${PREFETCH} ${UP_TO_128}`, `=_V:T~ [] ${POLICY}`],
  ]),
  ...family({ effect: "read", since: [6, 0, 70], needs: NEEDS }, [
    [`ld weak? global? ${L1}? ${L2}? ${HINT} ${PREFETCH} ${WIDE}`, `=_V:T~ [] ${POLICY}`, [8, 8, 100]],
    [`ld weak? ${LOAD_OTHER} ca|cg|cs|lu|cv? ${UP_TO_128}`, "=_V:T~ []", [1, 0, 10]],
    [`ld volatile global? ${PREFETCH} ${UP_TO_128}`, "=_V:T~ []", [1, 0, 10]],
    [`ld volatile ${SHARED} ${UP_TO_128}`, "=_V:T~ []", [1, 0, 10]],
    [`ld relaxed|acquire ${SCOPE} global? ${L1}? ${HINT} ${PREFETCH} ${UP_TO_128}`, `=_V:T~ [] ${POLICY}`],
  ]),
  ...family({ effect: "read", since: [8, 8, 100], needs: NEEDS }, [
    [`ld relaxed|acquire ${SCOPE} global? ${L1}? ${L2}? ${HINT} ${PREFETCH} ${WIDE}`, `=_V:T~ [] ${POLICY}`],
    [`ld relaxed|acquire ${SCOPE} ${SHARED} ${UP_TO_128}`, "=_V:T~ []", [6, 0, 70]],
    [`ld mmio relaxed sys global? ${SCALAR}`, "=_V:T~ []", { since: [8, 2, 70], needs: {} }],
    [`ld global ca|cg|cs? nc ${HINT} ${PREFETCH} ${UP_TO_128}`, `=_V:T~ [global] ${POLICY}`, [3, 1, 32]],
    [`ld global nc ${L1} ${HINT} ${PREFETCH} ${UP_TO_128}`, `=_V:T~ [global] ${POLICY}`, [7, 4, 70]],
    [`ld global nc ${L1}? ${L2}? ${HINT} ${PREFETCH} ${WIDE}`, `=_V:T~ [global] ${POLICY}`],
    [`ldu global? ${UP_TO_128}`, "=_V:T~ [global]", [2, 0, 20]],
  ]),
  ...family({ effect: "write", since: [1, 0, 10], needs: NEEDS }, [
    [`st weak? global? wb|cg|cs|wt|${L1}? ${HINT} ${UP_TO_128}`, `[] V:T~ ${POLICY}`],
    [`st weak? global? ${L1}? ${L2}? ${HINT} ${WIDE}`, `[] V:T~ ${POLICY}`, [8, 8, 100]],
    [`st weak? ${STORE_OTHER} wb|cg|cs|wt? ${UP_TO_128}`, "[] V:T~"],
    [`st volatile global? ${UP_TO_128}`, "[] V:T~"],
    [`st volatile ${SHARED} ${UP_TO_128}`, "[] V:T~"],
    [`st relaxed|release ${SCOPE} global? ${L1}? ${HINT} ${UP_TO_128}`, `[] V:T~ ${POLICY}`, [6, 0, 70]],
    [`st relaxed|release ${SCOPE} global? ${L1}? ${L2}? ${HINT} ${WIDE}`, `[] V:T~ ${POLICY}`, [8, 8, 100]],
    [`st relaxed|release ${SCOPE} ${SHARED} ${UP_TO_128}`, "[] V:T~", [6, 0, 70]],
    [`st mmio relaxed sys global? ${SCALAR}`, "[] V:T~", { since: [8, 2, 70], needs: {} }],
  ]),
  ...family({ effect: "hint", since: [2, 0, 20] }, [
    ["prefetch global|local? L1|L2", "[]"],
    ["prefetch global L2::evict_last|L2::evict_normal", "[global]", [7, 4, 80]],
    ["prefetch const|param? tensormap", "[]", [8, 0, 90]],
    ["prefetchu L1", "[]"],
    ["applypriority global? L2::evict_normal", "[global] imm:128", [7, 4, 80]],
  ]),
  ...family({ effect: "write", since: [7, 4, 80] }, [["discard global? L2", "[global] imm:128"]]),
  ...family({ effect: "pure", since: [7, 4, 80] }, [
    [
      "createpolicy.fractional L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged L2::evict_first|L2::evict_unchanged? b64",
      "=u64 f32?",
    ],
    [
      "createpolicy.range global? L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged L2::evict_first|L2::evict_unchanged? b64",
      "=u64 [global] u32 u32",
    ],
    ["createpolicy.cvt L2 b64", "=u64 u64"],
  ]),
  ...family({ effect: "system", since: [7, 3, 52] }, [
    ["alloca u64", "=T T imm?"],
    ["stacksave u64", "=T"],
    ["stackrestore u64", "r:T"],
  ]),
] as const satisfies readonly InstructionRow[];
