/** Operands that lie in orders of their own: each launcher packs weights as `packWeights` does, and checks how much there is of them. C needs gcc, Rust rustc, Python python3 with numpy; what is absent is skipped. */
import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createRandom, defineProblem, encodeArray, packWeights } from "@tilewright/core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launcherFiles } from "../../src/library/launchers/index.ts";
import type { LibraryOperation } from "../../src/library/model.ts";
import { scratch } from "../scratch.ts";
import { mixed } from "./mixed.ts";

const works = (command: string, ...args: readonly string[]): boolean =>
  process.platform === "linux" && spawnSync(command, args).status === 0;
const [gcc, rustc] = [works("gcc", "--version"), works("rustc", "--version")];
const numpy = works("python3", "-c", "import numpy");

const [n, k, group] = [48, 128, 32];
const random = createRandom(7);
const numbers = (count: number, least: number, most: number) =>
  Array.from({ length: count }, () => random.integer(least, most));
const values = Float32Array.from({ length: (n * k) / group }, () => 2 * random.uniform() - 1);
/** Codes and zero points: of s4, of s8, and the bits of e4m3, among which no NaN is. */
const given = {
  s4: { codes: numbers(n * k, 0, 15), zeros: numbers((n * k) / group, 0, 15) },
  s8: { codes: numbers(n * k, -128, 127), zeros: numbers((n * k) / group, -128, 127) },
  e4m3: { codes: numbers(n * k, 0, 255).map((code) => (code % 128 === 127 ? code - 1 : code)), zeros: [] },
};
/** What launchers call an array of the codes. */
const held = { s4: "U8", s8: "S8", e4m3: "E4M3" } as const;
const kinds = ["s4", "s8", "e4m3"] as const;
const cases = (["bf16", "f16"] as const).flatMap((dtype) => [
  ...(["s4", "s8"] as const).map((weights) => ({ dtype, weights, zeros: given[weights].zeros })),
  ...kinds.map((weights) => ({ dtype, weights, zeros: undefined })),
]);
const bits = (dtype: "bf16" | "f16") => Array.from(encodeArray(dtype, values), Number);
/** Numbers as the bytes that C and Rust take. */
const raw = (of: readonly number[]): string => Uint8Array.from(of).join();
const wanted = cases.map(({ dtype, weights, zeros }) => {
  const { codes } = given[weights];
  const made = packWeights({
    ...{ n, k, group, weights, codes, scales: values, dtype },
    ...(zeros === undefined ? {} : { zeros }),
  });
  return Buffer.concat([made.b, made.sfb]).toString("hex");
});

/** An operation whose D is quantised: 300 rows have scales in three lines of blocks. */
const problem = defineProblem({
  ...{ m: 300, n: 64, k: 64, dtype: "bf16", d: { dtype: "nvf4" }, epilogue: "quantize(16,u8)" },
});
if (!problem.ok) throw new Error("quantized");
const quantized: LibraryOperation = { name: "quantized", problem: problem.value, dispatch: [1] };

const folder = scratch();
afterAll(() => folder[Symbol.dispose]());
const at = (path: string): string => join(folder.path, path);
beforeAll(() => {
  const library = { ...mixed, operations: [...mixed.operations, quantized] };
  for (const { path, data } of launcherFiles(library, ["c", "python", "rust", "esm"]))
    writeFileSync(at(path), data);
});
const lines = (command: string, ...args: readonly string[]): readonly string[] =>
  execFileSync(command, args, { encoding: "utf8", cwd: folder.path }).trim().split("\n");

test.skipIf(!gcc)("C", () => {
  const calls = cases.map(
    ({ dtype, weights, zeros: points }) =>
      `  show(mixed_${held[weights]}, mixed_${dtype.toUpperCase()}, codes_${weights}, scales_${dtype}, ${points === undefined ? "0" : `zeros_${weights}`});`,
  );
  writeFileSync(
    at("main.c"),
    `#include "mixed.h"
${kinds.map((of) => `static const uint8_t codes_${of}[] = {${raw(given[of].codes)}}${of === "e4m3" ? "" : `, zeros_${of}[] = {${raw(given[of].zeros)}}`};`).join("\n")}
static const uint16_t scales_bf16[] = {${bits("bf16").join()}}, scales_f16[] = {${bits("f16").join()}};
static void show(int weights, int dtype, const uint8_t *codes, const uint16_t *scales, const uint8_t *points) {
  uint8_t b[${n * k}];
  uint16_t sfb[${(2 * n * k) / group}];
  size_t i;
  if (mixed_pack_weights(${n}, ${k}, ${group}, weights, dtype, codes, scales, points, b, sfb) != mixed_OK) { puts("refused"); return; }
  for (i = 0; i < sizeof b / (weights == mixed_U8 ? 2 : 1); i++) printf("%02x", b[i]);
  for (i = 0; i < sizeof sfb / (points ? 2 : 4); i++) printf("%02x%02x", sfb[i] & 255, sfb[i] >> 8);
  puts("");
}
int main(void) {
  static mixed_library lib;
  mixed_args args;
  mixed_packed_defaults(&args, 64, ${n}, ${k});
  printf("%d ", mixed_packed_take(&lib, &args, "sfb", mixed_matrix(4096, mixed_BF16, 8, ${n})));
  printf("%d ", mixed_packed_take(&lib, &args, "weight", mixed_vector(4096, mixed_U8, 100)));
  puts(lib.message);
  mixed_quantized_defaults(&args, 300, 64, 64);
  printf("%d ", mixed_quantized_take(&lib, &args, "d", mixed_matrix(4096, mixed_U8, 300, 32)));
  printf("%d ", mixed_quantized_take(&lib, &args, "quantize", mixed_matrix(4096, mixed_U8, 3, 512)));
  printf("%d ", mixed_quantized_take(&lib, &args, "epilogue0", mixed_vector(4096, mixed_U8, 1200)));
  puts(lib.message);
${calls.join("\n")}
  printf("%d\\n", mixed_pack_weights(${n}, ${k}, 48, mixed_U8, mixed_F16, codes_s4, scales_f16, 0, 0, 0));
  {
    static const uint8_t nan[${n * k}] = {0x7f};
    static uint8_t b[${n * k}];
    static uint16_t sfb[${(2 * n * k) / group}];
    printf("%d ", mixed_pack_weights(${n}, ${k}, ${group}, mixed_E4M3, mixed_F16, nan, scales_f16, 0, b, sfb));
    printf("%d ", mixed_pack_weights(${n}, ${k}, ${group}, mixed_U8, mixed_F16, nan, scales_f16, 0, b, sfb));
    printf("%d ", mixed_pack_weights(${n}, ${k}, ${group}, mixed_S8, mixed_F16, nan, scales_f16, 0, b, sfb));
    printf("%d ", mixed_pack_weights(${n}, ${k}, ${group}, mixed_E4M3, mixed_F16, codes_s4, scales_f16, zeros_s4, b, sfb));
    printf("%d\\n", mixed_pack_weights(${n}, ${k}, ${group}, mixed_F32, mixed_F16, codes_s4, scales_f16, 0, b, sfb));
    static const uint16_t ends[] = {0x4900, 0xc900, 0x7f80, 0x48ff};
    for (size_t i = 0; i < 4; i++) {
      uint16_t scales[${(n * k) / group}] = {ends[i]};
      printf("%d ", mixed_pack_weights(${n}, ${k}, ${group}, mixed_U8, mixed_BF16, codes_s4, scales, 0, b, sfb));
    }
    puts("");
  }
  return 0;
}
`,
  );
  const flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror"];
  execFileSync("gcc", [...flags, "-o", at("main"), at("main.c"), "-ldl"], { stdio: "pipe" });
  expect(lines(at("main"))).toEqual([
    "0 -2 packed: weight has 100 elements, and the kernels take 3072, one behind the other",
    "0 0 -2 quantized: quantize has 1200 elements, and the kernels take 1536, one behind the other",
    ...[...wanted, "-2", "-2 -2 0 -2 -2", "-2 -2 -2 0"],
  ]);
});

const rustType = (name: string): string => name.charAt(0) + name.slice(1).toLowerCase();

test.skipIf(!gcc || !rustc)("Rust", () => {
  const calls = cases.map(
    ({ dtype, weights, zeros: points }) =>
      `    show(mixed::DType::${rustType(held[weights])}, mixed::DType::${rustType(dtype.toUpperCase())}, &CODES_${weights.toUpperCase()}, &[${bits(dtype).join()}], ${points === undefined ? "None" : `Some(&[${raw(points)}])`});`,
  );
  writeFileSync(
    at("main.rs"),
    `mod mixed;
${kinds.map((of) => `static CODES_${of.toUpperCase()}: [u8; ${n * k}] = [${raw(given[of].codes)}];`).join("\n")}
fn show(weights: mixed::DType, dtype: mixed::DType, codes: &[u8], scales: &[u16], zeros: Option<&[u8]>) {
    let (b, sfb) = mixed::pack_weights([${n}, ${k}], ${group}, weights, dtype, codes, scales, zeros).unwrap();
    let bytes = b.into_iter().chain(sfb.into_iter().flat_map(u16::to_le_bytes));
    println!("{}", bytes.map(|byte| format!("{byte:02x}")).collect::<String>());
}
fn main() {
${calls.join("\n")}
    println!("{}", mixed::pack_weights([${n}, ${k}], 48, mixed::DType::U8, mixed::DType::F16, &CODES_S4, &[], None).is_err());
    for end in [0x4900, 0xc900, 0x7f80, 0x48ff] {
        let scales = [end; ${(n * k) / group}];
        println!("{}", mixed::pack_weights([${n}, ${k}], ${group}, mixed::DType::U8, mixed::DType::Bf16, &CODES_S4, &scales, None).is_err());
    }
}
`,
  );
  execFileSync("gcc", ["-std=c99", "-c", "-o", at("mixed.o"), at("mixed.c")]);
  const link = ["-C", `link-arg=${at("mixed.o")}`, "-o", at("main-rust"), at("main.rs")];
  execFileSync("rustc", ["--edition", "2021", "-D", "warnings", ...link], { stdio: "pipe" });
  expect(lines(at("main-rust"))).toEqual([...wanted, "true", "true", "true", "true", "false"]);
});

test.skipIf(!numpy)("Python, whose numpy has no bf16", () => {
  writeFileSync(
    at("main.py"),
    `import numpy, mixed
of = lambda dtype, *rows: [numpy.array(each, dtype).reshape(${n}, -1) for each in rows]
codes, zeros = of(numpy.uint8, [${given.s4.codes.join()}], [${given.s4.zeros.join()}])
signed, points = of(numpy.int8, [${given.s8.codes.join()}], [${given.s8.zeros.join()}])
scales = numpy.array([${bits("f16").join()}], numpy.uint16).view(numpy.float16).reshape(${n}, -1)
for each in ((codes, zeros), (signed, points), (codes, None), (signed, None)):
    print("".join(made.tobytes().hex() for made in mixed.pack_weights(each[0], scales, each[1])))
class Bf16(numpy.ndarray):
    dtype = property(lambda self: "bfloat16")
large = [scales.astype(numpy.float32).view(Bf16) for end in range(2)]
for each, end in zip(large, (2.0**19, -(2.0**19))):
    each[5, 2] = end
wrong = [(codes, scales[:, :3]), (codes + 200, scales), (codes, scales, points), (codes.astype(numpy.int16), scales)]
for each in [*wrong, *((codes, each) for each in large)]:
    try:
        mixed.pack_weights(*each)
    except ValueError as error:
        print(error)
import json, sys
operands = {each.name: each for each in mixed.operands_of(json.loads(sys.argv[1]))}
def fits(name, *shape):
    seen = mixed.View(4096, "u8", 0, shape, mixed._packed(shape))
    try:
        print(mixed.fit("quantized", operands[name], seen, {"m": 300, "n": 64, "k": 64}, 1))
    except mixed.LaunchError as error:
        print(error)
fits("d", 300, 32)
fits("epilogue0", 3, 512)
fits("epilogue0", 1200)
`,
  );
  const shape = "48 x 128 weights with scales [48, 3] are no whole blocks of 16 x 64 in groups";
  const small = "codes in uint8, and their zero points, are at most 15";
  const kind = "codes are uint8, int8 or float8_e4m3fn, and zero points like the first two";
  const large = "scales in bfloat16 are below 2^19";
  const short =
    "quantized: quantize has shape [1200] and strides [1], and the kernels take 1536 elements, one behind the other";
  expect(lines("python3", "main.py", JSON.stringify(problem.value))).toEqual([
    // numpy has no e4m3 either.
    ...wanted.filter((_, i) => cases[i]?.dtype === "f16" && cases[i]?.weights !== "e4m3"),
    ...[shape, small, kind, kind, large, large, "(None, None)", "(None, None)", short],
  ]);
});

test("JavaScript exports the function of the documentation", () => {
  const [js, types] = ["js", "d.ts"].map((suffix) => readFileSync(at(`mixed.${suffix}`), "utf8"));
  for (const text of [js, types])
    expect(text).toContain('export { packWeights } from "@tilewright/runtime";');
});
