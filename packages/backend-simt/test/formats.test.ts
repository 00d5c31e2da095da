/** Conversions of the epilogue, over every code that is read and values around every code that is written, with and without the hardware's own. */
import { type DType, decodeArray, encodeArray, roundTo } from "@tilewright/core";
import { type Device, openDevice, runGemm } from "@tilewright/runtime";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { simt } from "../src/backend.ts";
import { build } from "./support/build.ts";
import { problemOf, targetOf } from "./support/cases.ts";

const bytesOf = (data: { buffer: ArrayBufferLike; byteOffset: number; byteLength: number }): Uint8Array =>
  new Uint8Array(data.buffer as ArrayBuffer, data.byteOffset, data.byteLength);

/** Every code of 8 bits, its neighbours' midpoints, points next to those, and what lies beyond the range. */
function valuesAround(dtype: DType): Float32Array {
  const codes = decodeArray(dtype, Uint8Array.from({ length: 256 }, (_, i) => i) as never);
  const finite = [...new Set([...codes].filter(Number.isFinite))].sort((x, y) => x - y);
  const midpoints = finite.flatMap((x, i) => {
    const mid = (x + (finite[i + 1] ?? x * 1.25)) / 2;
    return [mid, Math.fround(mid * (1 + 2 ** -22)), Math.fround(mid * (1 - 2 ** -22))];
  });
  const beyond = [1e5, -1e5, 3e38, Infinity, -Infinity, NaN, -0, 2 ** -40, -(2 ** -140)];
  return Float32Array.from([...finite, ...midpoints, ...beyond]);
}

describe.each(["sm_70", "sm_80", "sm_90a"])("on %s", (arch) => {
  let device: Device;
  beforeAll(async () => {
    const opened = await openDevice({ kind: "emulator", arch });
    if (!opened.ok) throw new Error(opened.error.map((d) => d.message).join("\n"));
    device = opened.value;
  });
  afterAll(() => device.close());

  /** D = epilogue(a * 1) for a column of values. */
  function through(
    values: Float32Array,
    more: object,
    steps: readonly (Uint8Array | null)[] = [],
  ): Uint8Array {
    const problem = problemOf({
      m: values.length,
      n: 1,
      k: 1,
      a: { dtype: "f32" },
      b: { dtype: "f32" },
      ...more,
    });
    const target = targetOf(arch);
    const [schedule] = simt.schedules(problem, target);
    if (!schedule) throw new Error("there is always a schedule");
    const { kernel } = build(problem, schedule, target);
    const artifact = { ptx: kernel.ptx, manifest: { request: problem, kernels: [kernel.kernel] } };
    const inputs = { a: bytesOf(values), b: bytesOf(Float32Array.of(1)), steps };
    const run = runGemm(device, artifact, inputs);
    if (!run.ok) throw new Error(run.error.map((d) => d.message).join("\n"));
    expect(run.value.findings).toEqual([]);
    return run.value.d;
  }

  const narrow = ["e4m3", "e5m2", "s8", "u8"] as const;

  test.each(narrow)("D in %s is rounded to nearest even", (dtype) => {
    const values = valuesAround(dtype);
    const d = decodeArray(dtype, encodeArrayOf(dtype, through(values, { d: { dtype } })));
    const wrong = [...values].flatMap((x, i) => {
      const wanted = roundTo(dtype, x);
      return Object.is(Math.abs(d[i] ?? 0), Math.abs(wanted)) && (d[i] === wanted || Number.isNaN(wanted))
        ? []
        : [`${x} became ${d[i]}, not ${wanted}`];
    });
    expect(wrong).toEqual([]);
  });

  test.each(narrow.flatMap((dtype) => [true, false].map((saturate) => [dtype, saturate] as const)))(
    "a cast to %s, saturate %s",
    (dtype, saturate) => {
      const values = valuesAround(dtype);
      const bytes = through(values, { d: { dtype: "f32" }, epilogue: [{ kind: "cast", dtype, saturate }] });
      const d = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
      const wrong = [...values].flatMap((x, i) => {
        const wanted = roundTo(dtype, x, "rn", saturate ? "saturate" : "ieee");
        return d[i] === wanted || (Number.isNaN(d[i] ?? 0) && Number.isNaN(wanted))
          ? []
          : [`${x} became ${d[i]}, not ${wanted}`];
      });
      expect(wrong).toEqual([]);
    },
  );

  test.each(narrow)("every code of %s is read as its value", (dtype) => {
    const codes = Uint8Array.from({ length: 256 }, (_, i) => i);
    const wanted = decodeArray(dtype, encodeArrayOf(dtype, codes));
    const bytes = through(
      new Float32Array(256),
      { d: { dtype: "f32" }, epilogue: [{ kind: "residual", operand: { dtype } }] },
      [codes],
    );
    const d = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
    // Added to 0: -0 becomes 0.
    expect([...d]).toEqual([...wanted].map((x) => x + 0));
  });
});

/** Bytes as the storage of an 8-bit dtype. */
function encodeArrayOf(dtype: DType, bytes: Uint8Array): ReturnType<typeof encodeArray> {
  const storage = encodeArray(dtype, new Float64Array(bytes.length));
  new Uint8Array(storage.buffer, storage.byteOffset, storage.byteLength).set(
    bytes.subarray(0, storage.byteLength),
  );
  return storage;
}
