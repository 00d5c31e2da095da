/** From a request to PTX in one call, for tests. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  formatDiagnostic,
  type LoweredKernel,
  type Problem,
  parseSchedule,
  runPasses,
  type Schedule,
  type Target,
  type TileProgram,
} from "@tilewright/ir";
import { mma } from "../../src/backend.ts";

/** A schedule from text. Throws on one that does not parse. */
export function scheduleOf(text: string): Schedule {
  const parsed = parseSchedule(mma.schedule, text);
  if (!parsed.ok) throw new Error(parsed.error.map(formatDiagnostic).join("\n"));
  return parsed.value;
}

/** Bound program and kernel of a legal schedule. Throws on anything else. */
export function build(
  problem: Problem,
  schedule: Schedule,
  target: Target,
): { readonly program: TileProgram; readonly kernel: LoweredKernel } {
  const bound = runPasses(mma.tile(problem, schedule, target), target, mma.passes);
  if (!bound.ok) throw new Error(bound.error.map(formatDiagnostic).join("\n"));
  const kernel = mma.lower(bound.value, target);
  if (!kernel.ok) throw new Error(kernel.error.map(formatDiagnostic).join("\n"));
  return { program: bound.value, kernel: kernel.value };
}

export const hasPtxas = spawnSync("ptxas", ["--version"]).status === 0;

/** What ptxas -v says; throws when it refuses the text, spills, or reports a C75xx message. Texts of one call go through one process each. */
export function assemble(ptx: string, arch: string, what = ""): { readonly registers: number } {
  const folder = mkdtempSync(join(tmpdir(), "tilewright-"));
  try {
    const file = join(folder, "kernel.ptx");
    writeFileSync(file, ptx);
    const args = ["-v", `-arch=${arch}`, file, "-o", join(folder, "kernel.cubin")];
    const run = spawnSync("ptxas", args, { encoding: "utf8" });
    const log = `${run.stdout}${run.stderr}`;
    if (run.status !== 0) throw new Error(`ptxas refused the text:\n${log}`);
    if (/C75\d\d/.test(log)) throw new Error(`ptxas serialised something:\n${log}`);
    if (/[1-9]\d* bytes spill/.test(log)) throw new Error(`ptxas spilled registers: ${what}\n${log}`);
    return { registers: Number(/Used (\d+) registers/.exec(log)?.[1] ?? 0) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
