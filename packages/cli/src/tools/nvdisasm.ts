/** NVIDIA's disassembler, where it is installed: the machine code of a kernel, each instruction with the line of PTX that it was made for. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Checked, err, ok } from "@tilewright/core";
import { execa } from "execa";
import { codes, problemWith } from "../codes.ts";
import type { Context } from "../context.ts";
import { assemble } from "./ptxas.ts";

/** Milliseconds. */
const timeout = 60_000;

/** How to get a disassembler. */
export const getNvdisasm =
  "install the CUDA toolkit (package cuda-nvdisasm) and name nvdisasm in TILEWRIGHT_NVDISASM if it is not on PATH";

async function runNvdisasm({ env, cwd }: Context, args: readonly string[]) {
  const program = env.TILEWRIGHT_NVDISASM || "nvdisasm";
  return execa(program, args, { env, extendEnv: false, cwd, reject: false, timeout });
}

/** `13.1` of the nvdisasm that would be used; null when there is none. */
export async function nvdisasmVersion(context: Context): Promise<string | null> {
  const { exitCode, stdout } = await runNvdisasm(context, ["--version"]);
  return exitCode === 0 ? (/release (\d+\.\d+)/.exec(stdout)?.[1] ?? "unknown") : null;
}

/** A line of disassembly: an instruction with its address in bytes, or a label. */
export interface SassLine {
  readonly text: string;
  readonly address: number | null;
  /** Line of the PTX that it was made for, from 1; 0 where none is named. */
  readonly ptx: number;
}

/**
 * The code of `nvdisasm -c -gp`: sections begin with `.text.NAME:`, `//## File "…", line N` holds for the instructions behind it, an instruction
 * is an address in comment signs, then its text up to `;`, a label ends with a colon (CUDA Binary Utilities, nvdisasm).
 */
export function parseSass(text: string): readonly SassLine[] {
  let inCode = false;
  let ptx = 0;
  const lines = text.split("\n").flatMap((line): readonly SassLine[] => {
    if (/^\s*\.section\s/.test(line)) inCode = false;
    const entry = /^\.text\.(\S+):\s*$/.exec(line)?.[1];
    if (entry !== undefined) {
      inCode = true;
      ptx = 0;
      return [{ text: `${entry}:`, address: null, ptx: 0 }];
    }
    if (!inCode) return [];
    const of = /^\s*\/\/## File "[^"]*", line (\d+)/.exec(line)?.[1];
    if (of !== undefined) ptx = Number(of);
    const label = /^(\.L\w+):\s*$/.exec(line)?.[1];
    if (label !== undefined) return [{ text: `${label}:`, address: null, ptx: 0 }];
    const [, address, instruction] = /^\s*\/\*([0-9a-f]{4,})\*\/\s+(\S.*?)\s*;/.exec(line) ?? [];
    return address === undefined || instruction === undefined
      ? []
      : [{ text: instruction, address: Number.parseInt(address, 16), ptx }];
  });
  // Code ends in a branch to itself and fills its last line of the cache: none of it is of the kernel.
  const padding = ({ text: said, address }: SassLine): boolean =>
    address === null || said === "NOP" || /^BRA `\(\.L\w+\)$/.test(said);
  const nops = lines.findIndex(({ text: said }, i) => said === "NOP" && lines.slice(i).every(padding));
  return nops < 0 ? lines : lines.slice(0, lines.findLastIndex((line, i) => i < nops && !padding(line)) + 1);
}

/** The machine code that ptxas makes of a text for exactly `arch`. Errors: no ptxas (TW7050), PTX that it refuses (TW7051), no code from nvdisasm (TW7052). */
export async function disassemble(
  context: Context,
  ptx: string,
  arch: string,
): Promise<Checked<readonly SassLine[]>> {
  const made = await assemble(context, ptx, arch, ["-lineinfo"]);
  if (!made.ok) return made;
  const folder = mkdtempSync(join(tmpdir(), "tilewright-"));
  try {
    const cubin = join(folder, "kernel.cubin");
    writeFileSync(cubin, made.value.cubin);
    const { exitCode, stdout, stderr, shortMessage } = await runNvdisasm(context, ["-c", "-gp", cubin]);
    const lines = exitCode === 0 ? parseSass(stdout) : [];
    if (lines.length > 0) return ok(lines);
    const said = (stderr || shortMessage || "no code").replaceAll(cubin, "kernel.cubin");
    return err([problemWith(codes.nvdisasmFailed, "nvdisasm", said.trim(), { hint: getNvdisasm })]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
