/** docs/tile-ir.md shows stage machine of one kernel of each generation, as `compile --ir machine` prints it today. `TILEWRIGHT_UPDATE_DOCS=1` rewrites them. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type DType, defineProblem, formatDiagnostic } from "@tilewright/core";
import { compiler } from "tilewright";
import { expect, test } from "vitest";
import { root } from "../lib/files.ts";

const page = join(root, "docs/tile-ir.md");

const kernels = [
  ["sm_80", "mma", "f16", "tile=64x64x32 warp=32x32 stages=3"],
  ["sm_90a", "wgmma", "bf16", "tile=64x128x64 warpgroups=1x1 pingPong=2 stages=4 regs=24/240"],
  ["sm_100a", "tcgen05", "bf16", "tile=256x64x64 ctaGroup=2 stages=3 sched=clc accumulators=2"],
] as const satisfies readonly (readonly [string, string, DType, string])[];

test.each(kernels)("%s", (target, backend, dtype, schedule) => {
  const problem = defineProblem({ m: 1024, n: 1024, k: 512, dtype, b: { layout: "col" } });
  if (!problem.ok) throw new Error(problem.error.map(formatDiagnostic).join("\n"));
  const made = compiler.compile({ problem: problem.value, target, backend, schedule });
  if (!made.ok) throw new Error(made.error.map(formatDiagnostic).join("\n"));
  const text = made.value.textAt("machine")?.trimEnd() ?? "";
  const block = new RegExp(`(<!-- machine ${target} -->\n\`\`\`tile\n)([^]*?)(\n\`\`\`)`);
  const shown = readFileSync(page, "utf8");
  if (process.env.TILEWRIGHT_UPDATE_DOCS)
    writeFileSync(
      page,
      shown.replace(block, (_, open: string, _old, close: string) => `${open}${text}${close}`),
    );
  expect(block.exec(readFileSync(page, "utf8"))?.[2], "run with TILEWRIGHT_UPDATE_DOCS=1").toBe(text);
});
