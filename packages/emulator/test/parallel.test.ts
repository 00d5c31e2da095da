/** Launches by two threads: memory, findings and counters are those of one. */
import type { TensorMapSpec } from "@tilewright/core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { LaunchConfig, LaunchReport } from "../src/index.ts";
import { toF16 } from "../src/numerics/floats.ts";
import { startThreads, type Threads } from "./parallel/threads.ts";
import { corpus, generator, kernel, machine, orders, value } from "./support.ts";

let threads: Threads;
/** Parts that threads have been given. */
let parts = 0;
beforeAll(async () => {
  threads = await startThreads(2);
  for (const port of threads.ports) {
    const post = port.postMessage.bind(port);
    port.postMessage = (message, transfer) => {
      parts += 1;
      post(message, transfer);
    };
  }
});
afterAll(() => threads.close());

type Device = ReturnType<typeof machine>;
interface Launch {
  readonly entry: string;
  readonly config: Omit<LaunchConfig, "order" | "seed">;
  /** What it may have written. */
  readonly results: readonly (readonly [pointer: bigint, bytes: number])[];
}

/** What a launch leaves behind, without its time. */
const left = (device: Device, launch: Launch, { completed, findings, counters }: LaunchReport) => ({
  ...{ completed, findings, counters },
  memory: launch.results.map(([at, bytes]) =>
    Buffer.from(device.emulator.read(at, bytes)).toString("base64"),
  ),
});

/** Run in one piece and in parts, on devices that were made alike; the parts that threads were given. */
async function compare(text: string, prepare: (device: Device) => Launch, seeds = [1, 2]): Promise<number> {
  const before = parts;
  const [whole, divided] = [machine(text), machine(text, { threads: threads.ports })];
  for (const order of orders)
    for (const seed of order === "random" ? seeds : [1]) {
      const one = prepare(whole);
      const want = value(whole.emulator.launch(whole.module, one.entry, { ...one.config, order, seed }));
      const two = prepare(divided);
      const got = value(
        await divided.emulator.launchParallel(divided.module, two.entry, { ...two.config, order, seed }),
      );
      expect(left(divided, two, got), `${order} ${seed}`).toEqual(left(whole, one, want));
    }
  return parts - before;
}

const [m, n, k] = [512, 256, 24];

describe("with two threads", () => {
  test("a race between blocks of different parts is found as in one piece", async () => {
    // Block 0 writes a word that the last block reads.
    const body = `ld.param.u64 %d0, [out]; mov.u32 %r0, %ctaid.x; setp.eq.u32 %p0, %r0, 0; setp.eq.u32 %p1, %r0, 63;
      @%p0 st.global.u32 [%d0], 1; @%p1 ld.global.u32 %r1, [%d0];`;
    await compare(kernel(body), (device) => {
      const out = device.put(new Uint8Array(64));
      const config = { grid: [64, 1, 1], block: [32, 1, 1], params: [out] } as const;
      return { entry: "k", config, results: [[out, 64]] };
    });
    const device = machine(kernel(body), { threads: threads.ports });
    const out = device.put(new Uint8Array(64));
    const report = value(
      await device.emulator.launchParallel(device.module, "k", {
        grid: [64, 1, 1],
        block: [32, 1, 1],
        params: [out],
      }),
    );
    expect(report.findings.map(({ rule }) => rule)).toEqual(["H092"]);
  });

  test("a GEMM of eight blocks leaves the same bits, findings and counters in all orders", async () => {
    const next = generator(5);
    const data = (count: number): Float32Array => Float32Array.from({ length: count }, () => next() - 0.5);
    const [a, b] = [data(m * k), data(k * n)];
    const given = await compare(corpus("golden/simt_f32"), (device) => {
      const c = device.blank(m * n * 4);
      const params = [device.put(a), device.put(b), c, m, n, k];
      const config = { grid: [n / 128, m / 128, 1], block: [256, 1, 1], params } as const;
      return { entry: "simt_f32", config, results: [[c, m * n * 4]] };
    });
    expect(given).toBe(2 * 4);
  });

  test("clusters with tensor copies, multicast and wgmma likewise", async () => {
    const size = 256;
    const next = generator(6);
    const data = Uint16Array.from({ length: size * 64 }, () => toF16(Math.fround(next() - 0.5)));
    const given = await compare(corpus("golden/wgmma_cluster2"), (device) => {
      const map = (address: bigint, rows: number): Uint8Array => {
        const spec: TensorMapSpec = {
          ...{ dtype: "f16", address, dims: [64, size], strides: [128], box: [64, rows] },
          ...{ elementStrides: [1, 1], interleave: "none", swizzle: "128B", l2: "none", fill: "zero" },
        };
        return value(device.emulator.encodeTensorMap(spec));
      };
      const [a, b, c] = [device.put(data), device.put(data), device.blank(size * size * 4)];
      const config: Launch["config"] = {
        ...({ grid: [2, 2, 1], block: [384, 1, 1], cluster: [2, 1, 1], dynamicSmem: 132_224 } as const),
        ...{ params: [map(a, 128), map(b, 64), c, size, size, 64], residentClusters: 1 },
      };
      return { entry: "wgmma_f16", config, results: [[c, size * size * 4]] };
    });
    expect(given).toBe(2 * 4);
  });

  /** %r0 is the thread's number in the grid, %r1 its block's, %d0 the buffer. */
  const storing = (body: string) =>
    kernel(`ld.param.u64 %d0, [out]; mov.u32 %r1, %ctaid.x; mad.lo.u32 %r0, %r1, 32, %t; ${body}`);
  const words = 256;
  const small = (device: Device): Launch => {
    const out = device.put(new Uint32Array(words));
    const config = { grid: [8, 1, 1], block: [32, 1, 1], params: [out] } as const;
    return { entry: "k", config, results: [[out, 4 * words]] };
  };

  test("blocks may write bytes of one word", async () => {
    // Block i writes byte i of every eight.
    const text = storing(
      "mad.wide.u32 %d1, %t, 8, %d0; cvt.u64.u32 %d2, %r1; add.u64 %d1, %d1, %d2; st.global.u8 [%d1], %r0;",
    );
    expect(await compare(text, small)).toBe(2 * 4);
  });

  test.each([
    [
      "write one byte each with its own value",
      "mad.wide.u32 %d1, %t, 4, %d0; add.u32 %r0, %r0, 1; st.global.u32 [%d1], %r0;",
      true,
    ],
    [
      "show findings",
      "mad.wide.u32 %d1, %r0, 4, %d0; setp.lt.u32 %p0, %r0, 70; @%p0 st.global.u32 [%d1], %r7; @!%p0 st.global.u32 [%d1+1], %r7;",
      true,
    ],
    [
      "add atomically",
      "atom.global.add.u32 %r2, [%d0], 1; mad.wide.u32 %d1, %r0, 4, %d0; st.global.u32 [%d1+4], %r2;",
      false,
    ],
    [
      "look at the clock",
      "mov.u32 %r2, %clock; mad.wide.u32 %d1, %r0, 4, %d0; st.global.u32 [%d1], %r2;",
      false,
    ],
  ])("blocks that %s are run in one piece in the end", async (_what, body, tried) => {
    expect(await compare(storing(body), small)).toBe(tried ? 2 * 4 : 0);
  });

  test("what the parts have written counts as initialised, and nothing else", async () => {
    const writes = storing("mad.wide.u32 %d1, %r0, 8, %d0; st.global.u32 [%d1], %r0;");
    const device = machine(writes, { threads: threads.ports });
    const out = device.blank(8 * words);
    const launch = { grid: [8, 1, 1], block: [32, 1, 1], params: [out] } as const;
    const before = parts;
    expect(value(await device.emulator.launchParallel(device.module, "k", launch)).findings).toEqual([]);
    expect(parts).toBe(before + 2);
    const reads = (offset: number) => {
      const text = storing(`mad.wide.u32 %d1, %r0, 8, %d0; ld.global.u32 %r2, [%d1+${offset}];`);
      const report = device.emulator.launch(value(device.emulator.load(text)), "k", launch);
      return value(report).findings.map(({ rule, count }) => [rule, count]);
    };
    expect(reads(0)).toEqual([]);
    expect(reads(4)).toEqual([["H005", words]]);
  });

  test("what cannot start is refused as ever, and without threads nothing is divided", async () => {
    const device = machine(storing(""), { threads: threads.ports });
    const refused = await device.emulator.launchParallel(device.module, "none", small(device).config);
    expect(refused.ok ? null : refused.error[0]?.code).toBe("TW5020");
    const alone = machine(storing(""));
    expect(value(await alone.emulator.launchParallel(alone.module, "k", small(alone).config)).completed).toBe(
      true,
    );
  });
});
