/** Package READMEs name the files there are: what they name exists, and every file and folder of `src` is named. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { filesUnder, packageFolders, root } from "./lib/files.ts";

const published = packageFolders().filter((folder) => folder !== "packages/explorer");
const sources = packageFolders().flatMap((folder) => [
  ...filesUnder(`${folder}/src`, ".ts"),
  ...filesUnder(`${folder}/test`, ".ts"),
]);

/** `src/tile/`, `check.ts`: what stands in backticks and looks like a source file or a folder. */
const pathsIn = (text: string): readonly string[] =>
  [...text.matchAll(/`([\w@./-]+)`/g)].flatMap(([, path = ""]) =>
    /(?<!\.d)\.ts$|\/$/.test(path) ? [path] : [],
  );

describe.each(published)("%s/README.md", (folder) => {
  const named = pathsIn(readFileSync(join(root, folder, "README.md"), "utf8"));

  test("the files that it names exist", () => {
    const missing = named.filter((path) => {
      const plain = path.replace(/^(\.\.?\/)+/, "");
      return (
        path.endsWith(".ts") &&
        !sources.some((p) => p === plain || (p.startsWith(`${folder}/`) && p.endsWith(`/${plain}`)))
      );
    });
    expect(missing).toEqual([]);
  });

  test("it names every file and folder of src", () => {
    const names = new Set(named.map((path) => path.replace(/^src\//, "").replace(/\/.*$/, "")));
    const there = readdirSync(join(root, folder, "src")).filter((name) => name !== "index.ts");
    expect(there.filter((name) => !names.has(name))).toEqual([]);
  });
});
