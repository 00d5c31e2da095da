/** Whether ptxas keeps copies, fragment loads and matrix instructions of mma's main loops among each other, as the text has them. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { mma } from "@tilewright/backend-mma";
import { build, hasPtxas, problemOf, scheduleOf, targetOf } from "@tilewright/conformance";
import { afterAll, describe, expect, test } from "vitest";
import { type TensorWord, tensorLoop } from "./sass.ts";

const folder = mkdtempSync(join(tmpdir(), "sass-"));
afterAll(() => rmSync(folder, { recursive: true }));

const problem = problemOf({ m: 4096, n: 4096, k: 4096, dtype: "f16", b: { layout: "col" } });

/** The main loop as an H200 runs it: of the first schedule, or of a text. */
function loopOf(arch: string, text?: string): readonly (TensorWord | null)[] {
  const { kernel } = build(
    mma,
    problem,
    targetOf(arch),
    ...(text === undefined ? [] : [scheduleOf(mma, text)]),
  );
  const [source, image] = [join(folder, "k.ptx"), join(folder, "k.cubin")];
  writeFileSync(source, kernel.ptx);
  execFileSync("ptxas", ["-arch=sm_90", "-o", image, source]);
  const loop = tensorLoop(readFileSync(image));
  if (loop === null) throw new Error("no loop multiplies");
  return loop;
}

const count = (loop: readonly (TensorWord | null)[], word: TensorWord): number =>
  loop.filter((each) => each === word).length;

/** Most HMMA from one instruction of a kind to the next of it, round the loop's end. */
function longestRun(loop: readonly (TensorWord | null)[], between: TensorWord): number {
  let [longest, run] = [0, 0];
  for (const word of [...loop, ...loop]) {
    if (word === between) run = 0;
    else if (word === "HMMA") run++;
    longest = Math.max(longest, run);
  }
  return longest;
}

describe.skipIf(!hasPtxas)("main loops in machine code", () => {
  test("cp.async: fragments come among the products, copies among those of the first K step", () => {
    const loop = loopOf("sm_80");
    // A chunk of 64: four K steps of 4 x 8 instructions, eight loads of four matrices each; 48 KB in 16-byte copies by 256 threads.
    expect([count(loop, "HMMA"), count(loop, "LDSM"), count(loop, "LDGSTS")]).toEqual([128, 32, 12]);
    // Loads of a whole chunk in front of its products would be a run of 128.
    expect(longestRun(loop, "LDSM")).toBeLessThanOrEqual(64);
    const copies = loop.flatMap((word, i) => (word === "LDGSTS" ? [i] : []));
    const [first = 0, last = 0] = [copies[0], copies.at(-1)];
    expect(count(loop.slice(0, last), "HMMA")).toBeLessThanOrEqual(48);
    // Not in one block: products between most of them.
    expect(count(loop.slice(first, last), "HMMA")).toBeGreaterThanOrEqual(8);
    expect(count(loop, "BAR")).toBe(1);
    expect(count(loop.slice(last), "BAR")).toBe(1);
  });

  test("without double-buffered fragments the first ones of a chunk stand in front", () => {
    const loop = loopOf("sm_80", "tile=128x256x64 warp=64x64 stages=3 drain=1 frag=1");
    const first = loop.indexOf("HMMA");
    expect(count(loop.slice(0, first), "LDSM")).toBeGreaterThanOrEqual(8);
  });

  test("bulk copies: no copy and no barrier of the block in the loop, fragments among the products", () => {
    const loop = loopOf("sm_90");
    expect([count(loop, "HMMA"), count(loop, "LDSM"), count(loop, "LDGSTS")]).toEqual([256, 64, 0]);
    expect(count(loop, "BAR")).toBe(0);
    expect(longestRun(loop, "LDSM")).toBeLessThanOrEqual(64);
  });
});
