/**
 * The built site in headless Chromium: axe finds nothing serious on a page of each kind, light and dark, and no page is wider than a phone.
 *   node packages/explorer/test/browser/site.ts FOLDER [SCREENSHOTS]
 * Run by scripts/docs.mjs. Prints what is wrong and ends with 1; without a Chromium nothing is looked at, and a note says so.
 */
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { seriousIn } from "./axe.ts";
import { findChromium, launch, serveDist, type View } from "./harness.ts";

/** A page of each kind; those that are not built (`--no-api`) are left out. */
const pages = [
  "index",
  "course",
  "perf/index",
  "reference/schedule/tile",
  "api/index",
  "api/core/src/functions/defineProblem",
];

const views: readonly View[] = [
  { width: 1600, height: 1000, scheme: "light" },
  { width: 1024, height: 768, scheme: "dark" },
  { width: 390, height: 844, scheme: "light" },
];

/** What axe finds of the search as it stands open, with answers; and what is wrong where it has none. */
async function searchFaults(page: Page): Promise<readonly string[]> {
  await page.keyboard.press("Control+k");
  await page.waitForSelector(".VPLocalSearchBox input");
  await page.keyboard.type("attention");
  await page.waitForSelector(".VPLocalSearchBox .result");
  const found = await seriousIn(page);
  await page.keyboard.press("Escape");
  return found;
}

async function main(folder: string, screenshots: string | undefined): Promise<void> {
  const chromium = findChromium();
  if (chromium === null) {
    console.log("no Chromium by CHROME_PATH or on the PATH: the site was not looked at");
    return;
  }
  const { url, server } = await serveDist(folder);
  const browser = await launch(chromium);
  const wrong: string[] = [];
  try {
    for (const name of pages.filter((page) => existsSync(join(folder, `${page}.html`))))
      for (const { width, height, scheme } of views) {
        const shown = await browser.newPage({ viewport: { width, height }, colorScheme: scheme });
        const what = `${name}, ${width} px, ${scheme}`;
        shown.on("pageerror", ({ message }) => wrong.push(`${what}: ${message}`));
        await shown.goto(`${url}${name.replace(/index$/, "")}`);
        // Its scripts have run: the switch between light and dark has its name of them.
        await shown.waitForSelector(".VPSwitchAppearance[title]:not([title=''])", { state: "attached" });
        for (const one of await seriousIn(shown)) wrong.push(`${what}: ${one}`);
        const wide = await shown.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        if (wide > 0) wrong.push(`${what}: ${wide} px wider than the window`);
        if (screenshots !== undefined) {
          mkdirSync(screenshots, { recursive: true });
          const file = `${name.replaceAll("/", "-")}-${width}-${scheme}.png`;
          await shown.screenshot({ path: join(screenshots, file) });
        }
        if (name === "index")
          for (const one of await searchFaults(shown)) wrong.push(`${what}, search: ${one}`);
        await shown.close();
      }
  } finally {
    await browser.close();
    server.close();
  }
  for (const one of wrong) console.log(one);
  process.exitCode = wrong.length > 0 ? 1 : 0;
}

const [folder, screenshots] = process.argv.slice(2);
if (folder === undefined) throw new TypeError("the folder of the built site is asked for");
await main(folder, screenshots);
