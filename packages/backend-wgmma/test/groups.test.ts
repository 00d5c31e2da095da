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

test.each([
  ["of A and B", "epi=direct", 2],
  ["of A, B and D", "epi=tma", 3],
])("maps %s are released and acquired before they are used", async (_name, epi, maps) => {
  const schedule = scheduleOf(wgmma, `tile=64x16x64 warpgroups=1x1 stages=2 ${epi}`);
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
  const lines = ptx.split("\n");
  const fences = (what: string): readonly number[] =>
    lines.flatMap((line, i) => (line.includes(`fence.proxy.tensormap::generic.${what}`) ? [i] : []));
  expect(rules(ptx)).toEqual([]);
  // One release of the producer's maps, one of those of each warpgroup that stores.
  expect([fences("release").length, fences("acquire").length]).toEqual([maps - 1, maps]);
  for (const fence of [...fences("release"), ...fences("acquire")])
    expect([lines[fence], rules(lines.toSpliced(fence, 1).join("\n"))]).toEqual([
      lines[fence],
      expect.arrayContaining(["H052"]),
    ]);
  device.value.close();
});
