import { createHash } from "node:crypto";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { describe, expect, test } from "vitest";
import { findChromium, resultOf } from "../../packages/emulator/test/browser/chromium.ts";
import { root } from "../lib/files.ts";

// The built backends in a browser: bundled without a polyfill, they compile what they are best shown with to the bytes that Node gives.
// CHROME_PATH or PATH says where Chromium is; without one only the bundle is looked at.

const names = readdirSync(join(root, "packages"))
  .filter((folder) => folder.startsWith("backend-"))
  .map((folder) => `@tilewright/${folder}`);

/** PTX of the showcase of each backend, by id and architecture; the same text runs in Node and in the page. */
const program = `
import { defineProblem, findTarget } from "@tilewright/core";
import { createCompiler } from "@tilewright/ir";
${names.map((name, i) => `import * as module${i} from "${name}";`).join("\n")}
const modules = [${names.map((_, i) => `module${i}`).join(", ")}];
const backends = modules.flatMap((module) => Object.values(module)).filter((value) => typeof value?.lower === "function" && typeof value.id === "string");
const compiler = createCompiler({ backends });
const must = (result) => { if (!result.ok) throw new Error(JSON.stringify(result.error)); return result.value; };
const texts = {};
for (const { id, showcase } of backends) {
  const problem = must(defineProblem({ m: 256, n: 192, k: 128, dtype: showcase.dtype, b: { layout: "col" } }));
  const target = must(findTarget(showcase.arch));
  texts[id + " " + showcase.arch] = must(compiler.compile({ problem, target, backend: id })).ptx;
}
`;

const bundle = async (platform: "browser" | "node", end: string): Promise<string> => {
  const built = await build({
    stdin: { contents: program + end, resolveDir: root, loader: "js" },
    ...{ bundle: true, write: false, minify: true, platform, target: "es2022", logLevel: "silent" },
    format: platform === "browser" ? "iife" : "esm",
  });
  return built.outputFiles[0]?.text ?? "";
};

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

test("every backend is in the bundle, and nothing of Node", async () => {
  const text = await bundle("browser", "globalThis.texts = texts;");
  expect(names.length).toBeGreaterThan(1);
  expect(text).not.toMatch(/["'`]node:|\brequire\(/);
});

const chromium = findChromium();

describe.skipIf(chromium === null)("headless Chromium", () => {
  test("the same PTX as in Node, byte for byte, for every backend", async () => {
    const script = await bundle(
      "browser",
      'document.getElementById("result").textContent = JSON.stringify(texts);',
    );
    const closed = script.replace(/<\/(?=script)/g, "<\\/");
    const html = `<!doctype html><meta charset="utf-8"><pre id="result"></pre><script>${closed}</script>`;
    const inBrowser = JSON.parse(await resultOf(chromium ?? "", html)) as Record<string, string>;
    const code = await bundle("node", "export default texts;");
    const url = `data:text/javascript;base64,${Buffer.from(code).toString("base64")}`;
    const { default: inNode } = (await import(/* @vite-ignore */ url)) as { default: Record<string, string> };
    expect(Object.keys(inNode)).toHaveLength(names.length);
    const hashes = (texts: Record<string, string>) =>
      Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, sha256(text)]));
    expect(hashes(inBrowser)).toEqual(hashes(inNode));
    for (const text of Object.values(inNode)) expect(text).toMatch(/^\.version /);
  });
});
