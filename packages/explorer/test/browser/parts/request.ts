/** 1. The request: its form, its schedule with the reasons why not, and what else there is to choose. */
import assert from "node:assert/strict";
import type { Browser } from "playwright-core";
import { openPage, type Suite, says, text } from "../harness.ts";
import { generations, hashOf } from "./shared.ts";

export async function request(suite: Suite, browser: Browser, url: string): Promise<void> {
  const page = await openPage(browser, url);
  for (const generation of generations)
    await suite.test(`${generation.arch} by its form`, async () => {
      await page.selectOption("label:has-text('Architecture') select", generation.arch);
      await page.selectOption("label:has-text('A, B dtype') select", generation.dtype);
      await says(page, ".chosen strong", generation.backend);
      assert.match(await text(page, ".stages .ptx .cm-content"), new RegExp(`\\.target ${generation.arch}`));
    });
  await suite.test("an example", async () => {
    await page.selectOption("label:has-text('Example') select", { label: "Linear layer: gelu(A.B + bias)" });
    await says(page, ".chosen strong", "mma");
    assert.equal(await page.inputValue("label:has-text('Epilogue') input"), "bias(n,f16)|gelu");
  });
  await suite.test("every example is a kernel", async () => {
    const example = page.locator("label:has-text('Example') select");
    const labels = await example.locator("option").allTextContents();
    assert.ok(labels.length > 10);
    for (const label of labels.slice(1)) {
      const before = await text(page, ".chosen");
      await example.selectOption({ label });
      await page.waitForFunction((said) => document.querySelector(".chosen")?.textContent !== said, before);
      assert.equal(await page.locator("#request .diagnostics li").count(), 0, label);
    }
  });
  await suite.test("attention by its form, with the program that it stands for", async () => {
    await page.selectOption("label:has-text('Operation') select", { label: "attention" });
    await page.fill("label:has-text('keys') input", "320");
    await says(page, ".stages .ptx .cm-content", "k320");
    await page.click(".rail button:has-text('program')");
    await says(page, ".stages .text .cm-content", "axis s = 320");
    await page.selectOption("label:has-text('Operation') select", { label: "matrix product" });
    await says(page, ".stages .ptx .cm-content", "gemm_");
  });
  await suite.test(
    "an illegal schedule has every reason, and the nearest legal one is a click away",
    async () => {
      await page.click("[aria-label^='Schedule; empty']");
      await page.keyboard.insertText("tile=48x40x24 warp=16x24");
      await page.waitForSelector("#request .diagnostics li");
      await says(page, "#request .diagnostics", "nearest legal schedule");
      assert.ok((await page.locator("#request .diagnostics li").count()) >= 2);
      await page.click("text=take it");
      await page.waitForFunction(() => document.querySelectorAll("#request .diagnostics li").length === 0);
    },
  );
  await suite.test("fields complete as one types", async () => {
    await page.click("text=Compiler's choice");
    await page.click("[aria-label^='Schedule; empty']");
    await page.keyboard.press("Control+a");
    await page.keyboard.type("sta");
    await page.waitForSelector(".cm-tooltip-autocomplete li");
    assert.match(await text(page, ".cm-tooltip-autocomplete"), /stages/);
    await page.keyboard.press("Escape");
    await page.click("text=Compiler's choice");
  });
  await suite.test("other schedules are listed with what each costs", async () => {
    await page.click("text=Other schedules");
    await page.waitForSelector(".choices tbody tr");
    const rows = await page
      .locator(".choices tbody tr")
      .evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent ?? "")));
    assert.ok(rows.length > 1);
    assert.equal(rows.filter((cells) => cells[4] === "taken").length, 1);
    for (const cells of rows) {
      assert.match(
        cells[4] ?? "",
        /^taken$|^[\w ]+ -?[\d.]+ us for -?[\d.]+$|^[\d.]+ us faster, less than the model's error$|no part of it is slower|ranked behind/,
      );
      // A schedule that is legal launches.
      assert.match(cells[6] ?? "", /^[1-9]\d*$/);
    }
    assert.match((await page.getAttribute(".choices svg.cost", "aria-label")) ?? "", /launch [\d.,]+ µs/);
    const tall = await page
      .locator(".choices tbody td:nth-child(5)")
      .evaluateAll((cells) => Math.max(...cells.map((cell) => cell.getBoundingClientRect().height)));
    assert.ok(tall < 60, `a reason takes ${tall} px`);
    const [, second] = rows.map((cells) => cells[0] ?? "");
    await page.click(".choices button:has-text('take') >> nth=1");
    await says(page, ".chosen strong", second ?? "");
    await page.click("text=Compiler's choice");
    // 256 x 176 tiles of three warpgroups: more registers are counted than the block launches with.
    await page.goto(
      `${url}${hashOf({ tab: "choices", arch: "sm_90a", gpu: "H200", m: "4096", n: "4096", k: "4096", dtype: "bf16", b: '{"layout":"col"}' })}`,
    );
    await page.waitForFunction(() =>
      document.querySelector(".choices tbody")?.textContent?.includes("tile=256x"),
    );
    for (const cell of await page.locator(".choices tbody td:nth-child(7)").allTextContents())
      assert.match(cell, /^[1-9]\d*$/);
  });
  await suite.test("attention's other schedules on wgmma are listed, and one is taken", async () => {
    const attention = { op: "attention", queries: "1024", keys: "1024", headDim: "128", heads: "16" };
    const hash = hashOf({ tab: "choices", arch: "sm_90a", gpu: "H200", ...attention, dtype: "bf16" });
    await page.goto(`${url}${hash}`);
    const ofBackend = page.locator(".choices tbody tr:has(td:text-is('wgmma'))");
    await ofBackend.nth(2).waitFor();
    assert.equal(await page.locator(".choices td strong:text-is('taken')").count(), 1);
    const other = ofBackend.filter({ hasNot: page.locator("strong") }).first();
    await other.locator("button").click();
    await page.waitForFunction(() => location.hash.includes("schedule="));
    await says(page, ".chosen strong", "wgmma");
    assert.equal(await page.locator("#request .diagnostics li").count(), 0);
  });
  await page.close();
}
