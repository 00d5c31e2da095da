/**
 * In a browser: the package bundled without any polyfill, the golden kernels on the main thread of a headless Chromium, and the
 * H200's words, all of them. CHROME_PATH or PATH says where the browser is; without one only the bundle is looked at.
 */
import { createHash } from "node:crypto";
import { builtinModules } from "node:module";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { beforeAll, describe, expect, test } from "vitest";
import { findChromium, resultOf } from "./browser/chromium.ts";
import type { BrowserKernel, PageData, PageResult } from "./browser/protocol.ts";
import { corpus, fixtureBytes } from "./support.ts";

const folder = fileURLToPath(new URL("..", import.meta.url));

/** A classic script for browsers, minified. Anything that only Node has is an error of the build, since nothing stands in for it. */
const bundle = (entry: string) =>
  build({
    entryPoints: [entry],
    absWorkingDir: folder,
    bundle: true,
    write: false,
    minify: true,
    metafile: true,
    platform: "browser",
    format: "iife",
    globalName: "emulator",
    target: "es2022",
    conditions: ["@tilewright/source"],
    logLevel: "silent",
  });
type Bundle = Awaited<ReturnType<typeof bundle>>;
const textOf = (built: Bundle): string => built.outputFiles[0]?.text ?? "";

const simt = { entry: "simt_f32", inputs: "f32", bBox: null, stores: false } as const;
const hopper = { entry: "wgmma_f16", inputs: "f16", stores: false } as const;
const launch = (x: number, threads: number, dynamicSmem: number): BrowserKernel["launch"] => ({
  ...{ grid: [x, 2, 1], block: [threads, 1, 1], dynamicSmem, arithmetic: "sm_90" },
});

/** As in the other golden tests; the launches of wgmma have 1024 bytes more than the kernel lays out. */
const kernels: readonly BrowserKernel[] = [
  { name: "simt_f32", ...simt, launch: launch(2, 256, 0) },
  { name: "mma_f16", ...simt, entry: "mma_f16", inputs: "f16", launch: launch(2, 128, 0) } as const,
  { name: "wgmma_f16", ...hopper, bBox: 128, launch: launch(2, 384, 132_224) },
  { name: "wgmma_f16_n256", ...hopper, bBox: 256, launch: launch(1, 384, 197_760) },
  { name: "wgmma_tmaepi", ...hopper, bBox: 128, stores: true, launch: launch(2, 384, 164_992) },
  {
    ...{ name: "wgmma_cluster2", ...hopper, bBox: 64 },
    launch: { ...launch(2, 384, 132_224), cluster: [2, 1, 1] },
  },
].map((kernel) => ({ ...kernel, text: corpus(`golden/${kernel.name}`) }) as BrowserKernel);

describe("the bundle", () => {
  test("has no module of Node, nothing to import and a size worth a download", async () => {
    const built = await bundle("src/index.ts");
    const sources = Object.values(built.metafile.inputs).flatMap(({ imports }) => imports.map((i) => i.path));
    expect(sources.filter((path) => path.startsWith("node:") || builtinModules.includes(path))).toEqual([]);
    expect(Object.values(built.metafile.outputs).flatMap(({ imports }) => imports)).toEqual([]);
    const text = textOf(built);
    expect(text).not.toMatch(/["'`]node:|\brequire\(|\bprocess\./);
    const zipped = gzipSync(text).length;
    console.log(`emulator for browsers: ${text.length} bytes, ${zipped} gzipped`);
    expect(zipped).toBeLessThan(200_000);
  });
});

const chromium = findChromium();

describe.skipIf(chromium === null)("headless Chromium", () => {
  let script = "";
  beforeAll(async () => {
    // A closing tag inside a string would end the script.
    script = textOf(await bundle("test/browser/page.ts")).replace(/<\/(?=script)/g, "<\\/");
  });

  const run = async (data: PageData): Promise<PageResult> => {
    const given = JSON.stringify(data).replace(/</g, "\\u003c");
    const html = `<!doctype html><meta charset="utf-8"><body><pre id="result"></pre><script>globalThis.tilewright=${given}</script><script>${script}</script></body>`;
    const result = JSON.parse(await resultOf(chromium ?? "", html)) as
      | PageResult
      | { readonly failure: string };
    if ("failure" in result) throw new Error(result.failure);
    return result;
  };
  const hash = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

  test.each([
    ["with WebAssembly", "whole", kernels],
    // The slow forms, at all kinds of arithmetic that have two.
    ["where the main thread compiles at most 4 KB at once", "limited", kernels.slice(0, 3)],
    ["without WebAssembly", "none", kernels.slice(0, 3)],
  ] as const)("the golden kernels give the H200's bits %s", async (_where, wasm, some) => {
    const { agent, milliseconds, results } = await run({ kernels: some, wasm });
    console.log(
      `${/\w*Chrome\/[\d.]+/.exec(agent)?.[0]}: ${some.length} kernels in ${Math.round(milliseconds)} ms`,
    );
    some.forEach(({ name }, at) => {
      const result = results[at];
      if (result === undefined || !("words" in result)) throw new Error(`${name}: ${result?.error}`);
      const words = Buffer.from(result.words, "base64");
      expect(words.length, name).toBe(4 * 65_536);
      expect(hash(words), name).toBe(hash(fixtureBytes(`golden/${name}.f32`)));
    });
  });
});
