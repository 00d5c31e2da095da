/** JSON files, with the place of a syntax error. */
import { type Checked, type Diagnostic, ok } from "@tilewright/core";
import { codes, failWith } from "../codes.ts";
import type { Context } from "../context.ts";
import { placeAt, placesOf } from "./json-places.ts";
import { findJsonError } from "./json-syntax.ts";
import { readText } from "./read.ts";

/** The value of a JSON file; `-` is standard input. */
export function readJson(context: Context, path: string): Checked<unknown> {
  const file = readJsonFile(context, path);
  return file.ok ? ok(file.value.value) : file;
}

export interface JsonFile {
  readonly value: unknown;
  /** The diagnostics with the place of what their `at` names, where it names something in the file. */
  locate(found: readonly Diagnostic[]): readonly Diagnostic[];
}

/** The value of a JSON file, and where its fields stand. */
export function readJsonFile(context: Context, path: string): Checked<JsonFile> {
  const text = readText(context, path);
  if (!text.ok) return text;
  try {
    const value = JSON.parse(text.value) as unknown;
    const locate = (found: readonly Diagnostic[]): readonly Diagnostic[] => {
      const places = placesOf(text.value);
      return found.map((problem) => {
        const place = problem.location === undefined ? placeAt(places, problem.at) : undefined;
        return place === undefined ? problem : { ...problem, location: { ...place, file: path } };
      });
    };
    return ok({ value, locate });
  } catch (error) {
    const found = findJsonError(text.value);
    const message = error instanceof Error ? error.message : String(error);
    if (found === null) return failWith(codes.badJson, path, `${path} is not JSON: ${message}`);
    const { offset, expected } = found;
    const shown =
      offset < text.value.length ? `'${text.value.slice(offset, offset + 1)}'` : "the end of the file";
    const before = text.value.slice(0, offset).split("\n");
    const location = { line: before.length, column: (before.at(-1) ?? "").length + 1, file: path };
    return failWith(
      codes.badJson,
      path,
      `${path} is not JSON: ${shown} stands where ${expected} is expected`,
      {
        location,
      },
    );
  }
}
