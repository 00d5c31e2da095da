/** JSON files, with the place of a syntax error. */
import { type Checked, err, ok, type SourceLocation } from "@tilewright/ir";
import { codes, problemWith } from "../codes.ts";
import type { Context } from "../context.ts";
import { readText } from "./read.ts";

/** The value of a JSON file; `-` is standard input. */
export function readJson(context: Context, path: string): Checked<unknown> {
  const text = readText(context, path);
  if (!text.ok) return text;
  try {
    return ok(JSON.parse(text.value) as unknown);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const location = locate(text.value, message, path);
    return err([
      problemWith(
        codes.badJson,
        path,
        `${path} is not JSON: ${message}`,
        location === null ? {} : { location },
      ),
    ]);
  }
}

/** V8 says `at position N` (and newer versions line and column as well). */
function locate(text: string, message: string, file: string): SourceLocation | null {
  const position = /at position (\d+)/.exec(message)?.[1];
  if (position === undefined) return null;
  const before = text.slice(0, Number(position)).split("\n");
  return { line: before.length, column: (before.at(-1) ?? "").length + 1, file };
}
