import { readFileSync } from "node:fs";
import { checkCase, targetOf } from "@tilewright/conformance";
import {
  ownProgram,
  parseProblem,
  parseSchedule,
  printProgram,
  proveProtocol,
  runPasses,
} from "@tilewright/ir";
import { openDevice } from "@tilewright/runtime";
import { wgmma } from "./src/backend.ts";
import { checkSchedule } from "./src/check.ts";

const target = targetOf("sm_90a");
const device = await openDevice({ kind: "emulator", arch: "sm_90a" });
if (!device.ok) throw new Error(JSON.stringify(device.error));
const value = (x: any) => {
  if (!x.ok) throw new Error(JSON.stringify(x.error));
  return x.value;
};
for (const line of readFileSync(process.argv[2], "utf8").split("\n")) {
  if (!line.trim() || line.startsWith("#")) continue;
  const [p, s] = line.split(";");
  try {
    const problem = value(parseProblem(p.trim()));
    const schedule = value(parseSchedule(wgmma.schedule, s.trim()));
    const bad = checkSchedule(problem, schedule, target);
    if (bad.length > 0) {
      console.log(
        s,
        "ILLEGAL",
        bad.map((b: any) => b.code + " " + b.message + " -> " + b.hint),
      );
      continue;
    }
    const bound = runPasses(wgmma.tile(problem, schedule, target), target, wgmma.passes, { verify: "each" });
    if (!bound.ok) {
      console.log(JSON.stringify(bound.error, null, 1).slice(0, 1500));
      continue;
    }
    if (process.argv[3] === "ir") console.log(printProgram(bound.value));
    console.log("proof", proveProtocol(ownProgram(bound.value), target));
    const t = Date.now();
    console.log(
      s,
      checkCase(wgmma, { problem, schedule, target, seed: 1 }, { emulator: device.value }),
      Date.now() - t,
    );
  } catch (e) {
    console.log(s, String((e as Error).stack).slice(0, 1200));
  }
}
device.value.close();
