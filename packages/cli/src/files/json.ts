/** JSON files, with the place of a syntax error. */
import { type Checked, err, ok } from "@tilewright/ir";
import { codes, problemWith } from "../codes.ts";
import type { Context } from "../context.ts";
import { findJsonError } from "./json-syntax.ts";
import { readText } from "./read.ts";

/** The value of a JSON file; `-` is standard input. */
export function readJson(context: Context, path: string): Checked<unknown> {
  const text = readText(context, path);
  if (!text.ok) return text;
  try {
    return ok(JSON.parse(text.value) as unknown);
  } catch (error) {
    const found = findJsonError(text.value);
    const message = error instanceof Error ? error.message : String(error);
    if (found === null) return err([problemWith(codes.badJson, path, `${path} is not JSON: ${message}`)]);
    const { offset, expected } = found;
    const shown =
      offset < text.value.length ? `'${text.value.slice(offset, offset + 1)}'` : "the end of the file";
    const before = text.value.slice(0, offset).split("\n");
    const location = { line: before.length, column: (before.at(-1) ?? "").length + 1, file: path };
    return err([
      problemWith(codes.badJson, path, `${path} is not JSON: ${shown} stands where ${expected} is expected`, {
        location,
      }),
    ]);
  }
}
