import { dtypeNames, findTarget, hasFeature } from "@tilewright/core";
import { atoms, hasAtom, tensorKinds, warpgroupWidths } from "@tilewright/ir";
import { expect, test } from "vitest";
import { compileAsk } from "../src/worker/kernel.ts";
import { picturesOf } from "../src/worker/pictures.ts";

const schedules = {
  sm_80: "tile=32x32x32 warp=16x16 stages=2",
  sm_90a: "tile=64x32x64 warpgroups=1x1 stages=2",
  sm_100a: "tile=128x32x64 stages=2",
} as const;

test.each(Object.entries(schedules))(
  "%s: the fragments of every atom have a picture, each element with its owner",
  (arch, schedule) => {
    const problem = { m: 128, n: 64, k: 64, dtype: "bf16", b: { layout: "col" } };
    const ask = { ...{ arch, gpu: "", backend: "", schedule, problem }, edit: null, unproven: true };
    const { compiled, current } = compileAsk(ask);
    if (current === null) throw new Error(compiled.diagnostics.map(({ message }) => message).join("\n"));
    const target = findTarget(arch);
    if (!target.ok) throw new Error(arch);
    const { owners } = picturesOf(current.artifact, null);
    const named = owners.map(({ name }) => name).join("\n");
    for (const { name } of atoms.filter((atom) => hasAtom(target.value, atom)))
      for (const operand of ["A", "B", "accumulator"]) expect(named).toContain(`${name}: ${operand}`);
    // Of wgmma a picture stands for all that lie alike: it names their dtypes.
    if (hasFeature(target.value, "wgmma"))
      for (const acc of dtypeNames)
        for (const a of dtypeNames.filter((name) =>
          dtypeNames.some((b) => warpgroupWidths(name, b, acc).length > 0),
        )) {
          expect(named).toMatch(new RegExp(`^wgmma m64n\\d+k\\d+: A of [^\\n]*\\b${a}\\b`, "m"));
          expect(named).toMatch(new RegExp(`^wgmma m64n\\d+: accumulator of [^\\n]*\\b${acc}\\b`, "m"));
        }
    for (const { kind, feature } of tensorKinds)
      if (hasFeature(target.value, feature))
        expect(named).toMatch(new RegExp(`tcgen05\\.mma \\([^)]*\\b${kind}\\b`));
    for (const { name, threads, registers, tensor } of owners) {
      expect([name, threads.filter((thread) => thread < 0).length]).toEqual([name, 0]);
      expect(Math.min(...registers)).toBeGreaterThanOrEqual(0);
      if (tensor === undefined) expect(new Set(threads).size % 32, name).toBe(0);
    }
  },
);
