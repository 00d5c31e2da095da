import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { defineProblem, dtypeNames, findTarget, parseEpilogue, printManifest } from "@tilewright/core";
import { backends, compiler } from "tilewright";
import { beforeAll, expect, test } from "vitest";
import { filesUnder, root } from "../lib/files.ts";
import { charts } from "./charts.ts";
import { generatedPages, type Pages } from "./pages.ts";
import { stepSchemas, topics } from "./reference.ts";
import { weight } from "./search.mjs";
import { guides } from "./searched.mjs";
import { pagesWithTables, runOf, withTables } from "./tables.ts";
import { figuresIn } from "./worth.ts";

// The generated half of the site: complete, and without a link into nowhere. `npm run docs` builds the whole.

let pages: Pages;
beforeAll(async () => {
  pages = await generatedPages();
});

test("a page for every pass of every backend, with a diff where the pass has work", () => {
  const names = new Set(backends.flatMap(({ passes }) => passes.map(({ name }) => name)));
  expect(names.size).toBeGreaterThan(10);
  for (const name of names) expect([...pages.keys()]).toContain(`reference/passes/${name}.md`);
  const withDiff = [...pages.values()].filter((text) => text.includes("```diff\n"));
  expect(withDiff.length).toBeGreaterThan(names.size / 2);
});

test("a page for every field of every schedule, naming the backends that have it", () => {
  for (const { id, schedule } of backends)
    for (const { name } of schedule.fields)
      expect(pages.get(`reference/schedule/${name}.md`)).toContain(`| ${id} | `);
});

test("every field of a schedule stands under one topic", () => {
  const fields = backends.flatMap(({ schedule }) => schedule.fields.map(({ name }) => name));
  expect(topics.flatMap(([, names]) => names).toSorted()).toEqual([...new Set(fields)].toSorted());
});

test("the steps of an epilogue are all there, with a text form that is read back", () => {
  const page = pages.get("reference/epilogue.md") ?? "";
  const examples = [
    ...["bias(n,f32)", "scale(m,f32)", "activation(relu)", "clamp(0,1)", "residual(f16:row:64:16)"],
    ...["gate(f16:row:64:16)", "cast(f16,saturate)", "output(f16:row:64:16)", "reduce(sum,n,f32)"],
    ...["load(n,f32)", "source(f16:row:64:16)", "factor(1,2,s32:row:2:4,outer:64:99)", "map(acc)"],
    ...["result(16,64,f16:row:64:16)", "quantize(32,f32:col:64:16)", "gather(64)", "scatter(64)"],
  ];
  const steps = stepSchemas();
  expect(steps.map(({ kind }) => kind).toSorted()).toEqual(examples.map((x) => x.split("(")[0]).toSorted());
  for (const { kind, text } of steps) {
    const example = examples.find((x) => x.startsWith(`${kind}(`)) ?? "";
    // As many arguments as the text form names, and no others.
    expect(example.split(/[,:]/).length).toBe(text.split(/[,:]/).length);
    expect(parseEpilogue(example)).toMatchObject({ ok: true, value: [{ kind }] });
    expect(page).toContain(`## ${kind}\n`);
  }
});

test("the manifest's page has every field of a manifest", () => {
  const page = pages.get("reference/manifest.md") ?? "";
  const problem = defineProblem({
    m: 256,
    n: 256,
    k: 256,
    dtype: "bf16",
    epilogue: [{ kind: "bias", along: "n", dtype: "f32" }],
  });
  const target = findTarget("sm_90a");
  if (!problem.ok || !target.ok) throw new Error("a problem and a target");
  const made = compiler.compile({ problem: problem.value, target: target.value });
  if (!made.ok) throw new Error("a kernel");
  const paths = (value: unknown, path: string): readonly string[] => {
    if (Array.isArray(value)) return value.flatMap((each) => paths(each, `${path}[]`));
    if (typeof value !== "object" || value === null) return [];
    return Object.entries(value).flatMap(([name, each]) => {
      const at = path === "" ? name : `${path}.${name}`;
      return [at, ...paths(each, at)];
    });
  };
  // What a schedule has depends on the backend; expressions are trees of one shape.
  const fixed = [...new Set(paths(JSON.parse(printManifest(made.value.manifest)), ""))].filter(
    (path) => !/^plan\.fields\.|\.(args|expr|left|right)\b|\.value\./.test(path),
  );
  expect(fixed.filter((path) => !page.includes(`| \`${path}\``))).toEqual([]);
  expect(fixed.length).toBeGreaterThan(40);
});

test("the page of a field quotes what was measured of it, or says that nothing was", () => {
  for (const { schedule } of backends)
    for (const { name } of schedule.fields)
      expect(pages.get(`reference/schedule/${name}.md`)).toMatch(
        /^## What it is worth\n\n(From \[|Not measured)/m,
      );
  const quoted = pages.get("reference/schedule/raster.md");
  const [row] = /^\| `raster=row` \|.*$/m.exec(readFileSync(join(root, "docs/perf/simt.md"), "utf8")) ?? [""];
  expect(row).not.toBe("");
  expect(quoted).toContain(row);
});

test("figures are rows that name the field and hold a number, of tables that are measurements", () => {
  const text = `# Page
## Seen
| variant | ratio |
|---|---|
| \`copyBytes=1\` | 0.7 |
| \`vector=2\` | 0.9 |
| \`copyBytes=4\` | not yet |

## Predictions
| variant | ratio |
|---|---|
| \`copyBytes=2\` | 0.8 |
`;
  expect(figuresIn(text, "copyBytes")).toEqual([
    { heading: "Seen", table: ["| variant | ratio |", "|---|---|", "| `copyBytes=1` | 0.7 |"] },
  ]);
  expect(figuresIn(text, "tile")).toEqual([]);
});

test("the support matrix has every dtype, and every backend serves something", () => {
  const text = pages.get("reference/support.md") ?? "";
  for (const dtype of dtypeNames) expect(text).toContain(`| ${dtype} |`);
  for (const { id } of backends) expect(text).toMatch(new RegExp(`\\| (?:[a-z0-9]+, )*${id}\\b`));
});

test("the command line's page has the flags of every command", () => {
  const text = pages.get("reference/cli.md") ?? "";
  for (const part of ["## compile", "## run", "## plan", "## doctor", "--library DIR", "--order"])
    expect(text).toContain(part);
});

test("links lead to generated pages or to files of docs/", () => {
  const known = new Set([
    ...pages.keys(),
    ...filesUnder("docs", ".md").map((path) => path.slice("docs/".length)),
  ]);
  const broken: string[] = [];
  for (const [path, text] of pages)
    for (const [, target = ""] of text.replace(/^```.*?^```/gms, "").matchAll(/\]\(([^)#\s]+)\)/g))
      if (!known.has(join(dirname(path), target))) broken.push(`${path}: ${target}`);
  expect(broken).toEqual([]);
});

test("links of docs/ into the generated half lead to pages of it", () => {
  const links = filesUnder("docs", ".md").flatMap((path) =>
    [...readFileSync(join(root, path), "utf8").matchAll(/\]\((reference\/[^)#\s]+)\)/g)].map(
      ([, target = ""]) => target,
    ),
  );
  expect(links.length).toBeGreaterThan(4);
  for (const target of links) expect([...pages.keys()]).toContain(target);
});

test("the site's own pages are there", () => {
  for (const path of [
    "tutorial",
    "add-a-backend",
    "add-an-instruction",
    "add-a-pass",
    "add-a-dtype",
    "architecture",
  ])
    expect(existsSync(join(root, `docs/${path}.md`)), path).toBe(true);
});

test("tables of docs/perf are what the files of runs say; scripts/docs/tables.ts writes them anew", () => {
  for (const name of pagesWithTables) {
    const text = readFileSync(join(root, "docs/perf", name), "utf8");
    expect(withTables(text), name).toBe(text);
  }
  const [size] = runOf("wgmma/defaults").rows;
  expect(withTables("<!-- table wgmma/defaults: µs -->\n| old |\n")).toContain(
    `| µs |\n| --- |\n| ${size?.µs} |`,
  );
  expect(() => withTables("<!-- table wgmma/defaults: nothing -->\n")).toThrow("no column nothing");
});

test("charts are what the tables of docs/perf say; scripts/docs/charts.ts draws them anew", () => {
  for (const [name, chart] of charts())
    expect(readFileSync(join(root, "docs/pictures", name), "utf8"), name).toBe(chart);
});

test("the site's search puts guides before the reference, that before records, and the API last", () => {
  const [guide = 0, reference = 0, record = 0, api = 0] = [
    ["/tune-your-gpu#many-gpus", "/epilogues#steps"],
    ["/reference/schedule/tile#tile", "/errors#_2xxx-schedule", "/hazards/#h009-race"],
    ["/perf/wgmma#power", "/adr/0001-directives#x", "/hazards/corpus#what-differs", "/moving-to-core#x"],
    ["/api/ir/src/functions/printProgram#printprogram", "/api/core/src/#core"],
  ].map((ids) => {
    const weights = new Set(ids.map((id) => weight(id, "tile")));
    expect(weights.size).toBe(1);
    return [...weights][0];
  });
  expect([guide, reference, record, api].toSorted((a, b) => b - a)).toEqual([guide, reference, record, api]);
  // A page that names the word once in its text must not be behind one of the API whose title it is (title boost 4 of vitepress).
  expect(4 * api).toBeLessThan(record);
  // A heading with the word, a page's own first; in the API a name is the page.
  const titled = (id: string, titles: readonly string[]): number =>
    weight(id, "tile", { title: "A Tile", titles });
  expect(titled("/course#x", [])).toBeGreaterThan(titled("/course#x", ["Course"]));
  expect(titled("/course#x", ["Course"])).toBeGreaterThan(guide);
  expect(titled("/api/ir/src/#x", [])).toBe(api);
  expect(guides.length).toBeGreaterThanOrEqual(10);
});

/** Names that a module exports, those of modules that it exports whole among them. */
function exportsOf(path: string): readonly string[] {
  const text = readFileSync(path, "utf8");
  const all = (pattern: RegExp) => [...text.matchAll(pattern)].map(([, found = ""]) => found);
  return [
    ...all(/^export \* from "(.*)";$/gm).flatMap((other) => exportsOf(join(path, "..", other))),
    ...all(/^export (?:type )?\{([^}]*)\}/gm).flatMap((names) => names.match(/\w+/g) ?? []),
    ...all(/^export (?:async )?(?:const|function\*?|class|interface|type) (\w+)/gm),
  ];
}

test("the names that moved to core are exported there, and nowhere else", () => {
  const page = readFileSync(join(root, "docs/moving-to-core.md"), "utf8");
  const of = (name: string) => exportsOf(join(root, `packages/${name}/src/index.ts`));
  const [core, ir] = [new Set(of("core")), new Set(of("ir"))];
  const rows = page.split("\n").filter((line) => line.startsWith("| ") && line.includes("`"));
  const names = rows.flatMap((line) => [...line.matchAll(/`(\w+)`/g)].map(([, name = ""]) => name));
  expect(names.length).toBeGreaterThan(200);
  expect(names.filter((name) => !core.has(name) || ir.has(name))).toEqual([]);
});
