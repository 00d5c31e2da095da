/** Wrong calls through the C, C++ and Rust launchers: each is refused by name, and nothing is launched. C needs gcc, C++ g++, Rust rustc and gcc. */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { scratch } from "../scratch.ts";
import { mixedFiles } from "./mixed.ts";

const has = (command: string): boolean =>
  process.platform === "linux" && spawnSync(command, ["--version"]).status === 0;
const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const folder = scratch();
afterAll(() => folder[Symbol.dispose]());
const at = (path: string): string => join(folder.path, path);
const build = (command: string, ...argv: readonly string[]) => execFileSync(command, argv, { stdio: "pipe" });

beforeAll(() => {
  for (const { path, data } of mixedFiles) {
    mkdirSync(dirname(at(`mixed/${path}`)), { recursive: true });
    writeFileSync(at(`mixed/${path}`), data);
  }
  if (has("gcc"))
    build("gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", at("libcuda.so.1"), here("stub-cuda.c"));
});

/** What a program prints on an H100 that computes nothing, and the driver's journal. */
function run(program: string) {
  writeFileSync(at("journal"), "");
  const env = {
    ...process.env,
    ...{ LD_LIBRARY_PATH: folder.path, STUB_LOG: at("journal"), STUB_CC: "90", STUB_SMS: "132" },
  };
  const { status, stdout, stderr } = spawnSync(program, [at("mixed")], { env, encoding: "utf8" });
  expect([status, stderr]).toEqual([0, ""]);
  const journal = readFileSync(at("journal"), "utf8").trim().split("\n");
  return { lines: stdout.trim().split("\n"), journal: journal.map((line) => JSON.parse(line)) };
}

const noHeads =
  "flash has no kernel for these tensors on compute capability 9.0: the nearest wants q of [2, 4, 128, 32], and it is [2, 4, 100, 32]";
const warnings = ["-Wall", "-Wextra", "-Werror"];
const tensors = [
  "variable: x is f16, and the kernels take bf16",
  "variable has no kernel for m=64 n=48 k=33 batch=1 on compute capability 9.0: the nearest wants k % 8 == 0, and k is 33",
];

describe.skipIf(!has("gcc"))("C", () => {
  test("each call ends with what it breaks; the launches that come back patch addresses only", () => {
    build(
      "gcc",
      "-std=c99",
      "-O2",
      ...warnings,
      "-I",
      at("mixed"),
      "-o",
      at("checks"),
      here("native/checks.c"),
      "-ldl",
    );
    const { lines, journal } = run(at("checks"));
    expect(lines.map((line) => line.trim())).toEqual([
      "right: 0",
      "known: 0",
      "new address: 0",
      `dtype: -2 ${tensors[0]}`,
      "no operand: -2 variable: it has no such operand",
      "shape: -2 variable: x has shape [64, 40], and the kernels take m, k = [64, 32]",
      "weight as k, n: -2 variable: weight has shape [32, 48], and the kernels take n, k = [48, 32]",
      "transposed view: 0",
      "strided view: -2 variable: x has strides [64, 2], and the kernels take k contiguous (stride 1, not 2)",
      "rows overlap: -2 variable: x has strides [16, 1], so that its rows of 32 overlap",
      "vector: -2 variable: x has 1 dimensions",
      "bias: -2 variable: bias has shape [1, 64], and the kernels take 1, n = [1, 48]",
      "both factors: 0",
      "gate's bias: 0",
      "one factor: -2 gated: weight has shape [48, 32], and the kernels take N, k = [96, 32]",
      "told GPU: -2 variable: x is on GPU 1, and the library was opened for GPU 0",
      "padded: 0",
      "lda 100",
      "host memory: -2 variable: x is no memory of a GPU: the driver does not know the address 0x66000000",
      "other GPU: -2 variable: x is on GPU 1, and the library was opened for GPU 0",
      "too short: -2 variable: x has 3840 bytes to the end of its allocation, and takes 4096",
      "alignment: -2 a is not aligned to 16 bytes, as the kernel needs it",
      "missing: -2 an operand is missing: d",
      "factor: -1 variable has no kernel for m=64 n=48 k=32 batch=1 on compute capability 9.0: the nearest wants beta < 0.5, and beta is 0.75",
      `no kernel: -1 ${tensors[1]}`,
      "right again: 0",
      "heads: 0",
      "other keys: 0",
      "more queries: 0",
      `no such queries: -1 ${noHeads}`,
      "rows before heads: -1 flash has no kernel for these tensors on compute capability 9.0: the nearest wants q with strides [8192, 2048, 32, 1], and they are [8192, 32, 128, 1]",
      "heads' dtype: -2 flash: q is bf16, and the kernels take f16",
      "rank: -2 flash: q has 2 dimensions, and the kernels take [batch, heads, queries, head dim]",
      "no v: -2 an operand is missing: v",
      "q's alignment: -2 q is not aligned to 16 bytes, as the kernel needs it",
      "q in host memory: -2 flash: q is no memory of a GPU: the driver does not know the address 0x66000000",
      "addresses alone: 0",
    ]);
    const calls = journal.map(({ call }) => call).filter((call) => call === "launch" || call === "replace");
    // Two kernels a launch, and the map over the workspace, which each launch has anew. The third patches the map over A, too.
    const launched = ["replace", "launch", "launch"];
    expect(calls.slice(0, 13)).toEqual([...launched, ...launched, "replace", ...launched, ...launched]);
    // Of attention one kernel each: the second patches the map over K.
    expect(calls.slice(13)).toEqual(["launch", "replace", "launch", "launch", "launch"]);
  });
});

describe.skipIf(!has("g++"))("C++", () => {
  test("tensors in, exceptions out", () => {
    build(
      "g++",
      "-std=c++17",
      "-O2",
      ...warnings,
      "-I",
      at("mixed"),
      "-o",
      at("checks-cpp"),
      here("native/checks.cpp"),
      "-ldl",
    );
    const { lines, journal } = run(at("checks-cpp"));
    expect(lines).toEqual([
      "ok",
      `-2 ${tensors[0]}`,
      `-1 ${tensors[1]}`,
      "ok",
      `-1 ${noHeads}`,
      "101 cuDeviceGet: stub error",
    ]);
    expect(journal.filter(({ call }) => call === "launch")).toHaveLength(3);
  });
});

describe.skipIf(!has("rustc") || !has("gcc"))("Rust", () => {
  test("tensors in, errors out", () => {
    const program = readFileSync(here("native/checks.rs"), "utf8").replace("@MIXED@", at("mixed/mixed.rs"));
    writeFileSync(at("checks.rs"), program);
    build("gcc", "-std=c99", "-O2", ...warnings, "-c", "-o", at("mixed.o"), at("mixed/mixed.c"));
    const link = ["-C", `link-arg=${at("mixed.o")}`, "-o", at("checks-rust"), at("checks.rs")];
    build("rustc", "--edition", "2021", "-D", "warnings", ...link);
    const { lines, journal } = run(at("checks-rust"));
    expect(lines).toEqual(["ok", ...tensors, "ok", noHeads, "cuDeviceGet: stub error (CUDA error 101)"]);
    expect(journal.filter(({ call }) => call === "launch")).toHaveLength(3);
  });
});
