/** ptxas on a text, where it is installed. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { devNull, tmpdir } from "node:os";
import { join } from "node:path";

export const hasPtxas = spawnSync("ptxas", ["--version"]).status === 0;

/** ptxas 13 makes no sm_70 code; it assembles sm_70 text for sm_75. */
const assemblerArch = (arch: string): string => (arch === "sm_70" ? "sm_75" : arch);

/** How the fault begins that says so. */
export const SPILLED = "ptxas spilled registers";

/** What ptxas -v says of a text: registers a thread, and what it refuses, spills, serialises (messages C75xx) or warns of, as sentences. */
export function assemble(
  ptx: string,
  arch: string,
): { readonly registers: number; readonly faults: readonly string[] } {
  // The text on its standard input and the code nowhere: files of thousands of texts take longer than the smaller ones of them.
  const args = ["-v", `-arch=${assemblerArch(arch)}`, "-", "-o", devNull];
  const run = spawnSync("ptxas", args, { encoding: "utf8", input: ptx });
  const log = `${run.stdout}${run.stderr}`;
  const faults = [
    [run.status !== 0, "ptxas refused the text"],
    [/C75\d\d/.test(log), "ptxas serialised something"],
    [/\bwarning\b/i.test(log), "ptxas warned"],
    // Stores decide: for kernels of many predicates ptxas now and then counts loads of a slot that nothing is stored to.
    [/[1-9]\d* bytes spill stores/.test(log), SPILLED],
  ] as const;
  return {
    registers: Number(/Used (\d+) registers/.exec(log)?.[1] ?? 0),
    faults: faults.flatMap(([wrong, what]) => (wrong ? [`${what}:\n${log}`] : [])),
  };
}

/** The cubin that ptxas makes of a text. Throws where it refuses. */
export function assembled(ptx: string, arch: string): Buffer {
  const folder = mkdtempSync(join(tmpdir(), "tilewright-"));
  try {
    const [source, image] = [join(folder, "kernel.ptx"), join(folder, "kernel.cubin")];
    writeFileSync(source, ptx);
    const run = spawnSync("ptxas", [`-arch=${assemblerArch(arch)}`, source, "-o", image], {
      encoding: "utf8",
    });
    if (run.status !== 0) throw new Error(`ptxas refused the text:\n${run.stderr}`);
    return readFileSync(image);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
