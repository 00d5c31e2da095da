import { fc, test as property } from "@fast-check/vitest";
import { describe, expect, test } from "vitest";
import { parseArch, unfitReason } from "../src/arch.ts";
import { encodeArguments } from "../src/arguments.ts";
import { readEntries, readPtxHeader } from "../src/ptx-header.ts";
import { codesOf, must } from "./device-conformance.ts";
import { axpyPtx } from "./kernels.ts";

describe("header", () => {
  test("version and target, past comments", () => {
    expect(
      readPtxHeader("// .version 1.0\n/* .target sm_10\n */\n.version 8.7\n.target sm_90a, debug\n"),
    ).toEqual({
      version: [8, 7],
      target: "sm_90a",
    });
    expect(readPtxHeader(".version 8.7\n")).toBeNull();
    expect(readPtxHeader("#version 450")).toBeNull();
  });

  test("entries with their parameters, as nvcc and people write them", () => {
    const text = `.version 8.0 .target sm_90
.func (.param .b32 r) helper (.param .b32 x);
.entry none { ret; }
.entry empty() { ret; }
.visible .entry _Z4kernPfi(
	.param .u64 .ptr .global .align 16 _Z4kernPfi_param_0, // a pointer
	.param .align 64 .b8 map[128],
	.param .u32 n, .param .f64 x
)
.maxntid 256, 1, 1
{ ret; }`;
    expect([...readEntries(text)]).toEqual([
      ["none", []],
      ["empty", []],
      [
        "_Z4kernPfi",
        [
          { name: "_Z4kernPfi_param_0", type: "u64", size: 8 },
          { name: "map", type: "b8", size: 128 },
          { name: "n", type: "u32", size: 4 },
          { name: "x", type: "f64", size: 8 },
        ],
      ],
    ]);
    expect(readEntries(".entry odd(.param .texref t) {}").get("odd")).toBeNull();
    expect([...readEntries(axpyPtx).keys()]).toEqual(["axpy"]);
  });
});

describe("architectures", () => {
  test.each([
    ["sm_70", [7, 0], true],
    ["sm_70", [9, 0], true],
    ["sm_90", [8, 9], false],
    ["sm_86", [8, 0], false],
    ["sm_90a", [9, 0], true],
    ["sm_90a", [10, 0], false],
    ["sm_100a", [10, 3], false],
    ["sm_100f", [10, 3], true],
    ["sm_100f", [12, 0], false],
    ["sm_103f", [10, 0], false],
    ["sm_120a", [12, 0], true],
  ] as const)("%s text on a device of %j: %s", (arch, cc, runs) => {
    const parsed = parseArch(arch);
    expect(parsed === null ? "unparsed" : unfitReason(parsed, cc) === null).toBe(runs);
  });
});

describe("arguments", () => {
  const param = (type: string, size: number) => [{ name: "p", type, size }];
  const encoded = (type: string, size: number, value: bigint | number) =>
    must(encodeArguments("k", param(type, size), [value]))[0] ?? new Uint8Array();
  const view = (bytes: Uint8Array) => new DataView(bytes.buffer);

  property.prop([fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 })])("s32 comes back", (value) => {
    expect(view(encoded("s32", 4, value)).getInt32(0, true)).toBe(value);
  });
  property.prop([fc.bigInt({ min: 0n, max: 2n ** 64n - 1n })])("u64 comes back", (value) => {
    expect(view(encoded("u64", 8, value)).getBigUint64(0, true)).toBe(value);
  });
  property.prop([fc.float({ noNaN: true })])("f32 comes back", (value) => {
    expect(view(encoded("f32", 4, value)).getFloat32(0, true)).toBe(value);
  });
  property.prop([fc.double()])("f64 comes back", (value) => {
    expect(view(encoded("f64", 8, value)).getFloat64(0, true)).toBe(value);
  });
  property.prop([
    fc.oneof(
      fc.integer({ min: 2 ** 32, max: 2 ** 53 - 1 }),
      fc.integer({ min: -(2 ** 53) + 1, max: -(2 ** 31) - 1 }),
      fc.constantFrom(0.5, Number.NaN),
    ),
  ])("u32 takes 32 bits and no more", (value) => {
    expect(codesOf(encodeArguments("k", param("u32", 4), [value]))).toEqual(["TW6015"]);
  });

  test("bytes must be as many as the parameter has, and are copied", () => {
    const bytes = new Uint8Array(128).fill(1);
    const [copy] = must(encodeArguments("k", param("b8", 128), [bytes]));
    bytes.fill(2);
    expect(copy).toEqual(new Uint8Array(128).fill(1));
    expect(codesOf(encodeArguments("k", param("b8", 128), [new Uint8Array(64)]))).toEqual(["TW6015"]);
    expect(codesOf(encodeArguments("k", param("b8", 128), [1n]))).toEqual(["TW6015"]);
  });

  test("a bigint is no float and an array parameter takes no number", () => {
    expect(codesOf(encodeArguments("k", param("f32", 4), [1n]))).toEqual(["TW6015"]);
    expect(codesOf(encodeArguments("k", param("u32", 8), [1]))).toEqual(["TW6015"]);
  });
});
