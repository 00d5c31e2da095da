/**
 * Every module of the corpus is loaded. Those that the emulator refuses are pinned with their reasons in
 * corpus-refused.json: `TILEWRIGHT_UPDATE=1 npx vitest run packages/emulator/test/corpus.test.ts` writes the list anew.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { corpus, refused } from "../../ptx/test/support/index.ts";
import { createEmulator } from "../src/index.ts";

const pinned = fileURLToPath(new URL("corpus-refused.json", import.meta.url));

/** Modules that ptxas refuses too. */
const unassembled = new Set(refused.map(({ file }) => `hand/${file}`));

/** `line 12: wgmma.fence is not emulated` for each reason, once for each message. */
function reasons(text: string): readonly string[] {
  const loaded = createEmulator({ memoryLimit: 2 ** 22 }).load(text);
  if (loaded.ok) return [];
  const messages = new Map<string, string>();
  for (const { code, message, location } of loaded.error)
    if (!messages.has(message)) messages.set(message, `${code} line ${location?.line ?? 0}: ${message}`);
  return [...messages.values()];
}

describe("the PTX corpus", () => {
  const found = Object.fromEntries(
    corpus.map(({ name, text }) => [name, reasons(text)] as const).filter(([, why]) => why.length > 0),
  );

  test("loads, but for what is pinned, for the reasons pinned", () => {
    expect(corpus.length).toBeGreaterThan(300);
    if (process.env.TILEWRIGHT_UPDATE === "1") writeFileSync(pinned, `${JSON.stringify(found, null, 2)}\n`);
    expect(found).toEqual(JSON.parse(readFileSync(pinned, "utf8")));
  });

  test("what ptxas assembles loads", () => {
    expect(Object.keys(found).filter((name) => !unassembled.has(name))).toEqual([]);
  });
});
