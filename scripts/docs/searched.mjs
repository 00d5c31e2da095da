// What the built site's search answers to what a visitor types: run at the end of `npm run docs`, on the index and options as the browser gets them.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import vm from "node:vm";

/** A query and the page that comes first. @type {readonly (readonly [query: string, page: RegExp])[]} */
export const guides = [
  ["install", /^\/(first-steps|tutorial)#/],
  ["run a kernel", /^\/(first-steps|tutorial|debug-a-kernel)#/],
  ["pytorch", /^\/(for-pytorch|tutorial)#/],
  ["tune", /^\/tune-your-gpu#/],
  ["epilogue bias gelu", /^\/(epilogues|reference\/epilogue)#/],
  ["persistent kernel", /^\/course#/],
  ["how to add a backend", /^\/add-a-backend#/],
  ["mixture of experts", /^\/experts#/],
  ["attention", /^\/attention#/],
  ["int4 weights", /^\/weight-only#/],
  ["AWQ", /^\/weight-only#/],
  ["approximate gelu", /^\/epilogues#/],
  ["race", /^\/(debug-a-kernel|hazards\/)#/],
  ["H009", /^\/hazards\/#h009/],
  ["split-k", /^\/reference\/schedule\//],
];

/** Names of the API, which are typed to find their page. */
const names = ["printProgram", "parseEpilogue", "createCompiler", "findTarget", "occupancy", "parseModule"];

/** As many as the site shows. */
const SHOWN = 16;

/** The search of a built site. @param {string} dist @param {string} tools folder of node_modules that the site was built with */
async function searchOf(dist, tools) {
  const { default: MiniSearch } = await import(
    pathToFileURL(join(tools, "minisearch/dist/es/index.js")).href
  );
  const chunks = join(dist, "assets/chunks");
  const file = readdirSync(chunks).find((name) => name.startsWith("@localSearchIndex")) ?? "";
  const { default: index } = await import(pathToFileURL(join(chunks, file)).href);
  // The site's data stands in each page as a script.
  const [, script = ""] =
    /<script[^>]*>(window\.__VP_HASH_MAP__=.*?)<\/script>/s.exec(
      readFileSync(join(dist, "index.html"), "utf8"),
    ) ?? [];
  /** @type {{ __VP_SITE_DATA__?: any }} */
  const window = {};
  vm.runInNewContext(script, { window });
  const { searchOptions, options } = window.__VP_SITE_DATA__.themeConfig.search.options.miniSearch;
  // Those of vitepress, with the site's over them.
  return MiniSearch.loadJSON(index, {
    fields: ["title", "titles", "text"],
    storeFields: ["title", "titles"],
    searchOptions: { fuzzy: 0.2, prefix: true, boost: { title: 4, text: 2, titles: 1 }, ...searchOptions },
    ...options,
  });
}

/** @param {string} id */
const isApi = (id) => /^\/?api\//.test(id);

/** What is wrong with the answers of the built site; nothing where each guide comes first and each name of the API is found. @param {string} dist @param {string} tools */
export async function wrongAnswers(dist, tools) {
  const search = await searchOf(dist, tools);
  /** @param {string} query @returns {readonly string[]} */
  const answers = (query) =>
    search
      .search(query)
      .slice(0, SHOWN)
      .map((/** @type {{ id: string }} */ { id }) => id);
  const first = guides.flatMap(([query, page]) => {
    const [found = "nothing"] = answers(query);
    return page.test(found) ? [] : [`'${query}' leads to ${found}`];
  });
  const order = [...guides.map(([query]) => query), ...names].flatMap((query) => {
    const found = answers(query);
    const api = found.findIndex(isApi);
    const behind = api < 0 ? undefined : found.slice(api).find((id) => !isApi(id));
    return behind === undefined ? [] : [`'${query}' has ${found[api]} before ${behind}`];
  });
  const lost = names.flatMap((name) =>
    answers(name).some((id) => isApi(id) && id.includes(`/${name}#`))
      ? []
      : [`'${name}' does not find its page`],
  );
  return [...first, ...order, ...lost];
}
