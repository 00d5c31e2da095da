import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

// What emission still takes from elsewhere than the statement at hand and the declarations that it names. Numbers here only fall: who takes one away lowers it.

const packages = fileURLToPath(new URL("../packages", import.meta.url));

/** Texts of the emission: codegen, and what each backend lowers. */
const emission = readdirSync(packages)
  .flatMap((name) =>
    name === "codegen" ? ["codegen/src"] : name.startsWith("backend-") ? [`${name}/src/lower`] : [],
  )
  .flatMap((folder) =>
    readdirSync(join(packages, folder), { recursive: true, encoding: "utf8" })
      .filter((path) => path.endsWith(".ts"))
      .map((path) => readFileSync(join(packages, folder, path), "utf8")),
  );

const occurrences = (pattern: RegExp): number =>
  emission.reduce((sum, text) => sum + (text.match(pattern)?.length ?? 0), 0);

test.each([
  ["reads of the problem", /\bprogram\.problem\b|\{ problem \} = (ctx\.)?program\b/g, 14],
  ["refusals of programs that are verified", /throw new CannotLower\(/g, 152],
  ["searches of the program", /\beachStmt\(/g, 0],
] as const)("%s", (_what, pattern, most) => {
  expect(occurrences(pattern)).toBeLessThanOrEqual(most);
});
