/** Bulk copies that the replay of an H200 does not have: between windows, with byte masks, barriers of the peer, prefetches, four rows. */
import type { TensorMapSpec } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import type { LaunchReport, Order } from "../src/index.ts";
import { clean, generator, machine, orders, value } from "./support.ts";

const columns = 64;
const rows = 32;

/** Two buffers and their maps, 1 KB of shared memory at %sm with a barrier behind it; thread 0 is %p0. */
const text = (body: string): string => `.version 8.6
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 sm[];
.visible .entry k(.param .align 64 .b8 ma[128], .param .align 64 .b8 mb[128], .param .u64 in, .param .u64 out)
{
.reg .pred %p<8>; .reg .b32 %r<16>; .reg .b16 %h<4>; .reg .b32 %t, %sm, %bar, %rank; .reg .b64 %ma, %mb, %in, %out, %d<8>;
mov.b64 %ma, ma; cvta.param.u64 %ma, %ma; mov.b64 %mb, mb; cvta.param.u64 %mb, %mb;
ld.param.u64 %in, [in]; ld.param.u64 %out, [out];
mov.u32 %t, %tid.x; mov.b32 %sm, sm; add.s32 %bar, %sm, 4096; mov.u32 %rank, %cluster_ctarank;
setp.eq.u32 %p0, %t, 0; mov.b32 %r0, 0;
@%p0 mbarrier.init.shared::cta.b64 [%bar], 1; @%p0 fence.mbarrier_init.release.cluster;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
${body}
ret;
}
`;

function launch(
  body: string,
  order: Order,
  cluster: number,
  box: readonly number[] = [64, 8],
  change: Partial<TensorMapSpec> = {},
) {
  const device = machine(text(body));
  const data = Uint16Array.from({ length: rows * columns }, (_, k) => k + 1);
  const [input, output] = [device.put(data), device.put(new Uint16Array(rows * columns))];
  const map = (address: bigint): Uint8Array => {
    const spec: TensorMapSpec = {
      dtype: "u16",
      address,
      dims: [columns, rows],
      strides: [columns * 2],
      box,
      elementStrides: [1, 1],
      interleave: "none",
      swizzle: "none",
      l2: "none",
      fill: "zero",
      ...change,
    };
    return value(device.emulator.encodeTensorMap(spec));
  };
  const report = device.launch("k", cluster, 32, [map(input), map(output), input, output], {
    cluster: [cluster, 1, 1],
    dynamicSmem: 4104,
    fuel: 1e6,
    order,
    seed: 5,
  });
  return { report, data, out: device.u16(output, rows * columns) };
}

const expectTx = (bytes: number): string => `mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], ${bytes};`;
const wait = "W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%bar], 0; @!%p2 bra W;";
const together = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;";
const drain = "@%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group 0;";
const rulesOf = (report: LaunchReport): string[] => report.findings.map((f) => f.rule);

describe("elements under 8 bits are spread over bytes", () => {
  const spread = { dims: [128, 8], strides: [128], box: [128, 8], swizzle: "128B" } as const;
  const load = (words: number, last: string): string => `@%p0 ${expectTx(8 * 32 * words)}
@%p0 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%sm], [%ma, {%r0, %r0}], [%bar];
${wait}
shl.b32 %r1, %t, 5; add.s32 %r2, %sm, %r1; cvt.u64.u32 %d1, %r1; add.s64 %d1, %d1, %out;
${[0, 16]
  .flatMap((piece) =>
    Array.from(
      { length: words },
      (_, k) => `ld.shared.b32 %r6, [%r2+${piece + 4 * k}]; st.global.b32 [%d1+${piece + 4 * k}], %r6;`,
    ),
  )
  .join("\n")}
${last}`;

  test.each([
    ["b4x16_p64", 2],
    ["b6x16_p32", 3],
  ] as const)("%s: of 16 bytes the first hold sixteen elements", (dtype, words) => {
    for (const order of orders) {
      const { report, data, out } = launch(load(words, ""), order, 1, [128, 8], { ...spread, dtype });
      clean(report);
      // 32 threads of 32 bytes: 8 rows of 8 pieces, those of row r at r XOR their number.
      const expected = new Uint16Array(512);
      for (let row = 0; row < 8; row++)
        for (let piece = 0; piece < 8; piece++)
          for (let half = 0; half < 2 * words; half++)
            expected[row * 64 + (piece ^ row) * 8 + half] = data[row * 64 + piece * 2 * words + half] ?? 0;
      expect([...out.slice(0, 512)]).toEqual([...expected]);
    }
  });

  const store = (dtype: "b4x16_p64" | "b6x16_p32", order: Order) =>
    launch(
      `shl.b32 %r1, %t, 5; add.s32 %r2, %sm, %r1; mul.lo.u32 %r6, %t, 0x01030507;
      ${Array.from({ length: 8 }, (_, k) => `st.shared.b32 [%r2+${4 * k}], %r6; add.u32 %r6, %r6, 0x11070301;`).join("\n")}
      fence.proxy.async.shared::cta; bar.sync 0;
      @%p0 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%mb, {%r0, %r0}], [%sm]; ${drain}`,
      order,
      1,
      [128, 8],
      { ...spread, dtype },
    );

  test("stores of 6 bits take the low bits of each byte; those of 4 bits with gaps are not PTX", () => {
    const shared = new Uint8Array(1024);
    const words = new Uint32Array(shared.buffer);
    words.forEach((_, k) => {
      words[k] = Math.imul(k >> 3, 0x01030507) + (k & 7) * 0x11070301;
    });
    const expected = new Uint8Array(1024);
    for (let k = 0; k < 1024; k++) {
      const code = (shared[(k & ~127) | ((k & 127) ^ (((k >> 7) & 7) << 4))] ?? 0) & 63;
      for (let bit = 0; bit < 6; bit++)
        if (((code >> bit) & 1) === 1) {
          const at = (k >> 7) * 8 * 128 + 6 * (k & 127) + bit;
          expected[at >> 3] = (expected[at >> 3] ?? 0) | (1 << (at & 7));
        }
    }
    for (const order of orders) {
      const { report, out } = store("b6x16_p32", order);
      clean(report);
      expect(new Uint8Array(out.buffer.slice(0, 1024))).toEqual(expected);
    }
    for (const order of orders) expect(rulesOf(store("b4x16_p64", order).report)).toEqual(["H051"]);
  });

  test("nobody may read what lies between, and rows begin at multiples of 128 elements", () => {
    const gap = launch(load(2, "ld.shared.b32 %r7, [%r2+8];"), "eager", 1, [128, 8], {
      ...spread,
      dtype: "b4x16_p64",
    });
    expect(new Set(rulesOf(gap.report))).toEqual(new Set(["H006"]));
    const odd = launch(`mov.b32 %r0, 32; ${load(2, "")}`, "eager", 1, [128, 8], {
      ...spread,
      dtype: "b4x16_p64",
    });
    expect(rulesOf(odd.report)).toEqual(["H051"]);
  });
});

describe("copies between shared windows", () => {
  const move = (
    expected: number,
  ): string => `setp.eq.u32 %p1, %rank, 0; and.pred %p3, %p0, %p1; setp.eq.u32 %p4, %rank, 1; and.pred %p5, %p0, %p4;
@%p5 ${expectTx(expected)}
shl.b32 %r1, %t, 2; add.s32 %r2, %sm, %r1; add.s32 %r3, %t, 1000;
@%p1 st.shared.b32 [%r2], %r3; @%p1 fence.proxy.async.shared::cta; bar.sync 0;
mapa.shared::cluster.u32 %r4, %sm, 1; mapa.shared::cluster.u32 %r5, %bar, 1; add.s32 %r4, %r4, 512;
@%p3 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r4], [%sm], 128, [%r5];
@!%p4 bra END;
${wait}
ld.shared.b32 %r6, [%r2+512]; shl.b32 %r7, %t, 2; cvt.u64.u32 %d1, %r7; add.s64 %d1, %d1, %out; st.global.b32 [%d1], %r6;
END: ${together}`;
  test("one block's data in the other's window, on the other's barrier", () => {
    for (const order of orders) {
      const { report, out } = launch(move(128), order, 2);
      clean(report);
      expect([...new Uint32Array(out.buffer, 0, 32)]).toEqual(Array.from({ length: 32 }, (_, k) => 1000 + k));
    }
  });
  test("a barrier that expects more bytes never completes", () => {
    for (const order of orders) expect(rulesOf(launch(move(144), order, 2).report)).toEqual(["H030"]);
  });
});

describe("bulk stores", () => {
  const masked = (mask: number): string => `mov.b16 %h0, ${mask};
shl.b32 %r1, %t, 2; add.s32 %r2, %sm, %r1; mov.b32 %r3, 0xa5a5a5a5; st.shared.b32 [%r2], %r3; fence.proxy.async.shared::cta; bar.sync 0;
@%p0 cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%out], [%sm], 128, %h0; ${drain}`;
  test.each([0xffff, 0x8001, 0x00f0, 0])("byte mask %i: of every 16 bytes those of its bits", (mask) => {
    for (const order of orders) {
      const { report, out } = launch(masked(mask), order, 1);
      clean(report);
      new Uint8Array(out.buffer).forEach((byte, k) => {
        expect(byte).toBe(k < 128 && ((mask >> (k & 15)) & 1) === 1 ? 0xa5 : 0);
      });
    }
  });
});

describe("maps that skip rows", () => {
  const everyThird = { elementStrides: [1, 3] } as const;
  /** Thread 0 copies while each thread writes a word of row `row` in global memory `where`, which nothing orders with the copy. */
  const copyAnd = (copy: string, where: string, row: number, value = -1): string => `
shl.b32 %r1, %t, 2; add.s32 %r2, %sm, %r1;
${Array.from({ length: 8 }, (_, k) => `add.s32 %r3, %t, ${32 * k}; st.shared.b32 [%r2+${128 * k}], %r3;`).join(" ")}
fence.proxy.async.shared::cta; bar.sync 0;
@%p0 ${copy}
cvt.u64.u32 %d1, %r1; add.s64 %d1, %d1, ${where}; mov.b32 %r4, ${value}; st.global.b32 [%d1+${row * 2 * columns}], %r4; ${drain}`;
  const store = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%mb, {%r0, %r0}], [%sm];";
  const loaded = `${expectTx(384)} @%p0 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%sm], [%ma, {%r0, %r0}], [%bar];`;
  test("a store writes the rows that it names and no other", () => {
    for (const order of orders) {
      const { report, out } = launch(copyAnd(store, "%out", 1), order, 1, [64, 8], everyThird);
      clean(report);
      const want = new Uint16Array(rows * columns).fill(0xffff, columns, 2 * columns);
      // Three rows of 32 words, numbered as the threads numbered them.
      for (let k = 0; k < 3 * 32; k++) want[3 * columns * Math.floor(k / 32) + 2 * (k % 32)] = k;
      expect(out).toEqual(want);
    }
  });
  test.each([
    ["a store", store, "%out", ["H094", "H097"]],
    ["a load", loaded, "%in", ["H093", "H098"]],
  ] as const)("%s races with a write of its rows, and not of those between", (_, copy, where, rules) => {
    const end = copy === loaded ? wait : "";
    for (const order of orders)
      for (let row = 0; row < 8; row++) {
        const { report } = launch(copyAnd(copy, where, row) + end, order, 1, [64, 8], everyThird);
        if (row % 3 !== 0) clean(report);
        else expect(rules).toContain(rulesOf(report)[0]);
      }
  });
  test("a write of what memory held before races with a store that is under way", () => {
    for (const order of orders)
      expect(rulesOf(launch(copyAnd(store, "%out", 0, 0), order, 1, [64, 8], everyThird).report)).not.toEqual(
        [],
      );
  });
});

describe("barriers of the pair", () => {
  /** Both blocks load their own box; all bytes are counted by block 0's barrier. */
  const pair = (group: string): string => `setp.eq.u32 %p1, %rank, 0; and.pred %p3, %p0, %p1;
@%p3 ${expectTx(2048)} ${together}
mapa.shared::cluster.u32 %r4, %bar, 0; shl.b32 %r5, %rank, 3;
@%p0 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes${group} [%sm], [%ma, {%r0, %r5}], [%r4];
@!%p1 bra END;
${wait}
@%p0 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%mb, {%r0, %r5}], [%sm]; ${drain}
END: ${together}`;
  test("with cta_group::2 the even block's barrier counts the odd block's bytes", () => {
    for (const order of orders) {
      const { report, data, out } = launch(pair(".cta_group::2"), order, 2);
      clean(report);
      expect(out.subarray(0, 8 * columns)).toEqual(data.subarray(0, 8 * columns));
    }
  });
  test("without it a barrier elsewhere than the data is a fault", () => {
    for (const order of orders) expect(rulesOf(launch(pair(""), order, 2).report)).toContain("H053");
  });
});

describe("prefetches", () => {
  test("do nothing, and need no barrier", () => {
    const body = `@%p0 cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%ma, {%r0, %r0}];
@%p0 cp.async.bulk.prefetch.L2.global [%in], 256; @%p0 prefetch.tensormap [%ma];`;
    for (const order of orders) {
      const { report, out } = launch(body, order, 1);
      clean(report);
      expect(out.every((x) => x === 0)).toBe(true);
    }
  });
  test("of a map of another rank are found", () => {
    const body = "@%p0 cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%ma, {%r0, %r0, %r0}];";
    expect(rulesOf(launch(body, "eager", 1).report)).toEqual(["H051"]);
  });
  test("as tiles of four rows", () => {
    const body =
      "@%p0 cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4 [%ma, {%r0, %r0, %r0, %r0, %r0}];";
    clean(launch(body, "eager", 1, [64, 1]).report);
  });
});

describe("gather4 and scatter4", () => {
  test("random rows, in all orders", () => {
    const next = generator(8);
    const pick = (from: number, to: number): number => from + Math.floor(next() * (to - from));
    for (let round = 0; round < 12; round++) {
      const from = Array.from({ length: 4 }, () => pick(-3, rows + 3));
      const to = [0, 1, 2, 3].map((k) => 8 * k + pick(0, 8)).sort(() => next() - 0.5);
      const column = 8 * pick(0, 4);
      const numbers = (list: readonly number[], first: number): string =>
        list.map((x, k) => `mov.b32 %r${first + k}, ${x};`).join(" ");
      const body = `mov.b32 %r1, ${column}; ${numbers(from, 2)} ${numbers(to, 6)}
@%p0 ${expectTx(256)}
@%p0 cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [%sm], [%ma, {%r1, %r2, %r3, %r4, %r5}], [%bar];
${wait}
@%p0 cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%mb, {%r1, %r6, %r7, %r8, %r9}], [%sm]; ${drain}`;
      const { report, data, out } = launch(body, orders[round % 3] ?? "eager", 1, [32, 1]);
      clean(report);
      const want = new Uint16Array(rows * columns);
      to.forEach((row, k) => {
        const source = from[k] ?? 0;
        for (let x = column; x < column + 32; x++)
          want[row * columns + x] = source < 0 || source >= rows ? 0 : (data[source * columns + x] ?? 0);
      });
      expect(out).toEqual(want);
    }
  });

  // PTX ISA 9.0, 5.5.4 and 5.5.6: four rows, one behind the other; bits of an address say how its piece is swizzled, so that those of two instructions make up one tile.
  test("two fill the halves of a swizzle's pattern", () => {
    const gather = (at: string, rows: string): string =>
      `@%p0 cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes [${at}], [%ma, {%r0, ${rows}}], [%bar];`;
    const named = [9, 2, 31, 2, 40, 0, 17, -1];
    const body = `@%p0 ${expectTx(1024)}
${gather("%sm", named.slice(0, 4).join(", "))} ${gather("%sm+512", named.slice(4).join(", "))}
${wait}
shl.b32 %r1, %t, 5; add.s32 %r2, %sm, %r1; cvt.u64.u32 %d1, %r1; add.s64 %d1, %d1, %out;
${Array.from({ length: 8 }, (_, k) => `ld.shared.b32 %r6, [%r2+${4 * k}]; st.global.b32 [%d1+${4 * k}], %r6;`).join("\n")}`;
    for (const order of orders) {
      const { report, data, out } = launch(body, order, 1, [64, 1], { swizzle: "128B" });
      clean(report);
      const want = new Uint16Array(512);
      named.forEach((from, row) => {
        for (let x = 0; x < columns; x++)
          want[row * columns + (((x >> 3) ^ row) << 3) + (x & 7)] = data[from * columns + x] ?? 0;
      });
      expect([...out.slice(0, 512)]).toEqual([...want]);
    }
  });
});
