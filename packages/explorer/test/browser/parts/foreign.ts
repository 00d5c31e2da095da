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
  await suite.test("the pair of a Triton cache, dropped, gets a launch file to begin with", async () => {
    const ptx =
      ".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry add(.param .u64 x, .param .u32 n)\n.reqntid 128\n{\n  ret;\n}\n";
    await page.evaluate((text) => {
      const dropped = new DataTransfer();
      dropped.items.add(new File([text], "add.ptx", { type: "text/plain" }));
      const metadata = '{"name":"add","num_warps":4,"shared":1024}';
      dropped.items.add(new File([metadata], "add.json", { type: "application/json" }));
      const event = new DragEvent("drop", { dataTransfer: dropped, bubbles: true, cancelable: true });
      document.querySelector("#panel-foreign .drop")?.dispatchEvent(event);
    }, ptx);
    await says(page, "#panel-foreign [aria-label='Launch file']", '"dynamicSmem": 1024');
    await page.click("text=Judge it");
    await says(page, "#panel-foreign .verdict", "No hazard");
  });
  await suite.test("a PTX file and its launch file are chosen and judged", async () => {
    const kernel =
      ".version 8.4\n.target sm_80\n.address_size 64\n.visible .entry f(.param .u64 out)\n{\n  .reg .b32 %r1;\n  .reg .b64 %d1;\n  ld.param.u64 %d1, [out];\n  mov.u32 %r1, 7;\n  st.global.u32 [%d1+4], %r1;\n  ret;\n}\n";
    const launch = {
      ...{ entry: "f", grid: 1, block: 1, params: [{ buffer: "out" }] },
      buffers: { out: { dtype: "u32", shape: [1], fill: "zeros" } },
    };
    await page.setInputFiles("#panel-foreign input[type=file]", [
      { name: "f.ptx", mimeType: "text/plain", buffer: Buffer.from(kernel) },
      { name: "f.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify(launch)) },
    ]);
    await says(page, "#panel-foreign [aria-label='Launch file']", '"entry":"f"');
    await page.click("text=Judge it");
    await says(page, "#panel-foreign .verdict", "Convicted");
  });
  await page.close();
}
