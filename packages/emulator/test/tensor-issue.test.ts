/** tcgen05.cp, shift and commit; allocation by blocks and pairs. */
import { encodeSharedDescriptor, type SharedSwizzle, swizzledAddress } from "@tilewright/ptx";
import { describe, expect, test } from "vitest";
import { expandPiece } from "../src/isa/tensor-issue.ts";
import { clean, orders } from "./support.ts";
import { fill, runTensor, save, vector } from "./tensor-memory.ts";

/** Bytes of the rows of a matrix of 16-byte pieces, K contiguous, in shared memory. */
function image(
  rows: number,
  rowBytes: number,
  swizzle: SharedSwizzle,
): {
  readonly bytes: Uint8Array;
  readonly descriptor: bigint;
  readonly value: (row: number, byte: number) => number;
} {
  const width = { none: 16, "32B": 32, "64B": 64, "128B": 128, "128B/32B": 128 }[swizzle];
  const stride = swizzle === "none" ? (rowBytes / 16) * 128 : 8 * width;
  const shared = {
    address: 0,
    leading: swizzle === "none" ? 128 : 16,
    stride,
    baseOffset: 0,
    swizzle,
  };
  const value = (row: number, byte: number): number => (row * 37 + byte * 101 + (row >> 3)) & 255;
  const bytes = new Uint8Array(16384);
  for (let row = 0; row < rows; row++)
    for (let byte = 0; byte < rowBytes; byte++) {
      const piece = byte >> 4;
      const linear = (row >> 3) * stride + (row & 7) * width + piece * shared.leading + (byte & 15);
      bytes[swizzledAddress(shared, linear)] = value(row, byte);
    }
  return { bytes, descriptor: encodeSharedDescriptor(shared), value };
}

/** Fill shared memory from %in; the generic writes are made visible to the async proxy. */
const loadShared = `
mov.u32 %r4, s; shl.b32 %r5, %t, 4;
FILL: setp.ge.u32 %p0, %r5, 16384; @%p0 bra FILLED;
cvt.u64.u32 %d2, %r5; add.u64 %d2, %in, %d2; ld.global.v4.b32 {%v0,%v1,%v2,%v3}, [%d2];
add.u32 %r6, %r4, %r5; st.shared.v4.b32 [%r6], {%v0,%v1,%v2,%v3};
add.u32 %r5, %r5, 2048; bra FILL;
FILLED: fence.proxy.async.shared::cta;`;

const wait = `WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%bar], 0; @!%p2 bra WAIT;
tcgen05.fence::after_thread_sync;`;
const commit = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%bar];";
/** One thread issues `text` and commits; all wait. */
const issue = (text: string): string => `
tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
@!%one bra WAIT;
${text}
${commit}
${wait}`;

test("a commit takes a shared address widened by zeros in place of a generic one, as Triton writes it", () => {
  const { report } = runTensor(
    {
      body: `tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync; @!%one bra WAIT;
        cvt.u64.u32 %d3, %bar; tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%d3];
        ${wait}`,
    },
    1,
  );
  clean(report);
});

const copies = [
  { shape: "128x256b", rows: 128, bytes: 32, lanes: (r: number) => [r] },
  { shape: "128x128b", rows: 128, bytes: 16, lanes: (r: number) => [r] },
  { shape: "4x256b", rows: 4, bytes: 32, lanes: (r: number) => [32 * r] },
  { shape: "64x128b.warpx2::02_13", rows: 64, bytes: 16, lanes: (r: number) => [r, 64 + r] },
  {
    shape: "64x128b.warpx2::01_23",
    rows: 64,
    bytes: 16,
    lanes: (r: number) => (r < 32 ? [r, 32 + r] : [32 + r, 64 + r]),
  },
  { shape: "32x128b.warpx4", rows: 32, bytes: 16, lanes: (r: number) => [r, r + 32, r + 64, r + 96] },
] as const;

describe("tcgen05.cp", () => {
  test.each(copies.flatMap((copy) => (["none", "128B"] as const).map((swizzle) => ({ ...copy, swizzle }))))(
    "$shape from shared memory with swizzle $swizzle",
    ({ shape, rows, bytes, lanes, swizzle }) => {
      const source = image(rows, bytes, swizzle);
      const input = new Uint8Array(16384);
      input.set(source.bytes);
      const { report, out } = runTensor(
        {
          body: `${loadShared} ${fill(32)} mov.b64 %d3, ${source.descriptor};
          ${issue(`add.u32 %r7, %ta, 4; tcgen05.cp.cta_group::1.${shape} [%r7], %d3;`)}
          tcgen05.ld.sync.aligned.32x32b.x16.b32 ${vector("v", 16)}, [%tw]; tcgen05.wait::ld.sync.aligned; ${save(16)}`,
        },
        128 * 16,
        input,
        { order: "lazy" },
      );
      clean(report);
      const want = Array.from({ length: 128 * 16 }, (_, i) => ((i >> 4) << 16) | (i & 15));
      for (let row = 0; row < rows; row++)
        for (const lane of lanes(row))
          for (let word = 0; word < bytes / 4; word++) {
            const byte = (k: number): number => source.value(row, 4 * word + k);
            want[lane * 16 + 4 + word] = byte(0) | (byte(1) << 8) | (byte(2) << 16) | (byte(3) << 24);
          }
      expect([...out]).toEqual(want.map((x) => x | 0));
    },
  );

  test("elements of 4 and 6 bits become bytes", () => {
    const piece = Uint8Array.from({ length: 16 }, (_, k) => (k < 8 ? (2 * k) | ((2 * k + 1) << 4) : 0xee));
    expandPiece("b4x16_p64", piece);
    expect([...piece]).toEqual(Array.from({ length: 16 }, (_, k) => k << 2));
    const packed = new Uint8Array(16).fill(0xee);
    let bits = 0n;
    for (let k = 0; k < 16; k++) bits |= BigInt((k * 5 + 1) & 63) << BigInt(6 * k);
    for (let k = 0; k < 12; k++) packed[k] = Number((bits >> BigInt(8 * k)) & 255n);
    expandPiece("b6x16_p32", packed);
    expect([...packed]).toEqual(Array.from({ length: 16 }, (_, k) => (k * 5 + 1) & 63));
  });

  test("decompression on the way", () => {
    const source = image(128, 16, "none");
    const { report, out } = runTensor(
      {
        body: `${loadShared} mov.b64 %d3, ${source.descriptor};
          ${issue("tcgen05.cp.cta_group::1.128x128b.b8x16.b4x16_p64 [%ta], %d3;")}
          tcgen05.ld.sync.aligned.32x32b.x4.b32 ${vector("v", 4)}, [%tw]; tcgen05.wait::ld.sync.aligned; ${save(4)}`,
      },
      512,
      source.bytes,
    );
    clean(report);
    const nibble = (row: number, k: number): number => (source.value(row, k >> 1) >> (4 * (k & 1))) & 15;
    for (const row of [0, 9, 127])
      for (let k = 0; k < 16; k++)
        expect(((out[4 * row + (k >> 2)] ?? 0) >>> (8 * (k & 3))) & 255).toBe(nibble(row, k) << 2);
  });
});

test("tcgen05.shift moves the rows of a quarter one lane down, except the last", () => {
  const { report, out } = runTensor(
    {
      body: `${fill(16)} ${issue("add.u32 %r7, %ta, 0x200004; tcgen05.shift.cta_group::1.down [%r7];")}
        tcgen05.ld.sync.aligned.32x32b.x16.b32 ${vector("v", 16)}, [%tw]; tcgen05.wait::ld.sync.aligned; ${save(16)}`,
    },
    128 * 16,
  );
  clean(report);
  for (let lane = 0; lane < 128; lane++)
    for (let column = 0; column < 16; column++) {
      const moved = lane >= 32 && lane < 63 && column >= 4 && column < 12;
      expect(out[16 * lane + column]).toBe(((lane + (moved ? 1 : 0)) << 16) | column);
    }
});

describe("allocation", () => {
  test("columns come from the left; what is given back is given out again", () => {
    const alloc = `tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%slot], 256;
      tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%slot+4], 128;
      tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%slot+8], 32;`;
    const { report, out } = runTensor(
      {
        alloc,
        body: `ld.shared.b32 %v0, [%slot]; ld.shared.b32 %v1, [%slot+4]; ld.shared.b32 %v2, [%slot+8]; bar.sync 0;
          @%first bra AGAIN;
          tcgen05.dealloc.cta_group::1.sync.aligned.b32 %v1, 128;
          tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%slot+4], 32;
          ld.shared.b32 %v3, [%slot+4]; ${save(4)}
          AGAIN: bar.sync 0;`,
        dealloc: `tcgen05.dealloc.cta_group::1.sync.aligned.b32 %ta, 256; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %v2, 32; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %v3, 32;`,
      },
      512,
    );
    clean(report);
    expect([...out.slice(0, 4)]).toEqual([0, 256, 384, 256]);
  });

  test("alloc waits until columns are given back", () => {
    const { report, out } = runTensor(
      {
        columns: 512,
        alloc: "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%slot], 512;",
        body: `setp.eq.u32 %p0, %warp, 1; @!%p0 bra GO;
          tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%slot+4], 512;
          ld.shared.b32 %v0, [%slot+4]; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %v0, 512; ${save(1)}
          GO:`,
        retire: null,
      },
      128,
    );
    clean(report);
    expect(out[32]).toBe(0);
  });

  test.each(orders)("a pair allocates and gives back together: %s", (order) => {
    const { report, out } = runTensor(
      {
        group: 2,
        columns: 64,
        body: `${fill(4)} tcgen05.ld.sync.aligned.32x32b.x4.b32 ${vector("v", 4)}, [%tw]; tcgen05.wait::ld.sync.aligned;
          mad.lo.u32 %t, %rank, 128, %t; ${save(4)}`,
      },
      1024,
      undefined,
      { order },
    );
    clean(report);
    expect(out[4 * (128 + 5) + 2]).toBe((5 << 16) | 2);
  });

  test("what a pair's copy reads and writes: each block its own memory", () => {
    const source = image(32, 16, "none");
    const both = new Uint8Array(16384);
    both.set(source.bytes);
    const { report, out } = runTensor(
      {
        group: 2,
        columns: 32,
        body: `${loadShared} mov.b64 %d3, ${source.descriptor}; mov.b16 %h0, 3;
          add.u32 %r9, %rank, 70; bar.sync 0; @%one st.shared.u8 [s], %r9;
          fence.proxy.async.shared::cta; barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
          or.b32 %r9, %t, %rank; setp.ne.u32 %p3, %r9, 0; @%p3 bra WAIT;
          tcgen05.cp.cta_group::2.32x128b.warpx4 [%ta], %d3;
          tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%bar], %h0;
          ${wait}
          tcgen05.ld.sync.aligned.32x32b.x1.b32 %v0, [%tw]; tcgen05.wait::ld.sync.aligned;
          mad.lo.u32 %t, %rank, 128, %t; ${save(1)}`,
      },
      256,
      both,
    );
    const byte = (k: number): number => source.value(0, k);
    const rest = (byte(1) << 8) | (byte(2) << 16) | (byte(3) << 24);
    clean(report);
    expect(out[32]).toBe(rest | 70);
    expect(out[128 + 64]).toBe(rest | 71);
  });
});
