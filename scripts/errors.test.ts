import { readFileSync } from "node:fs";
import { join } from "node:path";
import { exitCodeOf } from "@tilewright/core";
import { expect, test } from "vitest";
import { filesUnder, packageFolders, root } from "./lib/files.ts";

// docs/errors.md lists every diagnostic, once, with the kind that it has in the sources.

interface Row {
  readonly code: string;
  /** Text of the second column: `invalid → 2`, several separated by commas. */
  readonly kinds: string;
  /** First digit of the section it stands in. */
  readonly range: string;
}

const page = readFileSync(join(root, "docs/errors.md"), "utf8");
const rows: readonly Row[] = page.split(/^## /m).flatMap((section) =>
  [...section.matchAll(/^\| (TW\d{4}) \| ([^|]+) \| [^|]+\. \| .+ \|$/gm)].map(
    ([, code = "", kinds = ""]) => ({
      code,
      kinds,
      range: section.charAt(0),
    }),
  ),
);
const sources = packageFolders()
  .flatMap((folder) => [...filesUnder(`${folder}/src`, ".ts"), ...filesUnder(`${folder}/data`, ".json")])
  .map((path) => readFileSync(join(root, path), "utf8"));
/** Codes stand in sources as whole strings, or begin a row of a table; in comments they are bare. */
const raised = new Set(
  sources.flatMap((text) => [...text.matchAll(/"(TW\d{4})(?:"| \|)/g)].map(([, code]) => code)),
);

test("every code that a source raises has one row, in order, and every row a source", () => {
  expect(raised.size).toBeGreaterThan(100);
  expect(rows.map(({ code }) => code)).toEqual([...raised].sort());
  // No row escaped for its form.
  expect(rows).toHaveLength([...page.matchAll(/^\| TW/gm)].length);
});

test("rows stand in the section of their range", () => {
  for (const { code, range } of rows) expect(`${code} in ${range}`).toBe(`${code} in ${code.charAt(2)}`);
});

test("kinds are those of the sources, and exit codes those of the kinds", () => {
  for (const { code, kinds } of rows)
    expect(`${code} ${kinds}`).toMatch(/^TW\d{4} (?:(?:^|, )?\w+ → \d(?: \(\w+\))?)+$/);
  for (const { kinds } of rows)
    for (const [, kind = "", exit] of kinds.matchAll(/(\w+) → (\d)/g))
      expect(`${kind} ${exit}`).toBe(`${kind} ${exitCodeOf(kind as Parameters<typeof exitCodeOf>[0])}`);
  const stated = sources.flatMap((text) => [
    ...text.matchAll(/"?code"?: "(TW\d{4})",\s*"?kind"?: "(\w+)"/g),
    ...text.matchAll(/"(TW\d{4}) \| ([a-z]+) \|/g),
  ]);
  expect(stated.length).toBeGreaterThan(50);
  for (const [, code, kind = ""] of stated)
    expect(`${code} ${rows.find((row) => row.code === code)?.kinds}`).toContain(kind);
});
