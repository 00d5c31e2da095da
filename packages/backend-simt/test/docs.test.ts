/** docs/tile-ir.md shows real programs: its blocks are what the passes print today. `TILEWRIGHT_UPDATE_DOCS=1` rewrites them. */
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { printProgram, runPasses, stages } from "@tilewright/ir";
import { expect, test } from "vitest";
import { simt } from "../src/backend.ts";
import { scheduleOf } from "./support/build.ts";
import { problemOf, targetOf } from "./support/cases.ts";

const page = fileURLToPath(new URL("../../../docs/tile-ir.md", import.meta.url));

/** The last program of each stage, as `compile --ir STAGE` prints it. */
function stageTexts(): ReadonlyMap<string, string> {
  const target = targetOf("sm_70");
  const problem = problemOf({ m: 100, n: 60, k: 40, dtype: "f32" });
  const nest = simt.tile(problem, scheduleOf("tile=32x32x8 thread=4x2 strip=4x2"), target);
  const texts = new Map([[nest.stage as string, printProgram(nest)]]);
  runPasses(nest, target, simt.passes, {
    after: (_pass, _before, program) => texts.set(program.stage, printProgram(program)),
  });
  return texts;
}

test("the page shows each stage as it is", () => {
  const texts = stageTexts();
  let text = readFileSync(page, "utf8");
  if (process.env.TILEWRIGHT_UPDATE_DOCS) {
    for (const stage of stages)
      text = text.replace(
        new RegExp(`(<!-- stage ${stage} -->\n\`\`\`tile)[^]*?(\`\`\`)`),
        (_, open: string, close: string) => `${open}\n${texts.get(stage)?.trimEnd()}\n${close}`,
      );
    writeFileSync(page, text);
  }
  for (const stage of stages) {
    const shown = new RegExp(`<!-- stage ${stage} -->\n\`\`\`tile\n([^]*?)\n\`\`\``).exec(text)?.[1];
    expect(shown, `docs/tile-ir.md is stale at stage ${stage}: run with TILEWRIGHT_UPDATE_DOCS=1`).toBe(
      texts.get(stage)?.trimEnd(),
    );
  }
});
