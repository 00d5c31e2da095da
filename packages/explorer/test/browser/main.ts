/**
 * `npm run test:explorer`: the built page in real headless Chromium, driven by clicks and keys. Names its parts, ends with `N passed, N failed`;
 * out/test/explorer.json has the counts as vitest would write them. Without a Chromium (CHROME_PATH, PATH) all is skipped, with a note.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Browser, Page } from "playwright-core";
import {
  dist,
  findChromium,
  launch,
  openPage,
  quick,
  Suite,
  says,
  serveDist,
  serveWithSass,
  slack,
  status,
  text,
} from "./harness.ts";
import { page } from "./page.ts";

const parts = [
  "request",
  "passes",
  "linked lines",
  "run",
  "pictures",
  "foreign PTX",
  "permalinks",
  "ladders",
];
const root = fileURLToPath(new URL("../../../../", import.meta.url));
/** Names of parts to run alone: `npm run test:explorer -- "linked lines"`. */
const only = process.argv.slice(2);
const suite = new Suite();

/** Milliseconds that the page's status line names. */
const millisecondsIn = (said: string): number =>
  Number(/in ([\d.,]+) ms/.exec(said)?.[1]?.replace(",", "") ?? Number.NaN);

const hashOf = (entries: Readonly<Record<string, string>>): string => `#${new URLSearchParams(entries)}`;

const generations = [
  { arch: "sm_70", dtype: "f32", backend: "simt" },
  { arch: "sm_80", dtype: "f16", backend: "mma" },
  { arch: "sm_90a", dtype: "bf16", backend: "wgmma" },
  { arch: "sm_100a", dtype: "bf16", backend: "tcgen05" },
] as const;

const link = (
  { arch, dtype }: (typeof generations)[number],
  more: Readonly<Record<string, string>> = {},
): string => hashOf({ arch, m: "256", n: "256", k: "256", dtype, b: '{"layout":"col"}', ...more });

const program = ".stages .text .cm-content";

/** Put a text in the place of what the program's editor holds. */
async function retype(page: Page, edit: (text: string) => string): Promise<void> {
  await page.uncheck("text=difference");
  const shown = await page.evaluate((selector) => {
    const lines = [...document.querySelectorAll(`${selector} .cm-line`)];
    return lines.map((line) => line.textContent ?? "").join("\n");
  }, program);
  await page.click(program);
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText(edit(shown));
}

async function request(browser: Browser, url: string): Promise<void> {
  const page = await openPage(browser, url);
  for (const generation of generations)
    await suite.test(`${generation.arch} by its form`, async () => {
      await page.selectOption("label:has-text('Architecture') select", generation.arch);
      await page.selectOption("label:has-text('dtype of A and B') select", generation.dtype);
      await says(page, ".chosen strong", generation.backend);
      assert.match(await text(page, ".stages .ptx .cm-content"), new RegExp(`\\.target ${generation.arch}`));
    });
  await suite.test("an example", async () => {
    await page.selectOption("label:has-text('Example') select", { label: "Linear layer: gelu(A.B + bias)" });
    await says(page, ".chosen strong", "mma");
    assert.equal(await page.inputValue("label:has-text('Epilogue') input"), "bias(n,f16)|gelu");
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
        /^taken$|^[\w ]+ [\d.]+ us for [\d.]+$|no part of it is slower|ranked behind/,
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
  await page.close();
}

async function passes(browser: Browser, url: string): Promise<void> {
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
    for (let i = 0; i < 4; i++) {
      await retype(page, (shown) => shown.replace(/^( {2}problem)/m, "$1"));
      await page.keyboard.press("Control+Home");
      await page.keyboard.press("End");
      await page.keyboard.type(" ");
      await says(page, status, "edited and compiled");
    }
    const took = millisecondsIn(await text(page, status));
    assert.ok(took < 100 * slack, `took ${took} ms`);
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

async function linked(browser: Browser, url: string): Promise<void> {
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
      await shown.click(".stages .sass .cm-line:not(.cm-linked):has-text('MBARRIER.TRY_WAIT')");
      await shown.waitForFunction((before) => document.querySelector(".counted")?.textContent !== before, of);
      await shown.close();
    } finally {
      end();
    }
  });
}

async function run(browser: Browser, url: string): Promise<void> {
  // One chunk of K: whoever takes out a wait for products reads sums that are not there.
  const schedule = "tile=8x64x256 warpgroups=1x1 swapAB=on stages=6 l2Promotion=128";
  const page = await openPage(browser, `${url}${link(generations[2], { tab: "run", schedule })}`);
  const start = async (): Promise<void> => {
    await page.click("text=Run on the emulator");
    await page.waitForSelector(".verdict p", { timeout: 30_000 });
  };
  await suite.test("256 x 256 x 256 in three orders is right, and no frame takes over 100 ms", async () => {
    await page.evaluate(() => {
      const frames: number[] = [];
      Object.assign(globalThis, { frames });
      let last = performance.now();
      const next = (now: number): void => {
        frames.push(now - last);
        last = now;
        requestAnimationFrame(next);
      };
      requestAnimationFrame(next);
    });
    await start();
    assert.match(await text(page, ".verdict"), /Right/);
    await page.waitForSelector(".timeline:not([hidden]) canvas");
    const longest = await page.evaluate(() =>
      Math.max(...(globalThis as unknown as { frames: number[] }).frames),
    );
    assert.ok(longest < 100 * slack, `a frame of ${Math.round(longest)} ms`);
  });
  await suite.test("one order with all checks takes under 2 s", async () => {
    await page.uncheck("input[value=lazy]");
    await page.uncheck("input[value=random]");
    await start();
    const took = millisecondsIn(await text(page, "#panel-run .status"));
    assert.ok(took < 2000 * slack, `took ${took} ms`);
  });
  const picture = (): Promise<string> =>
    page.evaluate(() => document.querySelector<HTMLCanvasElement>(".heat")?.toDataURL() ?? "");
  for (const [where, what] of [
    ["stage", /: mbar\.expect\b/],
    ["PTX", /: wgmma\.wait_group/],
  ] as const)
    await suite.test(
      `a fault planted by a click in the ${where} is convicted, and put back it is right again`,
      async () => {
        const right = await picture();
        const options = await page
          .locator(`.plant optgroup[label^="${where}"] option`)
          .evaluateAll((all) =>
            all.map((option) => [(option as HTMLOptionElement).value, option.textContent ?? ""] as const),
          );
        const value = options.find(([, label]) => what.test(label))?.[0] ?? "";
        await page.selectOption(".plant select", value);
        await page.click("text=Take it out and run");
        await says(page, ".verdict", "Convicted");
        assert.ok((await page.locator(".findings li").count()) > 0);
        const wrong = await picture();
        await page.click("text=Put it back");
        await start();
        await says(page, ".verdict", "Right");
        assert.equal(await picture(), right);
        if (where === "stage") assert.notEqual(wrong, right);
      },
    );
  await suite.test("rings and warps over time: steps forth and back, and a trace for Perfetto", async () => {
    await page.waitForSelector(".timeline canvas");
    const said = (): Promise<string> => text(page, ".timeline .said");
    const first = await said();
    assert.match(first, /^1 of \d+, tick 0: warp 0 starts/);
    await page.focus("[aria-label='Step of the log']");
    const states = async (): Promise<string> => text(page, ".timeline table");
    const words = async (wanted: RegExp, key: string): Promise<void> => {
      for (let k = 0; k < 400 && !wanted.test(await said()); k++) await page.keyboard.press(key);
      assert.match(await said(), wanted);
    };
    // The producer fills the first slot, then the phase of its barrier ends, and the consumers go on.
    await words(/expects \d+ bytes at %ring_full\[0\]/, "ArrowRight");
    const filling = await states();
    await words(/phase 0 of %ring_full\[0\] is complete/, "ArrowRight");
    assert.match(await states(), /%ring_full\[0\]10 B|%ring_full\[0\]/);
    await page.click("text=Step back");
    await page.focus("[aria-label='Step of the log']");
    await words(/expects \d+ bytes at %ring_full\[0\]/, "ArrowLeft");
    assert.equal(await states(), filling);
    await words(/^1 of/, "ArrowLeft");
    assert.equal(await said(), first);
    const [download] = await Promise.all([page.waitForEvent("download"), page.click("text=Perfetto trace")]);
    const { traceEvents } = JSON.parse(readFileSync(await download.path(), "utf8"));
    assert.ok(traceEvents.some(({ args }: { args?: { name?: string } }) => args?.name === "CTA 1,0,0"));
  });
  await suite.test("a finding leads to its line", async () => {
    const option = await page
      .locator(".plant optgroup[label=PTX] option:has-text('wgmma.wait_group')")
      .first()
      .getAttribute("value");
    await page.selectOption(".plant select", option ?? "");
    await page.click("text=Take it out and run");
    await page.click(".findings button.link >> nth=0");
    await page.waitForSelector(".stages .ptx .cm-linked");
  });
  await page.close();
}

async function pictures(browser: Browser, url: string): Promise<void> {
  for (const generation of generations)
    await suite.test(`${generation.arch}: roofline, order of tiles, fragments`, async () => {
      const page = await openPage(browser, `${url}${link(generation, { tab: "pictures" })}`);
      await page.waitForSelector("#panel-pictures svg.chart");
      const heads = (await page.locator("#panel-pictures h3").allTextContents()).join("\n");
      assert.match(heads, /Roofline of/);
      assert.match(heads, /Order of the tiles/);
      assert.match(heads, /Fragments/);
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
  await measurements(browser, url);
}

async function measurements(browser: Browser, url: string): Promise<void> {
  await suite.test("stored measurements stand in the roofline of the GPU that they are of", async () => {
    const size = { m: "4096", n: "4096", k: "4096" };
    const page = await openPage(browser, `${url}${link(generations[2], { tab: "pictures", ...size })}`);
    await page.click("text=show H200");
    await page.waitForSelector(".point.measured");
    assert.match(await text(page, ".point.measured"), /measured 776/);
    assert.ok((await page.locator(".point.other").count()) > 20);
    await page.close();
  });
}

async function foreign(browser: Browser, url: string): Promise<void> {
  const page = await openPage(browser, `${url}${hashOf({ tab: "foreign" })}`);
  await suite.test("a kernel with a race is convicted, and acquitted with its barrier", async () => {
    await page.click("text=Example with a race");
    await page.click("text=Judge it");
    await says(page, "#panel-foreign .verdict", "Convicted");
    assert.match(await text(page, "#panel-foreign .findings"), /H009/);
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

async function permalinks(browser: Browser, url: string): Promise<void> {
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
        assert.match(await text(page, ".stages .text .status"), /compiled in/);
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
    }
    await page.close();
  });
}

async function ladders(browser: Browser, url: string): Promise<void> {
  const page = await openPage(browser, `${url}${hashOf({ tab: "ladders" })}`);
  await suite.test("a ladder goes step by step, each with what it changed", async () => {
    await says(page, ".story h2", "1 of");
    const first = await text(page, ".story");
    await page.click("text=Next step");
    await says(page, ".story h2", "2 of");
    // Its picture and what it was worth on a GPU.
    assert.match(
      await text(page, ".story"),
      /On a GPU.*This step: [\d.]+ µs.*NVIDIA H200.*Predicted.*Shared memory/s,
    );
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
        assert.match(said, /lines of PTX\d+/, `${label}, step ${step}`);
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
}

function report(skipped: number): void {
  const [passed, failed] = [suite.count("passed"), suite.count("failed")];
  const counts = {
    numPassedTests: passed,
    numFailedTests: failed,
    numPendingTests: skipped,
    numTodoTests: 0,
  };
  const results = [
    { name: "explorer", status: failed > 0 ? "failed" : "passed", assertionResults: suite.outcomes },
  ];
  mkdirSync(join(root, "out/test"), { recursive: true });
  writeFileSync(join(root, "out/test/explorer.json"), JSON.stringify({ ...counts, testResults: results }));
  console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`);
  process.exitCode = failed > 0 ? 1 : 0;
}

async function main(): Promise<void> {
  const chromium = findChromium();
  if (chromium === null) {
    console.log(`no Chromium by CHROME_PATH or on the PATH: skipped are ${parts.join(", ")}`);
    report(parts.length);
    return;
  }
  if (!quick || !existsSync(join(dist, "index.html"))) {
    const built = spawnSync("npm", ["run", "-s", "build", "--workspace", "packages/explorer"], {
      cwd: root,
      stdio: ["ignore", 2, 2],
    });
    assert.equal(built.status, 0, "the page does not build");
  }
  const { url, server } = await serveDist();
  const browser = await launch(chromium);
  const tests = [request, passes, linked, run, pictures, foreign, permalinks, ladders];
  try {
    for (const [i, test] of tests.entries()) {
      if (only.length > 0 && !only.includes(parts[i] ?? "")) continue;
      suite.part(`${i + 1}. ${parts[i]}`);
      await suite.test("opens", () => test(browser, url));
    }
    if (only.length === 0 || only.includes("the page itself")) {
      suite.part("the page itself");
      await page(suite, browser, url);
    }
  } finally {
    await browser.close();
    server.close();
  }
  report(0);
}

await main();
