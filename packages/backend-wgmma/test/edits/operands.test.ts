/** Edits of operands that are transposed before, copied by threads, multiplied without a ring, or widened. */
import { type HandEdit, handEdits, handEditsOf, problemOf, targetOf } from "@tilewright/conformance";
import { wgmma } from "../../src/backend.ts";

const transposed: readonly HandEdit[] = [
  {
    what: "bulk copies read beside the copy of B",
    change: { kind: "replace", line: /map %workspace/, from: /at 0/, to: "at 256" },
    code: "TW3139",
    line: /at 256/,
    ptx: "manifest",
    emulator: /^TW6023/,
  },
  {
    what: "the CTAs do not wait for the kernel before, which makes it",
    change: { kind: "drop", line: /pdl\.wait/ },
    code: "TW3160",
    line: /launch|pdl/,
    ptx: /^-.*griddepcontrol\.wait/,
    emulator: null,
  },
];

handEditsOf(
  wgmma,
  "copies that a kernel before transposes",
  {
    problem: problemOf({ m: 64, n: 64, k: 64, dtype: "tf32" }),
    target: targetOf("sm_90a"),
    schedule: "tile=64x32x32 warpgroups=1x1 stages=2 transpose=b",
  },
  transposed,
);

/** Blocks without roles: their threads copy, meet and multiply. */
const direct: readonly HandEdit[] = [
  {
    what: "products without a fence before them",
    change: { kind: "drop", line: /wgmma\.fence/ },
    code: "TW3138",
    line: /mma %acc/,
    ptx: /^-.*wgmma\.fence/,
    emulator: /^H061/,
  },
  {
    what: "products in no group",
    change: { kind: "drop", line: /wgmma\.commit/ },
    code: "TW3138",
    line: /copy %sA/,
    ptx: /^-.*wgmma\.commit_group/,
    emulator: /^H06/,
  },
  {
    what: "sums that are read while products go on",
    change: { kind: "drop", line: /wgmma\.wait/ },
    code: "TW3138",
    line: /copy %sA/,
    ptx: /^-.*wgmma\.wait_group/,
    emulator: /^H06/,
  },
  {
    what: "a group of products too many is pending",
    change: { kind: "replace", line: /wgmma\.wait/, from: /0/, to: "1" },
    code: "TW3138",
    line: /copy %sA/,
    ptx: /wgmma\.wait_group/,
    emulator: /^H06/,
  },
  {
    what: "products of copies that the async proxy does not see",
    change: { kind: "drop", line: /fence async/, nth: 1 },
    code: "TW3138",
    line: /mma %acc/,
    ptx: /^-.*fence\.proxy\.async/,
    emulator: /^H/,
  },
];

const straight: readonly HandEdit[] = [
  {
    what: "an instruction of more columns than the tile has",
    change: { kind: "replace", line: /mma %acc/, from: /m64n64k16/, to: "m64n128k16" },
    code: "TW3172",
    line: /mma %acc/,
    ptx: null,
    emulator: null,
  },
  {
    what: "instructions of half of the columns",
    change: { kind: "replace", line: /mma %acc/, from: /m64n64k16/, to: "m64n32k16" },
    code: "taken",
    ptx: /wgmma\.mma_async|%desc/,
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
    what: "columns of the sums are stored as others",
    change: {
      kind: "replace",
      line: /register %acc/,
      from: /register 8:4, thread 4, register 2/,
      to: "thread 4, register 2, register 8:4",
    },
    code: "TW3172",
    line: /mma %acc/,
    ptx: null,
    emulator: null,
  },
  {
    what: "a swizzle that the rows do not fill",
    change: { kind: "replace", line: /shared %sA/, from: /swizzle<3,4,3>/, to: "swizzle<2,4,3>" },
    code: "TW3172",
    line: /mma %acc/,
    ptx: null,
    emulator: null,
  },
  {
    what: "the fence between proxies stands behind the meeting",
    change: { kind: "move", line: /fence async/, by: 1 },
    code: "taken",
    ptx: /fence\.proxy\.async|bar\.sync/,
  },
  {
    what: "accumulators get their reader before the products are waited for",
    change: { kind: "move", line: /wgmma\.wait/, by: 2 },
    code: "TW3138",
    line: /pin %acc/,
    ptx: /wgmma\.wait_group|^[-+]\s*\}$|st\.shared|setp|mov/,
    emulator: /^H060/,
  },
];

handEdits(
  wgmma,
  "sm_90a",
  "bf16",
  [60, 64, 64],
  "tile=64x64x64 warpgroups=1x1 stages=1 copy=direct sched=tiles epi=direct",
  straight,
);

handEdits(
  wgmma,
  "sm_90a",
  "bf16",
  [256, 128, 192],
  "tile=128x64x64 warpgroups=2x1 stages=2 copy=direct sched=tiles epi=direct",
  direct,
);

/** A is widened on its way to the instructions: its fragments are made in front of the fence of registers. */
const widened: readonly HandEdit[] = [
  {
    what: "B is taken for another dtype",
    change: { kind: "replace", line: /mma %acc/, from: /bf16\.bf16/, to: "f16.f16" },
    code: "TW3172",
    line: /mma %acc/,
    ptx: null,
    emulator: null,
  },
  {
    what: "B is taken for bytes",
    change: { kind: "replace", line: /mma %acc/, from: /k16\.f32\.bf16\.bf16/, to: "k32.f32.e4m3.e4m3" },
    code: "TW3172",
    line: /mma %acc/,
    ptx: null,
    emulator: null,
  },
  {
    what: "fragments are loaded before the block has met behind the copies",
    change: { kind: "move", line: /wgmma\.fence/, by: -2 },
    code: "TW3157",
    line: /mma %acc/,
    ptx: /./,
    emulator: /^H006/,
  },
  {
    what: "the block meets between the fence of registers and the products",
    change: { kind: "move", line: /^ +barrier 0/, nth: 1, by: 1 },
    code: "TW3157",
    line: /mma %acc/,
    ptx: /./,
    emulator: /^H0/,
  },
];

handEditsOf(
  wgmma,
  "a widened operand",
  {
    problem: problemOf({
      m: 64,
      n: 32,
      k: 64,
      a: { dtype: "e4m3" },
      b: { dtype: "bf16", layout: "col" },
      acc: "f32",
      d: { dtype: "bf16" },
    }),
    target: targetOf("sm_90a"),
    schedule: "tile=64x32x64 warpgroups=1x1 stages=1 copy=direct sched=tiles epi=direct",
  },
  widened,
);
