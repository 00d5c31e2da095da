/** Edits of machine texts by hand: each is convicted by the proof with rule and line, compiles to just that with `unproven`, and is found by the emulator. */
import { type HandEdit, handEdits } from "@tilewright/conformance";
import { simt } from "../src/index.ts";

const edits: readonly HandEdit[] = [
  {
    what: "the block does not meet before the loop",
    change: { kind: "drop", line: /^ +barrier 0/ },
    code: "TW3138",
    line: /copy %fA/,
    ptx: /^-.*bar\.sync/,
    emulator: /^H0(06|09)/,
  },
  {
    what: "the block does not meet in the loop",
    change: { kind: "drop", line: /^ +barrier 0/, nth: 1 },
    code: "TW3138",
    line: /copy %fA/,
    ptx: /bar\.sync|setp/,
    emulator: /^H0(09|10)/,
  },
  {
    what: "the barrier stands before the stores",
    change: { kind: "replace", line: /if %kk == 31/, from: /31/, to: "0" },
    code: "TW3138",
    line: /copy %fA/,
    ptx: /bar\.sync|setp/,
    emulator: /^H0(09|10)/,
  },
  {
    what: "a stage is written while it is read",
    change: { kind: "replace", line: /copy %sA\[slot \(%kt/, from: /%kt \+ 1\) % 2/, to: "%kt + 2) % 2" },
    code: "TW3138",
    line: /copy %/,
    ptx: /st\.shared|%s|%slot|setp|mov|add|sub|xor/,
    emulator: /^H010|^D/,
  },
  {
    what: "the last chunk is not multiplied",
    change: { kind: "replace", line: /for %kt = 0/, from: /4/, to: "3" },
    code: "TW3159",
    line: /mma %acc/,
    ptx: /setp|bar\.sync|bra|ld\.|st\.|@%p|add|mov\.b32 %r|^[+-]\w+:/,
    emulator: /^D/,
  },
  {
    what: "B over A",
    change: { kind: "replace", line: /shared %sB/, from: /@2304/, to: "@2048" },
    code: "TW3134",
    line: /shared %sB/,
    ptx: /shared|%s/,
    emulator: /^H0|^D/,
  },
  {
    what: "a grid for fewer tiles than there are",
    change: { kind: "replace", line: /kernel main/, from: /grid\(8,/, to: "grid(7," },
    code: "TW3139",
    line: /kernel main/,
    ptx: "manifest",
    emulator: /^D/,
  },
];

handEdits(
  simt,
  "sm_70",
  "f32",
  [64, 64, 128],
  "tile=16x32x32 thread=2x2 lanes=4x8 strip=2x2 stages=2 frag=2 registerPrefetch=on",
  edits,
);

const shared: readonly HandEdit[] = [
  {
    what: "the block does not meet between its parts of two tiles",
    change: { kind: "drop", line: /^ +barrier 0/, nth: -1 },
    code: "TW3138",
    line: /copy %sA/,
    ptx: /^-.*bar\.sync/,
    // No part of so short a line is a whole tile: all meet in its reduction.
    emulator: null,
  },
  {
    what: "the block meets in its loop, and not between its parts",
    change: { kind: "replace", line: /boundary between/, from: /between/, to: "first" },
    code: "TW3163",
    line: /tiles %mt/,
    ptx: /^-.*bar\.sync/,
    emulator: null,
  },
  {
    what: "CTAs behind those with shares take tiles that others have",
    change: { kind: "replace", line: /scheduler/, from: /streamk 3/, to: "streamk 2" },
    code: "TW3168",
    line: /tiles.*streamk 2/,
    ptx: /setp\.ge\.u32|sub\.u32/,
    emulator: /^D$|^H/,
  },
  {
    what: "nobody does the tiles behind the line",
    change: { kind: "replace", line: /scheduler/, from: /streamk 3 whole/, to: "streamk 3" },
    code: "TW3168",
    line: /tiles.*streamk 3/,
    ptx: /^-|%at/,
    emulator: /^D$|^H/,
  },
];

handEdits(
  simt,
  "sm_70",
  "f32",
  [64, 64, 96],
  "tile=16x32x32 thread=2x2 lanes=4x8 strip=2x2 stages=2 frag=2 registerPrefetch=on streamk=3",
  shared,
);

const transposed: readonly HandEdit[] = [
  {
    what: "the kernel before copies a line too few",
    change: { kind: "replace", line: /transpose %A/, from: /lines 64/, to: "lines 63" },
    code: "TW3139",
    line: /lines 63/,
    ptx: /setp\.lt/,
    emulator: /^D|^H/,
  },
  {
    what: "the copy lies beyond the workspace",
    change: { kind: "replace", line: /region %a/, from: /at 0/, to: "at 256" },
    code: "TW3139",
    line: /at 256/,
    ptx: /^\+.*256/,
    emulator: /^D|^H/,
  },
];

handEdits(simt, "sm_70", "f32", [64, 64, 32], "tile=64x64x8 thread=8x4 transpose=a", transposed);

const results: readonly HandEdit[] = [
  {
    what: "sums of columns are stored in another dtype",
    change: { kind: "replace", line: /result\.store/, from: /bf16/, to: "f16" },
    code: "TW3139",
    line: /result\.store/,
    ptx: /^[+-].*(?:cvt|bfe|shr|shl|and|add|or|setp|selp|mov|prmt|lop)/,
    emulator: /^epilogue/,
  },
  {
    what: "no zeros are left for the next launch",
    change: { kind: "drop", line: /result\.clear/ },
    code: "TW3139",
    line: /result\.store/,
    ptx: /^-.*st\.global\.u32 .*, 0;/,
    emulator: null,
  },
  {
    what: "some of the sums are not stored",
    change: { kind: "replace", line: /result\.load/, from: /count 40/, to: "count 8" },
    code: "TW3139",
    line: /result\.load/,
    ptx: /setp\.lt\.u32/,
    emulator: /^epilogue/,
  },
];

handEdits(simt, "sm_70", "f32", [32, 40, 16], "tile=32x32x8 thread=4x2 strip=4x2", results, {
  epilogue: [{ kind: "reduce", op: "sum", over: "m", dtype: "bf16" }],
});
