/** Edits of machine texts by hand: each is convicted by the proof with rule and line, compiles to just that with `unproven`, and is found by the emulator. */
import { type HandEdit, handEdits, handEditsOf, must, targetOf } from "@tilewright/conformance";
import { attentionText, readAttention } from "@tilewright/ir";
import { mma } from "../src/index.ts";

const asyncCopies: readonly HandEdit[] = [
  {
    what: "fragments are taken for another dtype",
    change: { kind: "replace", line: /mma %acc/, from: /f16\.f16$|f16\.f16 /, to: "bf16.bf16 " },
    code: "TW3172",
    line: /mma %acc/,
    ptx: null,
    emulator: null,
  },
  {
    what: "rows of the sums are stored as others",
    change: {
      kind: "replace",
      line: /register %acc/,
      from: /register 2:2, thread 8:4/,
      to: "thread 8:4, register 2:2",
    },
    code: "TW3172",
    line: /mma %acc/,
    ptx: null,
    emulator: null,
  },
  {
    what: "the first chunk is not waited for",
    change: { kind: "drop", line: /cp\.async\.wait/ },
    code: "TW3138",
    line: /copy %fA/,
    ptx: /^-.*wait_group/,
    emulator: /^H013/,
  },
  {
    what: "a group of copies too many is pending",
    change: { kind: "replace", line: /cp\.async\.wait/, nth: 1, from: /1/, to: "2" },
    code: "TW3138",
    line: /copy %fA/,
    ptx: /wait_group/,
    emulator: /^H013/,
  },
  {
    what: "copies are waited for behind the barrier",
    change: { kind: "move", line: /cp\.async\.wait/, nth: 1, by: 1 },
    code: "TW3138",
    line: /copy %fA/,
    ptx: /wait_group/,
    emulator: /^H013|^H015/,
  },
  {
    what: "the block does not meet before the loop",
    change: { kind: "drop", line: /^ +barrier 0/ },
    code: "TW3138",
    line: /copy %fA/,
    ptx: /^-.*bar\.sync/,
    emulator: /^H0(06|13|15)/,
  },
  {
    what: "the block does not meet in the loop",
    change: { kind: "drop", line: /^ +barrier 0/, nth: 1 },
    code: "TW3138",
    line: /copy %fA/,
    ptx: /^-.*bar\.sync/,
    emulator: /^H013/,
  },
  {
    what: "copies are in no group",
    change: { kind: "drop", line: /cp\.async\.commit/, nth: 1 },
    code: "TW3138",
    line: /copy %fA/,
    ptx: /^-.*commit_group/,
    emulator: /^H013/,
  },
  {
    what: "a group ends before its copies",
    change: { kind: "move", line: /cp\.async\.commit/, nth: 1, by: -2 },
    code: "TW3138",
    line: /copy %fA/,
    ptx: /commit_group/,
    emulator: /^H013/,
  },
  {
    what: "a stage is written while it is read",
    change: {
      kind: "replace",
      line: /copy %sA\[slot \(%kt/,
      from: /%kt \+ 2\) % 3/,
      to: "%kt + 1) % 3",
    },
    code: "TW3138",
    line: /copy %fA/,
    ptx: /%slot|%run|%s[ab]|cp\.async/,
    emulator: /^H014/,
  },
  {
    what: "the wait stands a step too early",
    change: { kind: "replace", line: /if %kk == 1/, from: /1/, to: "0" },
    code: "TW3138",
    line: /copy %sA/,
    ptx: /setp|wait_group|bar\.sync/,
    emulator: /^H013/,
  },
  {
    what: "the last chunk is not multiplied",
    change: { kind: "replace", line: /for %kt = 0/, from: /4/, to: "3" },
    code: "TW3159",
    line: /mma %acc/,
    ptx: /setp|wait_group|bar\.sync|bra|ldmatrix|@%p|^[+-]\w+:/,
    emulator: /^D/,
  },
  {
    what: "an accumulator begins with what lies in its registers",
    change: { kind: "drop", line: /fill %acc/ },
    code: "TW3158",
    line: /mma %acc/,
    ptx: /mov\.f32 %acc/,
    emulator: /^H008/,
  },
  {
    what: "B over A",
    change: { kind: "replace", line: /shared %sB/, from: /@4096/, to: "@2048" },
    code: "TW3134",
    line: /shared %sB/,
    ptx: /cp\.async|ldmatrix/,
    emulator: /^H014/,
  },
  {
    what: "stages that reach into each other",
    change: { kind: "replace", line: /shared %sA/, from: /every 8192/, to: "every 4096" },
    code: "TW3134",
    line: /shared %s[AB]/,
    ptx: /cp\.async|ldmatrix|%slot|%s[ab]|%run/,
    emulator: /^H014/,
  },
  {
    what: "less shared memory than is used",
    change: { kind: "replace", line: /memory shared/, from: /24576/, to: "24560" },
    code: "TW3133",
    line: /shared %sB/,
    ptx: "manifest",
    emulator: /^H001/,
  },
  {
    what: "a grid for fewer tiles than there are",
    change: { kind: "replace", line: /kernel main/, from: /grid\(4,/, to: "grid(3," },
    code: "TW3139",
    line: /kernel main/,
    ptx: "manifest",
    emulator: /^D/,
  },
];

const bulkCopies: readonly HandEdit[] = [
  {
    what: "loads are under way when their stage is given back",
    change: { kind: "drop", line: /fence async/ },
    code: "TW3146",
    line: /mbar\.arrive %ring_empty/,
    ptx: /^-.*fence\.proxy\.async/,
    emulator: /^H090/,
  },
  {
    what: "lanes of a warp load when one of them has arrived for all",
    change: { kind: "drop", line: /warp\.sync/ },
    code: "TW3153",
    line: /mbar\.arrive %ring_empty/,
    ptx: /^-.*bar\.warp\.sync/,
    emulator: null,
  },
  {
    what: "a stage is given back before its last loads",
    change: { kind: "move", line: /mbar\.arrive/, by: -6 },
    code: "TW3146",
    line: /mbar\.arrive %ring_empty/,
    ptx: /mbarrier\.arrive|mad\.lo/,
    emulator: /^H010|^H090/,
  },
  {
    what: "every lane arrives",
    change: { kind: "replace", line: /mbar\.arrive/, from: /by warp/, to: "by thread" },
    code: "TW3141",
    line: /mbar\.arrive %ring_empty/,
    ptx: /mbarrier\.arrive/,
    emulator: /^H030/,
  },
  {
    what: "a count too low",
    change: { kind: "replace", line: /mbar %ring_empty/, from: /count 4/, to: "count 3" },
    code: "TW3132",
    line: /mbar %ring_empty/,
    ptx: /mbarrier\.init/,
    emulator: /^H010/,
  },
  {
    what: "16 bytes are not expected",
    change: { kind: "replace", line: /mbar\.expect/, from: /8192/, to: "8176" },
    code: "TW3142",
    line: /mbar\.wait %ring_full/,
    ptx: /expect_tx/,
    emulator: /^H030/,
  },
  {
    what: "every lane of the producer issues the copies",
    change: { kind: "replace", line: /role producer/, from: / elected/, to: "" },
    code: "TW3153",
    line: /role producer/,
    ptx: /elect\.sync|not\.pred|end_producer/,
    emulator: /^H0(14|41)/,
  },
];

handEdits(mma, "sm_80", "f16", [128, 128, 128], "tile=64x64x32 warp=32x32 stages=3", asyncCopies);
handEdits(mma, "sm_90", "f16", [128, 128, 128], "tile=64x64x32 warp=32x32 stages=3 copy=tma", bulkCopies);

const throughTile: readonly HandEdit[] = [
  {
    what: "columns are spread over more warps than they are",
    change: { kind: "replace", line: /register %acc/, from: /cols\(warp 2/, to: "cols(warp 1000000" },
    code: "TW3111",
    line: /register %acc/,
    ptx: null,
    emulator: null,
  },
  {
    what: "warps do not meet before D lies where chunks are read",
    change: { kind: "drop", line: /barrier 0/, nth: 2 },
    code: "TW3165",
    line: /stage %sD columns 0/,
    ptx: /^-.*bar\.sync/,
    emulator: /^H0(06|09|1\d)/,
  },
  {
    what: "lanes meet before D lies where other warps read chunks",
    change: { kind: "replace", line: /barrier 0/, nth: 2, from: /barrier 0/, to: "warp.sync" },
    code: "TW3165",
    line: /stage %sD columns 0/,
    ptx: /bar\.sync|bar\.warp\.sync/,
    emulator: /^H0(06|09|1\d)/,
  },
  {
    what: "the role's barrier where all threads of the block meet",
    change: { kind: "replace", line: /barrier 0/, nth: 2, from: /0/, to: "1" },
    code: "TW3165",
    line: /barrier 1/,
    ptx: /bar\.sync/,
    emulator: null,
  },
  {
    what: "lanes do not meet between what they put into the tile and what they store",
    change: { kind: "drop", line: /warp\.sync/ },
    code: "TW3165",
    line: /warp\.store %sD columns 0/,
    ptx: /^-.*bar\.warp\.sync/,
    emulator: /^H0(06|09|1\d)/,
  },
  {
    what: "lanes do not meet before the tile is filled again",
    change: { kind: "drop", line: /warp\.sync/, nth: 1 },
    code: "TW3165",
    line: /stage %sD columns 32/,
    ptx: /^-.*bar\.warp\.sync/,
    emulator: /^H0(06|09|1\d)/,
  },
  {
    what: "the store stands before the meeting",
    change: { kind: "move", line: /warp\.store/, by: -1 },
    code: "TW3165",
    line: /warp\.store %sD columns 0/,
    ptx: /shared|global|warp\.sync/,
    emulator: /^H0(06|09|1\d)/,
  },
  {
    what: "some columns are not stored",
    change: { kind: "drop", line: /warp\.store/ },
    code: "TW3165",
    line: /epilogue %D|stage %sD columns 32/,
    ptx: /^-/,
    emulator: /^D/,
  },
  {
    what: "the same columns are put into the tile twice",
    change: { kind: "replace", line: /stage %sD/, nth: 1, from: /32 \.\. 64/, to: "0 .. 32" },
    code: "TW3165",
    line: /warp\.store %sD columns 32/,
    ptx: /shared|global|warp\.sync/,
    emulator: /^D/,
  },
  {
    what: "the first columns are stored again in the place of the others",
    change: { kind: "replace", line: /warp\.store/, nth: 1, from: /32 \.\. 64/, to: "0 .. 32" },
    code: "TW3165",
    line: /warp\.store %sD columns 0/,
    ptx: /shared|global|warp\.sync/,
    emulator: /^D/,
  },
  {
    what: "a swizzle that splits the vectors of D's tile",
    change: { kind: "replace", line: /shared %sD/, from: /swizzle<(\d),\d/, to: "swizzle<$1,3" },
    code: "TW3113",
    line: /epilogue %D/,
    ptx: null,
    emulator: null,
  },
];

handEdits(mma, "sm_80", "tf32", [128, 128, 32], "tile=128x128x16 warp=64x64 stages=2 epi=smem", throughTile);

const splitK: readonly HandEdit[] = [
  {
    what: "partial tiles are added to a fragment",
    change: { kind: "replace", line: /partial\.add/, from: /%acc/, to: "%fA" },
    code: "TW3162",
    line: /partial\.add/,
    ptx: /%left|add\.|partial|ld\.global|%w\b|%part|%sum|bra|mul|^[+-]\w+:/,
    emulator: /^D|^H/,
  },
  {
    what: "D begins where the CTA's share of K does",
    change: { kind: "replace", line: /epilogue %D/, from: /%mt/, to: "%st" },
    code: "TW3119",
    line: /epilogue %D/,
    ptx: null,
    emulator: null,
  },
];

handEdits(mma, "sm_80", "f16", [128, 128, 128], "tile=64x64x32 warp=32x32 stages=2 split=2", splitK);

const byKernel: readonly HandEdit[] = [
  {
    what: "the kernel behind leaves out a partial tile",
    change: { kind: "replace", line: /partial\.add %acc/, from: /partials 2/, to: "partials 1" },
    code: "TW3162",
    line: /partials 1/,
    ptx: /^[+-].*add\.u32/,
    emulator: /^D/,
  },
  {
    what: "the kernel behind adds partial tiles twice",
    change: { kind: "repeat", line: /partial\.add %acc/ },
    code: "TW3162",
    line: /partial\.add/,
    ptx: /^\+/,
    emulator: /^D/,
  },
  {
    what: "the kernel behind adds to what its registers had",
    change: { kind: "drop", line: /partial\.load/ },
    code: "TW3162",
    line: /partial\.add/,
    ptx: /^-.*ld\.global\.f32/,
    emulator: /./,
  },
  {
    what: "the kernel behind numbers the work tiles in another order",
    change: { kind: "replace", line: /^ +tiles/, nth: 1, from: /raster \S+/, to: "raster row" },
    code: "TW3162",
    line: /raster row/,
    ptx: /^[+-]\s+(?:shr|shl|and|div|rem|sub|mul|mad|add|mov)\./,
    emulator: /^D/,
  },
  {
    what: "the warps of a work tile are said to be those of one CTA",
    change: { kind: "replace", line: /^ +kernel @/, from: / warps 4/, to: "" },
    code: "TW3139",
    line: /kernel reduce @/,
    ptx: /^[+-]\s+(?:mov|mad|and|shr)\./,
    emulator: /./,
  },
];

handEdits(
  mma,
  "sm_80",
  "f16",
  [128, 128, 192],
  "tile=64x64x32 warp=32x32 stages=2 split=3 reduction=kernel",
  byKernel,
);

const factors: readonly HandEdit[] = [
  {
    what: "products are scaled by the factors of another step",
    change: { kind: "replace", line: /mma %acc/, from: /scaled %fSFA\[[^\]]*\]/, to: "scaled %fSFA" },
    code: "TW3159",
    line: /mma %acc/,
    ptx: /^[+-].*mma\.sync/,
    emulator: /^D/,
  },
  {
    what: "factors of the first step of a chunk come for both",
    change: { kind: "replace", line: /copy %fSFB\[/, from: /0 : 1, \(%kk \+ 1\) % 2 \* 128/, to: "0 : 1, 0" },
    code: "TW3159",
    line: /mma %acc/,
    ptx: /^[+-].*ld\.shared/,
    emulator: /^D/,
  },
];

handEdits(
  mma,
  "sm_120a",
  "nvf4",
  [128, 128, 256],
  "tile=128x128x128 warp=64x64 stages=2 frag=2 interleave=off",
  factors,
);

const offsets: readonly HandEdit[] = [
  {
    what: "a longer run than there is",
    change: { kind: "replace", line: /runs %first/, from: /most \d+/, to: "most 20" },
    code: "TW3139",
    line: /runs %first/,
    ptx: /min\.s32/,
    emulator: null,
  },
  {
    what: "D has rows of all runs",
    change: { kind: "replace", line: /runs %first/, from: / stored\(.*\)/, to: "" },
    code: "TW3139",
    line: /runs %first/,
    ptx: /./,
    emulator: /^[DH]/,
  },
];

const sequences = { batch: 2, queries: 17, keys: 21, headDim: 16, dtype: "bf16", offsets: "both" } as const;

handEditsOf(
  mma,
  "attention of sequences of several lengths",
  { from: attentionText(must(readAttention({ op: "attention", ...sequences }))), target: targetOf("sm_80") },
  offsets,
);
