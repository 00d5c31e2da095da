/** NVIDIA's disassembler, where it is installed: the machine code of a kernel, each instruction with the line of PTX that it was made for. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Checked, ok } from "@tilewright/core";
import { execa } from "execa";
import { codes, failWith } from "../codes.ts";
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

/** Products of a warpgroup: ptxas gives them no line of their own, so that nvdisasm has the line of whatever stands in front. */
const warpgroupProduct = { sass: /^(?:@!?U?P\d+ )?[HIQB]GMMA\./, ptx: /\bwgmma\.mma_async\./ } as const;

/** Each with its own line of PTX where there are as many as in the text, in whose order they stand; with none where ptxas has doubled some. */
function withProducts(lines: readonly SassLine[], ptx: string): readonly SassLine[] {
  const own = ptx.split("\n").flatMap((line, i) => (warpgroupProduct.ptx.test(line) ? [i + 1] : []));
  const products = lines.filter(({ text }) => warpgroupProduct.sass.test(text));
  const lineOf = new Map(
    products.map((line, i) => [line, own.length === products.length ? (own[i] ?? 0) : 0]),
  );
  return lines.map((line) => ({ ...line, ptx: lineOf.get(line) ?? line.ptx }));
}

/**
 * The code of `nvdisasm -c -gp`: sections begin with `.text.NAME:`, `//## File "…", line N` holds for the instructions behind it, an instruction
 * is an address in comment signs, then its text up to `;`, a label ends with a colon (CUDA Binary Utilities, nvdisasm). `ptx`: what it was made of.
 */
export function parseSass(text: string, ptx: string): readonly SassLine[] {
  let inCode = false;
  let of = 0;
  const lines = text.split("\n").flatMap((line): readonly SassLine[] => {
    if (/^\s*\.section\s/.test(line)) inCode = false;
    const entry = /^\.text\.(\S+):\s*$/.exec(line)?.[1];
    if (entry !== undefined) {
      inCode = true;
      of = 0;
      return [{ text: `${entry}:`, address: null, ptx: 0 }];
    }
    if (!inCode) return [];
    const source = /^\s*\/\/## File "[^"]*", line (\d+)/.exec(line)?.[1];
    if (source !== undefined) of = Number(source);
    const label = /^(\.L\w+):\s*$/.exec(line)?.[1];
    if (label !== undefined) return [{ text: `${label}:`, address: null, ptx: 0 }];
    const [, address, instruction] = /^\s*\/\*([0-9a-f]{4,})\*\/\s+(\S.*?)\s*;/.exec(line) ?? [];
    return address === undefined || instruction === undefined
      ? []
      : [{ text: instruction, address: Number.parseInt(address, 16), ptx: of }];
  });
  return withProducts(withoutPadding(lines), ptx);
}

/** Code ends in a branch to itself and fills its last line of the cache: none of it is of the kernel. */
function withoutPadding(lines: readonly SassLine[]): readonly SassLine[] {
  const label = ({ text, address }: SassLine): boolean => address === null && text.startsWith(".L");
  const stops = (line: SassLine, i: number): boolean =>
    line.text === `BRA \`(${lines[i - 1]?.text.slice(0, -1)})` &&
    /^(?:NOP|\.L\w+:)$/.test(lines[i + 1]?.text ?? "");
  const padding = (line: SassLine, i: number): boolean =>
    line.text === "NOP" || label(line) || stops(line, i);
  return lines.slice(0, lines.findLastIndex((line, i) => !padding(line, i)) + 1);
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
    const lines = exitCode === 0 ? parseSass(stdout, ptx) : [];
    if (lines.length > 0) return ok(lines);
    const said = (stderr || shortMessage || "no code").replaceAll(cubin, "kernel.cubin");
    return failWith(codes.nvdisasmFailed, "nvdisasm", said.trim(), { hint: getNvdisasm });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
