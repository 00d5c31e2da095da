/**
 * `compile --library --wheel`: the archive, its installation by pip without an index, and right and wrong calls through a torch without values and a
 * libcuda that writes down what it is asked. Python needs pip, the stub gcc; what is absent is skipped.
 */
import { execFile, execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { inflateRawSync, crc32 as nodeCrc } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { crc32, zipOf } from "../../src/files/zip.ts";
import { cli } from "../harness.ts";
import { scratch } from "../scratch.ts";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const has = (...argv: readonly [string, ...string[]]): boolean =>
  process.platform === "linux" && spawnSync(argv[0], argv.slice(1)).status === 0;
const python3 = spawnSync("python3", ["-c", "import sys; print(sys.executable)"], {
  encoding: "utf8",
}).stdout;
const python = has("gcc", "--version") && has("python3", "-m", "pip", "--version");

/** Names and content of an archive's files, by its central directory. */
function unzipped(zip: Buffer): ReadonlyMap<string, Buffer> {
  const end = zip.length - 22;
  expect(zip.readUInt32LE(end)).toBe(0x06054b50);
  const files = new Map<string, Buffer>();
  let at = zip.readUInt32LE(end + 16);
  for (let i = 0; i < zip.readUInt16LE(end + 10); i++) {
    const [crc, packed, size] = [16, 20, 24].map((field) => zip.readUInt32LE(at + field));
    const length = zip.readUInt16LE(at + 28);
    const offset = zip.readUInt32LE(at + 42);
    const name = zip.toString("utf8", at + 46, at + 46 + length);
    const start = offset + 30 + zip.readUInt16LE(offset + 26);
    const data = inflateRawSync(zip.subarray(start, start + (packed ?? 0)));
    expect([data.length, crc32(data)]).toEqual([size, crc]);
    files.set(name, data);
    at += 46 + length;
  }
  return files;
}

test("an archive reads back, and its sums are those of others", () => {
  const files = [
    { path: "a/ü.txt", data: "ü\n" },
    { path: "empty", data: new Uint8Array() },
    { path: "zeros", data: new Uint8Array(100_000) },
  ];
  const zip = Buffer.from(zipOf(files));
  expect(zip.length).toBeLessThan(1000);
  const back = unzipped(zip);
  expect([...back.keys()]).toEqual(["a/ü.txt", "empty", "zeros"]);
  expect(String(back.get("a/ü.txt"))).toBe("ü\n");
  expect(crc32(Buffer.from("123456789"))).toBe(0xcbf43926);
  // Node has one from 20.15 on.
  expect(crc32(Buffer.from("tile"))).toBe(nodeCrc("tile"));
});

const folder = scratch();
afterAll(() => folder[Symbol.dispose]());
const at = (path: string): string => join(folder.path, path);
const wheel = "out/linear-1.2-py3-none-any.whl";

beforeAll(async () => {
  const argv = [
    "compile",
    "--library",
    "out",
    "--kernels",
    here("python/linear.json"),
    "--wheel",
    "--no-certify",
    "--json",
  ];
  const { code, stdout, stderr } = await cli(argv, { cwd: folder.path });
  expect([code, stderr]).toEqual([0, ""]);
  expect(JSON.parse(stdout)).toMatchObject({ ok: true, wheel });
  const names = JSON.parse(stdout).operations.map(({ name }: { name: string }) => name);
  expect(names).toEqual([
    ...["linear_gelu", "linear_gelu_product", "linear_gelu_da", "linear_gelu_db"],
    ...["scaled", "two_results", "gated", "gated_batch", "gated_two", "split", "flash", "flash_lse"],
  ]);
});

test("RECORD names every file with its hash and size, METADATA the library, and the kernels are those of the folder", () => {
  const files = unzipped(readFileSync(at(wheel)));
  const info = "linear-1.2.dist-info";
  const record = String(files.get(`${info}/RECORD`))
    .trim()
    .split("\n");
  expect(record.at(-1)).toBe(`${info}/RECORD,,`);
  expect(record.slice(0, -1)).toEqual(
    [...files].slice(0, -1).map(([path, data]) => {
      const hash = createHash("sha256").update(data).digest("base64url");
      return `${path},sha256=${hash},${data.length}`;
    }),
  );
  expect(String(files.get(`${info}/METADATA`))).toMatch(
    /^Metadata-Version: 2\.1\nName: linear\nVersion: 1\.2\n/,
  );
  expect(String(files.get(`${info}/WHEEL`))).toContain("Root-Is-Purelib: true\nTag: py3-none-any\n");
  const index = readFileSync(at("out/index.json"));
  expect(files.get("linear/index.json")?.equals(index)).toBe(true);
  for (const { manifest } of JSON.parse(String(index)).artefacts)
    expect(files.get(`linear/${manifest}`)?.equals(readFileSync(at(`out/${manifest}`)))).toBe(true);
});

interface Outcome {
  readonly name: string;
  readonly made?: unknown;
  readonly error?: string;
  readonly message?: string;
  readonly text?: string;
  readonly calls: readonly string[];
  /** Tensors that were looked at by the DLPack exchange API. */
  readonly views: number;
  /** Calls of torch's functions that say whether a transform is active. */
  readonly guards: number;
  readonly driver: readonly { readonly call: string; readonly [field: string]: unknown }[];
}

describe.skipIf(!python)("shim.c", () => {
  const env = (cache: string, over: Record<string, string>) => ({
    ...process.env,
    ...{ PYTHONPATH: at(cache), PYTHONDONTWRITEBYTECODE: "1", XDG_CACHE_HOME: at(cache), ...over },
  });
  /** A folder for the cache with the sources beside it, and what they say of themselves there. */
  function state(cache: string, over: Record<string, string> = {}): string {
    mkdirSync(at(cache), { recursive: true });
    for (const name of ["_shim.py", "shim.c", "shim_launch.h"])
      copyFileSync(here(`../../launchers/python/${name}`), at(`${cache}/${name}`));
    const argv = ["-c", "import _shim; print(_shim.state())"];
    return execFileSync("python3", argv, { env: env(cache, over), encoding: "utf8" }).trim();
  }

  test("is compiled once for all processes, and nothing else is left in the cache", async () => {
    state("many", { TILEWRIGHT_SHIM: "0" });
    const argv = ["-c", "import _shim; print(_shim.state())"];
    const each = Array.from({ length: 4 }, () =>
      promisify(execFile)("python3", argv, { env: env("many", {}), encoding: "utf8" }),
    );
    expect((await Promise.all(each)).map(({ stdout }) => stdout)).toEqual(Array(4).fill("compiled\n"));
    const files = readdirSync(at("many/tilewright"));
    expect(files).toEqual([expect.stringMatching(/^shim-[0-9a-f]{16}\..*so$/)]);
    // There is none to compile with, and none is needed.
    expect(state("many", { PATH: dirname(python3), CC: "none" })).toBe("compiled");
  });

  test("launches go through Python alone where it cannot be, and the reason is known", () => {
    expect(state("no", { TILEWRIGHT_SHIM: "0" })).toBe("TILEWRIGHT_SHIM=0");
    const failed = /^the compiler failed: .*\.log$/;
    expect(state("broken", { CC: "false" })).toMatch(failed);
    // It is not asked at every import.
    expect(state("broken")).toMatch(failed);
    mkdirSync(at("open/tilewright"), { recursive: true });
    chmodSync(at("open/tilewright"), 0o777);
    expect(state("open")).toMatch(/can be written by others$/);
    writeFileSync(at("file"), "");
    expect(state("taken", { XDG_CACHE_HOME: at("file") })).toMatch(/Not a directory/);
  });
});

describe.skipIf(!python).each([
  { way: "compiled", shim: "compiled", flags: true },
  { way: "compiled, of a torch that hides its flags and tensors", shim: "compiled", flags: false },
  { way: "by Python", shim: "TILEWRIGHT_SHIM=0", flags: false },
])("installed, launches $way", ({ shim, flags }) => {
  const outcomes = new Map<string, Outcome>();
  const outcome = (name: string): Outcome => {
    const found = outcomes.get(name);
    if (found === undefined) throw new Error(`no call '${name}'`);
    return found;
  };
  /** Three tensors and the output, where torch's functions of C do not say what they are. */
  const views = shim === "compiled" && !flags ? 4 : 0;
  const launches = ({ driver }: Outcome) => driver.filter(({ call }) => call === "launch");

  beforeAll(() => {
    if (!existsSync(at("site"))) {
      mkdirSync(at("torch/lib"), { recursive: true });
      for (const [library, source] of [
        ["libcuda.so.1", "stub-cuda.c"],
        ["torch/lib/libc10.so", "stub-torch.c"],
        ["torch/lib/libtorch_cpu.so", "stub-torch.c"],
      ] as const)
        execFileSync("gcc", ["-shared", "-fPIC", "-o", at(library), here(source)]);
      const pip = [
        "-m",
        "pip",
        "install",
        "--no-index",
        "--no-deps",
        "--quiet",
        "--disable-pip-version-check",
      ];
      execFileSync("python3", [...pip, "--target", at("site"), at(wheel)], { stdio: "pipe" });
    }
    const env = {
      ...process.env,
      ...{ PYTHONPATH: `${at("site")}:${here("python")}`, PYTHONDONTWRITEBYTECODE: "1" },
      ...{ LD_LIBRARY_PATH: folder.path, STUB_LOG: at("journal"), STUB_CC: "90", STUB_SMS: "132" },
      ...{ XDG_CACHE_HOME: at("cache"), TILEWRIGHT_SHIM: shim === "compiled" ? "1" : "0" },
      ...(flags ? { STUB_TORCH: at("torch") } : {}),
    };
    writeFileSync(at("journal"), "");
    const { status, stdout, stderr } = spawnSync("python3", [here("python/wheel_calls.py")], {
      env,
      encoding: "utf8",
    });
    expect([status, stderr]).toEqual([0, ""]);
    for (const line of stdout.trim().split("\n")) {
      const each = JSON.parse(line) as Outcome;
      outcomes.set(each.name, each);
    }
  });

  test("a call is one allocation of torch's and one launch on its current stream; a known one patches nothing, a new one addresses", () => {
    const shape = [[[128, 256], [256, 1], "float16"]];
    const [right, known, fresh] = [outcome("right"), outcome("known"), outcome("new pointers")];
    expect([right.made, known.made, fresh.made]).toEqual([shape, shape, shape]);
    for (const each of [right, known, fresh]) {
      expect(each.calls).toEqual(["empty"]);
      expect(launches(each)).toMatchObject([{ stream: 0x5000, entry: "gemm_f16_nt_128x256x192" }]);
    }
    expect(right.driver.filter(({ call }) => call === "load")).toHaveLength(1);
    // The output is new to the plan; maps of A, B and D are patched for it, not encoded again.
    expect(known.driver.map(({ call }) => call)).toEqual(["replace", "launch"]);
    expect(fresh.driver.map(({ call }) => call)).toEqual(["replace", "replace", "replace", "launch"]);
    const [one, two] = [launches(right), launches(fresh)].map(([each]) => each?.params as readonly string[]);
    expect(one?.length).toBe(two?.length);
    expect(one).not.toEqual(two);
  });

  test("known kinds of calls are answered in C where it was compiled, and wrong addresses are refused as ever", () => {
    expect(outcome("shim").text).toBe(shim);
    expect([outcome("known").views, outcome("new pointers").views]).toEqual([views, views]);
    // A thread's flags that were found plain once are compared only, and changed ones are seen.
    expect([outcome("new pointers").guards, outcome("no_grad known").guards]).toEqual(
      flags ? [0, 0] : [1, 1],
    );
    expect([outcome("autocast known"), outcome("gradients known")].map(({ calls }) => calls[0])).toEqual([
      "op linear_gelu",
      "op linear_gelu",
    ]);
    expect(outcome("unaligned again").message).toContain("linear_gelu: x is not aligned to 16 bytes, as");
    expect(outcome("missing").message).toBe("linear_gelu: x is missing");
    const known = outcome("known after that");
    expect(known).toMatchObject({ made: outcome("right").made, calls: ["empty"] });
    // The output is new, its operands are where they were.
    const [before, after] = [outcome("known"), outcome("known after that")].map(
      (each) => launches(each)[0]?.params as readonly string[],
    );
    expect(after?.slice(0, 2)).toEqual(before?.slice(0, 2));
    expect(launches(outcome("split again"))).toHaveLength(launches(outcome("workspace")).length);
  });

  test("keywords, parameters, leading dimensions, transposed views and arrays of others reach the same kernel", () => {
    for (const name of ["keywords", "parameter", "transposed view", "dlpack", "another thread"])
      expect(outcome(name).made).toEqual(outcome("right").made);
    expect(outcome("leading dimensions").made).toEqual([[[2, 64, 256], [16384, 256, 1], "float16"]]);
    expect(outcome("two results").made).toEqual([
      [[128, 256], [256, 1], "float16"],
      [[128, 256], [256, 1], "float32"],
    ]);
    expect(outcome("gated").made).toEqual([[[128, 256], [256, 1], "float16"]]);
    expect(outcome("gated two").made).toEqual(outcome("gated").made);
    expect(outcome("gated batch").made).toEqual([[[2, 64, 64], [4096, 64, 1], "float16"]]);
    for (const name of [
      "gated",
      "gated batch",
      "gated two",
      "keywords",
      "leading dimensions",
      "dlpack",
      "two results",
      "another current device",
    ])
      expect(launches(outcome(name))).toHaveLength(1);
  });

  test("attention takes its heads as torch has them, and gives an output that lies as its kernels store it", () => {
    const made = [[[2, 4, 128, 64], [32768, 64, 256, 1], "float16"]];
    const [first, known] = [outcome("attention"), outcome("attention known")];
    for (const each of [first, known]) {
      expect([each.made, each.calls]).toEqual([made, ["empty"]]);
      expect(launches(each)).toMatchObject([
        { stream: 0x5000, entry: "attention_f16_b2_h4_2_q128_k128_d64" },
      ]);
    }
    expect(known.views).toBe(views);
    expect(outcome("attention fake")).toMatchObject({ made, driver: [] });
    // Two products and a mask by torch.
    expect(outcome("attention fallback")).toMatchObject({ calls: ["matmul", "mask", "matmul"], driver: [] });
    expect(outcome("attention schema").text).toContain(
      "flash(Tensor q, Tensor k, Tensor v, *, bool fallback=False) -> Tensor\n\n    q: [batch, heads, queries, head dim], f16\n",
    );
  });

  test("attention with the logarithms of sums gives two outputs", () => {
    const made = [
      [[1, 2, 32, 32], [2048, 1024, 32, 1], "float16"],
      [[1, 2, 32], [64, 32, 1], "float32"],
    ];
    const launched = outcome("attention lse");
    expect([launched.made, launched.calls]).toEqual([made, ["empty", "empty"]]);
    expect(launches(launched)).toMatchObject([{ entry: "attention_f16_b1_h2_q32_k48_d32" }]);
    expect(outcome("attention lse fake")).toMatchObject({ made, driver: [] });
    expect(outcome("attention lse fallback")).toMatchObject({
      calls: ["matmul", "matmul", "logsumexp"],
      driver: [],
    });
    expect(outcome("attention lse schema").text).toContain(
      "flash_lse(Tensor q, Tensor k, Tensor v, *, bool fallback=False) -> (Tensor, Tensor)\n\n",
    );
  });

  test("nothing is launched for an empty product", () => {
    expect(outcome("empty")).toMatchObject({ made: [[[0, 256], [256, 1], "float16"]], driver: [] });
  });

  test("the workspace is torch's, and is cleared where kernels count in it", () => {
    const { calls, driver } = outcome("workspace");
    expect(calls).toContain("workspace");
    expect(driver.filter(({ call }) => ["alloc", "free"].includes(call))).toEqual([]);
    expect(launches(outcome("workspace")).length).toBeGreaterThan(0);
  });

  const wrong: readonly (readonly [name: string, error: string, message: string])[] = [
    ["dtype", "LaunchError", "linear_gelu: x is f32, and the kernels take f16"],
    ["bias dtype", "LaunchError", "linear_gelu: bias is f32, and the kernels take f16"],
    ["cpu", "LaunchError", "linear_gelu: x is on cpu, and the kernels run on a GPU"],
    ["one on cpu", "LaunchError", "linear_gelu: weight is on cpu, and the kernels run on a GPU"],
    ["other gpu", "LaunchError", "linear_gelu: weight is on GPU 1, and x on GPU 0"],
    [
      "strided view",
      "LaunchError",
      "linear_gelu: x has strides [384, 2], and the kernels take k contiguous (stride 1, not 2)",
    ],
    ["padded rows", "NoKernel", "kernel 0 wants lda == 192, and lda is 384"],
    ["expanded rows", "LaunchError", "linear_gelu: x has strides [0, 1], so that its rows of 192 overlap"],
    ["rows at no distance", "LaunchError", "whose rows lie at no constant distance; make it contiguous"],
    [
      "wrong k",
      "LaunchError",
      "linear_gelu: weight has shape [256, 64] = [n, k], whose k is 64; that of x is 192",
    ],
    [
      "weight as k, n",
      "LaunchError",
      "weight has shape [192, 256] = [n, k], whose k is 256; that of x is 192",
    ],
    [
      "weight with other strides",
      "LaunchError",
      "linear_gelu: weight has strides [1, 256], and the kernels take k contiguous (stride 1, not 256)",
    ],
    [
      "wrong k of a view",
      "LaunchError",
      "weight has shape [64, 256] = [k, n], whose k is 64; that of x is 192",
    ],
    ["wrong bias", "LaunchError", "linear_gelu: bias has shape [128], and the kernels take [n] = [256]"],
    ["bias strides", "LaunchError", "bias has strides [2], and the kernels take a contiguous vector"],
    [
      "no such size",
      "NoKernel",
      "has no kernel for m=77 n=256 k=192 batch=1 on compute capability 9.0: kernel",
    ],
    ["no such size", "NoKernel", "wants m == 128, and m is 77"],
    ["unaligned", "LaunchError", "linear_gelu: x is not aligned to 16 bytes, as"],
    ["alpha", "LaunchError", 'alpha is 1 in its kernels; compile them with "alpha": "runtime"'],
    [
      "too few",
      "TypeError",
      "(Tensor x, Tensor weight, Tensor bias, *, bool fallback=False) -> Tensor was called with 2",
    ],
    ["too many", "TypeError", "was called with 4 tensors"],
    ["no option", "TypeError", "was called with 3 tensors, stream"],
    ["no tensor", "TypeError", "linear_gelu: weight is of type int, and no tensor"],
    ["none", "TypeError", "linear_gelu: weight is of type NoneType, and no tensor"],
    [
      "no operation",
      "AttributeError",
      "module 'linear' has no operation 'linear_relu': it has linear_gelu, ",
    ],
    ["fallback dtype", "LaunchError", "linear_gelu: x is f32, and the kernels take f16"],
    ["vmap", "LaunchError", "linear_gelu: vmap is refused: the kernels have no batch to map over"],
    [
      "attention queries",
      "NoKernel",
      "flash has no kernel for these tensors on compute capability 9.0: kernel 14 wants q of [2, 4, 128, 64], and it is [2, 4, 100, 64]",
    ],
    [
      "attention strides",
      "NoKernel",
      "wants k with strides [16384, 64, 128, 1], and they are [16384, 8192, 64, 1]",
    ],
    ["attention dtype", "LaunchError", "flash: k is bf16, and the kernels take f16"],
    [
      "attention rank",
      "LaunchError",
      "flash: q has shape [8, 128, 64], and the kernels take [batch, heads, queries, head dim]",
    ],
    ["attention cpu", "LaunchError", "flash: v is on cpu, and the kernels run on a GPU"],
    ["attention gradient", "LaunchError", "flash has no gradient: attention's is torch's alone"],
    ["one factor", "LaunchError", "gated: bg has shape [256], and the kernels take [n] = [128]"],
    [
      "other factor",
      "LaunchError",
      "gated_two: wu has shape [512, 192], and the kernels take [n, k] = [256, 192]",
    ],
    ["odd columns", "LaunchError", "gated: weight has shape [511, 192], and 511 columns are no two factors"],
    ["gated gradient", "LaunchError", "gated has no gradient: a gated product's is torch's alone"],
    ["no gradients", "LaunchError", "scaled has no gradient: the library lacks scaled_da; compile it with"],
  ];
  test.each(wrong)("refused, and nothing launched: %s", (name, error, message) => {
    const found = outcome(name);
    expect([found.error, found.message]).toEqual([error, expect.stringContaining(message)]);
    // The operator itself ran where it is the gradient that is missing.
    if (!["no gradients", "gated gradient", "attention gradient"].includes(name))
      expect(launches(found)).toEqual([]);
  });

  test("a torch without CUDA computes itself, if asked to", () => {
    const script = `import torch; del torch._C._cuda_getDevice, torch._C._cuda_getCurrentRawStream
from torch import Tensor, device; from linear import linear_gelu
print(*linear_gelu(*(Tensor(each, device=device("cpu")) for each in ((77, 192), (256, 192), (256,))), fallback=True).shape)`;
    const env = {
      ...process.env,
      PYTHONPATH: `${at("site")}:${here("python")}`,
      PYTHONDONTWRITEBYTECODE: "1",
    };
    expect(execFileSync("python3", ["-c", script], { env, encoding: "utf8" })).toBe("77 256\n");
  });

  test("torch computes where no kernel serves, if asked to", () => {
    expect(outcome("fallback size")).toMatchObject({
      calls: ["matmul"],
      made: [[[77, 256], [256, 1], "float16"]],
    });
    expect(outcome("fallback cpu")).toMatchObject({ calls: ["matmul"], driver: [] });
  });

  test("torch.compile, autocast and gradients go through the operator; the gradients are kernels of the same library", () => {
    expect(outcome("compiling").calls[0]).toBe("op linear_gelu");
    expect(outcome("autocast")).toMatchObject({ made: outcome("right").made });
    expect(outcome("fake")).toMatchObject({ made: outcome("right").made, driver: [] });
    const gradients = outcome("gradients");
    expect(gradients.made).toEqual([
      [[128, 192], [192, 1], "float16"],
      [[256, 192], [192, 1], "float16"],
      [[256], [1], "float16"],
    ]);
    const operators = gradients.calls.filter((call) => call.startsWith("op "));
    expect(operators).toEqual(
      ["linear_gelu", "linear_gelu_product", "linear_gelu_da", "linear_gelu_db"].map((name) => `op ${name}`),
    );
    expect(launches(gradients)).toHaveLength(4);
    expect(outcome("no_grad").calls).toEqual(["empty"]);
  });

  test("the schema and the help name what each operand is", () => {
    expect(outcome("schema").text).toBe(
      "linear_gelu(Tensor x, Tensor weight, Tensor bias, *, bool fallback=False) -> Tensor",
    );
    expect(outcome("help").text).toContain("weight: [n, k], f16");
    expect(outcome("copies").text).toBe("linear linear_gelu ['x', 'weight', 'bias', 'fallback'] True True");
  });
});
