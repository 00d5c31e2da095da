/** 5. Pictures: of every generation, of every atom. */
import assert from "node:assert/strict";
import type { Browser } from "playwright-core";
import { openPage, type Suite, text } from "../harness.ts";
import { generations, link } from "./shared.ts";

export async function pictures(suite: Suite, browser: Browser, url: string): Promise<void> {
  for (const generation of generations)
    await suite.test(`${generation.arch}: roofline, order of tiles, fragments`, async () => {
      const page = await openPage(browser, `${url}${link(generation, { tab: "pictures" })}`);
      await page.waitForSelector("#panel-pictures svg.chart");
      const heads = (await page.locator("#panel-pictures h3").allTextContents()).join("\n");
      assert.match(heads, /Roofline of/);
      assert.match(heads, /Order of the tiles/);
      assert.match(heads, /Fragments/);
      assert.match(heads, /Waves/);
      // Some access meets fewer banks twice for its layout, but on CUDA cores, where the plain one is as good.
      const maps = page.locator("[aria-label='Access of shared memory'] option");
      const gained: boolean[] = [];
      for (const label of await maps.allTextContents()) {
        await page.selectOption("[aria-label='Access of shared memory']", { label });
        const said = await page.getAttribute("svg[aria-label^='Lanes by banks']", "aria-label");
        const [before, after] = [...(said ?? "").matchAll(/(\d+)/g)].map(([count]) => Number(count));
        gained.push((before ?? 0) > (after ?? 0));
      }
      assert.ok(gained.length > 0);
      if (generation.backend !== "simt") assert.ok(gained.includes(true), generation.arch);
      assert.equal(/Tensor memory/.test(heads), generation.backend === "tcgen05");
      // Every matrix instruction of the architecture, and the kernel's own tiles, each drawn without a gap.
      const atoms = await page.locator("[aria-label='Fragment'] option").allTextContents();
      const own = {
        sm_70: /%\w+ of this kernel/,
        sm_80: /m16n8k16/,
        sm_90a: /wgmma m64/,
        sm_100a: /tcgen05\.mma .*one CTA/,
      };
      assert.ok(
        atoms.some((name) => own[generation.arch].test(name)),
        atoms.join("\n"),
      );
      for (const label of atoms) {
        await page.selectOption("[aria-label='Fragment']", { label });
        const cells = page.locator("figure:has(h3:has-text('Fragments')) svg rect");
        assert.ok((await cells.count()) >= (label.startsWith("%") ? 1 : 32), label);
        assert.equal(
          await page.locator("figure:has(h3:has-text('Fragments')) svg rect[fill=none]").count(),
          0,
          label,
        );
      }
      await page.close();
    });
  await suite.test("banks with and without the chosen layout; a thread alone; the next tiles", async () => {
    const page = await openPage(browser, `${url}${link(generations[1], { tab: "pictures" })}`);
    await page.waitForSelector("svg[aria-label^='Lanes by banks']");
    const before = await page.locator("figure:has(h3:has-text('Fragments')) svg").screenshot();
    await page.fill("[aria-label^='Thread to show alone']", "5");
    const after = await page.locator("figure:has(h3:has-text('Fragments')) svg").screenshot();
    assert.ok(!before.equals(after));
    await page.focus("[aria-label='Tiles that have been started']");
    const said = await text(page, "figure:has(h3:has-text('Order')) [aria-live]");
    await page.keyboard.press("Home");
    assert.notEqual(await text(page, "figure:has(h3:has-text('Order')) [aria-live]"), said);
    await page.close();
  });
  await measurements(suite, browser, url);
}

async function measurements(suite: Suite, browser: Browser, url: string): Promise<void> {
  await suite.test("stored measurements stand in the roofline of the GPU that they are of", async () => {
    const size = { m: "4096", n: "4096", k: "4096" };
    const page = await openPage(browser, `${url}${link(generations[2], { tab: "pictures", ...size })}`);
    await page.click("text=show H200");
    await page.waitForSelector(".point.measured");
    assert.match(await text(page, ".point.measured"), /measured 776/);
    assert.ok((await page.locator(".point.other").count()) > 20);
    // Of another request than the one that was timed nothing stands there.
    await page.fill("label:has-text('Epilogue') input", "relu(acc)");
    await page.waitForSelector("text=No measurements are stored of this request.");
    assert.equal(await page.locator(".point.measured, .point.other").count(), 0);
    await page.close();
  });
}
