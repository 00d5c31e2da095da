/** NVIDIA's assembler, where it is installed: PTX text to a cubin. Optional; PTX also runs through the driver and the emulator. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Checked, err, ok } from "@tilewright/core";
import { execa } from "execa";
import { codes, failWith, problemWith } from "../codes.ts";
import type { Context } from "../context.ts";

/** A hung assembler is a failed one; the largest kernels take seconds. Milliseconds. */
const timeout = 120_000;

/** The program: TILEWRIGHT_PTXAS, or the first `ptxas` on PATH. */
const programOf = (context: Context): string => context.env.TILEWRIGHT_PTXAS || "ptxas";

async function runPtxas(context: Context, args: readonly string[]) {
  return execa(programOf(context), args, {
    env: context.env,
    extendEnv: false,
    cwd: context.cwd,
    reject: false,
    timeout,
    all: true,
  });
}

/** `13.0` of the ptxas that would be used; null when there is none. */
export async function ptxasVersion(context: Context): Promise<string | null> {
  const { exitCode, stdout } = await runPtxas(context, ["--version"]);
  return exitCode === 0 ? (/release (\d+\.\d+)/.exec(stdout)?.[1] ?? "unknown") : null;
}

export interface Assembled {
  readonly cubin: Uint8Array;
  /** Of the ptxas that made it, e.g. `13.0`. */
  readonly version: string;
  /** What it was called with, files left out. */
  readonly flags: readonly string[];
  /** What `ptxas -v` said: registers, spills, shared memory. */
  readonly log: string;
  /** By entry, in the log's order. */
  readonly kernels: readonly AssembledKernel[];
}

/** What the log says of one entry. */
interface AssembledKernel {
  readonly entry: string;
  /** 32-bit registers a thread. */
  readonly registers: number;
  /** Bytes a thread that spill to local memory. */
  readonly spillBytes: number;
  /** Bytes. */
  readonly staticSmem: number;
}

/** The entries of a log of `ptxas -v`. */
function kernelsOfLog(log: string): readonly AssembledKernel[] {
  const number = (text: string, form: RegExp): number => Number(form.exec(text)?.[1] ?? 0);
  return log
    .split(/Compiling entry function /)
    .slice(1)
    .map((text) => ({
      entry: /^'([^']+)'/.exec(text)?.[1] ?? "",
      registers: number(text, /Used (\d+) registers/),
      spillBytes: number(text, /(\d+) bytes spill stores/),
      staticSmem: number(text, /(\d+) bytes smem/),
    }));
}

/** How to get an assembler. */
export const getPtxas =
  "install the CUDA toolkit, or `pip install nvidia-cuda-nvcc` and name its bin/ptxas in TILEWRIGHT_PTXAS; PTX alone needs none: the driver compiles it, and --device emulator runs it";

/** Assemble for exactly `arch`. `options`: of ptxas, e.g. `-lineinfo`. */
export async function assemble(
  context: Context,
  ptx: string,
  arch: string,
  options: readonly string[] = [],
): Promise<Checked<Assembled>> {
  const folder = mkdtempSync(join(tmpdir(), "tilewright-"));
  try {
    const input = join(folder, "kernel.ptx");
    const output = join(folder, "kernel.cubin");
    writeFileSync(input, ptx);
    const result = await runPtxas(context, ["-v", `-arch=${arch}`, ...options, input, "-o", output]);
    const log = (result.all ?? "").replaceAll(input, "kernel.ptx");
    if (result.exitCode === undefined && result.failed)
      return failWith(
        codes.ptxasMissing,
        "ptxas",
        `${programOf(context)} cannot be run: ${result.shortMessage}`,
        { hint: getPtxas },
      );
    if (result.exitCode !== 0) return err([await explain(context, arch, log)]);
    return ok({
      cubin: new Uint8Array(readFileSync(output)),
      version: (await ptxasVersion(context)) ?? "unknown",
      flags: [`-arch=${arch}`, ...options],
      log,
      kernels: kernelsOfLog(log),
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function explain(context: Context, arch: string, log: string) {
  if (!log.includes("is not defined for option 'gpu-name'"))
    return problemWith(codes.ptxasFailed, "ptxas", `ptxas -arch=${arch} rejected the text:\n${log.trim()}`);
  const version = (await ptxasVersion(context)) ?? "unknown";
  return problemWith(codes.ptxasFailed, "ptxas", `ptxas ${version} makes no code for ${arch}`, {
    hint: `name another ptxas in TILEWRIGHT_PTXAS (CUDA 13 dropped sm_70; CUDA 12's ptxas has it), or emit PTX only: the driver of a GPU compiles it`,
  });
}
