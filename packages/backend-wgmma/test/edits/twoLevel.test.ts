/** Edits of two-level accumulation and its factors. */
import { type HandEdit, handEdits } from "@tilewright/conformance";
import { wgmma } from "../../src/backend.ts";

const twoLevels: readonly HandEdit[] = [
  {
    what: "products behind a promotion without a fence between",
    change: { kind: "drop", line: /wgmma\.fence/, nth: 1 },
    code: "TW3157",
    line: /mma %chunk_sum/,
    ptx: /^-.*wgmma\.fence/,
    // The registers have been read, and the emulator's products write them when they are waited for.
    emulator: null,
  },
  {
    what: "sums are promoted while products into them go on",
    change: { kind: "drop", line: /wgmma\.wait/, nth: 1 },
    code: "TW3157",
    line: /accumulate %/,
    ptx: /^-.*wait_group/,
    emulator: /^H/,
  },
  {
    what: "sums are promoted before they are waited for",
    change: { kind: "move", line: /accumulate %/, nth: 1, by: -3 },
    code: "TW3157",
    line: /accumulate %/,
    ptx: /fma|mul\.rn|wait_group|bar\.warp|mbarrier\.arrive/,
    emulator: /^H/,
  },
  {
    what: "sums are not promoted",
    change: { kind: "drop", line: /accumulate %/, nth: 1 },
    code: "TW3157",
    line: /mma %chunk_sum/,
    ptx: /^-.*(fma|mul)\.rn/,
    emulator: /^D/,
  },
  {
    what: "sums are promoted twice",
    change: { kind: "repeat", line: /accumulate %/, nth: 1 },
    code: "TW3157",
    line: /accumulate %/,
    ptx: /^\+.*(fma|mul)\.rn/,
    emulator: /^D/,
  },
  {
    what: "sums keep what has been promoted",
    change: { kind: "replace", line: /mma %chunk_sum/, nth: 1, from: / = /, to: " += " },
    code: "TW3157",
    line: /mma %chunk_sum/,
    ptx: /wgmma\.mma_async/,
    emulator: /^D/,
  },
  {
    what: "sums are promoted to what nobody has filled",
    change: { kind: "drop", line: /fill %acc/ },
    code: "TW3158",
    line: /accumulate %/,
    ptx: /^-.*mov\.f32/,
    emulator: /^H|^D/,
  },
  {
    what: "the loop begins with factors that nobody has loaded",
    change: { kind: "drop", line: /copy %nextB/ },
    code: "TW3159",
    line: /accumulate %/,
    ptx: /^-.*ld\.global|nextB|shl/,
    emulator: /^H|^D/,
  },
  {
    what: "factors of the chunk before scale the next one",
    change: { kind: "drop", line: /copy %fB <- %nextB/ },
    code: "TW3159",
    line: /accumulate %/,
    ptx: /^-.*mov\.f32/,
    emulator: /^D/,
  },
  {
    what: "the next factors are loaded before those at hand are taken",
    change: { kind: "move", line: /copy %nextB/, nth: 1, by: -1 },
    code: "TW3159",
    line: /accumulate %/,
    ptx: /mov\.f32|ld\.global|setp|add\.|and\.pred/,
    emulator: /^D/,
  },
  {
    what: "a slot is given back before factors from it are used",
    change: { kind: "move", line: /map %scale0/, nth: 1, by: 3 },
    code: "TW3146",
    line: /mbar\.arrive %ring_empty/,
    ptx: /mul|scale0|wait_group|bar\.warp|mbarrier\.arrive/,
    emulator: null,
  },
  {
    what: "factors of the chunk before are those of the slot at hand",
    change: { kind: "drop", line: /copy %fA <- %sSFA/, nth: 1 },
    code: "TW3159",
    line: /accumulate %/,
    ptx: /^-.*ld\.shared|%st\b|shl/,
    emulator: /^D/,
  },
  {
    what: "the factors of a chunk are asked for again",
    change: { kind: "replace", line: /copy %nextB/, nth: 1, from: /%kt \+ 1/, to: "%kt" },
    code: "TW3159",
    line: /accumulate %/,
    ptx: /ld\.global|setp|add\.|mul\.lo\.u32 %idx|mov\.f32 %nextB/,
    emulator: /^D/,
  },
];

const twoLevelsOfBlock: readonly HandEdit[] = [
  {
    what: "sums are promoted while products into them go on",
    change: { kind: "drop", line: /wgmma\.wait/, nth: 1 },
    code: "TW3138",
    line: /accumulate %/,
    ptx: /^-.*wait_group/,
    emulator: /^H/,
  },
  {
    what: "the second run of a chunk is added to the first",
    change: { kind: "replace", line: /mma %chunk_sum/, nth: 1, from: / = /, to: " += " },
    code: "TW3138",
    line: /mma %chunk_sum/,
    ptx: /wgmma\.mma_async/,
    emulator: /^D/,
  },
  {
    what: "the first run's factors scale the second",
    change: {
      kind: "replace",
      line: /map %scale0/,
      nth: 1,
      from: /%fA\[0 : 64, 1 : 1\]/,
      to: "%fA[0 : 64, 0 : 1]",
    },
    code: "TW3159",
    line: /accumulate %/,
    ptx: /mul\.rn/,
    emulator: /^D/,
  },
];

const factors = { blockScales: { a: "1x128", b: "128x128" } } as const;

handEdits(
  wgmma,
  "sm_90a",
  "e4m3",
  [128, 64, 512],
  "tile=64x64x128 warpgroups=1x1 stages=2 sched=tiles epi=direct",
  twoLevels,
  factors,
);

handEdits(
  wgmma,
  "sm_90a",
  "e4m3",
  [64, 64, 512],
  "tile=64x64x256 warpgroups=1x1 stages=2 copy=direct sched=tiles epi=direct",
  twoLevelsOfBlock,
  factors,
);
