/** Hand edits of a chain of two products, whose loops and rings have numbers of chunks of their own. */
import { readFileSync } from "node:fs";
import {
  caseData,
  type HandEdit,
  handEditsOf,
  must,
  type Run,
  Session,
  sameBytes,
  targetOf,
} from "@tilewright/conformance";
import { createCompiler } from "@tilewright/ir";
import { openDevice } from "@tilewright/runtime";
import { expect, test } from "vitest";
import { wgmma } from "../src/backend.ts";

const target = targetOf("sm_90a");
const stuck = /^H030/;
const wait = /^.(wait|\s+(mbarrier\.try_wait|not\.pred|@%p bra wait|mad\.lo\.u32))/;
const any = /./;

/** D = (A B) C of examples/two-products.tile, with so many columns of A B and of A. */
const chain = (j: number, k: number): string =>
  readFileSync(new URL("../../../examples/two-products.tile", import.meta.url), "utf8")
    .replace("axis m = 200", "axis m = 100")
    .replace("axis n = 120", "axis n = 64")
    .replace("axis j = 64", `axis j = ${j}`)
    .replace("axis k = 80", `axis k = ${k}`);

const edits: readonly HandEdit[] = [
  {
    what: "the second product does not wait for its chunk",
    change: { kind: "drop", line: /mbar\.wait %ring1_full/ },
    code: "TW3157",
    line: /mma %acc/,
    ptx: wait,
    emulator: /^H034/,
  },
  {
    what: "copies of the second factor do not wait for room",
    change: { kind: "drop", line: /mbar\.wait %ring1_empty/ },
    code: "TW3157",
    line: /copy %sE0/,
    ptx: wait,
    emulator: /^H014/,
  },
  {
    what: "products of the last chunk are not waited for before the slot is given back",
    change: { kind: "move", line: /mbar\.arrive %ring1_empty/, nth: -1, by: -1 },
    code: "TW3144",
    line: /copy %sE0/,
    ptx: any,
    emulator: /^H035/,
  },
  {
    what: "the second ring begins in the other phase",
    change: { kind: "replace", line: /%c_ring1 of %ring1/, from: /phase 0/, to: "phase 1" },
    code: "TW3145",
    line: /mbar\.wait %ring1_full/,
    ptx: any,
    emulator: /^H|^D/,
  },
  {
    what: "its producer begins in the other phase",
    change: { kind: "replace", line: /%p_ring1 of %ring1/, from: /phase 1/, to: "phase 0" },
    code: "TW3145",
    line: any,
    ptx: any,
    emulator: stuck,
  },
  {
    what: "its slots are given back by one warpgroup of two",
    change: { kind: "replace", line: /mbar %ring1_empty/, from: /count 2/, to: "count 1" },
    code: "TW3132",
    line: /mbar %ring1_empty/,
    ptx: any,
    emulator: /^H/,
  },
  {
    what: "more bytes are waited for than come",
    change: { kind: "replace", line: /mbar\.expect %ring1_full/, from: /\d+$/, to: "65536" },
    code: "TW3142",
    line: any,
    ptx: any,
    emulator: stuck,
  },
  {
    what: "the pipeline of the second product stays at its slot",
    change: { kind: "drop", line: /advance %c_ring1/ },
    code: "TW3157",
    line: any,
    ptx: any,
    emulator: /^H|^D/,
  },
  {
    what: "the second product takes a chunk too few",
    change: { kind: "replace", line: /for %jt = 1 \.\. 4/, from: /\.\. 4/, to: ".. 3" },
    code: "TW3145",
    line: any,
    ptx: any,
    emulator: /^H|^D/,
  },
  {
    what: "registers are not fenced before the second product",
    change: { kind: "drop", line: /wgmma\.fence/, nth: -2 },
    code: "TW3157",
    line: /mma %acc =/,
    ptx: /^-.*wgmma\.fence/,
    emulator: null,
  },
  {
    what: "the first product's sums are taken while products run",
    change: { kind: "drop", line: /wgmma\.wait/, nth: 1 },
    code: "TW3144",
    line: /copy %sA/,
    ptx: /^-.*wgmma\.wait_group/,
    emulator: /^H/,
  },
  {
    what: "warpgroups do not meet before the second product reads what both have written",
    change: { kind: "drop", line: /barrier 13/, nth: 1 },
    code: "TW3138",
    line: /mma %acc =/,
    ptx: /^-.*bar/,
    emulator: /^H/,
  },
  {
    what: "the operand is written again while the other warpgroup multiplies by it",
    change: { kind: "drop", line: /barrier 13/ },
    code: "TW3138",
    line: /map %sQ/,
    ptx: /^-.*bar/,
    emulator: null,
  },
  {
    what: "the tensor core may not see what threads have written",
    change: { kind: "drop", line: /^ {6}fence async/ },
    code: "TW3138",
    line: /mma %acc =/,
    ptx: /^-.*fence\.proxy\.async/,
    emulator: /^H/,
  },
  {
    what: "the second product reads another chunk of its first factor",
    change: { kind: "replace", line: /mma %acc \+= /, from: /%jt \* 64/, to: "0" },
    code: "TW3159",
    line: /mma %acc \+= /,
    ptx: any,
    emulator: /^D/,
  },
  {
    what: "nobody writes the operand",
    change: { kind: "drop", line: /map %sQ/ },
    code: "TW3158",
    line: /mma %acc =/,
    ptx: any,
    emulator: /^H006/,
  },
];

handEditsOf(
  wgmma,
  "a chain of two products",
  { from: chain(256, 200), target, schedule: "tile=64x256x64 warpgroups=1x2 stages=5" },
  edits,
  { numSms: 1 },
);

test.each([
  ["as it stands", "", null],
  ["a role whose loop ends before the other's, by a multiple of all slots", "1008", "TW3145"],
])("loops of thousands of chunks are proven: %s", (_what, end, code) => {
  const compiler = createCompiler({ backends: [wgmma] });
  const made = compiler.compile({ from: chain(64, 65536), target });
  const text = made.ok ? (made.value.textAt("machine") ?? "") : "";
  expect(text).toContain("for %kt = 1 .. 1024");
  const again = compiler.compile({ from: text.replace("1 .. 1024", `1 .. ${end || 1024}`), target });
  expect(again.ok ? null : again.error[0]?.code).toBe(code);
});

/** D of a chain of 192 columns by a schedule, as the emulator has it in one order of threads. */
async function runBy(schedule: string, order: "eager" | "lazy"): Promise<Run> {
  const from = chain(64, 80).replace("axis n = 64", "axis n = 192");
  const made = must(createCompiler({ backends: [wgmma] }).compile({ from, target, schedule }));
  const device = must(await openDevice({ kind: "emulator", arch: target.arch }));
  const session = new Session(device, made);
  try {
    return session.run(caseData(made.problem, "normal", 1), { order });
  } finally {
    session.close();
    device.close();
  }
}

test.each(["eager", "lazy"] as const)(
  "48 columns of a warpgroup, in panels of 32, are those of 64 in %s order",
  async (order) => {
    const wide = await runBy("tile=64x96x64 warpgroups=1x2 stages=2", order);
    const usual = await runBy("tile=64x64x64 warpgroups=1x2 stages=2", order);
    expect([wide.faults, usual.faults]).toEqual([[], []]);
    expect(sameBytes(wide, usual)).toBe(true);
  },
);
