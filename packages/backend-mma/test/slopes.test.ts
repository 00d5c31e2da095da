/** Scores in the thousands, as slopes below 0 give the farthest keys: their maximum is one of them in each part, and the bound of what a kernel computes stays one. */
import { caseData, must, Session, targetOf } from "@tilewright/conformance";
import { compareWithBound } from "@tilewright/core";
import {
  attentionText,
  createCompiler,
  parseAxisProgram,
  readAttention,
  referenceProgram,
} from "@tilewright/ir";
import { openDevice } from "@tilewright/runtime";
import { expect, test } from "vitest";
import { mma } from "../src/index.ts";

test("2048 keys with slopes on both sides of 0", async () => {
  const sizes = { queries: 16, keys: 2048, heads: 2, headDim: 16 };
  const text = attentionText(must(readAttention({ op: "attention", ...sizes, dtype: "f16", alibi: true })));
  const source = must(parseAxisProgram(text));
  const made = must(createCompiler({ backends: [mma] }).compile({ from: text, target: targetOf("sm_90") }));
  const data = caseData(made.problem, "normal", 3, {
    reference: (inputs) => referenceProgram(source, inputs),
  });
  const { values, bounds } = data.reference.d;
  const slopes = made.problem.epilogue.findIndex((step) => "name" in step && step.name === "slopes");
  const drawn = data.steps[slopes];
  expect(drawn instanceof Float32Array && Math.min(...drawn)).toBeLessThan(-0.5);
  expect(Math.max(...bounds)).toBeLessThan(0.02);
  expect(Math.max(...values)).toBeGreaterThan(1);
  const device = must(await openDevice({ kind: "emulator", arch: "sm_90" }));
  const session = new Session(device, made);
  const { d, faults } = session.run(data);
  session.close();
  device.close();
  expect(faults).toEqual([]);
  expect(compareWithBound(made.problem, d, data.reference).boundRatio).toBeLessThan(1);
});
