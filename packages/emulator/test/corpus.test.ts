/**
 * Every module of the corpus is loaded. Those that the emulator refuses are pinned with their reasons in
 * corpus-refused.json: `TILEWRIGHT_UPDATE=1 npx vitest run packages/emulator/test/corpus.test.ts` writes the list anew.
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { createEmulator } from "../src/index.ts";

const root = fileURLToPath(new URL("../../ptx/test/corpus/", import.meta.url));
const pinned = fileURLToPath(new URL("corpus-refused.json", import.meta.url));

const modules = ["hand", "golden", "nvcc"].flatMap((folder) =>
  readdirSync(root + folder)
    .filter((file) => file.endsWith(".ptx"))
    .sort()
    .map((file) => `${folder}/${file}`),
);

/** Modules that ptxas refuses too. */
const unassembled = new Set(
  (JSON.parse(readFileSync(`${root}refused.json`, "utf8")) as readonly { readonly file: string }[]).map(
    ({ file }) => `hand/${file}`,
  ),
);

/** `line 12: wgmma.fence is not emulated` for each reason, once for each message. */
function reasons(name: string): readonly string[] {
  const loaded = createEmulator({ memoryLimit: 2 ** 22 }).load(readFileSync(root + name, "utf8"));
  if (loaded.ok) return [];
  const messages = new Map<string, string>();
  for (const { code, message, location } of loaded.error)
    if (!messages.has(message)) messages.set(message, `${code} line ${location?.line ?? 0}: ${message}`);
  return [...messages.values()];
}

describe("the PTX corpus", () => {
  const refused = Object.fromEntries(
    modules.map((name) => [name, reasons(name)] as const).filter(([, why]) => why.length > 0),
  );

  test("loads, but for what is pinned, for the reasons pinned", () => {
    expect(modules.length).toBeGreaterThan(300);
    if (process.env.TILEWRIGHT_UPDATE === "1") writeFileSync(pinned, `${JSON.stringify(refused, null, 2)}\n`);
    expect(refused).toEqual(JSON.parse(readFileSync(pinned, "utf8")));
  });

  test("what ptxas assembles loads", () => {
    expect(Object.keys(refused).filter((name) => !unassembled.has(name))).toEqual([]);
  });
});
