import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { devNull } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { compareWithBound, type DType, decodeArray, formatDiagnostic } from "@tilewright/core";
import { anchorOf, interpret, measureProgram, referenceProgram } from "@tilewright/ir";
import { describe, expect, test } from "vitest";
import { compiler } from "../src/compiler.ts";
import { randomInputs, stepDType } from "../src/run/inputs.ts";

import { cli } from "./harness.ts";
import { scratch } from "./scratch.ts";

const example = (name: string): string =>
  fileURLToPath(new URL(`../../../examples/${name}.tile`, import.meta.url));

const hasPtxas = spawnSync("ptxas", ["--version"]).status === 0;

/** What ptxas says of a text; ptxas 13 assembles sm_70's for sm_75. */
function assembled(ptx: string, arch: string): string {
  const [input, target] =
    arch === "sm_70" ? [ptx.replace(".target sm_70", ".target sm_75"), "sm_75"] : [ptx, arch];
  const run = spawnSync("ptxas", ["-v", `-arch=${target}`, "-", "-o", devNull], { encoding: "utf8", input });
  return `${run.status} ${run.stdout}${run.stderr}`;
}

const programs = [
  "softmax",
  "rmsnorm",
  "layernorm",
  "two-products",
  "grouped-heads",
  "online-softmax",
] as const;
const archs = ["sm_70", "sm_80", "sm_90a", "sm_100a"] as const;
const orders = ["random", "lazy", "eager"] as const;
const all = programs.flatMap((name) => archs.map((arch) => [name, arch] as const));

describe("programs over axes", () => {
  // One order each: every program and every architecture has all of them.
  test.each(all.map(([name, arch], i) => [name, arch, orders[i % orders.length] ?? "random"] as const))(
    "%s on %s is right, without hazards, in %s order",
    async (name, arch, order) => {
      const { code, stdout, stderr } = await cli(
        `run --from ${example(name)} --arch ${arch} --device emulator --order ${order} --json`,
      );
      const result = JSON.parse(stdout);
      expect([code, stderr, result.ok, result.hazards]).toEqual([0, "", true, []]);
      expect(result.error.boundRatio).toBeGreaterThan(0);
      expect(result.error.boundRatio).toBeLessThan(1);
    },
  );

  test.skipIf(!hasPtxas).each(all)("ptxas takes %s for %s without spills", async (name, arch) => {
    const { code, stdout } = await cli(`compile --from ${example(name)} --arch ${arch} -o -`);
    expect(code).toBe(0);
    const said = assembled(stdout, arch);
    expect(said).toMatch(/^0 /);
    expect(said).toContain(" 0 bytes spill stores, 0 bytes spill loads");
    expect(said).not.toMatch(/warning|C75\d\d/i);
  });

  // Every program on two architectures, every architecture with three programs; all with TILEWRIGHT_SLOW=1.
  const traced = all.filter(
    (_, i) => process.env.TILEWRIGHT_SLOW === "1" || (i + Math.floor(i / archs.length)) % 2 === 0,
  );
  test.each(traced)("%s on %s means the same after every pass", (name, arch) => {
    const text = readFileSync(example(name), "utf8")
      .replace("m = 200", "m = 20")
      .replace("q = 70", "q = 20")
      .replace("b = 2", "b = 1");
    const made = compiler.compile({ from: text, target: arch });
    const source = made.ok ? made.value.source : undefined;
    if (!made.ok || source === undefined) throw new Error("did not compile");
    const anchor = anchorOf(source);
    if (!anchor.ok) throw new Error("is no program that is scheduled");
    const { trace } = made.value;
    const problem = anchor.value.launched;
    const { reference: data } = randomInputs(problem, { distribution: { kind: "uniform" }, seed: 1 });
    const read = (dtype: DType | null, storage: unknown): ArrayLike<number> =>
      ArrayBuffer.isView(storage) && dtype !== null ? decodeArray(dtype, storage as Uint16Array) : [0];
    const inputs = {
      a: read(problem.a.dtype, data.a),
      b: read(problem.b.dtype, data.b),
      epilogue: problem.epilogue.map((step, i) => read(stepDType(step), data.steps?.[i])),
    };
    const expected = referenceProgram(source, data);
    for (const [i, { program, pass, changed }] of trace.entries()) {
      if (!changed) continue;
      const order = (["lazy", "eager", "random"] as const)[i % 3];
      const run = interpret(program, inputs, { order: order ?? "lazy" });
      if (!run.ok) throw new Error(`${pass}: ${run.error.map(formatDiagnostic).join()}`);
      const worst = compareWithBound(problem, Float64Array.from(run.value.d), expected).boundRatio;
      expect([pass, worst < 1]).toEqual([pass, true]);
      expect(worst).toBeGreaterThan(0);
    }
  });

  test.each(archs)("rows of a softmax are multiplied on %s, columns that are none are 0", async (arch) => {
    using folder = scratch();
    const path = join(folder.path, "attention.tile");
    const text = readFileSync(example("two-products"), "utf8").replace("m = 200", "m = 20");
    const softmax = [
      "reduce %x = max(%P / 8) along j",
      "map %P = exp(%P / 8 - %x)",
      "reduce %x = sum(%P) along j",
      "map %Q = %P + 1 / (j - 40)",
    ];
    const edited = text
      .replace("axis j = 64", "axis j = 35")
      .replace("  tile %S", "  tile %x f32[m]\n  tile %S")
      .replace("map %Q = %P", softmax.join("\n    "))
      .replace("store %D = %S", "store %D = %S / %x");
    writeFileSync(path, edited);
    const { stdout } = await cli(`run --from ${path} --arch ${arch} --device emulator --json`);
    const result = JSON.parse(stdout);
    expect([result.ok, result.hazards, result.error.boundRatio < 1]).toEqual([true, [], true]);
  });

  test.each([
    ["wgmma", "m = 8960", "j = 64", "n = 64", "k = 16"],
    ["wgmma", "m = 150", "j = 128", "n = 300"],
  ])("%s multiplies twice in CTAs of several work tiles or chunks: %s, %s, %s", async (backend, ...sizes) => {
    using folder = scratch();
    const path = join(folder.path, "many.tile");
    const text = readFileSync(example("two-products"), "utf8");
    const edited = sizes.reduce(
      (before, size) => before.replace(new RegExp(`axis ${size.slice(0, 4)}\\d+`), `axis ${size}`),
      text,
    );
    writeFileSync(path, edited);
    const { stdout } = await cli(
      `run --from ${path} --arch sm_90a --backend ${backend} --device emulator --order random --json`,
    );
    const result = JSON.parse(stdout);
    expect([result.ok, result.hazards, result.error.boundRatio < 1]).toEqual([true, [], true]);
  });

  test("every stage is text that compiles on", async () => {
    const { code, stdout } = await cli(`compile --from ${example("softmax")} --arch sm_80 --ir machine -o -`);
    expect(code).toBe(0);
    expect(stdout).toContain("reduce.row %x = max(%acc) below 96 via %sRows");
  });

  test.each(archs)("columns are masked by their position on %s", async (arch) => {
    using folder = scratch();
    const path = join(folder.path, "masked.tile");
    const text = readFileSync(example("softmax"), "utf8").replace("m = 200", "m = 40");
    writeFileSync(
      path,
      text
        .replace("max(%S)", "max(select(n, 50, %S, -inf))")
        .replace("exp(%S - %x)", "exp(select(n, 50, %S, -inf) - %x)"),
    );
    const { stdout } = await cli(`run --from ${path} --arch ${arch} --device emulator --json`);
    const result = JSON.parse(stdout);
    expect([result.ok, result.hazards, result.error.boundRatio < 1]).toEqual([true, [], true]);
  });

  test.each(archs)("vectors and matrices beside the product's take part on %s", async (arch) => {
    using folder = scratch();
    const path = join(folder.path, "masked.tile");
    const text = readFileSync(example("softmax"), "utf8").replace("m = 200", "m = 40");
    const added = "  param %mask f32[n]\n  param %R bf16[m, n] layout col\n  param %v f16[m]\n  param %D";
    const value = "    map %S = %S * 0.125 + %mask + %R * %v\n    reduce %x = max";
    writeFileSync(path, text.replace("  param %D", added).replace("    reduce %x = max", value));
    const { stdout } = await cli(`run --from ${path} --arch ${arch} --device emulator --order all --json`);
    const result = JSON.parse(stdout);
    expect([result.ok, result.hazards, result.error.boundRatio < 1]).toEqual([true, [], true]);
  });

  test.each(archs)("a bias and a mask of scores take part in an online softmax on %s", async (arch) => {
    using folder = scratch();
    const path = join(folder.path, "biased.tile");
    const text = readFileSync(example("online-softmax"), "utf8")
      .replace("q = 70", "q = 20")
      .replace("  param %O", "  param %bias bf16[q, s]\n  param %mask f32[s]\n  param %O")
      .replace("%S, (-inf))", "%S * 0.5 + %mask + %bias, (-inf))");
    writeFileSync(path, text);
    const { stdout } = await cli(`run --from ${path} --arch ${arch} --device emulator --order all --json`);
    const result = JSON.parse(stdout);
    expect([result.ok, result.hazards, result.error.boundRatio < 1]).toEqual([true, [], true]);
  });

  test.each([7, 33, 1500, 8192])("without a product, rows of %d", async (n) => {
    using folder = scratch();
    const path = join(folder.path, "rows.tile");
    const text = readFileSync(example("layernorm"), "utf8").replace("m = 200", "m = 6");
    writeFileSync(path, text.replace("n = 100", `n = ${n}`).replaceAll("/ 100", `/ ${n}`));
    const { stdout } = await cli(`run --from ${path} --arch sm_80 --device emulator --order all --json`);
    const result = JSON.parse(stdout);
    expect([result.ok, result.hazards, result.error.boundRatio <= 1]).toEqual([true, [], true]);
  });

  test("the interpreter computes at every stage what the program says", () => {
    const text = readFileSync(example("layernorm"), "utf8").replace("m = 200", "m = 6");
    const made = compiler.compile({ from: text, target: "sm_80" });
    if (!made.ok || made.value.source === undefined) throw new Error("the example does not compile");
    const values = (count: number): Float32Array =>
      Float32Array.from({ length: count }, (_, i) => ((i * 7) % 32) / 8 - 1);
    const [x, gamma, beta] = [values(600), values(100), values(100).reverse()];
    const named = { X: x, gamma, beta };
    const wanted = measureProgram(
      made.value.source,
      new Map(Object.entries(named).map(([name, data]) => [name, Float64Array.from(data)])),
    ).get("D");
    const none = new Float32Array(100);
    for (const { program } of made.value.trace) {
      const run = interpret(program, { a: none, b: none, epilogue: [x, gamma, beta] });
      if (!run.ok) throw new Error(run.error.map(({ message }) => message).join());
      const off = Array.from(run.value.d, (d, i) => Math.abs(d - (wanted?.values[i] ?? Number.NaN)));
      expect(off.every((error, i) => error <= (wanted?.bounds[i] ?? 0))).toBe(true);
    }
  });

  test("without a product, rows that no block holds are refused", async () => {
    using folder = scratch();
    const path = join(folder.path, "long.tile");
    writeFileSync(path, readFileSync(example("layernorm"), "utf8").replace("n = 100", "n = 8193"));
    const { code, stderr } = await cli(`compile --from ${path} --arch sm_80 -o -`);
    expect([code, stderr]).toEqual([3, expect.stringContaining("TW3170")]);
  });

  test.each([
    [80, "sum(exp(%A))"],
    [20, "max(-abs(%A))"],
  ])("of %d columns, no multiple of a turn's, none outside counts: %s", async (k, reduction) => {
    using folder = scratch();
    const path = join(folder.path, "turns.tile");
    const text = readFileSync(example("rmsnorm"), "utf8").replace("m = 200", "m = 40");
    const edited = text.replace("k = 96", `k = ${k}`).replace("sum(%A * %A)", reduction);
    writeFileSync(
      path,
      edited.replace("fill %r = 0", "fill %r = -1000").replace("rsqrt(%r / 96 + 0.00001)", "%r"),
    );
    const { stdout } = await cli(`run --from ${path} --arch sm_80 --device emulator --json`);
    const result = JSON.parse(stdout);
    expect([result.ok, result.hazards, result.error.boundRatio < 1]).toEqual([true, [], true]);
  });

  test("machine text with parts of an axis goes on to the same kernel, and not where sums are not begun anew", async () => {
    using folder = scratch();
    const from = `compile --from ${example("online-softmax")} --arch sm_90a`;
    const [text, ptx] = [await cli(`${from} --ir machine -o -`), await cli(`${from} -o -`)];
    const path = join(folder.path, "machine.tile");
    writeFileSync(path, text.stdout);
    expect((await cli(`compile --from ${path} -o -`)).stdout).toBe(ptx.stdout);
    expect(text.stdout).toMatch(/mma %S = /);
    // Copies of all parts follow each other; rows of the first factor are copied in front of them.
    expect(text.stdout).toMatch(
      /copy %sA[^\n]*tma[^\n]*\n[^\n]*advance[^\n]*\n\s*for %st[\s\S]*copy %sB[\s\S]*copy %sE0[\s\S]*role math/,
    );
    writeFileSync(path, text.stdout.replace("mma %S = ", "mma %S += "));
    expect((await cli(`compile --from ${path} -o -`)).stderr).toContain(
      "adds to %S, which nothing has filled",
    );
  });

  test.each(["nest", "bound", "machine"])(
    "text of stage %s goes on to the same kernel, and has no reference",
    async (stage) => {
      using folder = scratch();
      const from = `compile --from ${example("softmax")} --arch sm_80`;
      const [text, ptx] = [await cli(`${from} --ir ${stage} -o -`), await cli(`${from} -o -`)];
      const path = join(folder.path, "later.tile");
      writeFileSync(path, text.stdout);
      expect((await cli(`compile --from ${path} -o -`)).stdout).toBe(ptx.stdout);
      const { code, stderr } = await cli(`run --from ${path} --device emulator`);
      expect([code, stderr]).toEqual([3, expect.stringContaining("--no-check")]);
    },
  );

  test("no architecture is named: --arch is needed", async () => {
    const { code, stderr } = await cli(`compile --from ${example("softmax")} -o -`);
    expect([code, stderr]).toEqual([2, expect.stringContaining("--arch")]);
  });
});
