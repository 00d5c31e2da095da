import { writeFileSync } from "node:fs";
import { wgmma } from "@tilewright/backend-wgmma";
import {
  createCompiler,
  defineProblem,
  findTarget,
  formatDiagnostic,
  printProgram,
  runPasses,
} from "@tilewright/ir";

const p = defineProblem({
  m: 200,
  n: 264,
  k: 136,
  a: { dtype: "bf16", align: 16 },
  b: { dtype: "bf16", layout: "col", align: 16 },
  d: { dtype: "bf16", align: 16 },
});
if (!p.ok) throw new Error(p.error.map(formatDiagnostic).join("\n"));
const t = findTarget("sm_90a");
if (!t.ok) throw 1;
const list = [...wgmma.schedules(p.value, t.value)];
console.log(list.length, JSON.stringify(list[0]));
const s = { ...list[0], ...JSON.parse(process.argv[2] ?? "{}") };
console.log(wgmma.check(p.value, s, t.value).map(formatDiagnostic).join("\n"));
const prog = wgmma.tile(p.value, s, t.value);
const b = runPasses(prog, t.value, wgmma.passes);
if (!b.ok) throw new Error(b.error.map(formatDiagnostic).join("\n"));
console.log(printProgram(b.value));
const l = wgmma.lower(b.value, t.value);
if (!l.ok) throw new Error(l.error.map(formatDiagnostic).join("\n"));
writeFileSync("/tmp/w1.ptx", l.value.ptx);
console.log(JSON.stringify(l.value.kernel, null, 1).slice(0, 3000));
