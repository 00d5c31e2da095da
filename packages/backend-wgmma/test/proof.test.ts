/** The protocol of every kind of kernel that the backend makes, proved on the bound program for any number of K chunks and tiles. */
import { problemOf, targetOf } from "@tilewright/conformance";
import { createRandom } from "@tilewright/core";
import {
  attentionText,
  createCompiler,
  ownProgram,
  parseProgram,
  printProgram,
  printSchedule,
  proveProtocol,
  readAttention,
  runPasses,
} from "@tilewright/ir";
import { expect, test } from "vitest";
import { wgmma } from "../src/backend.ts";
import { randomSchedule } from "./support/cases.ts";

const target = targetOf("sm_90a");

test("schedules drawn at random keep the protocol", () => {
  const random = createRandom(5);
  const problem = problemOf({ m: 300, n: 200, k: 320, dtype: "bf16", b: { layout: "col" } });
  for (let i = 0; i < 12; i++) {
    const schedule = randomSchedule(random, problem, target);
    const bound = runPasses(wgmma.tile(problem, schedule, target), target, wgmma.passes, { verify: "ends" });
    const text = printSchedule(wgmma.schedule, schedule);
    expect([text, bound.ok ? proveProtocol(bound.value, target) : bound.error]).toEqual([text, []]);
  }
});

/** A machine program of attention, and the text of one of its lines where an edit stands in its place. */
const attention = (fields: object, edit: (text: string) => string = (text) => text, given?: string) => {
  const read = readAttention({ op: "attention", dtype: "bf16", headDim: 64, queries: 64, ...fields });
  if (!read.ok) throw new Error(JSON.stringify(read.error));
  const made = createCompiler({ backends: [wgmma] }).compile({
    from: attentionText(read.value),
    target: "sm_90a",
    ...(given === undefined ? {} : { schedule: given }),
  });
  if (!made.ok) throw new Error(JSON.stringify(made.error));
  const text = printProgram(made.value.program);
  const edited = parseProgram(edit(text));
  if (!edited.ok) throw new Error(JSON.stringify(edited.error));
  return { text, program: edited.value };
};

/** The loop over all parts but the first as one from part 1 on, which takes a turn whatever its bounds are. */
const oneTurnMore = (text: string): string =>
  text.replace(/for %st = 0 \.\. (\d+) within (.*) rest \{/, "for %st = 1 .. $1 within $2 {");

test("turns that only the run knows are proved with none, one, two and more of them", () => {
  for (const fields of [
    { keys: 600, pageSize: 16 },
    { keys: 600, offsets: "keys" },
  ]) {
    const { text, program } = attention(fields);
    expect(text).toContain(" rest {");
    expect(proveProtocol(program, target)).toEqual([]);
    const { program: edited } = attention(fields, oneTurnMore);
    // With as many turns as there can be it does what it did.
    expect(proveProtocol(ownProgram(edited), target)).toEqual([]);
    const [found] = proveProtocol(edited, target);
    expect([found?.code, found?.message]).toEqual(["TW3145", expect.stringContaining("deadlock")]);
  }
});

test("turns that depend on the row of a work tile are proved for several rows", () => {
  const fields = { keys: 600, queries: 600, causal: true };
  for (const sched of ["zigzag", "tiles"]) {
    const schedule = `tile=64x64x64 warpgroups=1x1 stages=4 chainTile=128x128 pipelineProducts=on sched=${sched}`;
    expect(proveProtocol(attention(fields, (text) => text, schedule).program, target)).toEqual([]);
    const { program } = attention(fields, oneTurnMore, schedule);
    expect(proveProtocol(program, target).map(({ code }) => code)).toEqual(["TW3145"]);
  }
});
