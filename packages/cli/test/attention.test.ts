import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { encodeArray, type OperandData, readElement, readManifest } from "@tilewright/core";
import {
  anchorOf,
  attentionText,
  checkedRows,
  parseAxisProgram,
  readAttention,
  referenceProgram,
} from "@tilewright/ir";
import { KernelLibrary, openDevice } from "@tilewright/runtime";
import { describe, expect, test } from "vitest";
import { checkResult } from "../src/run/check.ts";
import { randomInputs } from "../src/run/inputs.ts";

import { cli } from "./harness.ts";
import { scratch } from "./scratch.ts";

const run = async (flags: string) => {
  const { code, stdout, stderr } = await cli(
    `run --op attention ${flags} --device emulator --order all --json`,
  );
  return { code, stderr, result: JSON.parse(stdout) };
};

const faults = async (line: string): Promise<readonly string[]> => {
  const { stdout } = await cli(`${line} --json`);
  return JSON.parse(stdout).diagnostics.map(
    ({ at, message }: { at: string; message: string }) => `${at}: ${message}`,
  );
};

// Every form on every backend is the conformance suite's; here the flags lead to it.
const cases = [
  [
    "--queries 17 --keys 21 --head-dim 16 --dtype f32 --batch 2 --heads 4 --kv-heads 2 --layout bshd --lse",
    ["simt/sm_70"],
  ],
  [
    "--queries 20 --keys 99 --head-dim 72 --value-dim 40 --dtype bf16 --d-dtype f32 --soft-cap 2 --scale 0.3 --causal=top-left",
    ["mma/sm_80"],
  ],
  ["--queries 3 --keys 70 --head-dim 64 --dtype f16 --heads 6 --causal --lse --kv-heads 2", ["mma/sm_80"]],
  [
    "--queries 40 --keys 270 --head-dim 64 --dtype bf16 --causal --window 40 --bias hqs --alibi --heads 2 --lse",
    ["mma/sm_90a", "wgmma/sm_90a"],
  ],
] as const;
const all = cases.flatMap(([flags, where]) => where.map((place) => [flags, ...place.split("/")] as const));

describe("attention", () => {
  test("run names it by its sizes, as plan does", async () => {
    const flags = "--op attention --queries 3 --keys 5 --head-dim 16 --arch sm_70";
    const { stdout } = await cli(`run ${flags} --device emulator`);
    const heading = (await cli(`plan ${flags}`)).stdout.split("\n")[0];
    expect(stdout).toMatch(/^result +correct$/m);
    expect(stdout).toContain(`\nproblem   ${heading}\n`);
  });

  test.each(all)("%s by %s on %s is right, without hazards, in every order", async (flags, backend, arch) => {
    const { code, stderr, result } = await run(`${flags} --backend ${backend} --arch ${arch}`);
    expect([code, stderr, result.ok, result.hazards]).toEqual([0, "", true, []]);
    expect(result.error.boundRatio).toBeGreaterThan(0);
    expect(result.error.boundRatio).toBeLessThan(1);
    expect(result.schedule).toMatch(/^tile=/);
  });

  test("a schedule may be given, and JSON says the same as flags", async () => {
    using folder = scratch();
    const path = join(folder.path, "request.json");
    const problem = { op: "attention", queries: 9, keys: 33, headDim: 32, dtype: "f16", layout: "bshd" };
    writeFileSync(path, JSON.stringify({ arch: "sm_80", problem }));
    const schedule = "tile=64x64x32 warp=32x32 stages=3";
    const flags = "--queries 9 --keys 33 --head-dim 32 --dtype f16 --layout bshd --arch sm_80";
    const texts = await Promise.all(
      [`--request ${path}`, `--op attention ${flags}`].map((line) =>
        cli([..."compile -o -".split(" "), ...line.split(" "), "--schedule", schedule]),
      ),
    );
    expect(texts[0]?.stdout).toContain(".entry attention_f16_b1_h1_q9_k33_d32");
    expect(texts[1]?.stdout).toBe(texts[0]?.stdout);
    const usual = await cli(`compile -o - --op attention ${flags}`);
    expect(usual.stdout).not.toBe(texts[0]?.stdout);
  });

  // Chunks of a part are several, of what all parts share too; weights stay in registers.
  test.each([
    ["mma", "sm_90", "tile=128x64x32 warp=32x32 stages=4 copy=tma frag=1", "%sP"],
    ["wgmma", "sm_90a", "tile=128x64x32 stages=3", "%P"],
  ])("keys in parts by %s on %s with bulk copies, %s", async (backend, arch, schedule, factor) => {
    const flags = `--op attention --queries 70 --keys 300 --head-dim 64 --dtype f16 --causal --backend ${backend} --arch ${arch}`;
    const line = (command: string): readonly string[] => [
      ...`${command} ${flags}`.split(" "),
      "--schedule",
      schedule,
    ];
    const { stdout } = await cli(line("compile --ir machine -o -"));
    expect(stdout).toMatch(/role producer[\s\S]*copy %sA[^\n]*tma\b[\s\S]*for %st /);
    expect(stdout).toMatch(new RegExp(`map ${factor} = `));
    const { code, stdout: result } = await cli(line("run --device emulator --order all --json"));
    expect([code, JSON.parse(result).hazards]).toEqual([0, []]);
  });

  test.each([
    ["tile=128x64x64 stages=2", "f32[128, 64]"],
    ["tile=64x64x64 chainTile=96x96 warpgroups=1x1 stages=3", "f32[64, 96]"],
  ])(
    "a part's first product is under way beside the last one of the part before, %s",
    async (tile, scores) => {
      using folder = scratch();
      const flags = "--op attention --queries 70 --keys 300 --head-dim 64 --dtype f16 --arch sm_90a";
      const schedule = ["--schedule", `${tile} regs=24/240 pipelineProducts=on`];
      const { stdout } = await cli([
        ..."compile --ir machine -o -".split(" "),
        ...flags.split(" "),
        ...schedule,
      ]);
      const order =
        /for %st = 1 [\s\S]*mma %S [\s\S]*mma %acc [\s\S]*wgmma.wait pending 1\n[\s\S]*reduce.row %x = max[\s\S]*wgmma.wait pending 0\n[\s\S]*map %P/;
      expect(stdout).toMatch(order);
      expect(stdout).toContain(`register %S ${scores}`);
      const run = [
        "run",
        ...flags.split(" "),
        "--device",
        "emulator",
        "--order",
        "all",
        "--json",
        ...schedule,
      ];
      const { code, stdout: result } = await cli(run);
      expect([code, JSON.parse(result).hazards]).toEqual([0, []]);
      const given = join(folder.path, "given.tile");
      const steady = stdout.indexOf("for %st = 1 ");
      // Sums are read, or the factor is written, while products run.
      for (const [pending, more] of [
        ["1", "2"],
        ["0", "1"],
      ]) {
        const at = stdout.indexOf(`wgmma.wait pending ${pending}`, steady);
        const edited =
          stdout.slice(0, at) +
          stdout.slice(at).replaceAll(`wgmma.wait pending ${pending}`, `wgmma.wait pending ${more}`);
        writeFileSync(given, edited);
        const broken = await cli(["compile", "--from", given, "-o", "-"]);
        expect([broken.code, broken.stderr]).toEqual([2, expect.stringMatching(/TW31[0-9]{2}/)]);
      }
    },
  );

  test.each([
    ["mma", "sm_80", "tile=16x64x64 warp=16x16 stages=2 frag=1 split=3", "bf16"],
    ["mma", "sm_90", "tile=16x64x32 warp=16x16 stages=2 copy=tma frag=1 split=3", "f16"],
    ["wgmma", "sm_90a", "tile=64x64x64 warpgroups=1x1 sched=tiles split=3", "bf16"],
    ["simt", "sm_70", "tile=8x64x32 thread=2x2 strip=2x2 storeElements=4 split=3", "f32"],
  ])("keys in runs of parts among CTAs by %s on %s, %s", async (backend, arch, schedule, dtype) => {
    using folder = scratch();
    const flags = `--op attention --queries 3 --keys 300 --heads 4 --kv-heads 2 --head-dim 64 --causal --window 200 --lse --dtype ${dtype} --backend ${backend} --arch ${arch}`;
    const line = (command: string): readonly string[] => [
      ...`${command} ${flags}`.split(" "),
      "--schedule",
      schedule,
    ];
    const { code, stdout } = await cli(line("run --device emulator --order random --json"));
    expect([code, JSON.parse(stdout).hazards]).toEqual([0, []]);
    if (arch !== "sm_80") return;
    const [text, ptx] = await Promise.all(
      ["compile --ir machine -o -", "compile -o - --bare"].map(
        async (each) => (await cli(line(each))).stdout,
      ),
    );
    if (text === undefined) throw new Error("is compiled");
    expect(text).toContain("split %cut < 3");
    const given = join(folder.path, "given.tile");
    const again = async (edit: (text: string) => string) => {
      writeFileSync(given, edit(text));
      const { stdout, stderr } = await cli(["compile", "--from", given, "-o", "-", "--bare"]);
      return stderr === "" ? stdout : /TW\d+/.exec(stderr)?.[0];
    };
    expect(await again((same) => same)).toBe(ptx);
    for (const [from, to, fault] of [
      ["partial.load %m\n", "", "TW3162"],
      ["partial.store %l\n", "", "TW3162"],
      ["partials 2 {", "partials 1 {", "TW3162"],
      ["from(%acc1, %m1, %l1)", "from(%acc1, %m1)", "TW3158"],
    ] as const)
      expect([from, await again((same) => same.replace(from, to))]).toEqual([from, fault]);
  });

  test("machine text goes on by the backend of its products, and not where fragments are of another chunk", async () => {
    using folder = scratch();
    const flags =
      "--op attention --queries 20 --keys 300 --head-dim 64 --dtype f16 --backend mma --arch sm_90a";
    const made = async (argv: readonly string[]) =>
      (await cli(["compile", ...argv, "-o", "-", "--bare"])).stdout;
    const schedule = ["--schedule", "tile=32x64x32 warp=32x32 stages=2 copy=tma frag=1"];
    const [ptx, text] = [
      await made([...flags.split(" "), ...schedule]),
      await made([...flags.split(" "), ...schedule, "--ir", "machine"]),
    ];
    const given = join(folder.path, "given.tile");
    writeFileSync(given, text);
    expect(await made(["--from", given])).toBe(ptx);
    const first = text.replace(/(copy %fA <- %sA\[[^;]*; [^,]*, )%dt \* 32 \+ /, "$1");
    expect(first).not.toBe(text);
    writeFileSync(given, first);
    const { code, stderr } = await cli(["compile", "--from", given, "-o", "-"]);
    expect([code, stderr]).toEqual([2, expect.stringContaining("TW3159")]);
  });

  test("parts that a window hides are left out, and by all roles alike", async () => {
    using folder = scratch();
    const given = join(folder.path, "given.tile");
    const flags =
      "--op attention --queries 70 --keys 600 --head-dim 64 --dtype bf16 --arch sm_90a --causal --window 90";
    const schedule = "tile=64x64x64 warpgroups=1x1 stages=4 regs=24/240 pipelineProducts=on sched=zigzag";
    for (const [stage, code] of [
      ["bound", "TW3117"],
      ["machine", "TW3145"],
    ] as const) {
      const { stdout } = await cli([...`compile ${flags} --ir ${stage}`.split(" "), "--schedule", schedule]);
      const within = " within (%mt * 64 + 441) / 64 .. (%mt * 64 + 657) / 64";
      // The producer's loop, and the first, the other and the last of the consumers' turns.
      expect(stdout.split(within)).toHaveLength(5);
      writeFileSync(given, stdout.replace(`${within} {`, " {"));
      const faulty = await cli(["compile", "--from", given, "-o", "-"]);
      expect([faulty.code, faulty.stderr]).toEqual([2, expect.stringContaining(code)]);
    }
  });

  test("by cp.async chunks of K and V are copied in turn through all parts, and weights stay in registers", async () => {
    const { stdout } = await cli(
      "compile --op attention --queries 700 --keys 700 --heads 64 --head-dim 128 --dtype bf16 --arch sm_80 --causal --ir machine",
    );
    const loop = stdout.slice(stdout.lastIndexOf("for %st ="), stdout.indexOf("map %w = 1/%l"));
    const order = [
      ...["cp.async.wait", "copy %sE0", "cp.async.commit", "mma %S"],
      ...["cp.async.wait", "copy %sB", "cp.async.commit", "map %S = select", "mma %acc += %P"],
    ];
    expect(order.reduce((at, text) => loop.indexOf(text, at + 1), -1)).toBeGreaterThan(0);
    expect(loop.match(/barrier/g)).toHaveLength(2);
    expect(stdout).not.toContain("%sP");
    expect(loop).not.toContain("copy %sA");
  });

  test("plan says which schedule, of which backends", async () => {
    const { stdout } = await cli(
      "plan --op attention --queries 70 --keys 77 --head-dim 64 --dtype bf16 --arch sm_90a --json",
    );
    const [plan] = JSON.parse(stdout).plans;
    expect(
      plan.backends
        .filter(({ ok }: { ok: boolean }) => ok)
        .map(({ backend }: { backend: string }) => backend),
    ).toEqual(["wgmma", "mma", "simt"]);
    expect(plan.schedule).toMatch(/^tile=\d+x128x/);
    expect(plan.choice).toEqual({ from: "model" });
  });

  test("everything that is wrong with a request is said at once", async () => {
    expect(
      await faults("run --op attention --queries 70 --heads 5 --kv-heads 2 --arch sm_80 -m 3 --dtype s8"),
    ).toEqual([
      "-m: -m does not go with this operation",
      "--keys: --keys is needed: rows of K and V of each head",
      "--head-dim: --head-dim is needed: columns of Q and K",
      "--dtype: attention multiplies f16, bf16, f32, not s8",
      "kvHeads: 2 heads of K and V do not share 5 heads of Q evenly",
    ]);
    expect(await faults("run -m 3 -n 3 -k 3 --causal --kv-heads 2")).toEqual([
      "--kv-heads: --kv-heads does not go with this operation",
      "--causal: --causal does not go with this operation",
    ]);
    expect(
      await faults("compile --op attention --queries 0 --keys 2.5 --head-dim 8 --soft-cap -1 --arch sm_80"),
    ).toEqual([
      "queries: must be a positive integer, not 0",
      "keys: must be a positive integer, not 2.5",
      "softCap: must be above 0, not -1",
    ]);
  });

  test("a library of it: manifests say tensors and meaning, --certify runs it with fewer heads, one kernel for each shape", async () => {
    using folder = scratch();
    const problem = { op: "attention", dtype: "f16", heads: 4, kvHeads: 2, headDim: 16, causal: true };
    const sizes = [{ queries: 16, keys: [16, 32] }];
    const library = { name: "lib", archs: ["sm_80"], operations: [{ name: "flash", problem, sizes }] };
    const options = { cwd: folder.path, stdin: JSON.stringify(library) };
    const made = await cli("compile --library out --kernels - --certify", options);
    expect([made.code, made.stderr, /launchers: .*out\/lib\.h.*out\/lib\.js/.test(made.stdout)]).toEqual([
      0,
      "",
      true,
    ]);
    const paths = folder.list().filter((path) => path.endsWith(".gemm.json"));
    const manifests = paths.map((path) => {
      const read = readManifest(JSON.parse(readFileSync(join(folder.path, path), "utf8")));
      if (!read.ok) throw new Error(JSON.stringify(read.error));
      return read.value;
    });
    const keys = manifests.map(({ tensors }) => tensors?.find(({ name }) => name === "K")?.axes[2]);
    expect(keys.map((axis) => axis?.extent).sort()).toEqual([16, 32]);
    for (const { tensors, attention, certificate } of manifests) {
      const operands = tensors?.map(({ name, operand }) => `${name} ${operand}`);
      expect(operands).toEqual(["Q a", "K b", "V epilogue0", "O d"]);
      expect(tensors?.[0]?.axes.slice(0, 3)).toEqual([
        { name: "b", extent: 1, stride: 4 * 16 * 16 },
        { name: "h", extent: 2, stride: 2 * 16 * 16 },
        { name: "g", extent: 2, stride: 16 * 16 },
      ]);
      expect(attention).toEqual({ scale: 0.25, softCap: null, causal: "bottom-right", window: null });
      expect([certificate?.kernel, certificate?.emulator.orders.length]).toEqual(["smaller", 3]);
    }
    const device = await openDevice({ kind: "emulator", arch: "sm_80" });
    if (!device.ok) throw new Error("the emulator opens");
    const index = JSON.parse(readFileSync(join(folder.path, "out/index.json"), "utf8"));
    const opened = KernelLibrary.open(device.value, index, (path) =>
      readFileSync(join(folder.path, "out", path)),
    );
    if (!opened.ok) throw new Error(JSON.stringify(opened.error));
    expect(opened.value.pick("flash", { m: 16, n: 16, k: 16 })).toMatchObject({
      error: [{ message: "'flash' is attention, and has no sizes m, n and k" }],
    });
    // Weights add up to 1, so that values that are all alike come out as they went in.
    const half = (count: number, value: number) => {
      const made = device.value.alloc(2 * count);
      const bytes = new Uint8Array(encodeArray("f16", new Array<number>(count).fill(value)).buffer);
      if (!made.ok || !made.value.write(bytes).ok) throw new Error("memory");
      return made.value;
    };
    const [q, k, v, out] = [
      half(4 * 16 * 16, 0.5),
      half(2 * 32 * 16, 1),
      half(2 * 32 * 16, 3),
      half(4 * 16 * 16, 0),
    ];
    const tensors = { q: { shape: [1, 4, 16, 16] }, k: { shape: [1, 2, 32, 16] } };
    const launched = opened.value.launch("flash", { tensors }, { q, k, v, out });
    expect(launched.ok ? [] : launched.error).toEqual([]);
    const read = out.read();
    expect(read.ok && new Set(new Uint16Array(read.value.slice().buffer))).toEqual(new Set([0x4200]));
  });

  test.each([
    [{}, []],
    [{ causal: true }, ["select(s < q + 4, %S, -inf)"]],
    [{ causal: "top-left" }, ["select(s < q + 1, %S, -inf)"]],
    [{ causal: true, queries: 1 }, []],
    [{ causal: true, queries: 20 }, ["select(s < q - 11, %S, -inf)", "max(%x, -1e+30)", "max(%y, 1e-30)"]],
    [{ causal: true, window: 2 }, ["select(s < q + 2, -inf, select(s < q + 4, %S, -inf))"]],
    [{ window: 3 }, ["select(s < q + 1, -inf, select(s < q + 6, %S, -inf))"]],
    [{ softCap: 4 }, ["tanh(%S * 0.125)"]],
    [{ bias: "s" }, ["%S * (0.5) + %bias", "max(%x, -1e+30)", "max(%y, 1e-30)"]],
    [{ alibi: true, softCap: 4 }, ["tanh(%S * 0.125)", "4 * %S - %slopes * abs(q + 3 - s)"]],
  ])("masks of %j", (fields, parts) => {
    const attention = readAttention({ op: "attention", queries: 5, keys: 8, headDim: 4, ...fields });
    if (!attention.ok) throw new Error("is one");
    const text = attentionText(attention.value);
    const found =
      text.match(/select\(.*\)(?=\n)|max\(%[xy], [^)]*\)|tanh\([^)]*\)|[^=]* [+-] %[bs]\w+.*/g) ?? [];
    expect(found.map((part) => part.trim()).toSorted()).toEqual([...parts].toSorted());
  });

  test("of many rows a sample is computed, as all of them are", () => {
    const attention = readAttention({
      op: "attention",
      queries: 40,
      keys: 8,
      headDim: 4,
      heads: 3,
      causal: true,
    });
    const program = attention.ok ? parseAxisProgram(attentionText(attention.value)) : attention;
    if (!program.ok) throw new Error("is a program");
    const anchor = anchorOf(program.value);
    if (!anchor.ok) throw new Error("is one that is scheduled");
    const { reference: data } = randomInputs(anchor.value.launched, {
      distribution: { kind: "normal" },
      seed: 3,
    });
    const rows = checkedRows(program.value, 3 * 8 * (4 + 4) * 6);
    expect(rows).toEqual([0, 8, 16, 23, 31, 39]);
    expect(checkedRows(program.value)).toHaveLength(40);
    const [some, all] = [rows, undefined].map((each) => referenceProgram(program.value, data, each).d);
    const picked = [0, 1, 2].flatMap((head) =>
      rows.flatMap((row) => [...(all?.values.slice((head * 40 + row) * 4, (head * 40 + row) * 4 + 4) ?? [])]),
    );
    expect([...(some?.values ?? [])]).toEqual(picked);
    expect(new Set(picked).size).toBeGreaterThan(10);
  });

  test("a second result is checked, and -inf where nothing is seen", () => {
    const attention = readAttention({
      ...{ op: "attention", queries: 6, keys: 4, headDim: 4, heads: 2, causal: true, lse: true },
    });
    const program = attention.ok ? parseAxisProgram(attentionText(attention.value)) : attention;
    if (!program.ok) throw new Error("is a program");
    const anchor = anchorOf(program.value);
    if (!anchor.ok) throw new Error("is one that is scheduled");
    const { launched } = anchor.value;
    const { reference: data } = randomInputs(launched, { distribution: { kind: "normal" }, seed: 3 });
    const reference = referenceProgram(program.value, data);
    const logs = Float32Array.from(reference.steps.get(1)?.values ?? []);
    expect([...logs].map(Number.isFinite)).toEqual([0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1].map(Boolean));
    expect(logs[0]).toBe(Number.NEGATIVE_INFINITY);
    const d = new Uint8Array(Float32Array.from(reference.d.values).buffer);
    const failures = () =>
      checkResult(launched, { d, steps: new Map([[1, new Uint8Array(logs.buffer)]]) }, reference).failures;
    expect(failures()).toBe(0);
    logs[3] = (logs[3] ?? 0) + 0.001;
    logs[7] = 0;
    expect(failures()).toBe(2);
  });

  test("keys in parts are weighted as those of a row are, with a bias and slopes", () => {
    const whole = readAttention({
      ...{ op: "attention", queries: 5, keys: 300, headDim: 4, causal: true },
      ...{ bias: "qs", alibi: true, lse: true },
    });
    const program = whole.ok ? parseAxisProgram(attentionText(whole.value)) : whole;
    if (!program.ok) throw new Error("is a program");
    const anchor = anchorOf(program.value);
    if (!anchor.ok) throw new Error("is one that is scheduled");
    const { reference: data } = randomInputs(anchor.value.launched, {
      distribution: { kind: "normal" },
      seed: 4,
    });
    const { d, steps } = referenceProgram(program.value, data);
    const element = (from: OperandData | number | null | undefined, at: number): number =>
      from == null || typeof from === "number" ? Number.NaN : readElement("f32", from, at);
    for (let q = 0; q < 5; q++) {
      const scores = Array.from({ length: 300 - 4 + q }, (_, s) =>
        [0, 1, 2, 3].reduce((sum, k) => sum + element(data.a, q * 4 + k) * element(data.b, s * 4 + k), 0),
      );
      const added = scores.map(
        (_, s) => element(data.steps?.[1], q * 300 + s) - element(data.steps?.[2], 0) * (q + 295 - s),
      );
      const logits = scores.map((score, s) => score / 2 + (added[s] ?? 0));
      const most = Math.max(...logits);
      const weights = logits.map((score) => Math.exp(score - most));
      const total = weights.reduce((sum, weight) => sum + weight, 0);
      const logs = steps.get(3);
      expect(Math.abs((logs?.values[q] ?? 0) - most - Math.log(total))).toBeLessThan(1e-7);
      expect(logs?.bounds[q]).toBeGreaterThan(1e-6);
      expect(logs?.bounds[q]).toBeLessThan(0.1);
      for (let e = 0; e < 4; e++) {
        const wanted =
          weights.reduce((sum, weight, s) => sum + weight * element(data.steps?.[0], s * 4 + e), 0) / total;
        expect(Math.abs((d?.values[q * 4 + e] ?? 0) - wanted)).toBeLessThan(1e-7);
        expect(d?.bounds[q * 4 + e]).toBeGreaterThan(1e-6);
        expect(d?.bounds[q * 4 + e]).toBeLessThan(0.1);
      }
    }
  });

  test("heads that are shared are an axis that keys and values lack", () => {
    const attention = readAttention({
      op: "attention",
      queries: 5,
      keys: 8,
      headDim: 4,
      heads: 6,
      kvHeads: 2,
      packHeads: "off",
    });
    const program = attention.ok ? parseAxisProgram(attentionText(attention.value)) : attention;
    if (!program.ok) throw new Error("is a program");
    const axes = (name: string) =>
      program.value.params
        .find((each) => each.name === name)
        ?.memory.map(({ axis }) => axis)
        .join("");
    expect([axes("Q"), axes("K"), axes("V"), axes("O")]).toEqual(["bhgqd", "bhsd", "bhse", "bhgqe"]);
  });

  test.each([
    [{}, "bhrd bhsd r", "bhr"],
    [{ packHeads: "off" }, "bhgqd bhsd q", "bhgq"],
    [{ layout: "bshd" }, "bqhgd bshd q", "bhgq"],
    [{ layout: "bshd", queries: 1, bias: "hqs", alibi: true }, "bhgd bshd hgs hg g", "bhg"],
    [{ bias: "bhqs" }, "bhrd bhsd bhrs r", "bhr"],
    [{ bias: "qs" }, "bhgqd bhsd qs q", "bhgq"],
    [{ alibi: true }, "bhgqd bhsd hg q", "bhgq"],
    [{ queries: 17 }, "bhgqd bhsd q", "bhgq"],
    [{ queries: 17, packHeads: "on" }, "bhrd bhsd r", "bhr"],
    [{ heads: 2 }, "bhqd bhsd q", "bhq"],
  ])(
    "heads that share keys are rows of a tile, where their rows lie at one distance: %j",
    (fields, wanted, logs) => {
      const attention = readAttention({
        ...{ op: "attention", queries: 5, keys: 300, headDim: 4, heads: 6, kvHeads: 2, lse: true },
        ...fields,
      });
      const program = attention.ok ? parseAxisProgram(attentionText(attention.value)) : attention;
      if (!program.ok) throw new Error("is a program");
      const axes = Object.fromEntries(
        program.value.params.map(({ name, memory }) => [name, memory.map(({ axis }) => axis).join("")]),
      );
      const { Q, K, V: _, O: __, L, ...others } = axes;
      expect([Q, K, ...Object.values(others), program.value.grid[0]].join(" ")).toBe(wanted);
      expect(L).toBe(logs);
    },
  );

  test("tensors may lie as views have them: packed strides are the layout's own, and a bias has axes and a dtype of its own", () => {
    const fields = {
      queries: 5,
      keys: 8,
      headDim: 4,
      heads: 6,
      kvHeads: 2,
      batch: 3,
      layout: "bshd",
      bias: "bqs",
      packHeads: "off",
    };
    const attention = readAttention({ op: "attention", ...fields });
    if (!attention.ok) throw new Error("is one");
    const views = {
      ...{ Q: { strides: [120, 4, 24, 1] }, K: { strides: [64, 4, 8, 1] }, V: { strides: [64, 4, 8, 1] } },
      ...{ O: { strides: [120, 4, 24, 1] }, bias: { strides: [40, 0, 8, 1], dtype: "f16" as const } },
    };
    const [packed, viewed] = [attentionText(attention.value), attentionText(attention.value, views)].map(
      (text) => {
        const program = parseAxisProgram(text);
        if (!program.ok) throw new Error(JSON.stringify(program.error));
        return program.value.params;
      },
    );
    const memory = (params: typeof packed) =>
      params?.map(({ name, memory }) => [
        name,
        ...memory.map(({ axis, stride }) => `${axis} ${stride}`).sort(),
      ]);
    expect(memory(viewed)).toEqual(memory(packed));
    expect(viewed?.map(({ dtype }) => dtype)).toEqual(["f32", "f32", "f32", "f16", "f32"]);
  });
});
