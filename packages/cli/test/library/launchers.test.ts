/**
 * Every launcher makes the launches that our own evaluation of the manifests asks for: random calls on several GPUs, through a libcuda
 * that writes down what it is asked. C needs gcc, Rust rustc, Python python3; what is absent is skipped.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  type DType,
  readLibraryIndex,
  tensorMapInterleaves,
  tensorMapL2Promotions,
  tensorMapSwizzles,
  tensorMapTypeOf,
  tensorMapTypes,
} from "@tilewright/core";
import { KernelLibrary, type LibraryTensor, openCudaDevice, openDevice } from "@tilewright/runtime";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createFakeDriver, fakeH200 } from "../../../runtime/test/fake/index.ts";
import { scratch } from "../scratch.ts";
import { type Call, type Expected, expectedOf, type Gpu, randomCalls } from "./calls.ts";
import { mixed, mixedFiles } from "./mixed.ts";
import { cProgram, pythonProgram, rustProgram } from "./programs.ts";

const has = (command: string): boolean => spawnSync(command, ["--version"]).status === 0;
const unix = process.platform === "linux";
const tools = {
  c: unix && has("gcc"),
  rust: unix && has("rustc") && has("gcc"),
  python: unix && has("python3") && has("gcc"),
};

const gpus: readonly Gpu[] = [
  { cc: [7, 0], sms: 80 },
  { cc: [8, 0], sms: 108 },
  { cc: [9, 0], sms: 132 },
  { cc: [12, 0], sms: 170 },
];
const calls: readonly Call[] = randomCalls(80, 2024);

const folder = scratch();
afterAll(() => folder[Symbol.dispose]());
const at = (path: string): string => join(folder.path, path);
const write = (path: string, data: string | Uint8Array): void => {
  mkdirSync(dirname(at(path)), { recursive: true });
  writeFileSync(at(path), data);
};

beforeAll(() => {
  for (const { path, data } of mixedFiles) write(`mixed/${path}`, data);
  if (!tools.c) return;
  const stub = fileURLToPath(new URL("stub-cuda.c", import.meta.url));
  execFileSync("gcc", ["-shared", "-fPIC", "-Wall", "-Werror", "-o", at("libcuda.so.1"), stub]);
});

interface Journal {
  readonly call: string;
  readonly [field: string]: unknown;
}

/** Run a program against the stub; what it prints, and the stub's journal. */
function run(command: string, args: readonly string[], gpu: Gpu, input = "", more: NodeJS.ProcessEnv = {}) {
  const log = at(`journal-${gpu.cc.join("")}.txt`);
  writeFileSync(log, "");
  const env = {
    ...process.env,
    ...more,
    LD_LIBRARY_PATH: folder.path,
    STUB_LOG: log,
    STUB_CC: gpu.cc.join(""),
    STUB_SMS: String(gpu.sms),
  };
  const { status, stdout, stderr } = spawnSync(command, args, {
    env,
    input,
    encoding: "utf8",
    cwd: at("mixed"),
  });
  expect([status, stderr]).toEqual([0, ""]);
  const journal = readFileSync(log, "utf8").trim().split("\n").filter(Boolean);
  return { lines: stdout.trim().split("\n"), journal: journal.map((line) => JSON.parse(line) as Journal) };
}

/** What concerns single calls; loads and opt-ins come once. */
const perCall = (journal: readonly Journal[]) =>
  journal.filter(({ call }) => ["launch", "alloc", "free", "set"].includes(call));

const expected = (gpu: Gpu): readonly Expected[] => calls.map((call) => expectedOf(mixed, call, gpu));

function check({ lines, journal }: ReturnType<typeof run>, gpu: Gpu): void {
  const wanted = expected(gpu);
  expect(lines).toEqual(wanted.map(({ status }) => status));
  expect(perCall(journal)).toEqual(wanted.flatMap(({ events }) => events));
}

test("the calls reach every artefact, and every way to end", () => {
  const all = gpus.flatMap(expected);
  for (const status of ["ok", "no kernel", "bad argument"])
    expect(all.filter((one) => one.status === status).length).toBeGreaterThan(10);
  const text = JSON.stringify(all);
  for (const part of ["attribute4", "attribute2", '"set"', '"free"']) expect(text).toContain(part);
});

describe.skipIf(!tools.c)("C", () => {
  beforeAll(() => {
    write("main.c", cProgram(calls));
    // Every warning counts: the header goes into other people's builds.
    const flags = ["-Wall", "-Wextra", "-Werror", "-I", at("mixed")];
    // With -O2 gcc also looks at lengths of strings.
    execFileSync("gcc", ["-std=c99", "-O2", ...flags, "-o", at("main"), at("main.c"), "-ldl"], {
      stdio: "pipe",
    });
    execFileSync("gcc", ["-std=c++11", "-x", "c++", "-fsyntax-only", ...flags, at("main.c")], {
      stdio: "pipe",
    });
  });

  test.each(gpus)("the launches of compute capability $cc", (gpu) =>
    check(run(at("main"), [at("mixed")], gpu), gpu),
  );

  test("kernels are loaded once, opt in to what needs it, and are given back", () => {
    const { journal } = run(at("main"), [at("mixed")], { cc: [9, 0], sms: 132 });
    const others = journal.filter(({ call }) => !["launch", "alloc", "free", "set"].includes(call));
    const settings = others.filter(({ call }) => call === "attribute");
    expect(settings).toEqual([
      { call: "attribute", entry: "gemm_main", attribute: 8, value: 197_632 },
      { call: "attribute", entry: "gemm_main", attribute: 14, value: 1 },
    ]);
    const count = (name: string) => others.filter(({ call }) => call === name).length;
    expect(count("load")).toBe(count("unload"));
    expect(count("release")).toBe(1);
  });

  test("a cubin is taken where it runs, and PTX where the driver refuses it", () => {
    const gpu = { cc: [8, 6], sms: 84 } as const;
    const loads = (more: NodeJS.ProcessEnv) => {
      const { journal } = spawned(more);
      return journal.filter(({ call }) => call === "load").map(({ text }) => text);
    };
    const spawned = (more: NodeJS.ProcessEnv) => {
      const log = at("journal-cubin.txt");
      writeFileSync(log, "");
      const env = { ...process.env, ...more, LD_LIBRARY_PATH: folder.path, STUB_LOG: log, STUB_CC: "86" };
      spawnSync(at("main"), [at("mixed")], { env });
      const journal = readFileSync(log, "utf8").trim().split("\n");
      return { journal: journal.map((line) => JSON.parse(line) as Journal) };
    };
    // The stub finds no entry in a cubin, so the launch ends there: what counts is which image was asked for.
    expect(loads({})[0]).toBe(false);
    check(run(at("main"), [at("mixed")], gpu, "", { STUB_REFUSE: "cubin" }), gpu);
    expect(loads({ STUB_REFUSE: "cubin" }).slice(0, 2)).toEqual([false, true]);
  });

  test("no library, no driver, no GPU: a status and a sentence", () => {
    const env = { ...process.env, LD_LIBRARY_PATH: at("nothing") };
    const plain = spawnSync(at("main"), [at("mixed")], { env, encoding: "utf8" });
    if (plain.status !== 0) expect(plain.stdout).toMatch(/no NVIDIA driver|cuInit|CUDA|stub/);
  });
});

describe.skipIf(!tools.rust)("Rust", () => {
  beforeAll(() => {
    write("main.rs", rustProgram(calls, at("mixed/mixed.rs")));
    execFileSync("gcc", [
      "-std=c99",
      "-O2",
      "-Wall",
      "-Werror",
      "-c",
      "-o",
      at("mixed.o"),
      at("mixed/mixed.c"),
    ]);
    const link = ["-C", `link-arg=${at("mixed.o")}`, "-o", at("main-rust"), at("main.rs")];
    execFileSync("rustc", ["--edition", "2021", "-D", "warnings", ...link], { stdio: "pipe" });
  });

  test.each(gpus)("the launches of compute capability $cc", (gpu) =>
    check(run(at("main-rust"), [at("mixed")], gpu), gpu),
  );
});

describe.skipIf(!tools.python)("Python", () => {
  beforeAll(() => write("mixed/main.py", pythonProgram));

  test.each(gpus)("the launches of compute capability $cc", (gpu) =>
    check(run("python3", ["main.py"], gpu, JSON.stringify(calls), { PYTHONDONTWRITEBYTECODE: "1" }), gpu),
  );

  test("its numbers of tensor maps are the driver's", () => {
    const program =
      "import json, mixed; print(json.dumps([mixed._MAP_TYPES, mixed._MAP_INTERLEAVES, mixed._MAP_SWIZZLES, mixed._MAP_PROMOTIONS]))";
    const env = { ...process.env, PYTHONDONTWRITEBYTECODE: "1" };
    const { stdout } = spawnSync("python3", ["-c", program], { cwd: at("mixed"), env, encoding: "utf8" });
    const [types, interleaves, swizzles, promotions] = JSON.parse(stdout) as Record<string, number>[];
    for (const [name, number] of Object.entries(types ?? {}))
      expect([name, number]).toEqual([name, tensorMapTypes[tensorMapTypeOf(name as DType)].driver]);
    const inOrder = (names: readonly string[]) => Object.fromEntries(names.map((name, i) => [name, i]));
    expect(interleaves).toEqual(inOrder(tensorMapInterleaves));
    expect(promotions).toEqual(inOrder(tensorMapL2Promotions));
    for (const [name, number] of Object.entries(swizzles ?? {}))
      expect(tensorMapSwizzles[name as keyof typeof tensorMapSwizzles].driver).toBe(number);
  });

  test("launches that are kept ready are those of the first time, in whatever order they come back", () => {
    const gpu = { cc: [9, 0], sms: 132 } as const;
    const more = { PYTHONDONTWRITEBYTECODE: "1" };
    const again = [...calls, ...calls.toReversed(), ...calls.map((call) => ({ ...call, stream: 512 }))];
    const { lines, journal } = run("python3", ["main.py"], gpu, JSON.stringify(again), more);
    const wanted = again.map((call) => expectedOf(mixed, call, gpu));
    expect(lines).toEqual(wanted.map(({ status }) => status));
    expect(perCall(journal)).toEqual(wanted.flatMap(({ events }) => events));
  });
});

describe("JavaScript", () => {
  const read = (path: string) => readFileSync(at(`mixed/${path}`));

  const must = <T>(
    result: { ok: true; value: T } | { ok: false; error: readonly { message: string }[] },
  ): T => {
    if (!result.ok) throw new Error(result.error.map(({ message }) => message).join("\n"));
    return result.value;
  };

  test("the launches of an H200, on streams of a driver without a GPU", () => {
    const driver = createFakeDriver({ devices: [fakeH200] });
    using device = must(openCudaDevice(driver));
    using library = must(KernelLibrary.open(device, JSON.parse(String(read("index.json"))), read));
    using stream = must(device.stream());
    const buffers = Object.fromEntries(
      ["a", "b", "d", "epilogue0"].map((name) => [name, must(device.alloc(1 << 22))]),
    );
    const gpu: Gpu = { cc: [9, 0], sms: device.numSms };
    for (const call of calls) {
      const before = driver.callsOf("launchKernel").length;
      const { operation, m, n, k, batch, alpha, beta, scale } = call;
      const launched = library.launch(
        operation,
        { m, n, k, batch, alpha, beta, epilogue1: scale },
        buffers,
        stream,
      );
      const wanted = expectedOf(mixed, { ...call, bias: 256, workspace: 0 }, gpu);
      const made = driver.callsOf("launchKernel").slice(before);
      if (wanted.status === "no kernel") {
        expect(launched).toMatchObject({ ok: false, error: [{ code: "TW6028" }] });
        expect(made).toEqual([]);
        continue;
      }
      expect(launched.ok ? [] : launched.error).toEqual([]);
      const events = wanted.events.filter(
        (event) => (event as Journal).call === "launch",
      ) as readonly Journal[];
      expect(made).toHaveLength(events.length);
      events.forEach(({ grid, block, dynamicSmem, attribute4 = null, params }, i) => {
        const [config, , args] = made[i]?.args ?? [];
        expect(config).toMatchObject({
          grid,
          block,
          dynamicSmem,
          cluster: attribute4,
          stream: stream.handle,
        });
        // Scalars; addresses and maps are the device's own.
        const scalars = (list: readonly string[]) => list.filter((text) => text.length <= 8);
        const bytes = (args as readonly Uint8Array[]).map((one) => Buffer.from(one).toString("hex"));
        expect(scalars(bytes)).toEqual(scalars(params as readonly string[]));
      });
    }
    must(stream.synchronize());
  });

  test("maps are encoded once for buffers that come back; what is too short or fits no kernel is named", () => {
    const driver = createFakeDriver({ devices: [fakeH200] });
    using device = must(openCudaDevice(driver));
    using library = must(KernelLibrary.open(device, JSON.parse(String(read("index.json"))), read));
    using stream = must(device.stream());
    const buffer = (bytes: number) => must(device.alloc(bytes));
    const buffers = { a: buffer(4096), b: buffer(3072), d: buffer(6144), epilogue0: buffer(256) };
    const launch = (more: object, sizes = { m: 64, n: 48, k: 32 }) =>
      library.launch("variable", { ...sizes, epilogue1: 1 }, { ...buffers, ...more }, stream);
    const encoded = () => driver.callsOf("tensorMapEncodeTiled").length;
    expect([launch({}), launch({})].map(({ ok }) => ok)).toEqual([true, true]);
    expect(encoded()).toBe(3);
    expect(launch({ a: buffer(8192) }).ok).toBe(true);
    expect(encoded()).toBe(6);
    expect(driver.callsOf("launchKernel")).toHaveLength(6);
    expect(launch({ a: buffer(4094), epilogue0: buffer(16) })).toMatchObject({
      error: [
        { message: "a has 4094 bytes; 64 x 32 bf16 with leading dimension 32 takes 4096" },
        { message: "epilogue0 has 16 bytes; 48 f32 takes 192" },
      ],
    });
    expect(launch({}, { m: 64, n: 48, k: 33 })).toMatchObject({
      error: [
        {
          message: expect.stringContaining(
            "k=33 batch=1 on sm_90: the nearest needs k % 8 == 0; here k % 8 is 1",
          ),
        },
      ],
    });
    expect(driver.callsOf("launchKernel")).toHaveLength(6);
  });

  test("tensors of attention pick its kernel; wrong ones are named; maps are kept", () => {
    const driver = createFakeDriver({ devices: [fakeH200] });
    using device = must(openCudaDevice(driver));
    using library = must(KernelLibrary.open(device, JSON.parse(String(read("index.json"))), read));
    using stream = must(device.stream());
    const buffer = (bytes: number) => must(device.alloc(bytes));
    const buffers = { q: buffer(65_536), k: buffer(16_384), v: buffer(16_384), out: buffer(65_536) };
    const q = { dtype: "f16", shape: [2, 4, 128, 32] } as const;
    const launch = (tensors: Readonly<Record<string, LibraryTensor>>, more: object = {}) =>
      library.launch("flash", { tensors }, { ...buffers, ...more }, stream);
    const known = { q, k: { shape: [2, 2, 64, 32] } };
    expect([launch(known), launch(known)]).toMatchObject([
      { ok: true, value: { artefact: 4 } },
      { ok: true, value: { artefact: 4 } },
    ]);
    expect(launch({})).toMatchObject({ ok: true, value: { artefact: 3 } });
    expect(driver.callsOf("tensorMapEncodeTiled")).toHaveLength(2);
    expect(driver.callsOf("launchKernel")).toHaveLength(3);
    const wrong = [
      launch({ q: { ...q, dtype: "bf16" } }),
      launch({ q: { shape: [4, 128, 32] } }),
      launch({ q: { shape: [2, 4, 100, 32] } }),
      launch({ q: { ...q, strides: [16_384, 32, 128, 1] } }),
      launch({ x: q }),
      launch(known, { q: buffer(65_534) }),
      launch(known, { v: undefined }),
      library.launch("flash", { m: 64, n: 48, k: 32 }, buffers, stream),
      library.launch("variable", {}, buffers, stream),
    ];
    expect(wrong.map((each) => (each.ok ? "" : each.error[0]?.message))).toEqual([
      "q is bf16, and the kernels take f16",
      "q has shape [4, 128, 32], and the kernels take [batch, heads, queries, head dim]",
      "flash has no kernel for these tensors on sm_90: the nearest wants q of [2, 4, 64, 32], and it is [2, 4, 100, 32]",
      "flash has no kernel for these tensors on sm_90: the nearest wants q with strides [16384, 4096, 32, 1], and they are [16384, 32, 128, 1]",
      "flash has no tensor 'x'",
      "q has 65534 bytes; [2, 4, 128, 32] f16 takes 65536",
      "flash needs a buffer for v",
      "'flash' is attention, and has no sizes m, n and k",
      "'variable' is a product",
    ]);
    expect(driver.callsOf("launchKernel")).toHaveLength(3);
  });

  test("the index reads back", () => {
    expect(readLibraryIndex(JSON.parse(String(read("index.json"))))).toMatchObject({
      ok: true,
      value: {
        operations: [
          { name: "variable", dispatch: [0, 1] },
          { name: "all", dispatch: [0, 2, 1] },
          { name: "gated", dispatch: [0, 1] },
          { name: "packed", dispatch: [1] },
          { name: "flash", dispatch: [3, 4] },
        ],
      },
    });
  });

  test("an unknown operation names those there are", async () => {
    const device = must(await openDevice({ kind: "emulator", arch: "sm_80" }));
    const library = must(KernelLibrary.open(device, JSON.parse(String(read("index.json"))), read));
    expect(library.launch("vary", { m: 1, n: 1, k: 1 }, {})).toMatchObject({
      ok: false,
      error: [{ code: "TW6028", hint: "it has variable, all, gated, packed, flash" }],
    });
  });
});
