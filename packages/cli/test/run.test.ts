import { copyFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { decodeArray, defineProblem, encodeArray, findTarget } from "@tilewright/core";
import type * as Runtime from "@tilewright/runtime";
import { describe, expect, test, vi } from "vitest";
import { compiler } from "../src/compiler.ts";
import { loadMatrix } from "../src/files/load.ts";
import { encodeNpy } from "../src/files/npy.ts";
import { checkMemory } from "../src/run/inputs.ts";
import { runResultSchema } from "../src/run/result.ts";
import { cli, contextIn } from "./harness.ts";
import { scratch } from "./scratch.ts";

const fixtures = fileURLToPath(new URL("fixtures", import.meta.url));
const emulated = "--device emulator --arch sm_70";

/** A matrix of small integers by a formula, and the file that holds it. */
const formula = (row: number, col: number) => ((row * 7 + col * 3) % 11) - 5;
const dense = (rows: number, cols: number) =>
  Array.from({ length: rows * cols }, (_, i) => formula(Math.floor(i / cols), i % cols));

/** D = A.B by the definition, row by row. */
function product(
  m: number,
  n: number,
  k: number,
  a: (row: number, col: number) => number,
  b: (row: number, col: number) => number,
): number[] {
  return Array.from({ length: m * n }, (_, i) => {
    let sum = 0;
    for (let j = 0; j < k; j++) sum += a(Math.floor(i / n), j) * b(j, i % n);
    return sum;
  });
}

function readMatrix(folder: string, name: string) {
  const matrix = loadMatrix(contextIn(folder), name);
  if (!matrix.ok) throw new Error(matrix.error.map((d) => d.message).join());
  const { rows, cols, dtype, data } = matrix.value;
  return { rows, cols, dtype, values: [...decodeArray(dtype, data, rows * cols)] };
}

describe("random inputs", () => {
  test("--json prints exactly the object of the contract", async () => {
    const { code, stdout, stderr } = await cli(
      `run ${emulated} -m 65 -n 33 -k 17 --order all --seed 3 --json`,
    );
    const result = JSON.parse(stdout);
    expect([code, stderr]).toEqual([0, ""]);
    expect(runResultSchema.parse(result)).toEqual(result);
    expect(Object.keys(result)).toEqual([
      "ok",
      "arch",
      "device",
      "deviceName",
      "problem",
      "schedule",
      "choice",
      "error",
      "hazards",
      "timeMs",
      "ptxSha256",
    ]);
    expect(result).toMatchObject({
      ok: true,
      arch: "sm_70",
      device: "emulator",
      deviceName: "emulator (sm_70)",
      hazards: [],
      problem: { m: 65, n: 33, k: 17 },
    });
    expect(result.error.boundRatio).toBeGreaterThan(0);
    expect(result.error.boundRatio).toBeLessThan(1);
  });

  test("the seed decides the numbers", async () => {
    const error = async (seed: number) =>
      JSON.parse((await cli(`run ${emulated} -m 20 -n 20 -k 20 --seed ${seed} --json`)).stdout).error.maxAbs;
    const [one, again, other] = [await error(1), await error(1), await error(2)];
    expect(again).toBe(one);
    expect(other).not.toBe(one);
  });

  test("integers are exact", async () => {
    const { stdout } = await cli(`run ${emulated} -m 33 -n 40 -k 50 --inputs integers --json`);
    expect(JSON.parse(stdout)).toMatchObject({ ok: true, error: { maxAbs: 0, boundRatio: 0 } });
  });

  test.each([
    ["--a-layout col --b-layout col --d-layout col"],
    ["--lda 50 --ldb 45 --ldd 64"],
    ["--alpha 1.5 --beta -0.5"],
    ["--beta 1 --c-layout col --ldc 77"],
  ])("%s", async (flags) => {
    const { code, stdout } = await cli(`run ${emulated} -m 37 -n 41 -k 29 ${flags}`);
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^result +correct\n/)]);
  });

  test("--no-check says that nothing was compared", async () => {
    const { code, stdout } = await cli(`run ${emulated} -m 9 -n 9 -k 9 --no-check --json`);
    expect([code, JSON.parse(stdout).error]).toEqual([0, null]);
  });

  test("without --arch it takes the usual one", async () => {
    const { stdout } = await cli("run --device emulator -m 9 -n 9 -k 9 --json");
    expect(JSON.parse(stdout)).toMatchObject({ ok: true, arch: "sm_70" });
  });
});

describe("matrices from files", () => {
  test("float32 and float16, C and Fortran order: D is the product", async () => {
    using folder = scratch();
    const [m, k, n] = [3, 4, 6];
    for (const name of ["f32_c", "f32_fortran", "f16_c", "f16_fortran"])
      copyFileSync(join(fixtures, `${name}.npy`), join(folder.path, `${name}.npy`));
    writeFileSync(join(folder.path, "B.npy"), encodeNpy([k, n], "f16", encodeArray("f16", dense(k, n))));
    const expected = product(m, n, k, (row, col) => (row * 4 + col - 5) / 4, formula);
    for (const name of ["f32_c", "f32_fortran", "f16_c", "f16_fortran"]) {
      const { code, stdout } = await cli(`run ${emulated} --a ${name}.npy --b B.npy --out D.npy`, {
        cwd: folder.path,
      });
      expect([name, code, stdout]).toEqual([name, 0, expect.stringContaining("correct")]);
      const dtype = name.slice(0, 3);
      expect(readMatrix(folder.path, "D.npy")).toEqual({ rows: m, cols: n, dtype, values: expected });
    }
  });

  test("safetensors, bf16 too; layouts by flag; --d as another name of --out", async () => {
    using folder = scratch();
    copyFileSync(join(fixtures, "weights.safetensors"), join(folder.path, "w.safetensors"));
    writeFileSync(join(folder.path, "B.npy"), encodeNpy([4, 5], "f32", encodeArray("f32", dense(4, 5))));
    const expected = product(3, 5, 4, (row, col) => (row * 4 + col - 5) / 4, formula);
    for (const [name, flags] of [
      ["w.bf16", "--a-layout col --lda 7"],
      ["w.f16", "--b-layout col"],
      ["w.f32", "--d-layout col --ldd 9"],
    ]) {
      const argv = `run ${emulated} --a w.safetensors#${name} --b B.npy --d D.npy ${flags}`;
      const { code } = await cli(argv, { cwd: folder.path });
      expect([name, code, readMatrix(folder.path, "D.npy").values]).toEqual([name, 0, expected]);
    }
  });

  test("types that no backend multiplies are widened where that is exact, and that is said", async () => {
    using folder = scratch();
    copyFileSync(join(fixtures, "i8.npy"), join(folder.path, "A.npy"));
    const { code, stderr } = await cli(`run ${emulated} --a A.npy -n 5`, { cwd: folder.path });
    expect([code, stderr]).toEqual([
      0,
      "no backend multiplies s8 on sm_70: its values are widened to f32, exactly\n",
    ]);
    const named = await cli(`run ${emulated} --a A.npy -n 5 --dtype s8`, { cwd: folder.path });
    expect([named.code, named.stderr]).toEqual([
      3,
      expect.stringContaining("A of the simt backend is f32, f16, bf16, not s8"),
    ]);
  });

  test("C from a file", async () => {
    using folder = scratch();
    copyFileSync(join(fixtures, "f32_c.npy"), join(folder.path, "C.npy"));
    writeFileSync(join(folder.path, "A.npy"), encodeNpy([3, 2], "f32", encodeArray("f32", dense(3, 2))));
    writeFileSync(join(folder.path, "B.npy"), encodeNpy([2, 4], "f32", encodeArray("f32", dense(2, 4))));
    const { code } = await cli(`run ${emulated} --a A.npy --b B.npy --c C.npy --beta 2 --out D.npy`, {
      cwd: folder.path,
    });
    const ab = product(3, 4, 2, formula, formula);
    expect([code, readMatrix(folder.path, "D.npy").values]).toEqual([
      0,
      ab.map((value, i) => value + (2 * (i - 5)) / 4),
    ]);
  });
});

describe("what goes wrong", () => {
  /** Run the bound program after an edit, writing D. */
  async function runEdited(edit: (text: string) => string, argv = "") {
    const folder = scratch();
    const { stdout: text } = await cli("compile --arch sm_70 -m 20 -n 20 -k 20 --ir bound");
    writeFileSync(join(folder.path, "kernel.tile"), edit(text));
    const outcome = await cli(`run --from kernel.tile --device emulator --out D.npy ${argv}`, {
      cwd: folder.path,
    });
    return { folder, ...outcome };
  }

  test("scale factors from files, row by row; what does not fit is said all at once", async () => {
    using folder = scratch();
    const save = (name: string, rows: number, cols: number, codes: readonly number[]) =>
      writeFileSync(join(folder.path, name), encodeNpy([rows, cols], "u8", Uint8Array.from(codes)));
    // Factors 1 and 2 in ue4m3.
    save(
      "sfa.npy",
      5,
      4,
      Array.from({ length: 20 }, (_, i) => (i % 3 === 0 ? 0x40 : 0x38)),
    );
    save("sfb.npy", 6, 4, Array(24).fill(0x38));
    const sizes = "-m 5 -n 6 -k 64 --dtype nvf4 --b-layout col --device emulator --arch sm_100a";
    const good = await cli(`run ${sizes} --inputs integers --sfa sfa.npy --sfb sfb.npy --json`, {
      cwd: folder.path,
    });
    expect(good.code).toBe(0);
    expect(JSON.parse(good.stdout)).toMatchObject({ ok: true, hazards: [], error: { maxAbs: 0 } });
    const bad = await cli(`run ${sizes} --sfa sfb.npy --sfb nowhere.npy`, { cwd: folder.path });
    expect(bad.code).toBe(2);
    expect(bad.stderr).toContain("TW7010 (invalid)");
    const shape = await cli(`run ${sizes} --sfa sfb.npy`, { cwd: folder.path });
    expect(shape.stderr).toContain(
      "TW7034 (invalid) at --sfa: sfb.npy has shape (6, 4); A has 5 x 4 scale factors",
    );
    const none = await cli(`run ${emulated} -m 5 -n 6 -k 64 --sfa sfa.npy`, { cwd: folder.path });
    expect(none.stderr).toContain("TW7005 (invalid) at --sfa: A is f32, which has no scale factors");
  });

  test("f32 factors of 128 along K from files; B of its own dtype", async () => {
    using folder = scratch();
    const save = (name: string, rows: number, values: readonly number[]) =>
      writeFileSync(join(folder.path, name), encodeNpy([rows, 2], "f32", Float32Array.from(values)));
    save("sfa.npy", 5, [1, 2, 4, 8, 1, 1, 2, 2, 4, 4]);
    save("sfb.npy", 1, [2, 4]);
    const on = "--b-layout col --device emulator --arch sm_90a --inputs integers --json";
    const sizes = "-m 5 -n 6 -k 130 --dtype e4m3 --block-scales 1x128,128x128";
    const scaled = await cli(`run ${sizes} --sfa sfa.npy --sfb sfb.npy ${on}`, { cwd: folder.path });
    expect(JSON.parse(scaled.stdout)).toMatchObject({
      ok: true,
      hazards: [],
      problem: { blockScales: { b: "128x128" } },
    });
    const shape = await cli(`run ${sizes} --sfa sfb.npy ${on}`, { cwd: folder.path });
    expect(shape.stderr).toContain(
      "sfb.npy has shape (1, 2); A has 5 x 2 scale factors, one for 128 elements of K",
    );
    const mixed = await cli(`run -m 5 -n 6 -k 40 --dtype s8 --b-dtype bf16 ${on}`);
    expect(JSON.parse(mixed.stdout)).toMatchObject({
      ok: true,
      hazards: [],
      problem: { acc: "f32", d: { dtype: "bf16" } },
    });
  });

  test("an edited kernel that is right runs", async () => {
    const { folder, code } = await runEdited((text) => text);
    using _ = folder;
    expect([code, folder.list()]).toEqual([0, ["D.npy", "kernel.tile"]]);
  });

  test("wrong numbers: exit code 5, where the worst one is, and no D", async () => {
    const { folder, code, stdout, stderr } = await runEdited(
      (text) => text.replace("fill %acc = 0", "fill %acc = 1"),
      "--json",
    );
    using _ = folder;
    expect(code).toBe(5);
    expect(JSON.parse(stdout)).toMatchObject({
      ok: false,
      hazards: [],
      error: { boundRatio: expect.any(Number) },
    });
    expect(JSON.parse(stdout).error.boundRatio).toBeGreaterThan(1);
    expect(stderr).toMatch(
      /error TW7060 \(check\) at D: 400 elements beyond the bound \(order eager\); worst D\[\d+, \d+\]: /,
    );
    expect(folder.list()).toEqual(["kernel.tile"]);
  });

  test("files that do not fit an edited program", async () => {
    using folder = scratch();
    copyFileSync(join(fixtures, "f32_c.npy"), join(folder.path, "A.npy"));
    const { stdout: text } = await cli("compile --arch sm_70 -m 20 -n 20 -k 20 --ir bound");
    writeFileSync(join(folder.path, "kernel.tile"), text);
    const { code, stderr } = await cli("run --from kernel.tile --a A.npy", { cwd: folder.path });
    expect(code).toBe(2);
    expect(stderr).toContain("m is 20 by the tile program, but 3 by the rows of A.npy (3, 4)");
  });

  test("a GPU where there is none: exit code 4, and the emulator as the way on", async () => {
    const { code, stderr } = await cli("run --device cuda --arch sm_70 -m 9 -n 9 -k 9");
    // On a machine with a GPU the same command simply runs.
    if (code === 0) return;
    expect(code).toBe(4);
    expect(stderr).toContain("run it on the emulator: --device emulator");
  });

  test("factors that only a launch knows", async () => {
    const request = { arch: "sm_70", problem: { m: 9, n: 9, k: 9, alpha: "runtime" } };
    const { code, stderr } = await cli("run --request -", { stdin: JSON.stringify(request) });
    expect(code).toBe(3);
    expect(stderr).toContain(
      "TW7040 (unsupported) at alpha: alpha is left to the launch, and run has no value for it",
    );
    expect((await cli("run --request - --alpha 2", { stdin: JSON.stringify(request) })).code).toBe(0);
  });

  test("results that depend on the completion order", async () => {
    // A device whose second run gives other bits: what a hazard that no rule knows would look like.
    let runs = 0;
    const runGemm = () => {
      const d = new Uint8Array(81 * 4);
      d[0] = runs++;
      return {
        ok: true,
        value: { d, steps: new Map(), timeMs: 1, findings: [], counters: null, completed: true },
      };
    };
    vi.resetModules();
    vi.doMock("@tilewright/runtime", async (original) => ({
      ...(await original<typeof Runtime>()),
      runGemm,
    }));
    const faked = await import("./harness.ts");
    vi.doUnmock("@tilewright/runtime");
    vi.resetModules();
    const { code, stderr } = await faked.cli(`run ${emulated} -m 9 -n 9 -k 9 --order all --no-check`);
    expect(code).toBe(5);
    expect(stderr).toContain("TW7063 (check) at D: orders eager and lazy give different results");
  });

  test("parts that are added as they come differ from order to order without a fault", async () => {
    const schedule = "tile=32x32x8 thread=4x4 lanes=8x4 strip=4x4 split=5 reduction=atomics";
    const argv = [
      "run",
      ...emulated.split(" "),
      ..."-m 33 -n 17 -k 200 --backend simt --order all".split(" "),
    ];
    const { code, stderr } = await cli([...argv, "--schedule", schedule]);
    expect(stderr).not.toContain("TW7063");
    expect(code).toBe(0);
  });

  describe("what does not fit in memory is refused before anything is made", () => {
    test.each([
      ["operands and a workspace", "--arch sm_90a -m 8192 -n 8192 -k 8192 --device emulator"],
      ["groups", "--groups groups.json --arch sm_80 --dtype f16 --device emulator"],
    ])("%s", async (_, line) => {
      using folder = scratch();
      const groups = JSON.stringify(Array(20).fill({ m: 8192, n: 8192, k: 64 }));
      writeFileSync(join(folder.path, "groups.json"), groups);
      const { code, stderr } = await cli(`run ${line}`, { cwd: folder.path });
      expect(code).toBe(3);
      // Neither progress nor how long it would take.
      expect(stderr).toMatch(
        /^error TW7042 \(unsupported\) at problem: operands and workspace take \d+ B \(.*, and the emulated device has 1073741824 B \(1 GiB\)\n {2}hint: smaller sizes .*--device cuda /,
      );
    });

    test("operands on a GPU and the float64 reference, in this machine's", async () => {
      const [problem, target] = [
        defineProblem({ m: 100_000, n: 100_000, k: 100_000 }),
        findTarget("sm_70"),
      ] as const;
      if (!problem.ok || !target.ok) throw new Error("a problem and a target");
      const artifact = compiler.compile({ problem: problem.value, target: target.value });
      if (!artifact.ok) throw new Error("it compiles");
      const use = { device: "cuda", checked: true } as const;
      const [fault, ...more] = checkMemory(artifact.value, [problem.value], use);
      expect(more).toEqual([]);
      expect(fault?.message).toMatch(/^running this takes about \d+ B .* of memory on this machine/);
      expect(fault?.hint).toBe("smaller sizes, or --no-check to save the reference's share");
    });
  });
});

test("the result of run --json is what tilewright schema run describes", async () => {
  const { stdout } = await cli("schema run");
  const { properties, required } = JSON.parse(stdout);
  expect(Object.keys(properties)).toEqual(required);
});

describe("groups", () => {
  const run = async (groups: unknown, flags: string | readonly string[] = "") => {
    using folder = scratch();
    writeFileSync(join(folder.path, "groups.json"), JSON.stringify(groups));
    const words = `run ${emulated} --groups groups.json`.split(" ");
    const more = typeof flags === "string" ? flags.split(" ").filter((word) => word !== "") : flags;
    return await cli([...words, ...more], { cwd: folder.path });
  };

  test("one launch of different sizes, checked, one of them without work", async () => {
    const groups = [
      { m: 33, n: 17, k: 20, ldd: 19 },
      { m: 0, n: 9, k: 4 },
      { m: 5, n: 60, k: 31, lda: 40 },
    ];
    const { code, stdout } = await run(groups, "--order all --json --beta 1");
    const result = JSON.parse(stdout);
    expect([code, result.ok]).toEqual([0, true]);
    expect(result.problem).toMatchObject({ m: 33, n: 60, k: 31, batch: { kind: "grouped", count: 3 } });
    expect(result.error.boundRatio).toBeGreaterThan(0);
  });

  test.each([
    ["--schedule", "tile=64x64x8 thread=8x8 copy=direct split=3 reduction=kernel"],
    ["--epilogue", "reduce(amax,n,e4m3)|reduce(sum,m,f16)"],
  ])("of two kernels: %s %s", async (...flags) => {
    const groups = [
      { m: 33, n: 17, k: 40 },
      { m: 0, n: 9, k: 4 },
      { m: 65, n: 60, k: 31 },
    ];
    const { code, stdout } = await run(groups, ["--json", ...flags]);
    expect([code, JSON.parse(stdout).ok]).toEqual([0, true]);
  });

  test("nothing but groups without work", async () => {
    expect(await run([{ m: 0, n: 3, k: 4 }])).toMatchObject({ code: 0 });
  });

  test("what no group can be, of all groups at once", async () => {
    const faults = await run([
      { m: 9, n: 9, k: 9, lda: 3 },
      { m: 9, n: 9, k: 9, ldb: 4 },
    ]);
    expect(faults.stderr).toMatch(/groups\[0\]\.a\.ld[\s\S]*groups\[1\]\.b\.ld/);
    expect((await run([{ m: 9, n: 9, k: 9 }], "-m 8")).stderr).toMatch(/TW1304.*groups\[0\].*m <= 8/);
    expect((await run([{ m: 9 }])).code).toBe(2);
    expect((await run([{ m: 9, n: 9, k: 9 }], "--sizes m=3")).stderr).toMatch(/TW7005/);
    expect((await run([{ m: 9, n: 9, k: 9 }], "--batch 2")).stderr).toMatch(/TW7005.*beside --batch/);
  });
});

describe("sizes at launch", () => {
  const flags = `run ${emulated} -m 48 -n 40 -k 32 --symbolic m:..64,n,k%8 --json`;

  test.each([
    ["", { m: 48, n: 40, k: 32 }],
    ["--sizes m=5,n=7,k=16", { m: 5, n: 7, k: 16 }],
    ["--sizes m=64,k=8,lda=24", { m: 64, n: 40, k: 8 }],
  ])("one kernel, checked: %s", async (sizes, problem) => {
    const { code, stdout } = await cli(`${flags} ${sizes}`);
    const result = JSON.parse(stdout);
    expect([code, result.ok]).toEqual([0, true]);
    expect(result.problem).toMatchObject(problem);
    expect(result.error.boundRatio).toBeLessThanOrEqual(1);
  });

  test("what the kernel does not leave to the launch, and what it was not made for", async () => {
    const found = async (sizes: string) => {
      const { code, stderr } = await cli(`${flags} --sizes ${sizes}`);
      expect(code).not.toBe(0);
      return stderr;
    };
    expect(await found("q=3,m=x")).toMatch(/TW7003.*'q=3'[\s\S]*TW7003.*'m=x'/);
    expect(await found("m=65,k=12")).toMatch(/m <= 64; here m is 65[\s\S]*k % 8 == 0; here k % 8 is 4/);
    const fixed = await cli(`run ${emulated} -m 8 -n 8 -k 8 --sizes m=9`);
    expect([fixed.code, fixed.stderr]).toEqual([3, expect.stringContaining("TW1015")]);
  });
});

describe("outputs of a batch that lie beside each other, as heads of attention do", () => {
  const archs = ["sm_70", "sm_80", "sm_90a", "sm_100a"];
  const operands = { a: { ld: 96 }, b: { layout: "col", ld: 96 } };
  const strides = { kind: "strided", count: 4, strideA: 24, strideB: 24 };
  test.each(
    archs.flatMap((arch) => [
      [arch, { dtype: "bf16", layout: "row", ld: 64 }, 16] as const,
      [arch, { dtype: "bf16", layout: "col", ld: 160 }, 40] as const,
    ]),
  )("%s, %o", async (arch, d, strideD) => {
    using folder = scratch();
    const problem = { m: 40, n: 16, k: 24, dtype: "bf16", ...operands, d, batch: { ...strides, strideD } };
    const path = join(folder.path, "heads.json");
    writeFileSync(path, JSON.stringify({ problem }));
    const { stdout } = await cli(`run --request ${path} --arch ${arch} --device emulator --order all --json`);
    const { ok, hazards, error } = JSON.parse(stdout);
    expect([ok, hazards, error?.boundRatio <= 1]).toEqual([true, [], true]);
  });
});
