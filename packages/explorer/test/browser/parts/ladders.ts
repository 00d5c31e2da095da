/** 8. Ladders step by step. */
import assert from "node:assert/strict";
import type { Browser } from "playwright-core";
import { openPage, type Suite, says, text } from "../harness.ts";
import { generations, hashOf } from "./shared.ts";

const attention = {
  ...{ arch: "sm_90a", op: "attention", queries: "64", keys: "128", headDim: "64" },
  ...{ heads: "2", dtype: "bf16", causal: "true" },
};

export async function ladders(suite: Suite, browser: Browser, url: string): Promise<void> {
  const page = await openPage(browser, `${url}${hashOf({ tab: "ladders" })}`);
  await suite.test("a ladder goes step by step, each with what it changed", async () => {
    await says(page, ".story h2", "1 of");
    const first = await text(page, ".story");
    await page.click("text=Next step");
    await says(page, ".story h2", "2 of");
    // Its picture and what it was worth on a GPU.
    assert.match(
      await text(page, ".story"),
      /On a GPU.*This step: [\d.]+ µs.*NVIDIA H200.*Predicted.*By the machine model/s,
    );
    assert.match(await text(page, ".changed"), /Shared memory.*lines of PTX/s);
    assert.equal(await page.locator(".story rect.shown").count(), 2);
    assert.notEqual(await text(page, ".story"), first);
    await page.waitForSelector(".ladder .cm-changedLine");
  });
  await suite.test("every ladder of every generation predicts each step's time and counts it", async () => {
    const seen = new Set<string>();
    for (const label of await page.locator("[aria-label=Ladder] option").allTextContents()) {
      await page.selectOption("[aria-label=Ladder]", { label });
      await says(page, ".story h2", "1 of");
      await page.waitForFunction(() => document.querySelectorAll(".rungs li").length > 3);
      const steps = Number(/of (\d+)/.exec(await text(page, ".story h2"))?.[1]);
      for (let step = 1; step <= steps; step++) {
        if (step > 1) await page.click("text=Next step");
        await says(page, ".story h2", `${step} of ${steps}`);
        const said = await text(page, ".story");
        assert.match(
          said,
          /Predicted.*This step: [\d.,]+ µs, [\d.,]+ TFLOP\/s.*; bound by/s,
          `${label}, step ${step}`,
        );
        assert.match(await text(page, ".changed"), /lines of PTX\d+/, `${label}, step ${step}`);
        // Timed where a GPU of the generation was at hand.
        const timed = /^(sm_100a|attention)/.test(label)
          ? /Not timed: (.* a GPU for sm_100a|`tilewright ladder --op attention`)/
          : /On a GPU.*This step: [\d.]+ µs.*NVIDIA H200.*tilewright ladder/s;
        assert.match(said, timed, `${label}, step ${step}`);
      }
      seen.add(/^sm_\w+/.exec(label)?.[0] ?? "");
    }
    for (const { arch } of generations) assert.ok(seen.has(arch), `no ladder on ${arch}`);
    await page.selectOption("[aria-label=Ladder]", { index: 0 });
    await says(page, ".story h2", "1 of");
  });
  await suite.test("a step opens as a kernel", async () => {
    await page.click("text=Open this kernel");
    await page.waitForSelector("#tab-stages[aria-selected=true]");
    await says(page, ".stages .text .status", "compiled in");
  });
  await page.close();
  await suite.test("attention has its ladder as requested, by keys, and its address", async () => {
    const own = await openPage(browser, `${url}${hashOf({ ...attention, tab: "ladders" })}`);
    await says(own, ".story h2", "1 of");
    const chosen = own.locator("[aria-label=Ladder] option:checked");
    assert.match((await chosen.textContent()) ?? "", /^attention/);
    assert.match(await text(own, ".story"), /for attention queries=64 keys=128 heads=2 .*causal/s);
    await own.focus("[aria-label=Ladder]");
    await own.keyboard.press("Home");
    await says(own, ".story", "On a GPU");
    await own.keyboard.press("End");
    await says(own, ".story", "for attention queries=64");
    await own.waitForFunction(() => location.hash.includes("ladder=attention"));
    await own.focus("text=Next step");
    await own.keyboard.press("Enter");
    await says(own, ".story h2", "2 of");
    const [address, shown] = [own.url(), await text(own, ".story")];
    await own.click("text=Open this kernel");
    await own.waitForSelector("#tab-stages[aria-selected=true]");
    await own.waitForFunction(() => /schedule=.*queries=64/.test(location.hash));
    await says(own, ".stages .text .status", "compiled in");
    await own.close();
    const again = await openPage(browser, address);
    await says(again, ".story h2", "2 of");
    assert.equal(await text(again, ".story"), shown);
    // It follows the request, up to one that has no kernel, and back.
    await again.fill("label:has-text('keys') input", "192");
    await says(again, ".story", "for attention queries=64 keys=192");
    await again.selectOption("label:has-text('Q, K, V dtype') select", "e4m3");
    await again.waitForSelector("[aria-label='Why there are no steps'] li");
    assert.equal(await again.locator(".rungs li").count(), 0);
    await again.selectOption("label:has-text('Q, K, V dtype') select", "bf16");
    await says(again, ".story h2", "2 of");
    assert.equal(await again.locator("[aria-label='Why there are no steps'] li").count(), 0);
    await again.close();
  });
}
