/** 7. Addresses that hold what is shown, and what can be kept as files. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { openPage, type Suite, says, status, text } from "../harness.ts";
import { generations, link, retype, root } from "./shared.ts";

export async function permalinks(suite: Suite, browser: Browser, url: string): Promise<void> {
  await suite.test("request, schedule, edit and view come back", async () => {
    const page = await openPage(browser, `${url}${link(generations[1], { schedule: "stages=3" })}`);
    await page.click(".rail button:has-text('stageOperands')");
    await retype(page, (shown) => shown.replace(/\n\}\s*$/, "\n}\n\n\n"));
    await says(page, status, "edited and compiled");
    await page.waitForFunction(() => location.hash.includes("edited=stageOperands"));
    const address = page.url();
    const shown = await text(page, ".stages .ptx .cm-content");
    await page.close();
    const again = await openPage(browser, address);
    await says(again, status, "edited and compiled");
    assert.equal(await text(again, ".stages .ptx .cm-content"), shown);
    assert.match(await text(again, ".rail button[aria-current]"), /stageOperands/);
    await again.close();
  });
  await suite.test("an edit stays for another GPU, of the schedule that it was made of", async () => {
    const page = await openPage(browser, `${url}${link(generations[2])}`);
    const chosen = await text(page, ".chosen code");
    await page.click(".rail button:has-text('stageOperands')");
    await retype(page, (shown) => shown.replace(/\n\}\s*$/, "\n}\n\n\n"));
    await says(page, status, "edited and compiled");
    const shown = await text(page, ".stages .ptx .cm-content");
    await page.selectOption("label:has-text('GPU') select", "H200");
    await page.waitForFunction(() => /gpu=H200.*schedule=.*edited=stageOperands/.test(location.hash));
    await says(page, status, "edited and compiled");
    assert.equal(await text(page, ".stages .ptx .cm-content"), shown);
    await page.click("text=Discard edit");
    await says(page, status, "compiled in");
    assert.equal(await text(page, ".chosen code"), chosen);
    await page.close();
  });
  await suite.test("each section of the course opens at its kernel", async () => {
    const course = readFileSync(join(root, "docs/course.md"), "utf8");
    const sections = course.split(/^## /m).slice(1);
    assert.ok(sections.length >= 6);
    for (const section of sections.filter((one) => /^\d/.test(one))) {
      const links = [...section.matchAll(/href="\.\/explorer\/index\.html(#[^"]*)"/g)].map(
        ([, hash = ""]) => hash,
      );
      assert.ok(links.length > 0, `no link in ${section.split("\n")[0]}`);
      for (const hash of links) {
        const page = await openPage(browser, `${url}${hash}`);
        const wanted = new URLSearchParams(hash.slice(1));
        assert.match(await text(page, ".stages .text .status"), /^compiled (in|when)/);
        assert.match(
          await text(page, ".stages .ptx .cm-content"),
          new RegExp(`\\.target ${wanted.get("arch")}`),
        );
        const ladder = wanted.get("ladder");
        if (ladder !== null) {
          await says(page, ".story h2", "1 of");
          assert.ok(
            (await page.locator("[aria-label=Ladder] option:checked").textContent())?.includes(
              `, ${ladder} (`,
            ),
          );
        }
        const step = wanted.get("step");
        if (step !== null) assert.match(await text(page, ".rail button[aria-current]"), new RegExp(step));
        const schedule = wanted.get("schedule");
        for (const field of schedule?.split(" ") ?? [])
          assert.ok((await text(page, ".chosen code")).includes(field), field);
        await page.close();
      }
    }
  });
  await suite.test("what pages of operations open is a kernel", async () => {
    for (const name of ["attention", "epilogues", "gated-products", "weight-only"]) {
      const text = readFileSync(join(root, `docs/${name}.md`), "utf8");
      const links = [...text.matchAll(/href="\.\/explorer\/index\.html(#[^"]*)"/g)];
      assert.ok(links.length > 0, name);
      for (const [, hash = ""] of links) {
        const page = await openPage(browser, `${url}${hash}`);
        assert.equal(await page.locator("#request .diagnostics li").count(), 0, hash);
        await says(page, ".stages .text .status", "compiled in");
        await page.close();
      }
    }
  });
  await suite.test("the kernel, its manifest and a picture can be kept", async () => {
    const page = await openPage(browser, `${url}${link(generations[0], { tab: "pictures" })}`);
    await page.waitForSelector("#panel-pictures svg.chart");
    for (const [choose, name] of [
      [() => page.selectOption("[aria-label=Download]", "ptx"), /\.ptx$/],
      [() => page.selectOption("[aria-label=Download]", "manifest"), /\.gemm\.json$/],
      [() => page.click("figure button:has-text('SVG') >> nth=0"), /\.svg$/],
    ] as const) {
      const [download] = await Promise.all([page.waitForEvent("download"), choose()]);
      assert.match(download.suggestedFilename(), name);
      if (!download.suggestedFilename().endsWith(".svg")) continue;
      // It is a picture without the page, in the page's colours.
      const svg = readFileSync(await download.path(), "utf8");
      assert.doesNotMatch(svg, /class=|var\(/);
      const wide = await page.evaluate(async (source) => {
        const image = new Image();
        image.src = `data:image/svg+xml;base64,${btoa(unescape(encodeURIComponent(source)))}`;
        await image.decode();
        return image.naturalWidth;
      }, svg);
      assert.ok(wide > 100);
    }
    await page.close();
  });
}
