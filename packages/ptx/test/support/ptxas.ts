/** ptxas, where it is installed. */
import { execFile, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const hasPtxas = spawnSync("ptxas", ["--version"]).status === 0;
/** Run what takes longer than a test run should. */
export const slow = process.env.TILEWRIGHT_SLOW === "1";

export interface Assembly {
  readonly cubin: Buffer | null;
  readonly log: string;
}

/** ptxas 13 has no sm_70 output; it assembles such text for sm_75. */
const archOf = (text: string): string => {
  const target = /\.target\s+(sm_\w+)/.exec(text)?.[1] ?? "sm_80";
  return target === "sm_70" ? "sm_75" : target;
};

/** Assemble a text; the cubin holds no path of it. */
export async function assemble(text: string): Promise<Assembly> {
  const folder = mkdtempSync(join(tmpdir(), "tilewright-ptx-"));
  try {
    writeFileSync(join(folder, "m.ptx"), text);
    const log = await new Promise<{ ok: boolean; text: string }>((resolve) => {
      execFile(
        "ptxas",
        [`-arch=${archOf(text)}`, "m.ptx", "-o", "m.cubin"],
        { cwd: folder, maxBuffer: 1 << 26 },
        (error, stdout, stderr) => resolve({ ok: error === null, text: stdout + stderr }),
      );
    });
    return { cubin: log.ok ? readFileSync(join(folder, "m.cubin")) : null, log: log.text };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Map with at most two at a time: machines that run the tests have two cores. */
export async function inPairs<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  let next = 0;
  const worker = async (): Promise<void> => {
    for (let i = next++; i < items.length; i = next++) {
      const item = items[i];
      if (item !== undefined) results[i] = await work(item);
    }
  };
  await Promise.all([worker(), worker()]);
  return results;
}
