/** Edits of what a machine text declares: places in shared memory, parameters, tensor maps, the launch. */
import { type HandEdit, handEdits, plainProblem, targetOf } from "@tilewright/conformance";
import { createCompiler } from "@tilewright/ir";
import { expect, test } from "vitest";
import { wgmma } from "../../src/backend.ts";
import { stuck } from "./marks.ts";

/** Where mbarriers, tiles and parameters lie, and what the launch is told of them. */
const declarations: readonly HandEdit[] = [
  {
    what: "a count too high",
    change: { kind: "replace", line: /mbar %ring_empty/, from: /count 2/, to: "count 3" },
    code: "TW3132",
    line: /mbar %ring_empty/,
    ptx: /mbarrier\.init/,
    emulator: stuck,
  },
  {
    what: "an mbarrier too few",
    change: { kind: "replace", line: /mbar %ring_full/, from: /slots 3/, to: "slots 2" },
    code: "TW3132",
    line: /mbar %ring_full/,
    ptx: /mbarrier\.init/,
    emulator: /^H/,
  },
  {
    what: "an mbarrier that is not aligned",
    change: { kind: "replace", line: /mbar %ring_empty/, from: /@131096/, to: "@131092" },
    code: "TW3133",
    line: /mbar %ring_empty/,
    ptx: /mbarrier/,
    emulator: /^H/,
  },
  {
    what: "an mbarrier beyond the end",
    change: { kind: "replace", line: /mbar %ring_empty/, from: /@131096/, to: "@131104" },
    code: "TW3133",
    line: /mbar %ring_empty/,
    ptx: /mbarrier/,
    emulator: /^H001/,
  },
  {
    what: "mbarriers in each other's place",
    change: { kind: "replace", line: /mbar %ring_empty/, from: /@131096/, to: "@131088" },
    code: "TW3134",
    line: /mbar %ring_empty/,
    ptx: /mbarrier/,
    emulator: /^H/,
  },
  {
    what: "an mbarrier in a tile",
    change: { kind: "replace", line: /mbar %ring_full/, from: /@131072/, to: "@131064" },
    code: "TW3134",
    line: /mbar %ring_full/,
    ptx: /mbarrier|cp\.async\.bulk/,
    emulator: /^H/,
  },
  {
    what: "a tile across its swizzle's period",
    change: { kind: "replace", line: /shared %sD/, from: /@98304/, to: "@97792" },
    code: "TW3133",
    line: /shared %sD/,
    ptx: /stmatrix|cp\.async\.bulk\.tensor\.2d\.global/,
    emulator: /^H|^D/,
  },
  {
    what: "slots that reach into each other",
    change: { kind: "replace", line: /shared %sB/, from: /every 32768/, to: "every 15360" },
    code: "TW3133",
    line: /shared %sB/,
    ptx: /cp\.async\.bulk|mad\.lo|add\.u32|32768|15360/,
    emulator: /^H|^D/,
  },
  {
    what: "a tile in the ring",
    change: { kind: "replace", line: /shared %sD/, from: /@98304/, to: "@97280" },
    code: "TW3134",
    line: /shared %sD/,
    ptx: /stmatrix|cp\.async\.bulk\.tensor\.2d\.global/,
    emulator: /^H/,
  },
  {
    what: "B over A",
    change: { kind: "replace", line: /shared %sB/, from: /@16384/, to: "@8192" },
    code: "TW3134",
    line: /shared %sB/,
    ptx: /cp\.async\.bulk|add\.u32 %da/,
    emulator: /^H014/,
  },
  {
    what: "less shared memory than is used",
    change: { kind: "replace", line: /memory shared/, from: /131120/, to: "131104" },
    code: "TW3133",
    line: /mbar %ring_empty/,
    ptx: "manifest",
    emulator: /^H001/,
  },
  {
    what: "a tile without a place",
    change: { kind: "replace", line: /shared %sD/, from: /@98304 /, to: "" },
    code: "TW3132",
    line: /shared %sD/,
    ptx: null,
    emulator: null,
  },
  {
    what: "a parameter elsewhere than PTX has it",
    change: { kind: "replace", line: /param %tma_b/, from: /@320/, to: "@384" },
    code: "TW3139",
    line: /param %tma_b/,
    ptx: "manifest",
    emulator: null,
  },
  {
    what: "a box of too many elements",
    change: { kind: "replace", line: /box\(64, 128\)/, from: /box\(64, 128\)/, to: "box(64, 512)" },
    code: "TW3139",
    line: /box\(64, 512\)/,
    ptx: "manifest",
    emulator: null,
  },
  {
    what: "a grid by a size that no launch has",
    change: { kind: "replace", line: /numSms/, from: /numSms/, to: "numSm" },
    code: "TW3139",
    line: /kernel main/,
    ptx: "manifest",
    emulator: null,
  },
  {
    what: "a grid for fewer tiles than there are",
    change: { kind: "replace", line: /kernel main/, from: /grid\(ceilDiv\(4,/, to: "grid(ceilDiv(3," },
    code: "TW3139",
    line: /kernel main/,
    ptx: "manifest",
    emulator: null,
  },
  {
    what: "a map of another matrix",
    change: { kind: "replace", line: /param %tma_b/, from: /map %b/, to: "map %a" },
    code: "TW3139",
    line: /param %tma_b/,
    ptx: "manifest",
    emulator: /^D/,
  },
  {
    what: "a map with another pitch",
    change: { kind: "replace", line: /param %tma_a/, from: /strides\(768\)/, to: "strides(512)" },
    code: "TW3139",
    line: /param %tma_a/,
    ptx: "manifest",
    emulator: /^D/,
  },
  {
    what: "a map of fewer rows",
    change: { kind: "replace", line: /param %tma_a/, from: /dims\(384, 256\)/, to: "dims(384, 128)" },
    code: "TW3139",
    line: /param %tma_a/,
    ptx: "manifest",
    emulator: /^D/,
  },
  {
    what: "a map with another swizzle",
    change: { kind: "replace", line: /param %tma_b/, from: /swizzle 128B/, to: "swizzle none" },
    code: "TW3139",
    line: /param %tma_b/,
    ptx: "manifest",
    emulator: /^D/,
  },
  {
    what: "a pointer that may begin anywhere",
    change: { kind: "replace", line: /param %a /, from: /align 16/, to: "align 2" },
    code: "TW3139",
    line: /param %a /,
    ptx: "manifest",
    emulator: null,
  },
  {
    what: "other threads than the launch's",
    change: { kind: "replace", line: /threads 288/, from: /threads 288/, to: "threads 256" },
    code: "TW3139",
    line: /kernel main/,
    ptx: /maxntid|reqntid/,
    emulator: null,
  },
];

handEdits(
  wgmma,
  "sm_90a",
  "bf16",
  [256, 256, 384],
  "tile=128x128x64 warpgroups=2x1 stages=3 sched=persistent epi=tma",
  declarations,
);

test.each([
  ["stage %sD columns 0 .. 128 of 128", "stage %sD columns 0 .. 2147483647 of 2147483647", "TW3165"],
  ["stage %sD columns 0 .. 128 of 128", "stage %sD columns 0 .. 2147483647 of 128", "TW3165"],
  ["stage %sD columns 0 .. 128 of 128", "stage %sD columns 0 .. 64 of 64", "TW3165"],
  ["mbar %ring_full @131072 slots 3", "mbar %ring_full @131072 slots 2147483647", "TW3135"],
])("numbers beyond the kernel's are refused before anything counts to them: %s as %s", (from, to, code) => {
  const compiler = createCompiler({ backends: [wgmma] });
  const target = targetOf("sm_90a");
  const schedule = "tile=128x128x64 warpgroups=2x1 stages=3 sched=persistent epi=tma";
  const made = compiler.compile({ problem: plainProblem(256, 256, 384, "bf16"), target, schedule });
  const text = made.ok ? (made.value.textAt("machine") ?? "").replace(from, to) : "";
  expect(text).toContain(to);
  const edited = compiler.compile({ from: text, target });
  expect(edited.ok ? [] : edited.error.map((d) => d.code)).toContain(code);
});
