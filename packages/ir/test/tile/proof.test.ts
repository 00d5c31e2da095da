import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { proofRules, proveProtocol } from "../../src/index.ts";
import { fixture, parse } from "./support/fixtures.ts";

// What the proof finds is tested on programs with roles, in the backends that make them.

it("programs without roles are no matter of this proof", () => {
  expect(proveProtocol(parse(fixture("bound")))).toEqual([]);
});

it("README.md has a row for each rule, with what is checked and what is left", () => {
  const page = readFileSync(new URL("../../src/tile/verify/README.md", import.meta.url), "utf8");
  const rows = Object.values(proofRules).map(
    ({ number, code, name, checked, left }) => `| ${number} | ${name} | ${code} | ${checked} | ${left} |`,
  );
  for (const row of rows) expect(page).toContain(row);
  expect(rows).toHaveLength(17);
});
