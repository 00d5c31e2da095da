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
    // What a pass leaves as it is is folded, and opens by a click.
    await page.click(".rail button:has-text('declareLaunches')");
    const folded = page.locator(".stages .text .cm-collapsedLines");
    await folded.first().waitFor();
    const before = await folded.count();
    await folded.first().click();
    assert.equal(await folded.count(), before - 1);
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
  await suite.test("what a line of PTX leads to is never folded away", async () => {
    await page.check("text=difference");
    await page.click(".rail button:has-text('declareLaunches')");
    await page.locator(".stages .text .cm-collapsedLines").first().waitFor();
    await page.click(".stages .ptx .cm-line:has-text('mbarrier.init') >> nth=0");
    await page.locator(`${program} .cm-linked`).waitFor();
  });
  await page.close();
  for (const generation of generations) await edits(suite, browser, url, generation);
}

/** Every stage, and the PTX, take an edit, which is a kernel again before a tenth of a second is over. */
async function edits(
  suite: Suite,
  browser: Browser,
  url: string,
  generation: (typeof generations)[number],
): Promise<void> {
  await suite.test(
    `${generation.arch}: an edit of any stage compiles as it is typed, under 100 ms once the compiler is warm`,
    async () => {
      const page = await openPage(browser, `${url}${link(generation)}`);
      await page.uncheck("text=difference");
      // The last step under each heading: the stage as it ends.
      const ends = await page.locator(".rail li").evaluateAll((all) =>
        all.flatMap((item, i) => {
          const next = all[i + 1];
          const ended = next === undefined || next.className !== "";
          return item.className === "" && ended ? [item.querySelector("span")?.textContent ?? ""] : [];
        }),
      );
      assert.ok(ends.length >= 6, ends.join(", "));
      const slow: string[] = [];
      for (const step of ends) {
        await page.click(`.rail button:has(span:text-is('${step}'))`);
        await page.click(program);
        await page.keyboard.press("Control+Home");
        await page.keyboard.press("End");
        const took = await least(100, async () => {
          await page.evaluate((where) => document.querySelector(where)?.replaceChildren(), status);
          await page.keyboard.type(" ");
          await says(page, status, "edited and compiled");
          return millisecondsIn(await text(page, status));
        });
        if (!(took < 100)) slow.push(`${step} took ${Math.round(took)} ms`);
        await page.click("text=Discard edit");
        await says(page, status, "compiled in");
      }
      await page.close();
      assert.deepEqual(slow, []);
    },
  );
}
