// NVIDIA's assembler on PTX text: what it says of registers and spills, or why it refuses.

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** CUDA 13's ptxas knows sm_75 and later; text for sm_70 is portable to it. @param {string} arch */
const assembledFor = (arch) => (arch === "sm_70" ? "sm_75" : arch);

const program = () => process.env.TILEWRIGHT_PTXAS || "ptxas";

export const hasPtxas = () => spawnSync(program(), ["--version"], { stdio: "ignore" }).status === 0;

/**
 * @param {string} text @param {string} arch
 * @returns {{ registers: number, problems: string[] }} problems: refused, spills, or C75xx (the tensor cores are serialised)
 */
export function assemble(text, arch) {
  const folder = mkdtempSync(join(tmpdir(), "tilewright-ptxas-"));
  try {
    const file = join(folder, "kernel.ptx");
    writeFileSync(file, text);
    const args = ["-v", `-arch=${assembledFor(arch)}`, file, "-o", join(folder, "kernel.cubin")];
    const { status, stdout, stderr } = spawnSync(program(), args, { encoding: "utf8" });
    const log = `${stdout ?? ""}${stderr ?? ""}`.replaceAll(file, "kernel.ptx");
    const all = (/** @type {RegExp} */ pattern) =>
      [...log.matchAll(pattern)].map(([, count]) => Number(count));
    const problems = status === 0 ? [] : [`ptxas refuses it:\n${log.trim()}`];
    const spilled = all(/(\d+) bytes spill stores/g).reduce((sum, bytes) => sum + bytes, 0);
    if (spilled > 0) problems.push(`${spilled} bytes spill`);
    problems.push(...(log.match(/^.*\bC75\d\d\b.*$/gm) ?? []));
    return { registers: Math.max(0, ...all(/Used (\d+) registers/g)), problems };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
