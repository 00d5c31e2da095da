import { boundProgram, plainProblem, targetOf, planWords, textWords, assemble } from "@tilewright/conformance";
import { proveProtocol, protocolPlan, printProgram } from "@tilewright/ir";
import { tcgen05 } from "@tilewright/backend-tcgen05";
const [sched, show, dtype] = process.argv.slice(2);
const p = boundProgram(tcgen05, "sm_100a", plainProblem(1024, 512, 64*20, (dtype ?? "bf16") as never), sched);
if (show?.includes("i")) console.log(printProgram(p));
console.log("proof", JSON.stringify(proveProtocol(p, targetOf("sm_100a"))));
const l = tcgen05.lower(p, targetOf("sm_100a"));
if (!l.ok) { console.log(l.error); process.exit(1); }
if (show?.includes("p")) console.log(l.value.ptx);
const plan = protocolPlan(p); if (plan) { const a = textWords(l.value.ptx).join("\n"), b = planWords(plan).join("\n"); console.log("words", a === b); if (a!==b && show?.includes("w")) {console.log(a); console.log("-----"); console.log(b)} }
for (const arch of ["sm_100a","sm_103a"]) console.log(assemble(l.value.ptx.replace("sm_100a",arch), arch).faults);
