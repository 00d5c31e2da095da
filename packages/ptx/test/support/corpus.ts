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

export const corpus: readonly CorpusModule[] = ["hand", "golden", "nvcc"].flatMap((folder) =>
  readdirSync(join(root, folder))
    .filter((file) => file.endsWith(".ptx"))
    .sort()
    .map((file) => ({ name: `${folder}/${file}`, text: readFileSync(join(root, folder, file), "utf8") })),
);

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
