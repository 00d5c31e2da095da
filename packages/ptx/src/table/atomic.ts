/** Atomics and reductions in memory (PTX ISA 9.0 §9.7.13.5 to §9.7.13.8). */
import { family, type InstructionRow } from "./row.ts";

const SEM = "relaxed|acquire|release|acq_rel?";
const RED_SEM = "relaxed|release?";
const SCOPE = "cta|cluster|gpu|sys?";
/** A cache policy is for global and generic addresses. */
const GLOBAL = "global?";
const SHARED = "shared|shared::cta|shared::cluster";
const HINT = "L2::cache_hint?";
const POLICY = "r:u64@L2::cache_hint";
const ORDERED = { since: [6, 0, 70] } as const;
const SCOPED = { since: [5, 0, 60] } as const;
const BF16 = { since: [7, 8, 90] } as const;
const NEEDS = {
  relaxed: ORDERED,
  acquire: ORDERED,
  release: ORDERED,
  acq_rel: ORDERED,
  cta: SCOPED,
  gpu: SCOPED,
  sys: SCOPED,
  cluster: { since: [7, 8, 90] },
  "shared::cta": { since: [7, 8, 30] },
  "shared::cluster": { since: [7, 8, 90] },
  "L2::cache_hint": { since: [7, 4, 80] },
  "sys.b128": { since: [8, 4, 90] },
} as const;
const CAS = { ...NEEDS, b16: { since: [6, 3, 70] } } as const;
const ADD = { ...NEEDS, f32: { since: [2, 0, 20] }, f64: SCOPED } as const;
const HALF = { ...NEEDS, f16: { since: [6, 3, 70] }, bf16: BF16, bf16x2: BF16 } as const;

export const atomicRows = [
  ...family({ effect: "readwrite", since: [1, 1, 11], needs: NEEDS }, [
    [`atom ${SEM} ${SCOPE} ${GLOBAL} and|or|xor|exch ${HINT} b32|b64`, `=_T [] T ${POLICY}`],
    [`atom ${SEM} ${SCOPE} ${SHARED} and|or|xor|exch b32|b64`, "=_T [] T"],
    [`atom ${SEM} ${SCOPE} ${GLOBAL} exch ${HINT} b128`, `=_T [] r:T ${POLICY}`, [8, 3, 90]],
    [`atom ${SEM} ${SCOPE} ${SHARED} exch b128`, "=_T [] r:T", [8, 3, 90]],
    [`atom ${SEM} ${SCOPE} ${GLOBAL} cas b16|b32|b64`, "=_T [] T T", { needs: CAS }],
    [`atom ${SEM} ${SCOPE} ${SHARED} cas b16|b32|b64`, "=_T [] T T", { needs: CAS }],
    [`atom ${SEM} ${SCOPE} ${GLOBAL} cas b128`, "=_T [] r:T r:T", [8, 3, 90]],
    [`atom ${SEM} ${SCOPE} ${SHARED} cas b128`, "=_T [] r:T r:T", [8, 3, 90]],
    [`atom ${SEM} ${SCOPE} ${GLOBAL} add ${HINT} u32|s32|u64|f32|f64`, `=_T [] T ${POLICY}`, { needs: ADD }],
    [`atom ${SEM} ${SCOPE} ${SHARED} add u32|s32|u64|f32|f64`, "=_T [] T", { needs: ADD }],
    [`atom ${SEM} ${SCOPE} ${GLOBAL} inc|dec ${HINT} u32`, `=_T [] T ${POLICY}`],
    [`atom ${SEM} ${SCOPE} ${SHARED} inc|dec u32`, "=_T [] T"],
    [`atom ${SEM} ${SCOPE} ${GLOBAL} min|max ${HINT} u32|s32|u64|s64`, `=_T [] T ${POLICY}`],
    [`atom ${SEM} ${SCOPE} ${SHARED} min|max u32|s32|u64|s64`, "=_T [] T"],
  ]),
  ...family({ effect: "readwrite", since: [6, 2, 60], needs: HALF }, [
    [`atom ${SEM} ${SCOPE} ${GLOBAL} add noftz ${HINT} f16|f16x2|bf16|bf16x2`, `=_T [] r:T ${POLICY}`],
    [`atom ${SEM} ${SCOPE} ${SHARED} add noftz f16|f16x2|bf16|bf16x2`, "=_T [] r:T"],
  ]),
  ...family({ effect: "readwrite", since: [1, 2, 11], needs: NEEDS }, [
    [`atom ${SEM} ${SCOPE} ${GLOBAL} add ${HINT} v2|v4 f32`, `=_V:T [global] V:r:T ${POLICY}`, [8, 1, 90]],
    [
      `atom ${SEM} ${SCOPE} ${GLOBAL} add|min|max noftz ${HINT} v2|v4|v8 f16|bf16`,
      `=_V:T [global] V:r:T ${POLICY}`,
      [8, 1, 90],
    ],
    [
      `atom ${SEM} ${SCOPE} ${GLOBAL} add|min|max noftz ${HINT} v2|v4 f16x2|bf16x2`,
      `=_V:T [global] V:r:T ${POLICY}`,
      [8, 1, 90],
    ],
    [`red ${RED_SEM} ${SCOPE} ${GLOBAL} and|or|xor ${HINT} b32|b64`, `[] T ${POLICY}`],
    [`red ${RED_SEM} ${SCOPE} ${SHARED} and|or|xor b32|b64`, "[] T"],
    [`red ${RED_SEM} ${SCOPE} ${GLOBAL} add ${HINT} u32|s32|u64|f32|f64`, `[] T ${POLICY}`, { needs: ADD }],
    [`red ${RED_SEM} ${SCOPE} ${SHARED} add u32|s32|u64|f32|f64`, "[] T", { needs: ADD }],
    [`red ${RED_SEM} ${SCOPE} ${GLOBAL} inc|dec ${HINT} u32`, `[] T ${POLICY}`],
    [`red ${RED_SEM} ${SCOPE} ${SHARED} inc|dec u32`, "[] T"],
    [`red ${RED_SEM} ${SCOPE} ${GLOBAL} min|max ${HINT} u32|s32|u64|s64`, `[] T ${POLICY}`],
    [`red ${RED_SEM} ${SCOPE} ${SHARED} min|max u32|s32|u64|s64`, "[] T"],
  ]),
  ...family({ effect: "readwrite", since: [6, 2, 60], needs: HALF }, [
    [`red ${RED_SEM} ${SCOPE} ${GLOBAL} add noftz ${HINT} f16|f16x2|bf16|bf16x2`, `[] r:T ${POLICY}`],
    [`red ${RED_SEM} ${SCOPE} ${SHARED} add noftz f16|f16x2|bf16|bf16x2`, "[] r:T"],
  ]),
  ...family({ effect: "readwrite", since: [8, 1, 90], needs: NEEDS }, [
    [`red ${RED_SEM} ${SCOPE} ${GLOBAL} add ${HINT} v2|v4 f32`, `[global] V:r:T ${POLICY}`],
    [
      `red ${RED_SEM} ${SCOPE} ${GLOBAL} add|min|max noftz ${HINT} v2|v4|v8 f16|bf16`,
      `[global] V:r:T ${POLICY}`,
    ],
    [
      `red ${RED_SEM} ${SCOPE} ${GLOBAL} add|min|max noftz ${HINT} v2|v4 f16x2|bf16x2`,
      `[global] V:r:T ${POLICY}`,
    ],
  ]),
] as const satisfies readonly InstructionRow[];
