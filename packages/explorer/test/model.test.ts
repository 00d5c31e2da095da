import { describe, expect, test } from "vitest";
import { statementCounts } from "../src/model/counts.ts";
import { plants, without } from "../src/model/faults.ts";
import { heatOf } from "../src/model/heat.ts";
import { fromHash, type State, toHash } from "../src/model/state.ts";
import { namesIn, stepsOf } from "../src/model/steps.ts";
import { compileAsk } from "../src/worker/kernel.ts";

const problem = { m: 64, n: 48, k: 32, dtype: "bf16", b: { layout: "col" }, epilogue: "bias(n,f16)|gelu" };

describe("permalinks", () => {
  const state: State = {
    ...{ arch: "sm_80", gpu: "A100 SXM", backend: "mma", schedule: "tile=64x64x32 stages=3", problem },
    ...{
      edit: { step: "elideGuards", text: "tile.kernel @x {\n  # ü\n}\n" },
      tab: "run",
      step: "ptx",
      ladder: "hopper",
      rung: "3",
      unproven: "no",
    },
  };

  test("hold the whole state", async () => {
    expect(await fromHash(await toHash(state))).toEqual(state);
    expect(await fromHash(`#${await toHash({ ...state, edit: null })}`)).toEqual({ ...state, edit: null });
  });

  test("can be written by hand, and what is damaged is left out", async () => {
    const read = await fromHash(
      '#arch=sm_70&m=5&n=6&k=7&a={"layout":"col"}&edited=tile&text=%%%&tab=nowhere',
    );
    expect(read).toMatchObject({ arch: "sm_70", problem: { m: 5, n: 6, k: 7, a: { layout: "col" } } });
    expect([read.edit, read.tab]).toEqual([null, "stages"]);
  });
});

describe("faults", () => {
  test("of a program are statements that order others, not those that do work", () => {
    const text =
      "role x {\n  wait %ring @ %kt pending 0\n  mma %acc += %a * %b atom fma\n  release %ring @ %kt\n  wgmma.wait pending 0\n}";
    expect(plants("bound", text).map(({ line }) => line)).toEqual([2, 4, 5]);
    expect(without(text, 2)).not.toContain("wait %ring");
  });

  test("of PTX are barriers, fences and waits, guarded or not", () => {
    const text =
      "  bar.sync 0;\n  @%p2 fence.proxy.async;\n  add.u32 %a, %a, 1;\n  cp.async.wait_group 0;\n// bar.sync 0;";
    expect(plants("ptx", text).map(({ line }) => line)).toEqual([1, 2, 4]);
  });
});

test("a heat map keeps the largest error under each cell, and shows what is no number", () => {
  const heat = heatOf(400, 2, (row, column) =>
    row === 399 && column === 1 ? Number.NaN : row === 0 ? 0.5 : 0,
  );
  expect([heat.high, heat.wide]).toEqual([160, 2]);
  expect(heat.cells[0]).toBe(0.5);
  expect(heat.cells.at(-1)).toBe(Number.POSITIVE_INFINITY);
  expect(heat.cells[3]).toBe(0);
});

describe("a request", () => {
  const ask = {
    arch: "sm_80",
    gpu: "",
    backend: "",
    schedule: "",
    problem: { ...problem, dtype: "f16" },
    edit: null,
    unproven: true,
  };

  test("becomes a kernel with all of its stages", () => {
    const { kernel, diagnostics } = compileAsk(ask).compiled;
    expect(diagnostics).toEqual([]);
    expect(kernel?.steps[0]?.stage).toBe("nest");
    expect(kernel?.ptx).toMatch(/^\.version/);
  });

  test.each([
    ["sm_70", "f32", /^mma /, /\bfma\.rn/],
    ["sm_80", "f16", /^copy %sA.* <- %A/, /\bcp\.async\b/],
    ["sm_90a", "bf16", /^copy %sB.* <- %B/, /\bcp\.async\.bulk\.tensor/],
    ["sm_100a", "bf16", /^mma /, /\btcgen05\.mma/],
  ])(
    "of %s links each line of PTX with the statement it was made for",
    (arch, dtype, statement, instruction) => {
      const kernel = compileAsk({ ...ask, arch, problem: { ...problem, epilogue: undefined, dtype } })
        .compiled.kernel;
      const program = kernel?.steps.at(-1)?.text.split("\n") ?? [];
      const ptx = kernel?.ptx.split("\n") ?? [];
      const made = ptx.filter((_, i) =>
        statement.test(program[(kernel?.links?.ofPtx[i] ?? 0) - 1]?.trim() ?? ""),
      );
      expect(made.join("\n")).toMatch(instruction);
      expect(kernel?.links?.ofPtx).toHaveLength(ptx.length);
    },
  );

  test("for attention is a program over named axes, which can be edited as every stage can", () => {
    const attention = { op: "attention", queries: 64, keys: 96, headDim: 32, dtype: "f16" };
    const { kernel, diagnostics } = compileAsk({ ...ask, problem: attention }).compiled;
    expect(diagnostics).toEqual([]);
    const [program, nest] = kernel?.steps ?? [];
    expect([program?.stage, nest?.stage, nest?.follows]).toEqual(["program", "nest", false]);
    expect(kernel?.source).toBe(program?.text);
    const text = program?.text.replaceAll("96", "80") ?? "";
    const edited = compileAsk({ ...ask, problem: attention, edit: { step: "program", text } }).compiled;
    expect(edited.diagnostics).toEqual([]);
    expect(edited.kernel?.source).toBe(edited.kernel?.steps[0]?.text);
    expect(edited.kernel?.ptx).not.toBe(kernel?.ptx);
    // What an edited stage has to compute is what the request says.
    const last = kernel?.steps.at(-1);
    const edit = { step: last?.pass ?? "", text: `${last?.text}\n` };
    const same = compileAsk({ ...ask, problem: attention, edit }).compiled.kernel;
    expect([same?.source, same?.ptx]).toEqual([kernel?.source, kernel?.ptx]);
  });

  test("is ranked for the GPU that is named", () => {
    const large = { m: 4096, n: 4096, k: 4096, dtype: "bf16", b: { layout: "col" } };
    const of = (gpu: string) =>
      compileAsk({ ...ask, arch: "sm_90a", gpu, problem: large }).compiled.kernel?.schedule;
    expect(of("H100 PCIe")).not.toBe(of("H200"));
  });

  test("of nonsense is refused with every reason", () => {
    const { kernel, diagnostics } = compileAsk({
      ...ask,
      problem: { m: -1, n: 0, k: 3, epilogue: "" },
    }).compiled;
    expect(kernel).toBeNull();
    expect(diagnostics.length).toBeGreaterThan(1);
  });

  test("goes on from an edited step, with the passes behind it", () => {
    const base = compileAsk(ask).compiled.kernel;
    const staged = base?.steps.findLast(({ stage, changed }) => stage === "staged" && changed);
    const edit = { step: staged?.pass ?? "", text: staged?.text.replace(/slots=\d+/, "slots=2") ?? "" };
    const edited = compileAsk({ ...ask, edit }).compiled;
    expect(edited.diagnostics).toEqual([]);
    expect(edited.kernel?.steps.map(({ pass }) => pass).slice(0, 3)).toEqual(
      base?.steps.map(({ pass }) => pass).slice(0, 3),
    );
    expect(edited.kernel?.ptx).not.toBe(base?.ptx);
  });

  test("whose edit the proof refuses is compiled unproven only where that is wished", () => {
    const last = compileAsk(ask).compiled.kernel?.steps.at(-1);
    const text = last?.text ?? "";
    const [fault] = plants("bound", text);
    const edit = { step: last?.pass ?? "", text: without(text, fault?.line ?? 0) };
    expect(fault).toBeDefined();
    const proven = compileAsk({ ...ask, edit, unproven: false }).compiled;
    expect([proven.kernel, proven.diagnostics.length > 0]).toEqual([null, true]);
    const unproven = compileAsk({ ...ask, edit }).compiled;
    expect([unproven.kernel === null, unproven.diagnostics.length > 0]).toEqual([false, true]);
  });
});

describe("steps of a log", () => {
  const at = { block: 2, warp: 1, line: 7 } as const;
  const barrier = { kind: "mbarrier", block: 2, offset: 64, warp: null, phase: 0, pending: 0 } as const;

  test("go by the clock; of one mbarrier in the order of the log", () => {
    const steps = stepsOf(
      [
        { kind: "launch", entry: "k", grid: [4, 1, 1] },
        { ...barrier, is: "bytes", time: 90, value: 16, tx: 16 },
        { ...barrier, is: "bytes", time: 80, value: 16, tx: 0 },
        { ...at, kind: "registers", time: 85, count: 40 },
        { ...at, kind: "registers", time: 5, count: 24, block: 1 },
      ],
      2,
    );
    expect(steps.map(({ time, text }) => `${time}: ${text}`)).toEqual([
      "85: warp 1 has 40 registers per thread",
      "90: 16 bytes come to {64}: 16 to come",
      "90: 16 bytes come to {64}: 0 to come",
    ]);
    expect(steps.at(-1)?.barrier).toEqual({ offset: 64, phase: 0, pending: 0, tx: 0 });
  });

  test("have the names of the program", () => {
    const { barriers, role } = namesIn(
      "  mbar %full @64 slots 2\n  mbar %go @96\n  role math first 4 warps 8 {",
    );
    expect([...barriers]).toEqual([
      [64, "%full[0]"],
      [72, "%full[1]"],
      [96, "%go"],
    ]);
    expect([3, 4, 11, 12].map(role)).toEqual([null, "math", "math", null]);
  });
});

test("what a statement came to: its instructions, and registers where they are first written", () => {
  const ptx =
    ".reg .b64 %rd<2>;\n.reg .f32 %f;\n.reg .pred %p<1>;\nmov.b64 %rd0, 1;\n@%p0 add.rn.f32 %f, %f, %f;\nadd.s64 %rd1, %rd0, %rd0;\nret;";
  const counts = statementCounts(ptx, [0, 0, 0, 4, 4, 9, 0]);
  expect(counts.get(4)).toEqual({
    ...{ instructions: 2, registers: 3, predicates: 0 },
    opcodes: [
      ["mov", 1],
      ["add", 1],
    ],
  });
  expect(counts.get(9)).toMatchObject({ instructions: 1, registers: 2 });
  expect(counts.size).toBe(2);
});

test("every step that is said to be editable compiles from its text, to the same kernel", () => {
  const ask = {
    arch: "sm_90a",
    gpu: "",
    backend: "",
    schedule: "",
    problem: { m: 128, n: 128, k: 128, dtype: "bf16" },
    edit: null,
    unproven: false,
  };
  const { kernel } = compileAsk(ask).compiled;
  const steps = kernel?.steps ?? [];
  const read = steps.filter(({ editable }) => !editable).map(({ pass }) => pass);
  expect(read).toEqual([
    "expandRings",
    "expandReductions",
    "issueProducts",
    "scheduleTiles",
    "expandStores",
    "openKernel",
  ]);
  for (const { pass, text, changed, editable } of steps.filter((step) => step.changed)) {
    const { compiled } = compileAsk({ ...ask, edit: { step: pass, text } });
    expect([pass, changed, compiled.kernel?.ptx === kernel?.ptx]).toEqual([pass, true, editable]);
  }
});
