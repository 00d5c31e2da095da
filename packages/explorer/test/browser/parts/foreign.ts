/** 6. PTX that the compiler did not write. */
import assert from "node:assert/strict";
import type { Browser } from "playwright-core";
import { openPage, type Suite, says, text } from "../harness.ts";
import { hashOf } from "./shared.ts";

export async function foreign(suite: Suite, browser: Browser, url: string): Promise<void> {
  const page = await openPage(browser, `${url}${hashOf({ tab: "foreign" })}`);
  await suite.test("a kernel with a race is convicted, and acquitted with its barrier", async () => {
    await page.click("text=Example with a race");
    await page.click("text=Judge it");
    await says(page, "#panel-foreign .verdict", "Convicted");
    assert.match(await text(page, "#panel-foreign .findings"), /H009/);
    // Both accesses lead to their lines.
    const race = page.locator("#panel-foreign .findings li:has(strong:text-is('H009'))").first();
    const lines = await race.locator("button.link").allTextContents();
    assert.equal(new Set(lines).size, 2, lines.join(", "));
    await page.click("#panel-foreign .cm-line:has-text('// bar.sync 0;')");
    await page.keyboard.press("Home");
    await page.keyboard.press("Delete");
    await page.keyboard.press("Delete");
    await page.keyboard.press("Delete");
    await page.click("text=Judge it");
    await says(page, "#panel-foreign .verdict", "No hazard");
  });
  await suite.test("the pair of a Triton cache gets a launch file to begin with", async () => {
    const ptx =
      ".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry add(.param .u64 x, .param .u32 n)\n.reqntid 128\n{\n  ret;\n}\n";
    await page.setInputFiles("#panel-foreign input[type=file]", [
      { name: "add.ptx", mimeType: "text/plain", buffer: Buffer.from(ptx) },
      {
        name: "add.json",
        mimeType: "application/json",
        buffer: Buffer.from('{"name":"add","num_warps":4,"shared":1024}'),
      },
    ]);
    await says(page, "#panel-foreign [aria-label='Launch file']", '"dynamicSmem": 1024');
    await page.click("text=Judge it");
    await says(page, "#panel-foreign .verdict", "No hazard");
  });
  await page.close();
}
