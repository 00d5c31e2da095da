/** Small programs as text, at every stage: what fixtures of verifiers, parser and interpreter are edited from. */
import { formatDiagnostic } from "@tilewright/core";
import { parseProgram, printProgram, runPasses, type Stage, type TileProgram } from "../../../src/index.ts";
import { build, passes, problem, type Recipe, target } from "./pipelines.ts";

const recipe = (transport: "direct" | "cp.async", slots: number): Recipe => ({
  problem: problem({ m: 20, n: 24, k: 21, dtype: "f32", c: { ld: 28 }, beta: 2, b: { ld: 24 } }),
  warps: [2, 1],
  lanes: [4, 8],
  thread: [2, 2],
  strip: [2, 2],
  tileK: 4,
  directives: [
    { name: "stage", args: { operands: "ab", transport } },
    { name: "fragment", args: { step: 1 } },
    { name: "ring", args: { slots, registerPrefetch: transport === "direct" ? 1 : 0 } },
    { name: "vector", args: { copy: 2, store: 2 } },
    { name: "smem", args: { mode: "pad" } },
    { name: "walk", args: { order: "snake-rows" } },
    { name: "guards", args: { elide: 1 } },
  ],
});

/** Programs of one recipe, by stage: the last of each. */
function stagesOf(transport: "direct" | "cp.async" = "cp.async", slots = 3): ReadonlyMap<Stage, TileProgram> {
  const start = build(recipe(transport, slots));
  const found = new Map<Stage, TileProgram>([["nest", start]]);
  const done = runPasses(start, target("sm_80"), passes, {
    after: (_pass, _before, after) => found.set(after.stage, after),
  });
  if (!done.ok) throw new Error(done.error.map(formatDiagnostic).join("\n"));
  return found;
}

const asynchronous = stagesOf("cp.async", 3);
const direct = stagesOf("direct", 2);
const single = stagesOf("direct", 1);

export type Variant = "direct" | "cp.async" | "single";
const variants: Readonly<Record<Variant, ReadonlyMap<Stage, TileProgram>>> = {
  direct,
  "cp.async": asynchronous,
  single,
};

/** The text of a fixture: `cp.async` with three slots, `direct` with two and split copies, or `single` with one. */
export function fixture(stage: Stage, variant: Variant = "cp.async"): string {
  const program = variants[variant].get(stage);
  if (program === undefined) throw new Error(`no program at stage ${stage}`);
  return printProgram(program);
}

/** A text with one passage replaced; throws when the passage is not there, so that fixtures cannot rot. */
export function edit(text: string, from: string, to: string): string {
  if (!text.includes(from)) throw new Error(`the fixture has no '${from}':\n${text}`);
  return text.replace(from, () => to);
}

/** Parse a fixture that is well formed. */
export function parse(text: string): TileProgram {
  const parsed = parseProgram(text);
  if (!parsed.ok) throw new Error(`${parsed.error.map(formatDiagnostic).join("\n")}\n${text}`);
  return parsed.value;
}
