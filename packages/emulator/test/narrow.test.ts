/** Conversions of elements of 4 and 6 bits and of scale factors; stmatrix of bytes. */
import { decode, decodeUe8m0, encode, encodeUe8m0 } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { clean, kernel, machine } from "./support.ts";

const values = [
  0,
  -0,
  0.2,
  0.25,
  0.75,
  1,
  -1.25,
  1.5,
  2.5,
  -3,
  5,
  6,
  7.3,
  -29,
  1e9,
  Number.NaN,
  2 ** -130,
  3 * 2 ** 20,
];

/** Run `text` in one lane per pair of neighbouring values (%f0 the first, %f1 the second); the result is in %r4. */
function pairs(text: string): readonly number[] {
  const n = values.length - 1;
  const device = machine(
    kernel(
      `.reg .b8 %b0; ld.param.u64 %d0, [out]; ld.param.u64 %d1, [in]; mad.wide.u32 %d0, %t, 4, %d0; mad.wide.u32 %d1, %t, 4, %d1;
      ld.global.f32 %f0, [%d1]; ld.global.f32 %f1, [%d1+4]; ${text} st.global.u32 [%d0], %r4;`,
      { params: ["out", "in"], target: "sm_100a" },
    ).replace(".version 8.6", ".version 8.8"),
  );
  const out = device.put(new Int32Array(n));
  clean(device.launch("k", 1, n, [out, device.put(Float32Array.from(values))]));
  return [...device.u32(out, n)];
}
const expected = (one: (x: number) => number, bits: number): readonly number[] =>
  values.slice(0, -1).map((x, k) => (one(x) << bits) | one(values[k + 1] ?? 0));

describe("cvt", () => {
  test("e2m1x2 from f32: the first operand in the upper four bits", () => {
    expect(pairs("cvt.rn.satfinite.e2m1x2.f32 %b0, %f0, %f1; cvt.u32.u8 %r4, %b0;")).toEqual(
      expected((x) => encode("e2m1", x, "rn", "saturate"), 4),
    );
  });
  test.each(["e2m3", "e3m2"] as const)("%sx2 from f32", (format) => {
    expect(pairs(`cvt.rn.satfinite.${format}x2.f32 %h0, %f0, %f1; cvt.u32.u16 %r4, %h0;`)).toEqual(
      expected((x) => encode(format, x, "rn", "saturate"), 8),
    );
    expect(pairs(`cvt.rn.satfinite.relu.${format}x2.f32 %h0, %f0, %f1; cvt.u32.u16 %r4, %h0;`)).toEqual(
      expected((x) => encode(format, x <= 0 ? 0 : x, "rn", "saturate"), 8),
    );
  });
  test.each(["rz", "rp"] as const)("ue8m0x2 from f32, %s", (rounding) => {
    expect(pairs(`cvt.${rounding}.satfinite.ue8m0x2.f32 %h0, %f0, %f1; cvt.u32.u16 %r4, %h0;`)).toEqual(
      expected((x) => encodeUe8m0(Math.fround(x), rounding), 8),
    );
  });
  test("ue8m0x2 from and to bf16x2", () => {
    expect(
      pairs(
        "cvt.rn.bf16x2.f32 %r5, %f0, %f1; cvt.rp.satfinite.ue8m0x2.bf16x2 %h0, %r5; cvt.rn.bf16x2.ue8m0x2 %r4, %h0;",
      ),
    ).toEqual(
      expected((x) => {
        const scale = encodeUe8m0(decode("bf16", encode("bf16", x)), "rp");
        return encode("bf16", decodeUe8m0(scale));
      }, 16).map((x) => x >>> 0),
    );
  });
  test("f16x2 from e2m1x2 and e3m2x2", () => {
    const back = (format: "e2m1" | "e3m2"): readonly number[] =>
      expected((x) => encode("f16", decode(format, encode(format, x, "rn", "saturate"))), 16).map(
        (x) => x >>> 0,
      );
    expect(pairs("cvt.rn.satfinite.e2m1x2.f32 %b0, %f0, %f1; cvt.rn.f16x2.e2m1x2 %r4, %b0;")).toEqual(
      back("e2m1"),
    );
    expect(pairs("cvt.rn.satfinite.e3m2x2.f32 %h0, %f0, %f1; cvt.rn.f16x2.e3m2x2 %r4, %h0;")).toEqual(
      back("e3m2"),
    );
  });
});

test("stmatrix.m16n8.b8: CuTe's traits", () => {
  const device = machine(
    kernel(
      `ld.param.u64 %d0, [out]; mov.u32 %r0, s; mad.lo.u32 %r0, %t, 16, %r0;
      mad.lo.u32 %r2, %t, 0x04040404, 0x03020100; mov.u32 %r3, 0x80808080; xor.b32 %r3, %r2, %r3;
      stmatrix.sync.aligned.m16n8.x2.trans.shared::cta.b8 [%r0], {%r2, %r3}; bar.warp.sync 0xffffffff;
      setp.lt.u32 %p0, %t, 16; @!%p0 bra END; mad.wide.u32 %d1, %t, 16, %d0;
      ld.shared.v4.u32 {%r4,%r5,%r6,%r7}, [%r0]; st.global.v4.u32 [%d1], {%r4,%r5,%r6,%r7}; END:`,
      { module: ".shared .align 16 .b8 s[512];", target: "sm_100a" },
    ).replace(".version 8.6", ".version 8.8"),
  );
  const out = device.put(new Uint8Array(256));
  clean(device.launch("k", 1, 32, [out]));
  const bytes = device.emulator.read(out, 256);
  for (let lane = 0; lane < 32; lane++)
    for (let b = 0; b < 8; b++) {
      // Thread and byte to bit: (4,8):(256,8) and (2,2,2):(128,64,1024).
      const bit = (lane & 3) * 256 + (lane >> 2) * 8 + (b & 1) * 128 + ((b >> 1) & 1) * 64 + (b >> 2) * 1024;
      expect(bytes[bit / 8]).toBe(((4 * lane + (b & 3)) & 255) ^ (b >= 4 ? 0x80 : 0));
    }
});
