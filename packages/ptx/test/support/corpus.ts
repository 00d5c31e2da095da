/** The corpus on disk, and modules without what the text's layout puts into them. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { PtxModule } from "../../src/index.ts";

const root = fileURLToPath(new URL("../corpus", import.meta.url));

export interface CorpusModule {
  /** `hand/sm70_ffma.ptx` */
  readonly name: string;
  readonly text: string;
}

export interface Refused {
  readonly file: string;
  readonly line: number;
  readonly ptxas: string;
  /** The diagnostic that this package gives. */
  readonly code: string;
}

export const refused: readonly Refused[] = JSON.parse(readFileSync(join(root, "refused.json"), "utf8"));

const textOf = (name: string): string => readFileSync(join(root, name), "utf8");

/** Lines that a variant replaces: the first, counted from 1, how many, and what stands there instead. */
type Edit = readonly [at: number, drop: number, ...lines: string[]];

/** A text with edits in ascending order made. */
const edited = (text: string, edits: readonly Edit[]): string =>
  edits
    .reduceRight<readonly string[]>(
      (lines, [at, drop, ...more]) => lines.toSpliced(at - 1, drop, ...more),
      text.split("\n"),
    )
    .join("\n");

/** By the file of `hand/` that they differ from in few lines. */
const variants: Readonly<Record<string, Readonly<Record<string, readonly Edit[]>>>> = JSON.parse(
  textOf("variants.json"),
);

export const corpus: readonly CorpusModule[] = [
  ...["hand", "golden", "nvcc"].flatMap((folder) =>
    readdirSync(join(root, folder)).flatMap((file) =>
      file.endsWith(".ptx") ? [{ name: `${folder}/${file}`, text: textOf(`${folder}/${file}`) }] : [],
    ),
  ),
  ...Object.entries(variants).flatMap(([base, files]) =>
    Object.entries(files).map(([file, edits]) => ({
      name: `hand/${file}`,
      text: edited(textOf(`hand/${base}`), edits),
    })),
  ),
].sort((a, b) => (a.name < b.name ? -1 : 1));

const isRefused = (module: CorpusModule): boolean => refused.some((r) => `hand/${r.file}` === module.name);

/** What ptxas 13.0 assembles. */
export const assembling = corpus.filter((module) => !isRefused(module));

/** A module without locations, and with or without what debuggers read (line numbers refer to the PTX text itself). */
export function neutral(module: PtxModule, debug = true): PtxModule {
  const drop = new Set(debug ? [] : ["loc", "file", "section"]);
  const walk = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.filter((v) => !drop.has(v?.kind)).map(walk);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(
      Object.entries(value)
        .filter(([key]) => key !== "location")
        .map(([key, v]) => [key, walk(v)]),
    );
  };
  const plain = walk(module) as PtxModule;
  return debug ? plain : { ...plain, targetOptions: plain.targetOptions.filter((o) => o !== "debug") };
}
