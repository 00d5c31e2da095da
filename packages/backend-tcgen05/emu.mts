import { check } from "./test/support/cases.ts";
import { openDevice } from "@tilewright/runtime";
import { boundProgram, plainProblem, targetOf, planWords, textWords } from "@tilewright/conformance";
import { proveProtocol, protocolPlan } from "@tilewright/ir";
import { tcgen05 } from "@tilewright/backend-tcgen05";
const d = await openDevice({ kind: "emulator", arch: "sm_100a" });
if (!d.ok) throw new Error("no device");
const cases = JSON.parse(process.argv[2] ?? "[]") as [string, Record<string, unknown>][];
for (const [sched, req] of cases) {
  const t = Date.now();
  let r: unknown; try { r = check(d.value, "sm_100a", sched, req); } catch (e) { r = String(e); }
  let proof: unknown = "", same: unknown = "";
  try {
    const p = boundProgram(tcgen05, "sm_100a", plainProblem(1024, 1024, 64*20, "bf16"), sched);
    proof = proveProtocol(p, targetOf("sm_100a")).map((x) => x.message);
    const l = tcgen05.lower(p, targetOf("sm_100a")); const plan = protocolPlan(p);
    same = l.ok && plan ? JSON.stringify(textWords(l.value.ptx)) === JSON.stringify(planWords(plan)) : "not lowered";
  } catch (e) { proof = String(e).slice(0, 300); }
  console.log(sched, "|", JSON.stringify(req), "|", JSON.stringify(r).slice(0, 900), "| proof", JSON.stringify(proof), "words", same, Date.now() - t, "ms");
}
d.value.close();
