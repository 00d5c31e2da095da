/** 3. Lines of the program, of the PTX and of SASS that belong together. */
import assert from "node:assert/strict";
import type { Browser } from "playwright-core";
import { openPage, type Suite, says, serveWithSass, status, text } from "../harness.ts";
import { generations, link, program } from "./shared.ts";

export async function linked(suite: Suite, browser: Browser, url: string): Promise<void> {
  const page = await openPage(browser, `${url}${link(generations[2])}`);
  await suite.test("a statement marks the PTX that was made of it, and the other way round", async () => {
    await page.uncheck("text=difference");
    await page.click(`${program} .cm-line:has-text('copy %sA')`);
    await page.waitForSelector(".stages .ptx .cm-linked");
    const marked = await page.locator(".stages .ptx .cm-linked").allTextContents();
    assert.ok(
      marked.some((line) => line.includes("cp.async.bulk.tensor")),
      marked.join("\n"),
    );
    await page.click(".stages .ptx .cm-line.cm-linked");
    assert.match(await text(page, `${program} .cm-linked`), /copy %sA/);
    assert.match(await text(page, ".counted"), /^Line \d+: \d+ instructions? \(.*cp \d+.*new registers/);
  });
  await suite.test("a program that cannot be compiled from is read only, and says so", async () => {
    await page.click(".rail button:has-text('expandRings')");
    await says(page, ".stages .text > .hint", "Read only");
    const before = await text(page, status);
    await page.click(program);
    await page.keyboard.type("x");
    assert.equal(await text(page, status), before);
    assert.equal(await page.locator(".stages .text .cm-plants span:visible").count(), 0);
    await page.click(".rail button:has-text('declareLaunches')");
    await page.waitForFunction(
      () => !document.querySelector(".stages .text > .hint")?.textContent?.includes("Read only"),
    );
  });
  await page.close();
  await suite.test("SASS stands beside the PTX where the local command has a disassembler", async () => {
    const without = await openPage(browser, url);
    assert.equal(await without.locator(".stages .sass").count(), 0);
    await without.close();
    const { url: local, end } = await serveWithSass();
    try {
      const shown = await openPage(browser, `${local}${link(generations[2])}`);
      await says(shown, ".stages .sass .hint", "instructions");
      await shown.uncheck("text=difference");
      await shown.click(`${program} .cm-line:has-text('copy %sA')`);
      await shown.waitForSelector(".stages .sass .cm-linked");
      const marked = await shown.locator(".stages .sass .cm-linked").allTextContents();
      assert.ok(
        marked.some((line) => line.includes("CP.ASYNC.BULK.TENSOR")),
        marked.join("\n"),
      );
      // The fake makes one of each instruction of PTX.
      assert.match(await text(shown, ".counted"), /: (\d+) instructions .*; \1 of SASS$/);
      const of = await text(shown, ".counted");
      // Where the cursor stands already, at the first line, a click says nothing new.
      await shown.click(".stages .sass .cm-line:not(.cm-linked):has-text('EXPECT_TX')");
      await shown.waitForFunction((before) => document.querySelector(".counted")?.textContent !== before, of);
      await shown.close();
    } finally {
      end();
    }
  });
}
