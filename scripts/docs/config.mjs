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

/** Contrast of at least 4.5 where vitepress has less: names of languages above code, and the first button. */
const style = `:root { --vp-code-lang-color: var(--vp-c-text-2); --vp-button-brand-bg: var(--vp-c-brand-2); --vp-button-brand-hover-bg: var(--vp-c-brand-1); }
.dark { --vp-button-brand-bg: var(--vp-c-brand-3); --vp-button-brand-hover-bg: var(--vp-c-brand-2); }`;

export default {
  title: "Tilewright",
  description: "GEMM compiler: problem and GPU target in, PTX and launch manifest out",
  cleanUrls: true,
  head: [["style", {}, style]],
  markdown: { theme: { light: "github-light-high-contrast", dark: "github-dark-high-contrast" } },
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
          page("Timed", "/newcomer"),
          page("Support matrix", "/reference/support"),
          page("Command line", "/reference/cli"),
        ],
      },
      {
        text: "How it works",
        items: [
          page("Architecture", "/architecture"),
          page("Tile IR", "/tile-ir"),
          page("Attention", "/attention"),
          page("Gated products", "/gated-products"),
          page("Mixtures of experts", "/experts"),
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
        items: [page("Epilogue", "/reference/epilogue"), page("Manifest", "/reference/manifest")],
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
