/** Attention of sequences with lengths of their own: what offsets mean, and what a kernel makes of wrong ones. */
import { bytesOfStorage, decodeArray, type Storage, storageFromBytes } from "@tilewright/core";
import {
  anchorOf,
  attentionFlops,
  attentionText,
  parseAxisProgram,
  printAxisProgram,
  readAttention,
  referenceProgram,
} from "@tilewright/ir";
import { openDevice, runGemm } from "@tilewright/runtime";
import { describe, expect, test } from "vitest";
import { compiler } from "../src/compiler.ts";
import { randomInputs } from "../src/run/inputs.ts";
import { must, programOf } from "./attentionPrograms.ts";

const fields = {
  ...{ queries: 6, keys: 9, headDim: 4, valueDim: 3, batch: 3, heads: 2, causal: true },
  ...{ window: 4, offsets: "both", totalQueries: 10, totalKeys: 14, lse: true },
} as const;

test("the program says runs of axes, and positions from their ends", () => {
  const program = programOf(fields);
  const text = printAxisProgram(program);
  expect(text).toContain("axis q = 6 runs %qo along b of 10");
  expect(text).toContain("axis s = 9 runs %ko along b of 14");
  expect(text).toContain("end(s)");
  expect(must(parseAxisProgram(text))).toEqual(program);
});

test("each sequence is attention of its own, wherever it lies", () => {
  const program = programOf(fields);
  const { launched } = must(anchorOf(program));
  const { reference: data } = randomInputs(launched, { distribution: { kind: "normal" }, seed: 5 });
  const [queries, keys] = [Int32Array.of(0, 3, 3, 9), Int32Array.of(0, 2, 7, 14)];
  const steps = (data.steps ?? []).map((step, i) => (i === 1 ? queries : i === 2 ? keys : step));
  const packed = referenceProgram(program, { ...data, steps });
  // Row 9 is no sequence's.
  expect(packed.rows).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
  const part = (
    from: unknown,
    head: number,
    total: number,
    [first = 0, end = 0]: readonly number[],
    width: number,
  ) => (from as Float32Array).slice((head * total + first) * width, (head * total + end) * width);
  for (const sequence of [0, 2])
    for (const head of [0, 1]) {
      const [q, k] = [queries, keys].map((ends) => [...ends.slice(sequence, sequence + 2)]) as [
        number[],
        number[],
      ];
      const length = ([first = 0, end = 0]: readonly number[]): number => end - first;
      const { offsets: _, totalQueries: _q, totalKeys: _k, ...own } = fields;
      const alone = programOf({ ...own, batch: 1, heads: 1, queries: length(q), keys: length(k) });
      const expected = referenceProgram(alone, {
        a: part(data.a, head, 10, q, 4),
        b: part(data.b, head, 14, k, 4),
        c: null,
        steps: [part(steps[0], head, 14, k, 3)],
      } as Parameters<typeof referenceProgram>[1]);
      const at = (head * 9 + (q[0] ?? 0)) * 3;
      expect([...packed.d.values.slice(at, at + 3 * length(q))]).toEqual([...expected.d.values]);
    }
});

test.each(["q", "kv"] as const)("gradients of each sequence are its own: %s", (backward) => {
  const { valueDim: _v, lse: _l, ...request } = { ...fields, backward, softCap: 2 };
  const program = programOf(request);
  const { launched } = must(anchorOf(program));
  const { reference: data } = randomInputs(launched, { distribution: { kind: "normal" }, seed: 5 });
  const ends = { qo: Int32Array.of(0, 3, 3, 9), ko: Int32Array.of(0, 2, 7, 14) };
  const nameOf = (step: (typeof launched.epilogue)[number]): string =>
    "name" in step ? (step.name ?? "") : "";
  const steps = (data.steps ?? []).map((step, i) => {
    const name = nameOf(launched.epilogue[i] as (typeof launched.epilogue)[number]);
    return name === "qo" || name === "ko" ? ends[name] : step;
  });
  const packed = referenceProgram(program, { ...data, steps });
  const all = new Map(launched.epilogue.map((step, i) => [nameOf(step), steps[i]]));
  const ofQueries = new Set(["Q", "O", "dO", "L", "delta"]);
  const { offsets: _, totalQueries: _q, totalKeys: _k, ...own } = request;
  for (const sequence of [0, 2])
    for (const head of [0, 1]) {
      const part = (from: unknown, name: string): unknown => {
        if (from === null || from === undefined) return null;
        const [to, total] = ofQueries.has(name) ? [ends.qo, 10] : [ends.ko, 14];
        const width = name === "L" || name === "delta" ? 1 : 4;
        const at = (end: number): number => (head * total + (to[sequence + end] ?? 0)) * width;
        return (from as Float32Array).slice(at(0), at(1));
      };
      const length = (name: "qo" | "ko"): number =>
        (ends[name][sequence + 1] ?? 0) - (ends[name][sequence] ?? 0);
      const alone = programOf({ ...own, batch: 1, heads: 1, queries: length("qo"), keys: length("ko") });
      const order = must(anchorOf(alone));
      const [a, b] = backward === "q" ? ["Q", "K"] : ["K", "Q"];
      const expected = referenceProgram(alone, {
        ...{ a: part(data.a, a), b: part(data.b, b), c: null },
        steps: order.launched.epilogue.map((step) => part(all.get(nameOf(step)), nameOf(step))),
      } as Parameters<typeof referenceProgram>[1]);
      const [to, of] = backward === "q" ? [ends.qo, 9] : [ends.ko, 14];
      const at = (head * of + (to[sequence] ?? 0)) * 4;
      const wanted = [...expected.d.values];
      expect([...packed.d.values.slice(at, at + wanted.length)]).toEqual(wanted);
      expect(wanted.some((value) => Math.abs(value) > 0.01)).toBe(true);
    }
});

test("FLOP are counted of equal lengths", () => {
  const of = (more: object): number =>
    attentionFlops(
      must(readAttention({ op: "attention", queries: 8, keys: 8, headDim: 4, batch: 2, ...more })),
    );
  expect(of({})).toBe(2 * 8 * 8 * 8 * 2);
  expect(of({ offsets: "both", totalQueries: 8, totalKeys: 12 })).toBe(2 * (4 * 6 + 4 * 6) * 8);
});

describe("offsets of a launch", () => {
  const program = attentionText(
    must(
      readAttention({
        ...{ op: "attention", queries: 40, keys: 70, headDim: 16, batch: 3, dtype: "bf16", offsets: "both" },
        ...{ totalQueries: 90, totalKeys: 100 },
      }),
    ),
  );
  const artifact = must(compiler.compile({ from: program, target: "sm_80" }));
  const { manifest, ptx } = artifact;
  const { host } = randomInputs(artifact.problem, { distribution: { kind: "normal" }, seed: 2 });
  const given = (...lists: readonly Int32Array[]) =>
    (host.steps ?? []).map((step, i) =>
      lists[i - 1] === undefined ? step : bytesOfStorage(lists[i - 1] as Storage),
    );

  test("are checked where the host has them, every fault at once", async () => {
    using device = must(await openDevice({ kind: "emulator", arch: "sm_80" }));
    const steps = given(Int32Array.of(0, 41, 30, 91), Int32Array.of(0, 10, 20, 101));
    const ran = runGemm(device, { ptx, manifest }, { ...host, steps });
    expect(ran.ok ? [] : ran.error.map(({ code, at }) => [code, at])).toEqual([
      ["TW1020", "steps[1][1]"],
      ["TW1020", "steps[1][2]"],
      ["TW1020", "steps[1][3]"],
      ["TW1020", "steps[2][3]"],
    ]);
  });

  test("that are wrong where nobody looks lead outside of no matrix", async () => {
    using device = must(await openDevice({ kind: "emulator", arch: "sm_80" }));
    // A host that takes runs for longer than they are checks less.
    const request = {
      ...manifest.request,
      epilogue: manifest.request.epilogue.map((step) =>
        step.kind === "factor" && step.runs !== undefined
          ? { ...step, runs: { ...step.runs, most: 2 ** 30, total: 2 ** 30 } }
          : step,
      ),
    };
    const steps = given(Int32Array.of(0, 40, 80, 5000), Int32Array.of(0, 99, 4000, 2 ** 29));
    const ran = must(runGemm(device, { ptx, manifest: { ...manifest, request } }, { ...host, steps }));
    expect([ran.completed, ran.findings]).toEqual([true, []]);
    const values = decodeArray("bf16", storageFromBytes("bf16", ran.d, 90 * 16));
    // Rows of runs within the matrix, all of them finite: the last one ends with it.
    expect(values.every(Number.isFinite)).toBe(true);
  });
});
