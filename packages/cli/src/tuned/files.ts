/** The user's schedule store as a file: where it is, what it holds. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { type Checked, ok, printTuned, readTuned, type Tuned, type TunedEntry } from "@tilewright/core";
import { printAttention, readAttention } from "@tilewright/ir";
import { shapeText } from "../bench/shapes.ts";
import type { Context } from "../context.ts";
import { writeFiles } from "../files/atomic.ts";
import { readText } from "../files/read.ts";
import { configFolder } from "../kit/config.ts";

interface Place {
  readonly path: string;
  /** Named by a flag or the environment: then it must be there. */
  readonly named: boolean;
}

/** The file of `--tuned`, of TILEWRIGHT_TUNED, or beside the user's defaults; null for `none` and where nothing says. */
export function storePlace({ env }: Pick<Context, "env">, flag: string | undefined): Place | null {
  const named = flag ?? env.TILEWRIGHT_TUNED;
  if (named !== undefined) return named === "none" || named === "" ? null : { path: named, named: true };
  const folder = configFolder(env);
  return folder === null ? null : { path: join(folder, "tuned.jsonl"), named: false };
}

/** The entries of the user's store; none where there is no store. `new`: a named file may not exist yet. Errors: TW1701 a broken line, TW7010 a named file that cannot be read. */
export function openStore(
  context: Context,
  flag: string | undefined,
  named?: "new",
): Checked<readonly Tuned[]> {
  const place = storePlace(context, flag);
  if (place === null) return ok([]);
  if ((!place.named || named === "new") && !existsSync(resolve(context.cwd, place.path))) return ok([]);
  const text = readText(context, place.path);
  return text.ok ? readTuned(text.value, place.path) : text;
}

/** Write a store whole, beside its place and renamed into it. */
export function writeStore(context: Context, path: string, entries: readonly Tuned[]): Checked<true> {
  const written = writeFiles(context.cwd, [{ path, data: entries.map(printTuned).join("") }]);
  return written.ok ? ok(true) : written;
}

/** What an entry is about, for people: sizes of a product, or the line of what is computed in its place. */
export function entrySubject({ problem, program }: Pick<TunedEntry, "problem" | "program">): string {
  const attention = program === undefined ? null : readAttention(program);
  return attention?.ok ? printAttention(attention.value) : shapeText(problem);
}
