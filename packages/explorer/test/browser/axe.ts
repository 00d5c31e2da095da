/** What axe-core finds of a page that is shown. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";

interface Violation {
  readonly id: string;
  readonly impact: string;
  readonly nodes: readonly { readonly target: readonly string[] }[];
}

const source = readFileSync(fileURLToPath(import.meta.resolve("axe-core/axe.min.js")), "utf8");

/** Violations that are serious or critical: the rule, and up to three elements by their selectors. */
export async function seriousIn(page: Page): Promise<readonly string[]> {
  if (await page.evaluate(() => !("axe" in globalThis))) await page.evaluate(source);
  const violations = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as { axe: { run(): Promise<{ violations: Violation[] }> } };
    return (await axe.run()).violations;
  });
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => {
      const places = nodes.slice(0, 3).map(({ target }) => target.join(" "));
      return `${id} at ${places.join(", ")}`;
    });
}
