/** What a PTX text says of its launches by itself: entries, parameters, block; and what Triton's JSON beside it adds. */
import { existsSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { type Checked, type Diagnostic, ok } from "@tilewright/core";
import { createEmulator, type KernelInfo } from "@tilewright/emulator";
import { z } from "zod";
import { located } from "../compile/source.ts";
import type { Context } from "../context.ts";
import { readJson } from "../files/json.ts";
import { readText } from "../files/read.ts";

/** What Triton and inductor keep of a compiled kernel: `NAME.json` beside `NAME.ptx`. */
const metadataSchema = z.looseObject({
  name: z.string(),
  num_warps: z.int().positive(),
  shared: z.int().nonnegative(),
  num_ctas: z.int().positive().default(1),
});

/** One kernel of a text. */
export interface Entry {
  readonly entry: string;
  readonly params: KernelInfo["params"];
  /** Threads of a block, where the text or the JSON says so. */
  readonly block: readonly number[] | null;
  readonly cluster: number | null;
  readonly dynamicSmem: number | null;
  /** What the emulator does not have of what it needs. */
  readonly lacks: readonly Diagnostic[];
}

/** Bytes that a text may take in the emulator to be looked at: its variables. */
const memoryLimit = 2 ** 28;
const warpSize = 32;

const metadataPath = (path: string): string => path.replace(/\.ptx$/, ".json");

/** The entries of a text; errors: no such file, text that does not parse, a text of which no kernel can run. */
export function readEntries(context: Context, path: string): Checked<readonly Entry[]> {
  const text = readText(context, path);
  if (!text.ok) {
    const folder = statSync(resolve(context.cwd, path), { throwIfNoEntry: false })?.isDirectory() === true;
    const hint = `tilewright check ${path} goes through the kernels of a folder`;
    return folder ? { ok: false, error: text.error.map((fault) => ({ ...fault, hint })) } : text;
  }
  const loaded = createEmulator({ memoryLimit }).load(text.value);
  if (!loaded.ok) return { ok: false, error: located(loaded.error, path) };
  const beside = metadataPath(path);
  const json = beside !== path && existsSync(resolve(context.cwd, beside)) ? readJson(context, beside) : null;
  const metadata = json?.ok === true ? metadataSchema.safeParse(json.value).data : undefined;
  return ok(
    loaded.value.kernels.map((kernel): Entry => {
      const own = metadata?.name === kernel.entry ? metadata : undefined;
      return {
        ...{ entry: kernel.entry, params: kernel.params, lacks: located(kernel.lacks, path) },
        block: own === undefined ? kernel.requiredThreads : [own.num_warps * warpSize],
        cluster: own === undefined || own.num_ctas === 1 ? null : own.num_ctas,
        dynamicSmem: own?.shared ?? null,
      };
    }),
  );
}

/** Bytes of a buffer of which nothing is known. */
const someBytes = 2 ** 20;

type Param = Entry["params"][number];

/** A parameter's name without that of its entry, which nvcc and LLVM put before it: `param_0`. */
export const shortName = ({ entry }: Pick<Entry, "entry">, { name }: Param): string =>
  name.startsWith(`${entry}_`) ? name.slice(entry.length + 1) : name;

/** A launch file for an entry, to be completed: one block, a buffer for each pointer (each 64-bit parameter, where none says `.ptr`), zeros for the others. */
export function launchTemplate(entry: Entry): object {
  const areMarked = entry.params.some(({ pointer }) => pointer);
  const isPointer = ({ size, type, pointer }: Param): boolean =>
    areMarked ? pointer : size === 8 && type !== "f64";
  return {
    entry: entry.entry,
    grid: entry.cluster ?? 1,
    block: entry.block ?? warpSize,
    ...(entry.cluster === null ? {} : { cluster: entry.cluster }),
    dynamicSmem: entry.dynamicSmem ?? 0,
    buffers: Object.fromEntries(
      entry.params
        .filter(isPointer)
        .map((param) => [shortName(entry, param), { bytes: someBytes, fill: "zeros" }]),
    ),
    params: entry.params.map((param) => {
      if (isPointer(param)) return { buffer: shortName(entry, param) };
      return param.type.includes("[") ? { bytes: "00".repeat(param.size) } : 0;
    }),
  };
}
