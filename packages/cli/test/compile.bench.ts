/** From request to PTX text at 4096^3, schedule given, default verification; and the first schedule for a new problem, over all backends. Hoisted imports: the module runner's getters would be measured otherwise. */
import { mma } from "@tilewright/backend-mma";
import { simt } from "@tilewright/backend-simt";
import { tcgen05 } from "@tilewright/backend-tcgen05";
import { wgmma } from "@tilewright/backend-wgmma";
import { type ArchName, type DType, defineProblem, findTarget, formatDiagnostic } from "@tilewright/core";
import { type Backend, createCompiler } from "@tilewright/ir";
import { test } from "vitest";

const rows: readonly (readonly [backend: Backend, arch: ArchName, dtype: DType])[] = [
  [simt, "sm_70", "f32"],
  [mma, "sm_80", "f16"],
  [wgmma, "sm_90a", "bf16"],
  [tcgen05, "sm_100a", "bf16"],
];

// A warm process: V8 compiles for the first 300 requests.
const warm = { warmupTime: 4000, time: 2000 };

for (const [backend, arch, dtype] of rows)
  test(`${backend.id}, ${arch}`, async ({ bench }) => {
    const compiler = createCompiler({ backends: [backend] });
    const b = { dtype, layout: "col" } as const;
    const problem = defineProblem({ m: 4096, n: 4096, k: 4096, a: { dtype }, b });
    if (!problem.ok) throw new Error(problem.error.map(formatDiagnostic).join("\n"));
    const request = { problem: problem.value, target: arch };
    const chosen = compiler.compile(request);
    if (!chosen.ok) throw new Error(chosen.error.map(formatDiagnostic).join("\n"));
    const schedule = chosen.value.schedule ?? "";
    await bench("4096^3", () => void compiler.compile({ ...request, schedule })).run(warm);
  });

// 1,200 to 7,500 trials by wgmma each, and those of mma and simt: sizes are never met twice.
test("first schedule of a new problem, sm_90a", async ({ bench }) => {
  const compiler = createCompiler({ backends: [wgmma, mma, simt] });
  const target = findTarget("sm_90a");
  let met = 0;
  await bench("of one core", () => {
    met++;
    const b = { dtype: "bf16", layout: "col" } as const;
    const problem = defineProblem({ m: 100 + 37 * met, n: 2048 + 8 * met, k: 4096, a: { dtype: "bf16" }, b });
    if (!problem.ok || !target.ok) throw new Error("not a request");
    compiler.plan(problem.value, target.value, { first: true });
  }).run();
});
