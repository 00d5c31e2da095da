import { createCompiler, findTarget } from "@tilewright/ir";
import { problemOf, scheduleOf, targetOf } from "@tilewright/conformance";
import { wgmma } from "/tmp/wt/hop-feat/packages/backend-wgmma/src/index.ts";
import { writeFileSync } from "node:fs";
import { execFileSync } from "node:child_process";
const compiler = createCompiler({ backends: [wgmma] });
const list = process.argv.slice(2);
for (const [i, line] of list.entries()) {
  const [size, sched, extra] = line.split("/");
  const [m,n,k] = size.split("x").map(Number);
  const p = problemOf({ m, n, k, dtype: "bf16", b: { layout: "col" }, ...(extra ? JSON.parse(extra) : {}) });
  const a = compiler.compile({ problem: p, target: targetOf("sm_90a"), schedule: scheduleOf(wgmma, sched) });
  if (!a.ok) { console.log("ERR", sched, JSON.stringify(a.error ?? a.reasons ?? a).slice(0, 900)); continue; }
  writeFileSync("/tmp/hf_try.ptx", a.value.ptx);
  let out = "";
  try { out = execFileSync("bash", ["-c", "ptxas -arch=sm_90a -v -o /tmp/hf_try.cubin /tmp/hf_try.ptx 2>&1 | grep -E 'C75|spill|error|registers|smem' | tr '\\n' ' '"]).toString(); } catch (e) { out = String(e).slice(0, 300); }
  console.log(i, sched, "::", out.replace(/ptxas info *:/g, "").slice(0,230));
}
