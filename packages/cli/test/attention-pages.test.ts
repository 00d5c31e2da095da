/** Attention over keys in pages: what a table means, and what a kernel makes of a wrong one. */
import { bytesOfStorage, formatDiagnostic } from "@tilewright/core";
import {
  anchorOf,
  attentionFlops,
  parseAxisProgram,
  printAxisProgram,
  printProgram,
  readAttention,
  referenceProgram,
} from "@tilewright/ir";
import { openDevice, runGemm } from "@tilewright/runtime";
import { describe, expect, test } from "vitest";
import { compiler } from "../src/compiler.ts";
import { randomInputs } from "../src/run/inputs.ts";
import { must, programOf, textOf } from "./attentionPrograms.ts";

const fields = {
  ...{ queries: 2, keys: 20, headDim: 4, valueDim: 3, batch: 3, heads: 2, causal: true },
  ...{ pageSize: 8, pages: 7 },
} as const;

test("the program says in which pages keys lie", () => {
  const program = programOf(fields);
  const text = printAxisProgram(program);
  expect(text).toContain("axis s = 20 pages %table of 8 rows %lengths along b of 56");
  expect(text).toContain("param %K f32[s, h, d]");
  expect(must(parseAxisProgram(text))).toEqual(program);
  const bad = text.replace("of 8 rows", "of 12 rows").replace("of 56", "of 50");
  const refused = parseAxisProgram(bad);
  expect(refused.ok ? "" : refused.error.map(formatDiagnostic).join()).toContain("a power of two: 8");
});

test("each sequence is attention over the rows of its pages, one behind the other", () => {
  const program = programOf(fields);
  const { launched } = must(anchorOf(program));
  const { reference: data } = randomInputs(launched, { distribution: { kind: "normal" }, seed: 5 });
  const lengths = Int32Array.of(20, 0, 9);
  const table = Int32Array.of(6, 0, 3, 99, 99, 99, 2, 6, 99);
  const steps = (data.steps ?? []).map((step, i) => (i === 1 ? lengths : i === 2 ? table : step));
  const paged = referenceProgram(program, { ...data, steps });
  const rowsOf = (from: unknown, sequence: number, head: number, width: number): Float32Array =>
    Float32Array.from(
      Array.from({ length: lengths[sequence] ?? 0 }, (_, key) => {
        const row = (table[sequence * 3 + Math.floor(key / 8)] ?? 0) * 8 + (key % 8);
        return [...(from as Float32Array).slice((row * 2 + head) * width, (row * 2 + head + 1) * width)];
      }).flat(),
    );
  for (const sequence of [0, 2])
    for (const head of [0, 1]) {
      const { pageSize: _, pages: _p, ...own } = fields;
      const alone = programOf({ ...own, batch: 1, heads: 1, keys: lengths[sequence] });
      const first = (sequence * 2 + head) * 2;
      const expected = referenceProgram(alone, {
        a: (data.a as Float32Array).slice(first * 4, (first + 2) * 4),
        b: rowsOf(data.b, sequence, head, 4),
        c: null,
        steps: [rowsOf(steps[0], sequence, head, 3)],
      } as Parameters<typeof referenceProgram>[1]);
      expect([...paged.d.values.slice(first * 3, (first + 2) * 3)]).toEqual([...expected.d.values]);
    }
});

test("FLOP are counted of the longest", () => {
  const request = { op: "attention", queries: 8, keys: 8, headDim: 4, batch: 2 };
  const of = (more: object): number => attentionFlops(must(readAttention({ ...request, ...more })));
  expect(of({ pageSize: 8, pages: 1 })).toBe(of({}));
});

describe("a table of a launch", () => {
  const request = { queries: 40, keys: 70, headDim: 16, batch: 2, dtype: "bf16", pageSize: 16, pages: 9 };
  const artifact = must(compiler.compile({ from: textOf(request), target: "sm_80" }));
  const { manifest, ptx } = artifact;
  const { host } = randomInputs(artifact.problem, { distribution: { kind: "normal" }, seed: 2 });
  const run = async (numbers: readonly number[], pages: readonly number[], shown = true) => {
    using device = must(await openDevice({ kind: "emulator", arch: "sm_80" }));
    const given = [numbers, pages].map((list) => bytesOfStorage(Int32Array.from(list)));
    const steps = (host.steps ?? []).map((step, i) => given[i - 1] ?? step);
    // A host that knows of no runs looks at nothing.
    const epilogue = manifest.request.epilogue.map((step) =>
      step.kind === "factor" && !shown ? { ...step, runs: undefined } : step,
    );
    return runGemm(
      device,
      { ptx, manifest: { ...manifest, request: { ...manifest.request, epilogue } } },
      { ...host, steps },
    );
  };

  test("is checked where the host has it, every fault at once", async () => {
    const ran = await run([71, 33], [0, 1, 2, 3, 4, 5, 9, -1, 99, 99]);
    expect(ran.ok ? [] : ran.error.map(({ code, at }) => `${code} ${at}`)).toEqual([
      "TW1020 steps[1][0]",
      "TW1020 steps[2][6]",
      "TW1020 steps[2][7]",
    ]);
  });

  test("is not read behind the last key", async () => {
    const ran = must(await run([3, 48], [8, 99, -7, 99, 99, 0, 1, 2, 2 ** 30, 99]));
    expect([ran.completed, ran.findings]).toEqual([true, []]);
  });

  test("with a page that there is not leads outside of K, which is found", async () => {
    const ran = must(await run([3, 48], [8, 0, 0, 0, 0, 0, 2 ** 20, 2, 0, 0], false));
    expect(ran.findings.map(({ rule }) => rule)).toContain("H001");
  });
});

test("bulk copies bring a box of each page, and no box has two pages", () => {
  const request = { queries: 64, keys: 300, headDim: 128, dtype: "bf16", batch: 2 };
  const boxesOf = (pageSize: number): unknown => {
    const { manifest } = must(
      compiler.compile({ from: textOf({ ...request, pageSize }), target: "sm_90a", backend: "wgmma" }),
    );
    const params = manifest.kernels.flatMap(({ params }) => params);
    return params.flatMap((param) =>
      param.kind === "tensorMap" && param.tensorMap.operand !== "a" && param.tensorMap.operand !== "d"
        ? [[param.tensorMap.operand, param.tensorMap.box[1], param.tensorMap.dims[1]]]
        : [],
    );
  };
  expect(boxesOf(16)).toEqual([
    ["b", 16, 608],
    ["epilogue0", 16, 608],
  ]);
  expect(boxesOf(512)).toEqual([
    ["b", 128, 1024],
    ["epilogue0", 128, 1024],
  ]);
});

test("a hand-edited buffer lies in pages that a step tells, or is refused by name", () => {
  const { program } = must(
    compiler.compile({ from: textOf({ ...fields, dtype: "bf16", headDim: 16 }), target: "sm_80" }),
  );
  const text = printProgram(program);
  expect(text).toContain("paged cols:1");
  const refused = compiler.compile({ from: text.replace("paged cols:1", "paged cols:0"), target: "sm_80" });
  expect(refused.ok ? [] : refused.error.map(({ code, at, message }) => [code, at, message])).toEqual([
    ["TW3101", "%B", "step 0 of the problem tells no pages"],
  ]);
});
