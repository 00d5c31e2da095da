/** What several parts ask the page for. */
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";

/** The repository. */
export const root = fileURLToPath(new URL("../../../../../", import.meta.url));

/** Milliseconds that the page's status line names. */
export const millisecondsIn = (said: string): number =>
  Number(/in ([\d.,]+) ms/.exec(said)?.[1]?.replace(",", "") ?? Number.NaN);

export const hashOf = (entries: Readonly<Record<string, string>>): string =>
  `#${new URLSearchParams(entries)}`;

export const generations = [
  { arch: "sm_70", dtype: "f32", backend: "simt" },
  { arch: "sm_80", dtype: "f16", backend: "mma" },
  { arch: "sm_90a", dtype: "bf16", backend: "wgmma" },
  { arch: "sm_100a", dtype: "bf16", backend: "tcgen05" },
] as const;

export const link = (
  { arch, dtype }: (typeof generations)[number],
  more: Readonly<Record<string, string>> = {},
): string => hashOf({ arch, m: "256", n: "256", k: "256", dtype, b: '{"layout":"col"}', ...more });

export const program = ".stages .text .cm-content";

/** Put a text in the place of what the program's editor holds. */
export async function retype(page: Page, edit: (text: string) => string): Promise<void> {
  await page.uncheck("text=difference");
  const shown = await page.evaluate((selector) => {
    const lines = [...document.querySelectorAll(`${selector} .cm-line`)];
    return lines.map((line) => line.textContent ?? "").join("\n");
  }, program);
  await page.click(program);
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText(edit(shown));
}
