/** The IR is the truth: the text of any stage, fed back, yields the kernel; the edited text yields the edited kernel. */
import { formatDiagnostic } from "@tilewright/core";
import { parseProgram, printProgram, runPasses, type Stage, stages, type TileProgram } from "@tilewright/ir";
import { describe, expect, test } from "vitest";
import { simt } from "../src/backend.ts";
import { build, scheduleOf } from "./support/build.ts";
import { problemOf, targetOf } from "./support/cases.ts";

const target = targetOf("sm_80");
const problem = problemOf({ m: 200, n: 130, k: 50, dtype: "f32", alpha: 2, beta: 1 });

/** The first and the last program of every stage of a schedule. */
function programsOf(schedule: string): readonly TileProgram[] {
  const nest = simt.tile(problem, scheduleOf(schedule), target);
  const seen: TileProgram[] = [nest];
  runPasses(nest, target, simt.passes, {
    after: (pass, _before, program) => {
      // What the next pass finishes has no text of its own.
      if (pass.unfinished !== true) seen.push(program);
    },
  });
  const at = (stage: Stage): TileProgram[] => {
    const list = seen.filter((p) => p.stage === stage);
    return [list[0], list.at(-1)].filter((p) => p !== undefined);
  };
  return stages.flatMap(at);
}

function finish(text: string): string {
  const parsed = parseProgram(text);
  if (!parsed.ok) throw new Error(parsed.error.map(formatDiagnostic).join("\n"));
  const bound = runPasses(parsed.value, target, simt.passes);
  if (!bound.ok) throw new Error(bound.error.map(formatDiagnostic).join("\n"));
  const kernel = simt.lower(bound.value, target);
  if (!kernel.ok) throw new Error(kernel.error.map(formatDiagnostic).join("\n"));
  return kernel.value.ptx;
}

const schedules = [
  "tile=64x64x8 thread=8x8",
  "tile=64x64x8 thread=8x8 copy=cp.async registerPrefetch=off stages=3",
  "tile=32x64x4 thread=4x4 stagedOperands=off stages=1 frag=1",
  "tile=60x40x6 thread=5x5 lanes=4x8 strip=5x1 stages=1 frag=1 sharedLayout=swizzle",
];

describe.each(schedules)("%s", (schedule) => {
  const whole = build(problem, scheduleOf(schedule), target).kernel.ptx;
  test("every stage's text leads to the same PTX", () => {
    for (const program of programsOf(schedule)) expect(finish(printProgram(program))).toBe(whole);
  });
});

describe("an edit", () => {
  const texts = programsOf("tile=64x64x8 thread=8x8").map(printProgram);
  const text = (stage: Stage): string =>
    texts.findLast((t) => t.includes(`stage ${stage}`)) ?? `no stage ${stage}`;

  test("of a directive of the nest is a schedule by hand", () => {
    const edited = text("nest").replace("directive walk order=snake-rows", "directive walk order=cols");
    const wanted = build(problem, scheduleOf("tile=64x64x8 thread=8x8 walk=cols"), target).kernel.ptx;
    expect(finish(edited)).toBe(wanted);
  });

  test("of an attribute of the bound program changes the instructions", () => {
    const edited = text("bound").replaceAll("walk snake-rows", "walk rows");
    const wanted = build(problem, scheduleOf("tile=64x64x8 thread=8x8 walk=rows"), target).kernel.ptx;
    expect(finish(edited)).toBe(wanted);
  });

  test("that no schedule can say: another padding of one tile", () => {
    const edited = text("bound").replace(/layout \(64,8\):\(1,\d+\)/, "layout (64,8):(1,80)");
    expect(edited).not.toBe(text("bound"));
    expect(finish(edited)).toContain("+320]");
  });

  test("that breaks the ring protocol is refused with its place", () => {
    const broken = text("bound").replace(/ *wait %ring @ 0.*\n/, "");
    const parsed = parseProgram(broken);
    if (!parsed.ok) throw new Error("the text is well-formed");
    const run = runPasses(parsed.value, target, simt.passes);
    expect(run.ok ? [] : run.error.map((d) => `${d.kind} ${d.at}: ${d.message}`)).toMatchInlineSnapshot(`
      [
        "invalid tiles/copy %fA: reads slot 0 of ring %ring outside wait and release (waited up to -1, released up to -1)",
      ]
    `);
  });
});
