import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

// What emission still takes from elsewhere than the statement at hand and the declarations that it names. Numbers here only fall: who takes one away lowers it.

const packages = fileURLToPath(new URL("../packages", import.meta.url));

const backends = readdirSync(packages).filter((name) => name.startsWith("backend-"));

/** Every text of the folders, with its path. */
const textsOf = (folders: readonly string[]): readonly (readonly [path: string, text: string])[] =>
  folders.flatMap((folder) =>
    readdirSync(join(packages, folder), { recursive: true, encoding: "utf8" })
      .filter((path) => path.endsWith(".ts"))
      .map((path) => [`${folder}/${path}`, readFileSync(join(packages, folder, path), "utf8")] as const),
  );

/** Texts of the emission: codegen, and what each backend lowers. */
const emission = textsOf(["codegen/src", ...backends.map((name) => `${name}/src/lower`)]).map(
  ([, text]) => text,
);

const occurrences = (pattern: RegExp): number =>
  emission.reduce((sum, text) => sum + (text.match(pattern)?.length ?? 0), 0);

test.each([
  ["reads of the problem", /\bprogram\.problem\b|\{ problem \} = (ctx\.)?program\b/g, 0],
  ["refusals of programs that are verified", /throw new CannotLower\(/g, 13],
  ["searches of the program", /\beachStmt\(/g, 0],
] as const)("%s", (_what, pattern, most) => {
  expect(occurrences(pattern)).toBeLessThanOrEqual(most);
});

test("codegen and backends do not know what a program is for: no text names attention, comments included", () => {
  const texts = textsOf(["codegen/src", ...backends.map((name) => `${name}/src`)]);
  expect(texts.length).toBeGreaterThan(100);
  expect(texts.flatMap(([path, text]) => (/attention|softmax/i.test(text) ? [path] : []))).toEqual([]);
});
