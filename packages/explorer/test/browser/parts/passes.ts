/** 2. Every stage, what each pass changed, and texts that are edited. */
import assert from "node:assert/strict";
import type { Browser } from "playwright-core";
import { least, openPage, type Suite, says, status, text } from "../harness.ts";
import { generations, link, millisecondsIn, program, retype } from "./shared.ts";

export async function passes(suite: Suite, browser: Browser, url: string): Promise<void> {
  const page = await openPage(browser, `${url}${link(generations[2])}`);
  await suite.test("every stage is there, with what each pass changed", async () => {
    const rail = await text(page, ".rail");
    for (const stage of ["nest", "staged", "pipelined", "specialised", "bound"])
      assert.match(rail, new RegExp(stage));
    await page.click(".rail button:has-text('pipelineRing')");
    await page.waitForSelector(".stages .text .cm-changedLine");
    assert.match(await text(page, program), /ring %ring/);
  });
  await suite.test("an edit compiles as it is typed, under 100 ms once the compiler is warm", async () => {
    await page.click(".rail button:has-text('pipelineRing')");
    await page.uncheck("text=difference");
    await page.click(program);
    await page.keyboard.press("Control+Home");
    await page.keyboard.press("End");
    const took = await least(100, async () => {
      await page.evaluate((where) => document.querySelector(where)?.replaceChildren(), status);
      await page.keyboard.type(" ");
      await says(page, status, "edited and compiled");
      return millisecondsIn(await text(page, status));
    });
    assert.ok(took < 100, `took ${Math.round(took)} ms`);
  });
  await suite.test("an error stands at its place, and the last kernel stays", async () => {
    await retype(page, (shown) => shown.replace("ring %ring", "rong %ring"));
    await says(page, status, "does not compile");
    await page.waitForSelector(".stages .text .cm-lint-marker, .stages .text .cm-lintRange");
    assert.match(await text(page, ".stages .text .diagnostics"), /TW3/);
    assert.match(await text(page, ".stages .ptx .cm-content"), /\.version/);
    await page.click("text=Discard edit");
    await says(page, status, "compiled in");
  });
  await page.close();
}
