/** Emission reads a statement and the declarations that it names: nothing there goes looking through the program. */
import { readdirSync, readFileSync } from "node:fs";
import { parse } from "node:path";
import { expect, test } from "vitest";

const root = new URL("../../", import.meta.url);

const folders = readdirSync(root).flatMap((name) =>
  name === "codegen" ? ["codegen/src/"] : name.startsWith("backend-") ? [`${name}/src/lower/`] : [],
);

/** Walks of a program, and helpers of ir that make one. */
const searches = [
  "eachStmt",
  "childrenOf",
  "rewriteStmts",
  "codeOrder",
  "rolesOf",
  "fillsOnce",
  "feedsEpilogue",
  "reducingThreads",
  "dsmemReduction",
  "bulkAccesses",
  "bulkAccessesOf",
  "groupMapsOf",
  "namedIn",
];

test("no search of the program, and no state keyed by its objects", () => {
  expect(folders).toHaveLength(5);
  const found = folders.flatMap((folder) =>
    readdirSync(new URL(folder, root)).flatMap((file) => {
      const text = readFileSync(new URL(folder + file, root), "utf8");
      const words = [...searches, "WeakMap", "WeakSet"].filter((word) =>
        new RegExp(`\\b${word}\\b(?!\\.ts)`).test(text),
      );
      return words.map((word) => `${parse(file).name}: ${word}`);
    }),
  );
  expect(found).toEqual([]);
});
