/** Tensor maps of groups are made on the device: what the emulator says of kernels that leave out what makes the change seen. */
import { problemOf, scheduleOf, targetOf } from "@tilewright/conformance";
import { createCompiler } from "@tilewright/ir";
import { openDevice, runGroups } from "@tilewright/runtime";
import { expect, test } from "vitest";
import { wgmma } from "../src/backend.ts";

const whole = { multiple: 8, max: 128 };
const problem = problemOf({
  m: 64,
  n: 16,
  k: 64,
  dtype: "bf16",
  b: { layout: "col" },
  symbolic: { m: whole, n: whole, k: whole },
  batch: { kind: "grouped", count: 3 },
});

test("a map is released and acquired before it is used", async () => {
  const schedule = scheduleOf(wgmma, "tile=64x16x64 groups=1x1 stages=2 epi=direct");
  const made = createCompiler({ backends: [wgmma] }).compile({
    problem,
    target: targetOf("sm_90a"),
    schedule,
  });
  const device = await openDevice({ kind: "emulator", arch: "sm_90a" });
  if (!made.ok || !device.ok) throw new TypeError("a kernel and a device");
  const groups = [
    [64, 16, 64],
    [0, 8, 8],
    [72, 24, 128],
  ].map(([m = 0, n = 0, k = 0]) => ({
    sizes: { m, n, k },
    a: new Uint8Array(2 * m * k),
    b: new Uint8Array(2 * k * n),
  }));
  const rules = (ptx: string): readonly string[] => {
    const ran = runGroups(device.value, { ...made.value, ptx }, groups);
    if (!ran.ok) throw new TypeError("the kernel runs");
    return [...new Set(ran.value.findings.map(({ rule }) => rule))];
  };
  const { ptx } = made.value;
  const without = (what: RegExp): string => {
    expect(ptx).toMatch(what);
    return ptx.replace(what, "");
  };
  expect(rules(ptx)).toEqual([]);
  expect(rules(without(/^.*fence\.proxy\.tensormap::generic\.release.*\n/m))).toContain("H052");
  expect(rules(without(/^.*fence\.proxy\.tensormap::generic\.acquire.*\n/m))).toContain("H052");
  device.value.close();
});
