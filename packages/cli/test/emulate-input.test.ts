/** Bad input of `emulate`: the message and exit code of each case; nothing is written and no stack trace is shown. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { encodeNpyIntegers } from "../src/files/npy.ts";
import { npyOf } from "../src/launch/elements.ts";
import { cli, type Outcome, traceLines } from "./harness.ts";
import { scratch } from "./scratch.ts";

const kernel = (body: string, target = "sm_90", more = "") => `.version 8.0
.target ${target}
.address_size 64
${more}
.visible .entry scale(.param .u64 data, .param .f32 factor, .param .u32 n)
{
  .reg .pred %p<2>;
  .reg .b32 %r<6>;
  .reg .f32 %f<4>;
  .reg .b64 %rd<4>;
${body}
  ret;
}
`;
const good = kernel(`  ld.param.u64 %rd1, [data];
  ld.param.f32 %f1, [factor];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.f32 %f2, [%rd3];
  mul.f32 %f3, %f2, %f1;
  st.global.f32 [%rd3], %f3;`);

const launch = {
  entry: "scale",
  grid: 1,
  block: 32,
  buffers: { x: { dtype: "f32", shape: [32], fill: { constant: 3 } } },
  params: [{ buffer: "x" }, 0.5, 32],
};

interface Case {
  readonly ptx?: string;
  /** An object is the launch file's JSON with these fields replaced; text is the file. */
  readonly launch?: object | string;
  readonly files?: Readonly<Record<string, Uint8Array>>;
  readonly flags?: string;
  readonly code: number;
  /** What each error line contains, in order. */
  readonly says: readonly string[];
  readonly hint?: string;
}

async function run({ ptx = good, launch: given = {}, files = {}, flags = "" }: Case): Promise<Outcome> {
  using folder = scratch();
  writeFileSync(join(folder.path, "k.ptx"), ptx);
  const text = typeof given === "string" ? given : JSON.stringify({ ...launch, ...given }, null, 2);
  writeFileSync(join(folder.path, "l.json"), text);
  for (const [name, data] of Object.entries(files)) writeFileSync(join(folder.path, name), data);
  const before = folder.list();
  const outcome = await cli(`emulate k.ptx --launch l.json ${flags}`, { cwd: folder.path });
  expect(folder.list()).toEqual(before);
  return outcome;
}

async function check(one: Case): Promise<void> {
  const { code, stderr } = await run(one);
  const errors = stderr.split("\n").filter((line) => line.startsWith("error "));
  expect(errors).toEqual(one.says.map((said) => expect.stringContaining(said)));
  if (one.hint !== undefined) expect(stderr).toContain(one.hint);
  expect(code).toBe(one.code);
  expect(traceLines(stderr)).toEqual([]);
}

const floats = (count: number): Uint8Array => npyOf("f32", [count], new Uint8Array(4 * count));
const map = {
  buffer: "x",
  dtype: "f32",
  dims: [8, 4],
  strides: [32],
  box: [8, 4],
};

const table: Readonly<Record<string, Readonly<Record<string, Case>>>> = {
  "PTX text": {
    "a syntax error, with line and column": {
      ptx: good.replace("mul.f32 %f3, %f2, %f1;", "mul.f32 %f3 %f2, %f1;"),
      code: 2,
      says: ["k.ptx:17:15: TW4001 (invalid)"],
    },
    "several errors at once": {
      ptx: good.replace("mul.f32 %f3", "mul.f23 %f3").replace("st.global.f32", "sr.global.f32"),
      code: 2,
      says: ["k.ptx:17:3: TW4003 (invalid)", "k.ptx:18:3: TW4002 (unsupported)"],
    },
    "no PTX at all": {
      ptx: "int main() {}\n",
      code: 2,
      says: ["k.ptx:1:1: TW4001 (invalid) at line 1: a PTX module starts with .version, found int"],
    },
    "an instruction of a later target": {
      ptx: kernel("  setmaxnreg.inc.sync.aligned.u32 240;", "sm_80"),
      code: 3,
      says: ["k.ptx:11:3: TW4011 (unsupported)"],
    },
    "an architecture that is none": {
      ptx: good.replace("sm_90", "sm_9x"),
      code: 3,
      says: ["k.ptx:2:9: TW4008 (unsupported) at line 2: no target sm_9x"],
    },
    "textures: the declaration and the instruction, by name and line": {
      ptx: kernel(
        "  tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [t, {%f0, %f1}];",
        "sm_90",
        ".global .texref t;",
      ),
      code: 3,
      says: [
        "k.ptx:4:9: TW4008 (unsupported) at line 4: no type .texref",
        "k.ptx:11:3: TW4002 (unsupported) at line 11: tex.2d.v4.f32.f32 is PTX, but not supported here",
      ],
    },
  },
  "entry and parameters": {
    "an entry that is nearly there": {
      launch: { entry: "scael" },
      code: 2,
      says: ["TW6012 (invalid) at module.kernel: the module has no entry scael"],
      hint: "did you mean scale?",
    },
    "too few": {
      launch: { params: [{ buffer: "x" }] },
      code: 2,
      says: ["1 arguments were given and the entry takes 3"],
      hint: "it takes (data: u64, factor: f32, n: u32)",
    },
    "wrong types and sizes, all at once": {
      launch: { params: [{ bytes: "0011" }, { buffer: "x" }, 2.5] },
      code: 2,
      says: ["at scale.args[0]: 2 bytes does not fit", "at scale.args[1]: a buffer", "at scale.args[2]: 2.5"],
    },
    "a number that its type does not hold": {
      launch: { params: [{ buffer: "x" }, 1, { value: 70_000, dtype: "u16" }] },
      code: 2,
      says: ["at params[2]: 70000 is no u16, which is from 0 to 65535"],
    },
    "a parameter of no known form": {
      launch: { params: [{ bufer: "x" }, 1, 2] },
      code: 2,
      says: ["TW7012 (invalid) at params[0]"],
      hint: 'one of {"buffer": ...}, a number, {"int": ...}, {"value": ...}, {"bytes": ...}, {"size": ...}, {"tensorMap": ...}',
    },
  },
  "launches beyond limits": {
    "threads, axes, cluster and shared memory, all at once": {
      launch: { block: [512, 4, 1], grid: [3, 70_000, 1], cluster: 2, dynamicSmem: 300_000 },
      code: 2,
      says: [
        "at scale.grid.y: 70000 is no grid extent here",
        "at scale.block: 512 x 4 x 1 is 2048 threads",
        "at scale.cluster.x: 2 does not divide the grid's 3",
        "at scale.dynamicSmem: 300000 B",
      ],
    },
    "a cluster of too many blocks": {
      launch: { grid: 32, cluster: 32 },
      code: 2,
      says: ["at scale.cluster.x: 32 is no cluster extent here", "32 blocks"],
    },
    "more memory than there is": {
      launch: {
        buffers: {
          x: { dtype: "f32", shape: [1_000_000, 1_000_000], fill: "zeros" },
          y: { bytes: 2e12, fill: "none" },
        },
      },
      code: 3,
      says: ["TW7042 (unsupported) at buffers.x: 4000000000000 B", "TW7042 (unsupported) at buffers.y"],
    },
    "buffers that together are more": {
      launch: { buffers: { x: { bytes: 6e8 }, y: { bytes: 6e8 } } },
      code: 3,
      says: ["TW7042 (unsupported) at buffers: 1200000000 B"],
    },
  },
  "tensor maps": {
    "what the driver refuses, every rule named": {
      launch: { tensorMaps: { a: { ...map, strides: [40], box: [8, 300], elementStrides: [1, 9] } } },
      code: 2,
      says: [
        "TW1314 (invalid) at tensorMaps.a.",
        "TW1315 (invalid) at tensorMaps.a.",
        "TW1316 (invalid) at tensorMaps.a.",
      ],
    },
    "swizzle and box": {
      launch: { tensorMaps: { a: { ...map, dims: [64, 4], strides: [256], box: [64, 4], swizzle: "128B" } } },
      code: 2,
      says: ["TW1317 (invalid) at tensorMaps.a."],
    },
    "an offset that is not aligned": {
      launch: { tensorMaps: { a: { ...map, offset: 4 } } },
      code: 2,
      says: ["TW1312 (invalid) at tensorMaps.a."],
    },
    "a tensor beyond its buffer": {
      launch: { tensorMaps: { a: { ...map, dims: [8, 5] } } },
      code: 2,
      says: ["TW7034 (invalid) at tensorMaps.a: the tensor ends at byte 160 of buffer x, which has 128"],
    },
    "a target without TMA": {
      ptx: good.replace("sm_90", "sm_80"),
      launch: { tensorMaps: { a: map } },
      code: 3,
      says: ["TW1310 (unsupported) at tensorMaps.a"],
    },
    "a map and a buffer that are not there": {
      launch: { tensorMaps: { a: { ...map, buffer: "xx" } }, params: [{ tensorMap: "b" }, 1, 2] },
      code: 2,
      says: ["at params[0]: there is no tensor map 'b'", "at tensorMaps.a.buffer: there is no buffer 'xx'"],
    },
    "a type that is none": {
      launch: { tensorMaps: { a: { ...map, dtype: "float" } } },
      code: 2,
      says: ["TW7012 (invalid) at tensorMaps.a.dtype"],
    },
  },
  "the launch file": {
    "a syntax error, with its line": {
      launch: '{\n  "entry": "scale",\n  "grid": 1,,\n  "block": 32\n}\n',
      code: 2,
      says: [
        "l.json:3:13: TW7012 (invalid) at l.json: l.json is not JSON: ',' stands where a name in double quotes",
      ],
    },
    "the end missing": {
      launch: '{ "entry": "scale",\n  "grid": [1, 2',
      code: 2,
      says: ["l.json:2:16: TW7012 (invalid) at l.json: l.json is not JSON: the end of the file stands where"],
    },
    "unknown keys, with the nearest": {
      launch: { gird: 1, buffers: { x: { ...launch.buffers.x, fil: "zeros" } } },
      code: 2,
      says: ["there is no field 'fil'", "there is no field 'gird'"],
      hint: "did you mean grid?",
    },
    "an unknown fill": {
      launch: { buffers: { x: { dtype: "f32", shape: [4], fill: "ones" } } },
      code: 2,
      says: ["at buffers.x.fill"],
      hint: "one of none, zeros, an object",
    },
    "a known fill with mistakes, and a grid of none": {
      launch: {
        grid: 0,
        buffers: { x: { dtype: "f32", shape: [4], fill: { uniform: { sede: 1, low: "x" } } } },
      },
      code: 2,
      says: [
        "at grid: 0 is too small",
        'at buffers.x.fill.uniform.low: expected number, found "x"',
        "at buffers.x.fill.uniform.sede: there is no field 'sede'",
      ],
    },
    "values that do not suit": {
      launch: {
        buffers: {
          x: { dtype: "u8", shape: [3], fill: { values: [1, 2, 256] } },
          y: { dtype: "s64", shape: [2], fill: { values: [1] } },
          z: { dtype: "u64", shape: [2], fill: { normal: {} } },
          w: { dtype: "s32", shape: [2], fill: { constant: 0.5 } },
        },
      },
      code: 2,
      says: [
        "at buffers.x.fill: 256 is no u8, which is from 0 to 255",
        "at buffers.y.fill.values: 1 values for 2 elements",
        'at buffers.z.fill: u64 takes "integers"',
        "at buffers.w.fill: 0.5 is no integer",
      ],
    },
    "files that are missing, of another dtype and of another shape, all at once": {
      launch: {
        buffers: {
          x: { fill: { file: "none.npy" } },
          y: { dtype: "f32", fill: { file: "longs.npy" } },
          z: { shape: [7], fill: { file: "floats.npy" } },
          w: { dtype: "f32", shape: [8] },
        },
        expected: { w: { file: "floats.npy" } },
      },
      files: { "floats.npy": floats(32), "longs.npy": encodeNpyIntegers([4], "i8", new Uint8Array(32)) },
      code: 2,
      says: [
        "TW7010 (invalid) at none.npy: cannot read none.npy: there is no such file",
        "at buffers.y: longs.npy holds s64 of shape [4], not f32",
        "at buffers.z: floats.npy holds f32 of shape [32], not f32 of shape [7]",
        "TW7034 (invalid) at expected.w: floats.npy holds 32 elements [32], the buffer 8 [8]",
      ],
    },
    "exact with a tolerance": {
      launch: { expected: { x: { file: "floats.npy", exact: true, abs: 1 } } },
      files: { "floats.npy": floats(32) },
      code: 2,
      says: ["at expected.x: exact leaves no room for a tolerance"],
    },
    "errors of the text and of the launch file together": {
      ptx: good.replace("mul.f32", "mul.f23"),
      launch: { params: [{ buffer: "y" }, 1, 2] },
      code: 2,
      says: ["k.ptx:17:3: TW4003", "at params[0]: there is no buffer 'y'"],
    },
  },
  flags: {
    "a rule that does not exist, with the nearest": {
      flags: "--disable H0100,race-read-after-wrte",
      code: 2,
      says: [
        "there is no rule 'H0100'",
        "there is no rule 'race-read-after-wrte'; did you mean race-read-after-write?",
      ],
    },
    "counts that are none": {
      flags: "--seeds 0 --fuel -3",
      code: 2,
      says: ["'0' is not an integer from 1 to 10000", "'-3' is not an integer from 1 to"],
    },
  },
  "numbers and endings": {
    "an expected file that does not match": {
      launch: { expected: { x: { file: "floats.npy", abs: 0.1, rel: 0.1, ulp: 3 } } },
      files: { "floats.npy": floats(32) },
      code: 5,
      says: [
        "TW7060 (check) at x: 32 of 32 elements are off by up to 1.5 (relative 0, 1069547520 ulp); element 0 [0] is 1.5 where 0 is expected",
      ],
    },
    "a kernel without an end, by the limit on the command line": {
      ptx: good.replace("  ret;", "LOOP:\n  bra LOOP;\n  ret;"),
      flags: "--fuel 5000",
      code: 5,
      says: [
        "TW7061 (check) at H031: 5000 warp-instructions were allowed",
        "TW7062 (check) at eager: the launch was given up (order eager)",
      ],
    },
  },
};

describe.each(Object.entries(table))("%s", (_, cases) => {
  test.each(Object.entries(cases))("%s", async (_name, one) => {
    await check(one);
  });
});
