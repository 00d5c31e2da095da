/**
 * From request to PTX text at 4096^3, schedule given, default verification; and the first schedule for a new problem, over all backends. Milliseconds of one
 * process that has compiled for four seconds; nothing else may run beside it. Not by vitest: its module runner reads every import through a getter.
 */
import { mma } from "@tilewright/backend-mma";
import { simt } from "@tilewright/backend-simt";
import { tcgen05 } from "@tilewright/backend-tcgen05";
import { wgmma } from "@tilewright/backend-wgmma";
import {
  type ArchName,
  type Checked,
  type DType,
  defineProblem,
  findTarget,
  formatDiagnostic,
} from "@tilewright/core";
import { type Backend, createCompiler } from "@tilewright/ir";
import { Bench } from "tinybench";

const rows: readonly (readonly [backend: Backend, arch: ArchName, dtype: DType])[] = [
  [simt, "sm_70", "f32"],
  [mma, "sm_80", "f16"],
  [wgmma, "sm_90a", "bf16"],
  [tcgen05, "sm_100a", "bf16"],
];

/** Throws what is wrong with a request, of which none here is. */
function made<T>(checked: Checked<T>): T {
  if (!checked.ok) throw new Error(checked.error.map(formatDiagnostic).join("\n"));
  return checked.value;
}

// V8 compiles for the first 300 requests.
const bench = new Bench({ warmupTime: 4000, time: 2000, throws: true });

for (const [backend, arch, dtype] of rows) {
  const compiler = createCompiler({ backends: [backend] });
  const b = { dtype, layout: "col" } as const;
  const problem = made(defineProblem({ m: 4096, n: 4096, k: 4096, a: { dtype }, b }));
  const request = { problem, target: arch };
  const schedule = made(compiler.compile(request)).schedule ?? "";
  bench.add(`PTX of 4096^3, ${backend.id}, ${arch}`, () => void compiler.compile({ ...request, schedule }));
}

// 1,200 to 7,500 trials by wgmma each, and those of mma and simt: sizes are never met twice.
const compiler = createCompiler({ backends: [wgmma, mma, simt] });
const target = made(findTarget("sm_90a"));
let met = 0;
bench.add("first schedule of a new problem, sm_90a", () => {
  met++;
  const b = { dtype: "bf16", layout: "col" } as const;
  const sizes = { m: 100 + 37 * met, n: 2048 + 8 * met, k: 4096 };
  compiler.plan(made(defineProblem({ ...sizes, a: { dtype: "bf16" }, b })), target, { first: true });
});

await bench.run();
console.table(
  bench.tasks.map(({ name, result }) =>
    "latency" in result
      ? {
          name,
          median: result.latency.p50.toFixed(1),
          least: result.latency.min.toFixed(1),
          runs: result.latency.samplesCount,
        }
      : { name, state: result.state },
  ),
);
