import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { filesUnder, packageFolders, root } from "./lib/files.ts";

// Links between the pages of this repository lead somewhere: to a file, and where they name a heading, to that.

const pages = [
  "README.md",
  "CONTRIBUTING.md",
  "SECURITY.md",
  ...filesUnder("docs", ".md"),
  ...packageFolders().flatMap((folder) => [`${folder}/README.md`, ...filesUnder(`${folder}/src`, ".md")]),
];

const read = (path: string): string => readFileSync(join(root, path), "utf8");

/** Without code, where brackets are no links. */
const prose = (text: string): string => text.replace(/^```[\s\S]*?^```/gm, "").replace(/`[^`\n]*`/g, "");

/** Names that a page's headings have as targets of links, as GitHub makes them. */
const anchors = (text: string): readonly string[] =>
  [...text.replace(/^```[\s\S]*?^```/gm, "").matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}_ -]/gu, "")
      .replaceAll(" ", "-"),
  );

/** Links of a page that lead nowhere, as it writes them. */
function broken(page: string, text: string): readonly string[] {
  const targets = [...prose(text).matchAll(/\]\(([^()\s]+)\)|^\[[^\]]+\]: (\S+)$/gm)].map(
    ([, inline, reference]) => inline ?? reference ?? "",
  );
  return targets.filter((target) => {
    if (/^[a-z]+:/.test(target)) return false;
    const [path = "", anchor] = target.split("#");
    const file = path === "" ? page : join(dirname(page), path);
    // Pages that are made with the site; scripts/docs/pages.test.ts checks the links to them.
    if (file.startsWith("docs/reference/")) return false;
    if (!existsSync(join(root, file))) return true;
    return anchor !== undefined && file.endsWith(".md") && !anchors(read(file)).includes(anchor);
  });
}

test("the finder of broken links finds them", () => {
  const text = [
    "# A page, `coded`",
    "[file](README.md) [folder](docs) [web](https://example.org/x) [heading](#a-page-coded) [other](SECURITY.md#security)",
    "[gone](docs/gone.md) [lost](README.md#no-such-heading) `[code](code.md)`",
    "```\n[fenced](fenced.md)\n```",
    "[ref]: gone-too.md",
  ].join("\n");
  expect(anchors(text)).toEqual(["a-page-coded"]);
  expect(broken("README.md", text.replaceAll("(#a-page-coded)", "(#tilewright)"))).toEqual([
    "docs/gone.md",
    "README.md#no-such-heading",
    "gone-too.md",
  ]);
});

test.each(pages)("the links of %s lead somewhere", (page) => {
  expect(broken(page, read(page))).toEqual([]);
});
