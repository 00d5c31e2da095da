import { readFileSync } from "node:fs";
import { dtypeNames } from "@tilewright/core";
import { expect, it } from "vitest";
import { verifiers } from "../../src/index.ts";
import { argumentsOf, directiveNames } from "../../src/tile/directives.ts";
import { declarations } from "../../src/tile/text/declarations.ts";
import { statementKinds } from "../../src/tile/text/statements.ts";

const read = (path: string): string =>
  readFileSync(new URL(`../../src/tile/${path}`, import.meta.url), "utf8");

it("verify/README.md lists every verifier as it describes itself", () => {
  const rows = read("verify/README.md")
    .split("\n")
    .filter((line) => /^\| \w+ \| TW/.test(line));
  expect(rows).toEqual(verifiers.map((v) => `| ${v.name} | ${v.code} | ${v.from} | ${v.property} |`));
});

it("codes of verifiers are used once", () => {
  expect(new Set(verifiers.map((v) => v.code)).size).toBe(verifiers.length);
});

it("README.md says what every statement means", () => {
  const text = read("README.md");
  for (const kind of statementKinds) expect(text).toMatch(new RegExp(`^\\| \`${kind}[ \`]`, "m"));
});

it("README.md has every word of every declaration", () => {
  const text = new Set<string>([...(read("README.md").match(/\w+/g) ?? []), ...dtypeNames]);
  const words = Object.values(declarations).flatMap(({ syntax }) => syntax.match(/\b[a-z]\w+/g) ?? []);
  expect(words).toContain("overlapped");
  expect(words.filter((word) => !text.has(word))).toEqual([]);
});

it("directives.md lists every directive with its arguments", () => {
  const rows = directiveNames.flatMap((name) => [
    ...(argumentsOf(name).length === 0 ? [`| \`${name}\` | | | |`] : []),
    ...argumentsOf(name).map(
      ([key, row], i) =>
        `| ${i === 0 ? `\`${name}\`` : ""} | \`${key}=${row.syntax.replaceAll("|", "\\|")}\` | \`${row.print(row.default)}\` | ${row.summary} |`,
    ),
  ]);
  const found = read("directives.md")
    .split("\n")
    .filter((line) => /^\| [^-d]/.test(line));
  expect(found).toEqual(rows);
});
