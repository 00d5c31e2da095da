// Configuration of the site; copied into the folder that build.mjs makes.

import { existsSync, readdirSync } from "node:fs";
import { search } from "./search.mjs";

/** @param {string} folder */
const under = (folder) =>
  readdirSync(folder)
    .filter((name) => name.endsWith(".md") && name !== "index.md" && name !== "README.md")
    .sort()
    .map((name) => ({ text: name.replace(".md", ""), link: `/${folder}/${name.replace(".md", "")}` }));

/** @param {string} text @param {string} link */
const page = (text, link) => ({ text, link });

/** Contrast of at least 4.5 where vitepress has less: names of languages above code, and the first button. The search button's keys are drawn by the
 * style alone, so that what is read aloud is what it is called. Commands wrap. Charts keep a size at which they can be read: phones get
 * narrow ones, or scroll; the front page's picture is as large as its column. */
const style = `:root { --vp-code-lang-color: var(--vp-c-text-2); --vp-button-brand-bg: var(--vp-c-brand-2); --vp-button-brand-hover-bg: var(--vp-c-brand-1); }
.dark { --vp-button-brand-bg: var(--vp-c-brand-3); --vp-button-brand-hover-bg: var(--vp-c-brand-2); }
.DocSearch-Button .DocSearch-Button-Key:last-child { display: none; } .DocSearch-Button .DocSearch-Button-Key:first-child { border-right: 1px solid var(--vp-c-divider) !important; border-radius: 4px; padding-right: 6px; }
.DocSearch-Button .DocSearch-Button-Key:first-child:after { content: "Ctrl K" !important; } .mac .DocSearch-Button .DocSearch-Button-Key:first-child:after { content: "\\2318 K" !important; }
.vp-doc .language-sh code { width: auto; white-space: pre-wrap; overflow-wrap: anywhere; }
.chart { display: block; overflow-x: auto; } .chart img { min-width: 640px; } @media (max-width: 640px) { .chart source + img { min-width: 0; width: 100%; } }
.VPHero .image { order: 3; margin: 24px 0 0; } .VPHero .image-container { width: 100%; height: auto; transform: none; } .VPHero .image-src { position: static; max-width: 100%; max-height: none; transform: none; }
@media (min-width: 960px) { .VPHero .image { align-self: center; margin: 0; width: 46%; } .VPHero .main { width: 54% !important; } .VPHero .heading { font-size: 44px; line-height: 52px; } .VPHero .tagline { font-size: 20px !important; line-height: 30px !important; } }`;

/** Colours of tile programs: the statement a line begins with, names, numbers, dtypes. */
const tile = {
  name: "tile",
  scopeName: "source.tile",
  aliases: ["program"],
  patterns: [
    { match: "//.*$", name: "comment" },
    { match: "^\\s*[a-z][\\w.]*", name: "keyword" },
    { match: "[%@][A-Za-z_]\\w*", name: "variable" },
    { match: "\\b(?:bf16|tf32|[fsu]\\d+|e\\dm\\d)\\b", name: "support.type" },
    { match: "\\b\\d+\\b", name: "constant.numeric" },
  ],
};

/** Colours of PTX: directives, what an instruction begins with, registers, numbers. */
const ptx = {
  name: "ptx",
  scopeName: "source.ptx",
  patterns: [
    { match: "//.*$", name: "comment" },
    { match: "%[A-Za-z_$][\\w$]*(?:\\.[xyzw])?", name: "variable" },
    {
      match: "^\\s*(@!?%\\w+)?\\s*([a-z][\\w.:]*)",
      captures: { 1: { name: "variable" }, 2: { name: "keyword" } },
    },
    { match: "^\\s*\\.[a-z]\\w*", name: "support.type" },
    { match: "\\b(?:0x[0-9a-fA-F]+|0[fdFD][0-9a-fA-F]+|\\d+)\\b", name: "constant.numeric" },
  ],
};

/**
 * @typedef {{ content: string, attrGet: (name: string) => string | null }} Token of markdown-it
 * @typedef {(tokens: Token[], at: number, ...rest: unknown[]) => string} Rule
 */

/** A chart scrolls by keys where it is wider than its column; phones get the narrow one where there is one. @param {{ renderer: { rules: { image: Rule } }, utils: { escapeHtml: (text: string) => string } }} md */
function scrollCharts({ renderer: { rules }, utils }) {
  const image = rules.image;
  rules.image = (tokens, at, ...rest) => {
    const made = image(tokens, at, ...rest);
    const token = tokens[at];
    const src = token?.attrGet("src") ?? "";
    if (token === undefined || !src.endsWith(".svg")) return made;
    const narrow = src.replace(".svg", "-narrow.svg");
    const shown = existsSync(new URL(`../pictures/${narrow.split("/").at(-1)}`, import.meta.url))
      ? `<picture><source media="(max-width: 640px)" srcset="${utils.escapeHtml(narrow)}">${made}</picture>`
      : made;
    return `<span class="chart" role="group" aria-label="${utils.escapeHtml(token.content)}" tabindex="0">${shown}</span>`;
  };
}

/** The theme's search as a dialog with a combobox whose options are the links themselves: the theme has a button around all of it, and links within options. */
const searchRoles = /** @type {const} */ ([
  [
    /role="button"\s+:aria-owns="[^"]*"\s+aria-expanded="true"\s+aria-haspopup="listbox"/,
    'role="dialog" aria-modal="true"',
  ],
  [
    /aria-autocomplete="both"/,
    'role="combobox" aria-autocomplete="list" :aria-expanded="results?.length > 0"',
  ],
  [/:id="'localsearch-item-' \+ index"\s+:aria-selected="[^"]*"\s+role="option"/, 'role="presentation"'],
  [
    /:aria-label="\[\.\.\.p\.titles, p\.title\][^"]*"/,
    `:id="'localsearch-item-' + index" :aria-selected="selectedIndex === index" role="option"`,
  ],
  [/<kbd :aria-label/g, '<kbd role="img" :aria-label'],
]);

const accessibleSearch = {
  name: "accessible-search",
  /** @type {"pre"} */
  enforce: "pre",
  /** @param {string} code @param {string} id */
  transform(code, id) {
    if (!id.endsWith("/VPLocalSearchBox.vue")) return undefined;
    return searchRoles.reduce((text, [of, to]) => {
      if (!of.test(text))
        throw new Error(`the theme's search has no ${of}: see whether it is accessible by itself`);
      return text.replace(of, to);
    }, code);
  },
};

export default {
  title: "Tilewright",
  description: "GEMM compiler: problem and GPU target in, PTX and launch manifest out",
  cleanUrls: true,
  vite: { plugins: [accessibleSearch] },
  head: [
    ["style", {}, style],
    ["link", { rel: "icon", href: "data:," }],
  ],
  markdown: {
    theme: { light: "github-light-high-contrast", dark: "github-dark-high-contrast" },
    languages: [tile, ptx],
    config: scrollCharts,
  },
  themeConfig: {
    search,
    nav: [
      { text: "Explorer", link: "/explorer/index.html", target: "_self" },
      page("Course", "/course"),
      page("Tutorial", "/tutorial"),
      page("Command line", "/reference/cli"),
      page("API", "/api/"),
    ],
    sidebar: [
      {
        text: "Start",
        items: [
          page("First steps", "/first-steps"),
          page("Tutorial", "/tutorial"),
          page("Course", "/course"),
          page("For PyTorch users", "/for-pytorch"),
          page("For kernel debuggers", "/debug-a-kernel"),
          page("For compiler authors", "/for-compiler-authors"),
          page("Tune your GPU", "/tune-your-gpu"),
          page("Newcomer's path, timed", "/newcomer"),
          page("Support matrix", "/reference/support"),
          page("Command line", "/reference/cli"),
        ],
      },
      {
        text: "Operations",
        items: [
          page("Epilogues", "/epilogues"),
          page("Gated products", "/gated-products"),
          page("Attention", "/attention"),
          page("Mixtures of experts", "/experts"),
          page("Weights in few bits", "/weight-only"),
        ],
      },
      {
        text: "How it works",
        items: [
          page("Architecture", "/architecture"),
          page("Tile IR", "/tile-ir"),
          page("Measuring", "/measuring"),
          page("Glossary", "/glossary"),
          page("Decisions", "/adr/"),
        ],
      },
      { text: "Passes", link: "/reference/passes/", collapsed: true, items: under("reference/passes") },
      {
        text: "Schedule fields",
        link: "/reference/schedule/",
        collapsed: true,
        items: under("reference/schedule"),
      },
      {
        text: "Reference",
        items: [page("Epilogue steps", "/reference/epilogue"), page("Manifest", "/reference/manifest")],
      },
      { text: "When something is wrong", items: [page("Errors", "/errors"), page("Hazards", "/hazards/")] },
      { text: "Measurements", link: "/perf/", collapsed: true, items: under("perf") },
      {
        text: "Add",
        items: [
          page("a backend", "/add-a-backend"),
          page("an instruction", "/add-an-instruction"),
          page("a pass", "/add-a-pass"),
          page("a dtype", "/add-a-dtype"),
        ],
      },
      {
        text: "Packages",
        items: [
          page("Sizes", "/packages"),
          ...(existsSync("api")
            ? [
                page("API", "/api/"),
                ...readdirSync("api", { withFileTypes: true })
                  .filter((entry) => entry.isDirectory())
                  .map(({ name }) =>
                    page(name === "cli" ? "tilewright" : `@tilewright/${name}`, `/api/${name}/src/`),
                  ),
              ]
            : []),
        ],
      },
    ],
  },
};
