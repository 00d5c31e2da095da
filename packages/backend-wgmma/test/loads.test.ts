/** A producer whose threads load, widen and store: what its text has to say, and what convicts one that does not. */
import { findTarget } from "@tilewright/core";
import { attentionText, createCompiler, printProgram, readAttention } from "@tilewright/ir";
import { expect, test } from "vitest";
import { wgmma } from "../src/index.ts";

const target = findTarget("sm_90a");
const request = readAttention({
  ...({ op: "attention", queries: 64, keys: 512, headDim: 64, heads: 2, kvHeads: 1 } as const),
  ...({ dtype: "bf16", kvDtype: "e4m3" } as const),
});
if (!target.ok || !request.ok) throw new Error("these are fine");
const compiler = createCompiler({ backends: [wgmma] });
const made = compiler.compile({ from: attentionText(request.value), target: target.value });
if (!made.ok) throw new Error(JSON.stringify(made.error));
const machine = printProgram(made.value.program);
const refusal = (text: string): string => {
  const edited = compiler.compile({ from: text, target: target.value });
  return edited.ok ? "none" : edited.error.map(({ message }) => message).join("\n");
};

test("elements are widened on their way to shared memory", () => {
  expect(machine).toMatch(/shared %sB @\d+ bf16/);
  expect(refusal(machine)).toBe("none");
});

test.each([
  [
    "its fences",
    /\n *fence async(?=\n *warp\.sync\n *mbar\.arrive %\w+_full)/g,
    "without an async-proxy fence",
  ],
  ["its meeting", /\n *warp\.sync(?=\n *mbar\.arrive %ring_full)/, "warp.sync|may still write"],
  ["a copy", /\n *copy %sB\[[^\n]*/, "nobody has filled"],
] as const)("a producer without %s is convicted", (_what, line, why) => {
  const text = machine.replace(line, "");
  expect(text).not.toBe(machine);
  expect(refusal(text)).toMatch(new RegExp(why));
});
