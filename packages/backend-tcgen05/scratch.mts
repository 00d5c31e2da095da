import { planWords, textWords } from "@tilewright/conformance";
import { formatDiagnostic, printProgram, protocolPlan, proveProtocol, runPasses } from "@tilewright/ir";
import { openDevice } from "@tilewright/runtime";
import { tcgen05 } from "./src/index.ts";
import { check, problem, schedule, target } from "./test/support/cases.ts";

const o = await openDevice({ kind: "emulator", arch: "sm_100a" } as never);
if (!o.ok) throw new Error(JSON.stringify(o));
const dev = o.value;
const [, , text, req, show] = process.argv;
const request = JSON.parse(req);
const p = problem(request),
  s = schedule(text),
  t = target(request.arch ?? "sm_100a");
delete request.arch;
const faults = tcgen05.check(p, s, t);
if (faults.length) {
  console.log(faults.map(formatDiagnostic).join("\n"));
  process.exit(1);
}
const bound = runPasses(tcgen05.tile(p, s, t), t, tcgen05.passes);
if (!bound.ok) {
  console.log(bound.error.map(formatDiagnostic).join("\n"));
  process.exit(1);
}
if (show?.includes("ir")) console.log(printProgram(bound.value));
console.log("proof", proveProtocol(bound.value, t).map(formatDiagnostic));
const plan = protocolPlan(bound.value);
const low = tcgen05.lower(bound.value, t);
if (!low.ok) {
  console.log(low.error.map(formatDiagnostic).join("\n"));
  process.exit(1);
}
if (show?.includes("ptx")) console.log(low.value.ptx);
if (plan) {
  const a = textWords(low.value.ptx),
    b = planWords(plan);
  console.log("contract", JSON.stringify(a) === JSON.stringify(b));
  if (JSON.stringify(a) !== JSON.stringify(b))
    for (let i = 0; i < Math.max(a.length, b.length); i++)
      if (a[i] !== b[i]) {
        console.log(i, a.slice(i - 2, i + 6), b.slice(i - 2, i + 6));
        break;
      }
}
const t0 = Date.now();
console.log("check", check(dev, t.arch, text, request), Date.now() - t0);
