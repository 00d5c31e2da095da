/** Libraries of experts: launchers take the int32 that tell rows apart, and what each expert has in one buffer. C needs gcc, Rust rustc, Python python3. */
import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  bytesOfStorage,
  decodeArray,
  defineProblem,
  encodeArray,
  type ProblemRequest,
  packWeights,
} from "@tilewright/core";
import { KernelLibrary, openDevice } from "@tilewright/runtime";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { cli } from "../harness.ts";
import { scratch } from "../scratch.ts";

const has = (command: string): boolean =>
  process.platform === "linux" && spawnSync(command, ["--version"]).status === 0;
const folder = scratch();
afterAll(() => folder[Symbol.dispose]());
const at = (path: string): string => join(folder.path, path);

const [m, n, k, experts] = [24, 16, 16, 3];
const common = { n, k, experts, dtype: "bf16", d: { dtype: "f32" }, b: { layout: "col" } };
const operations = [
  {
    name: "mixture",
    problem: { ...common, m, gather: 10, scatterAdd: 7, epilogue: "acc * w[m] + bias[n]" },
  },
  { name: "masked", problem: { ...common, m: 8, expertRows: "counts" } },
  {
    name: "sums",
    problem: { ...common, m: 8, k: 20, expertAxis: "k", a: { layout: "col" }, b: { layout: "row" } },
  },
  {
    name: "coded",
    problem: { m, n: 64, k: 64, experts, d: { dtype: "f32" }, weights: { dtype: "s4", group: 64 } },
  },
  {
    name: "fused",
    problem: {
      op: "ffn",
      m,
      n: 48,
      k: 64,
      experts,
      d: { dtype: "f32" },
      weights: { dtype: "s8", group: 64 },
    },
  },
  ...(["offsets", "counts"] as const).map((expertRows) => ({
    name: `quantized_${expertRows}`,
    problem: {
      ...{ ...common, m: 150, n: 128, expertRows, d: { dtype: "mxf8" } },
      epilogue: "quantize(32,u8)",
    },
  })),
];
const flags = [
  "compile",
  "--library",
  "out",
  "--kernels",
  "kernels.json",
  "--launchers",
  "c,python,rust,esm",
];

beforeAll(async () => {
  writeFileSync(at("kernels.json"), JSON.stringify({ name: "moe", archs: ["sm_80"], operations }));
  const { code, stderr } = await cli(flags, { cwd: folder.path });
  expect([code, stderr]).toEqual([0, ""]);
});

const small = (length: number, step: number) => Float64Array.from({ length }, (_, i) => ((i * step) % 7) - 3);
const offsets = [5, 5, 20];
const [tokens, places] = [3, 5].map((step) => Int32Array.from({ length: m }, (_, i) => (i * step) % 7));

async function opened() {
  const device = await openDevice({ kind: "emulator", arch: "sm_80" });
  const read = (path: string) => readFileSync(at(`out/${path}`));
  if (!device.ok) throw new Error("the emulator is always there");
  const library = KernelLibrary.open(device.value, JSON.parse(String(read("index.json"))), read);
  if (!library.ok) throw new Error("the index was just written");
  const buffer = (bytes: ArrayBufferView) => {
    const found = device.value.alloc(bytes.byteLength);
    if (!found.ok) throw new Error("memory");
    found.value.write(new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength));
    return found.value;
  };
  const bf16 = (values: Float64Array) => buffer(bytesOfStorage(encodeArray("bf16", values)));
  const floats = (of: { read(): ReturnType<ReturnType<typeof buffer>["read"]> }): Float32Array => {
    const bytes = of.read();
    if (!bytes.ok) throw new Error("memory");
    return new Float32Array(bytes.value.slice().buffer);
  };
  return { library: library.value, buffer, bf16, floats };
}

describe("JavaScript", () => {
  test("rows by offsets and indices, a bias for each expert, added to rows of D", async () => {
    const { library, buffer, bf16, floats } = await opened();
    const [a, b] = [small(10 * k, 3), small(experts * n * k, 5)];
    const [w, bias] = [small(m, 2), small(experts * n, 4)];
    const buffers = {
      ...{ a: bf16(a), b: bf16(b), d: buffer(new Float32Array(7 * n)) },
      groups: buffer(Int32Array.from(offsets)),
      ...{ epilogue0: buffer(Float32Array.from(w)), epilogue1: buffer(Float32Array.from(bias)) },
      ...{ epilogue2: buffer(tokens ?? a), epilogue3: buffer(places ?? a) },
    };
    expect(library.launch("mixture", { m, n, k }, buffers)).toMatchObject({ ok: true });
    const wanted = new Float32Array(7 * n);
    for (let row = 0; row < 20; row++) {
      const [expert, token, place] = [row < 5 ? 0 : 2, tokens?.[row] ?? 0, places?.[row] ?? 0];
      for (let j = 0; j < n; j++) {
        let sum = 0;
        for (let i = 0; i < k; i++) sum += (a[token * k + i] ?? 0) * (b[(expert * n + j) * k + i] ?? 0);
        wanted[place * n + j] =
          (wanted[place * n + j] ?? 0) + sum * (w[row] ?? 0) + (bias[expert * n + j] ?? 0);
      }
    }
    expect(floats(buffers.d)).toEqual(wanted);
    // Fewer rows at once, as long as those of A are there.
    expect(library.launch("mixture", { m: 20, n, k }, buffers)).toMatchObject({ ok: true });
    expect(library.launch("mixture", { m: 25, n, k }, buffers)).toMatchObject({
      error: [{ code: "TW6028", message: expect.stringContaining("m <= 24") }],
    });
    expect(library.launch("masked", { m: 7, n, k }, buffers)).toMatchObject({
      error: [{ code: "TW6028", message: expect.stringContaining("m == 8") }],
    });
    const { groups: _, ...without } = buffers;
    expect(library.launch("mixture", { m, n, k }, without)).toMatchObject({ ok: false });
    const short = { groups: buffer(new Int32Array(2)), epilogue1: buffer(new Float32Array(n)) };
    expect(library.launch("mixture", { m, n, k }, { ...buffers, ...short })).toMatchObject({
      error: [
        { message: "epilogue1 has 64 bytes; 16 f32 takes 192" },
        { message: "groups has 8 bytes; offsets of 3 experts takes 12" },
      ],
    });
  });

  test("sums over an expert's rows, each with a D", async () => {
    const { library, buffer, bf16, floats } = await opened();
    const [a, b] = [small(20 * 8, 3), small(20 * n, 5)];
    const ends = [4, 4, 19];
    const buffers = {
      ...{ a: bf16(a), b: bf16(b), d: buffer(new Float32Array(experts * 8 * n)) },
      groups: buffer(Int32Array.from(ends)),
    };
    expect(library.launch("sums", { m: 8, n, k: 20 }, buffers)).toMatchObject({ ok: true });
    const wanted = Float32Array.from({ length: experts * 8 * n }, (_, at) => {
      const [expert, row, column] = [Math.floor(at / (8 * n)), Math.floor(at / n) % 8, at % n];
      let sum = 0;
      for (let i = expert === 0 ? 0 : (ends[expert - 1] ?? 0); i < (ends[expert] ?? 0); i++)
        sum += (a[i * 8 + row] ?? 0) * (b[i * n + column] ?? 0);
      return sum;
    });
    expect(floats(buffers.d)).toEqual(wanted);
  });
});

test("weights in few bits, of each expert as packWeights makes them", async () => {
  const { library, buffer, bf16, floats } = await opened();
  const codes = [9, 10, 13];
  const packed = codes.map((code) =>
    packWeights({
      ...{ n: 64, k: 64, group: 64, dtype: "bf16" },
      codes: new Uint8Array(64 * 64).fill(code),
      scales: new Float32Array(64).fill(0.5),
    }),
  );
  const all = (name: "b" | "sfb") =>
    buffer(Buffer.concat(packed.map(({ [name]: bytes }) => new Uint8Array(bytes))));
  const buffers = {
    ...{ a: bf16(new Float64Array(m * 64).fill(1)), b: all("b"), sfb: all("sfb") },
    ...{ d: buffer(new Float32Array(m * 64)), groups: buffer(Int32Array.from(offsets)) },
  };
  expect(library.launch("coded", { m, n: 64, k: 64 }, buffers)).toMatchObject({ ok: true });
  const rows = floats(buffers.d).filter((_, at) => at % 64 === 0);
  expect([...rows]).toEqual(Array.from({ length: m }, (_, i) => (i < 5 ? 32 : i < 20 ? 160 : 0)));
});

test("weights of a gated product, those of the gate first", async () => {
  const { library, buffer, bf16, floats } = await opened();
  // Gates of 32 units, which silu leaves as they are, times another number for each expert.
  const packed = [1, 2, 3].map((up) =>
    packWeights({
      ...{ n: 96, k: 64, group: 64, weights: "s8", dtype: "bf16" },
      codes: Int8Array.from({ length: 96 * 64 }, (_, at) => (at < 48 * 64 ? 1 : up)),
      scales: new Float32Array(96).fill(0.5),
    }),
  );
  const all = (name: "b" | "sfb") =>
    buffer(Buffer.concat(packed.map(({ [name]: bytes }) => new Uint8Array(bytes))));
  const buffers = {
    ...{ a: bf16(new Float64Array(m * 64).fill(1)), b: all("b"), sfb: all("sfb") },
    ...{ d: buffer(new Float32Array(m * 48)), groups: buffer(Int32Array.from(offsets)) },
  };
  expect(library.launch("fused", { m, n: 48, k: 64 }, buffers)).toMatchObject({ ok: true });
  const short = { ...buffers, b: buffer(new Uint8Array(3 * 48 * 64)) };
  expect(library.launch("fused", { m, n: 48, k: 64 }, short)).toMatchObject({
    error: [{ message: expect.stringContaining("b has 9216 bytes") }],
  });
  const found = floats(buffers.d);
  const wanted = [5, 5, 20].flatMap((end, g, ends) =>
    new Array<number>((end - (ends[g - 1] ?? 0)) * 48).fill(32 * 32 * (g + 1)),
  );
  expect([...found.subarray(0, wanted.length)]).toEqual(wanted);
});

test("scales of a quantised D begin, for each expert, at a block of 128 rows of its own", async () => {
  const { library, buffer, bf16 } = await opened();
  const [rows, ends] = [150, [5, 5, 145]];
  const [a, b] = [small(rows * k, 3), small(experts * 128 * k, 5)];
  const scales = (blocks: number) => buffer(new Uint8Array(blocks * 512).fill(0xff));
  const d = buffer(new Uint8Array(rows * 128));
  const buffers = { a: bf16(a), b: bf16(b), d, groups: buffer(Int32Array.from(ends)) };
  const sizes = { m: rows, n: 128, k };
  expect(library.launch("quantized_offsets", sizes, { ...buffers, epilogue0: scales(4) })).toMatchObject({
    error: [{ message: expect.stringContaining("epilogue0 has 2048 bytes") }],
  });
  const epilogue0 = scales(5);
  expect(library.launch("quantized_offsets", sizes, { ...buffers, epilogue0 })).toMatchObject({ ok: true });
  const [codes, stored] = [epilogue0.read(), d.read()];
  if (!codes.ok || !stored.ok) throw new Error("memory");
  const values = decodeArray("e4m3", stored.value, stored.value.length);
  const known = new Set<number>();
  for (let row = 0; row < 145; row++) {
    const [expert, own] = row < 5 ? [0, row] : [2, row - 5];
    // Blocks of the third begin at ceil((5 + 2 * 127) / 128).
    const block = (expert === 0 ? 0 : 3) + Math.floor(own / 128);
    for (let column = 0; column < 128; column++) {
      const at = 512 * block + 16 * (own % 32) + 4 * Math.floor((own % 128) / 32) + Math.floor(column / 32);
      known.add(at);
      let sum = 0;
      for (let i = 0; i < k; i++) sum += (a[row * k + i] ?? 0) * (b[(expert * 128 + column) * k + i] ?? 0);
      const value = (values[row * 128 + column] ?? 0) * 2 ** ((codes.value[at] ?? 0) - 127);
      expect(Math.abs(value - sum)).toBeLessThanOrEqual(Math.abs(sum) / 8);
    }
  }
  codes.value.forEach((code, at) => {
    if (!known.has(at)) expect(code).toBe(0xff);
  });
});

test("what libraries of experts lack: wheels, certificates, one order of rows that are added", async () => {
  for (const [more, what] of [
    [["--wheel"], "wheels have no place for the int32 of experts"],
    [["--certify"], "a certificate is of one product"],
    [["--batch-invariant"], "adds rows in the order in which they come"],
  ] as const) {
    const { code, stderr } = await cli([...flags, ...more], { cwd: folder.path });
    expect([code, stderr]).toEqual([3, expect.stringContaining(`mixture is grouped, and ${what}`)]);
    expect(stderr).toContain("TW7083 (unsupported) at operations[0]");
  }
});

/** A program on a driver that computes nothing: what it prints, and addresses of the last launch's parameters. */
function run(command: string, args: readonly string[]) {
  writeFileSync(at("journal"), "");
  const env = {
    ...process.env,
    ...{ LD_LIBRARY_PATH: folder.path, STUB_LOG: at("journal"), STUB_CC: "80", STUB_SMS: "108" },
    PYTHONDONTWRITEBYTECODE: "1",
  };
  const { status, stdout, stderr } = spawnSync(command, args, { env, encoding: "utf8", cwd: at("out") });
  expect([status, stderr]).toEqual([0, ""]);
  const launches = readFileSync(at("journal"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line))
    .filter(({ call }) => call === "launch");
  const params: readonly string[] = launches.at(-1)?.params ?? [];
  return {
    lines: stdout.trim().split("\n"),
    count: launches.length,
    addresses: params.map((each) => Number(Buffer.from(each, "hex").readBigUInt64LE())),
  };
}

/** Places of the operands in memory, in the order of the kernel's parameters. */
const at0 = [0x1000, 0x2000, 0x3000, 0x9000, 0x4000, 0x5000, 0x6000, 0x7000];
const [A, B, D, GROUPS, W, BIAS, TOKENS, PLACES] = at0;
const sorted = (addresses: readonly number[]) => [...addresses].sort((x, y) => x - y);

const wrong = [
  "mixture: offsets is f32, and the kernels take s32",
  "mixture: offsets has shape [1, 2], and the kernels take 1, E = [1, 3]",
  "mixture: weight has 2 matrices, and batch is 3",
  "mixture: the matrices of weight do not follow each other",
  "mixture: x has shape [24, 16], and the kernels take m, k = [10, 16]",
  "mixture: bias has 1 dimensions",
];

describe.skipIf(!has("gcc"))("C and Rust", () => {
  beforeAll(() => {
    const stub = fileURLToPath(new URL("stub-cuda.c", import.meta.url));
    execFileSync("gcc", ["-shared", "-fPIC", "-o", at("libcuda.so.1"), stub]);
  });

  test("C", () => {
    writeFileSync(
      at("main.c"),
      `#include "moe.h"
static moe_library lib;
static moe_tensor three(int64_t count, int64_t apart) {
  moe_tensor made = {${B}, moe_BF16, -1, 3, {count, ${n}, ${k}, 0}, {apart, ${k}, 1, 0}};
  return made;
}
int main(int argc, char **argv) {
  moe_args args;
  if (moe_open(&lib, argv[argc - 1], 0) != moe_OK) return puts(moe_last_error(&lib)), 1;
  moe_mixture_defaults(&args, ${m}, ${n}, ${k});
#define TAKE(name, tensor) if (moe_mixture_take(&lib, &args, name, tensor) != moe_OK) puts(moe_last_error(&lib))
  TAKE("x", moe_matrix(${A}, moe_BF16, 10, ${k}));
  TAKE("weight", three(3, ${n * k}));
  TAKE("d", moe_matrix(${D}, moe_F32, 7, ${n}));
  TAKE("offsets", moe_vector(${GROUPS}, moe_S32, 3));
  TAKE("w", moe_vector(${W}, moe_F32, ${m}));
  TAKE("bias", moe_matrix(${BIAS}, moe_F32, 3, ${n}));
  TAKE("gather", moe_vector(${TOKENS}, moe_S32, ${m}));
  TAKE("scatter", moe_vector(${PLACES}, moe_S32, ${m}));
  printf("%d\\n", moe_mixture(&lib, &args, 0));
  TAKE("offsets", moe_vector(${GROUPS}, moe_F32, 3));
  TAKE("offsets", moe_vector(${GROUPS}, moe_S32, 2));
  TAKE("weight", three(2, ${n * k}));
  TAKE("weight", three(3, ${n * k + 8}));
  TAKE("x", moe_matrix(${A}, moe_BF16, ${m}, ${k}));
  TAKE("bias", moe_vector(${BIAS}, moe_F32, ${n}));
  moe_coded_defaults(&args, ${m}, 64, 64);
  printf("%d\\n", moe_coded_take(&lib, &args, "weight", moe_vector(${B}, moe_U8, ${experts * 2048})));
  if (moe_coded_take(&lib, &args, "sfb", moe_vector(${B}, moe_BF16, 64)) != moe_OK) puts(moe_last_error(&lib));
  moe_fused_defaults(&args, ${m}, 48, 64);
  printf("%d ", moe_fused_take(&lib, &args, "weight", moe_vector(${B}, moe_U8, ${experts * 96 * 64})));
  printf("%d\\n", moe_fused_take(&lib, &args, "sfb", moe_vector(${B}, moe_BF16, ${experts * 96})));
  moe_quantized_offsets_defaults(&args, 150, 128, ${k});
  if (moe_quantized_offsets_take(&lib, &args, "quantize", moe_matrix(${B}, moe_U8, 4, 512)) != moe_OK) puts(moe_last_error(&lib));
  printf("%d ", moe_quantized_offsets_take(&lib, &args, "quantize", moe_matrix(${B}, moe_U8, 5, 512)));
  moe_quantized_counts_defaults(&args, 150, 128, ${k});
  printf("%d\\n", moe_quantized_counts_take(&lib, &args, "quantize", moe_matrix(${B}, moe_U8, ${experts * 2}, 512)));
  return 0;
}
`,
    );
    const warnings = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-I", at("out")];
    execFileSync("gcc", [...warnings, "-o", at("main"), at("main.c"), "-ldl"], { stdio: "pipe" });
    const { lines, count, addresses } = run(at("main"), [at("out")]);
    const few = "coded: sfb has 64 elements, and the kernels take 192, one behind the other";
    const blocks =
      "quantized_offsets: quantize has 2048 elements, and the kernels take 2560, one behind the other";
    expect(lines).toEqual(["0", ...wrong, "0", few, "0 0", blocks, "0 0"]);
    expect([count, sorted(addresses)]).toEqual([1, sorted(at0)]);
  });

  test.skipIf(!has("rustc"))("Rust", () => {
    writeFileSync(
      at("main.rs"),
      `#[path = ${JSON.stringify(at("out/moe.rs"))}]
mod moe;
use moe::{DType, Library, Tensor};
fn main() {
    let mut library = Library::open(std::env::args().nth(1).unwrap(), 0).unwrap();
    let mut args = Library::mixture_defaults(${m}, ${n}, ${k});
    (args.a, args.b, args.d) = (${A}, ${B}, ${D});
    args.epilogue = [${W}, ${BIAS}, ${TOKENS}, ${PLACES}];
    library.mixture_take(&mut args, "offsets", Tensor::vector(${GROUPS}, DType::S32, 3)).unwrap();
    unsafe { library.mixture(&args, std::ptr::null_mut()) }.unwrap();
    println!("{}", library.mixture_take(&mut args, "offsets", Tensor::vector(${GROUPS}, DType::F32, 3)).err().unwrap());
}
`,
    );
    execFileSync("gcc", ["-std=c99", "-c", "-o", at("moe.o"), at("out/moe.c")]);
    const link = ["-C", `link-arg=${at("moe.o")}`, "-o", at("main-rust"), at("main.rs")];
    execFileSync("rustc", ["--edition", "2021", "-D", "warnings", ...link], { stdio: "pipe" });
    const { lines, count, addresses } = run(at("main-rust"), [at("out")]);
    expect(lines).toEqual([wrong[0]]);
    expect([count, sorted(addresses)]).toEqual([1, sorted(at0)]);
  });

  test.skipIf(!has("python3"))("Python", () => {
    writeFileSync(
      at("out/main.py"),
      `import moe
class Device:
    type, index = "cuda", 0
class Tensor:
    def __init__(self, address, dtype, shape, strides=None):
        self.address, self.dtype, self.shape, self.device = address, dtype, shape, Device
        sizes = [1]
        for extent in reversed(shape[1:]): sizes.insert(0, sizes[0] * extent)
        self.strides = strides or tuple(sizes)
    def data_ptr(self): return self.address
    def stride(self): return self.strides
library = moe.Library()
right = {
    "a": Tensor(${A}, "bfloat16", (10, ${k})), "b": Tensor(${B}, "bfloat16", (3, ${n}, ${k})), "d": Tensor(${D}, "float32", (7, ${n})),
    "groups": Tensor(${GROUPS}, "int32", (3,)),
}
steps = {0: Tensor(${W}, "float32", (${m},)), 1: Tensor(${BIAS}, "float32", (3, ${n})), 2: Tensor(${TOKENS}, "int32", (${m},)), 3: Tensor(${PLACES}, "int32", (${m},))}
def call(epilogue=(), **more):
    given = {**right, **more}
    try:
        library.mixture(${m}, ${n}, ${k}, given["a"], given["b"], given["d"], given["groups"], epilogue={**steps, **dict(epilogue)}, stream=0)
        print("ok")
    except moe.LaunchError as error:
        print(error)
call()
call(groups=Tensor(${GROUPS}, "float32", (3,)))
call(groups=Tensor(${GROUPS}, "int32", (2,)))
call(b=Tensor(${B}, "bfloat16", (2, ${n}, ${k})))
call(b=Tensor(${B}, "bfloat16", (3, ${n}, ${k}), (${n * k + 8}, ${k}, 1)))
call(a=Tensor(${A}, "bfloat16", (${m}, ${k})))
call({1: Tensor(${BIAS}, "float32", (${n},))})
import json, sys
problems = json.loads(sys.argv[1])
for each in moe.operands_of(problems["fused"]):
    if each.name in ("b", "sfb"):
        count = ${experts * 96 * 64} if each.name == "b" else ${experts * 96}
        print(moe.fit("fused", each, moe.View(4096, "u8" if each.name == "b" else "bf16", 0, (count,), (1,)), {"m": ${m}, "n": 48, "k": 64}, ${experts}))
for rows, blocks in (("offsets", 4), ("offsets", 5), ("counts", 6)):
    name = "quantized_" + rows
    operand = next(each for each in moe.operands_of(problems[name]) if each.name == "epilogue0")
    try:
        print(moe.fit(name, operand, moe.View(4096, "u8", 0, (blocks, 512), (512, 1)), {"m": 150, "n": 128, "k": ${k}}, ${experts}))
    except moe.LaunchError as error:
        print(error)
`,
    );
    const problems = operations.map(({ name, problem }) => [name, defineProblem(problem as ProblemRequest)]);
    const made = problems.map(([name, each]) => [name, typeof each === "object" && each.ok && each.value]);
    const { lines, count, addresses } = run("python3", ["main.py", JSON.stringify(Object.fromEntries(made))]);
    expect(lines).toEqual([
      "ok",
      "mixture: offsets is f32, and the kernels take s32",
      "mixture: offsets has shape [2], and the kernels take [experts] = [3]",
      "mixture: weight has shape [2, 16, 16], and the kernels take [batch, n, k] = [3, 16, 16]",
      "mixture: the matrices of weight do not follow each other",
      "mixture: x has shape [24, 16], and the kernels take [10, k] = [10, 16]",
      "mixture: bias has shape [16], and the kernels take [n] = [48]",
      "(None, None)",
      "(None, None)",
      "quantized_offsets: quantize has shape [4, 512] and strides [512, 1], and the kernels take 2560 elements, one behind the other",
      "(None, None)",
      "(None, None)",
    ]);
    expect([count, sorted(addresses)]).toEqual([1, sorted(at0)]);
  });
});
