import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { wgmma } from "@tilewright/backend-wgmma";
import { createCompiler, defineProblem, findTarget, parseSchedule } from "@tilewright/ir";

const target = findTarget("sm_90a");
if (!target.ok) throw 1;
const compiler = createCompiler({ backends: [wgmma] });
for (const line of readFileSync("/tmp/ht/cands.txt", "utf8").split("\n")) {
  if (!line.trim()) continue;
  const [dt, size, bl, ...rest] = line.trim().split(" ");
  const [m, n, k] = size.split("x").map(Number);
  const p = defineProblem({ m, n, k, dtype: dt as never, b: { layout: bl as never } });
  if (!p.ok) {
    console.log(line, p.error);
    continue;
  }
  const s = parseSchedule(wgmma.schedule, rest.join(" "));
  if (!s.ok) {
    console.log(line, s.error[0].message);
    continue;
  }
  const a = compiler.compile({ problem: p.value, target: target.value, schedule: s.value, backend: "wgmma" });
  if (!a.ok) {
    console.log(
      "ILLEGAL",
      line,
      a.error.map((e) => e.message + " / " + e.hint),
    );
    continue;
  }
  writeFileSync("/tmp/ht/c.ptx", a.value.ptx);
  const r = spawnSync("ptxas", ["-v", "-arch=sm_90a", "/tmp/ht/c.ptx", "-o", "/tmp/ht/c.cubin"], {
    encoding: "utf8",
  });
  const o = r.stderr + r.stdout;
  console.log(
    JSON.stringify([
      ...(o.match(/C75\d\d|error.*/g) ?? []),
      ...(o.match(/Used \d+|[1-9]\d* bytes spill stores/g) ?? []),
    ]),
    line,
  );
}
