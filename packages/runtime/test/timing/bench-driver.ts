/** A fake driver whose kernels and library calls take the times that a test says, and a job on it. */

import type { BenchJob } from "../../src/timing/outcome.ts";
import { gemmArtifact, gemmProblem } from "../artifact.ts";
import { FakeCublasLt, type FakeCublasOptions } from "../fake/cublaslt.ts";
import type { FakeKernel } from "../fake/cuda/index.ts";
import { FakeDriver, fakeH200 } from "../fake/cuda/index.ts";
import { gemm, u64 } from "../kernels.ts";

/** An L2 of 4 KiB, so that few sets are twice as much. */
const small = {
  ...fakeH200,
  memory: 256 * 2 ** 20,
  attributes: { ...fakeH200.attributes, l2Bytes: 4096 },
};

export class BenchDriver extends FakeDriver {
  /** Queue work that takes `us`, and does `run` then. */
  work(stream: bigint, us: number, run: () => void): void {
    const queued = this.enqueue(stream, {
      what: "library",
      run: () => {
        this.clock += us / 1000;
        run();
      },
    });
    if (!queued.ok) throw new Error(`status ${queued.error}`);
  }

  /** Device bytes, for a library that computes. */
  bytes(address: bigint, size: number): Uint8Array {
    const found = this.memory.at(address, size);
    if (found === null) throw new Error(`${size} B at ${address} are not allocated`);
    return found;
  }
}

export const size = { m: 8, n: 8, k: 16 } as const;

export function benchDriver(
  options: {
    readonly launchUs?: number;
    readonly kernel?: FakeKernel;
    /** More kernels, by entry. */
    readonly kernels?: Readonly<Record<string, FakeKernel>>;
  } = {},
): BenchDriver {
  return new BenchDriver({
    devices: [small],
    launchMs: (options.launchUs ?? 100) / 1000,
    kernels: { ...options.kernels, gemm: options.kernel ?? onPoison(gemm) },
  });
}

/** Compute only where D is poisoned: a timed launch changes nothing, and a test has no time for it. `parameter`: which is D. */
export const onPoison =
  (kernel: FakeKernel, parameter = 2): FakeKernel =>
  (launch) => {
    const d = launch.memory(u64(launch.params[parameter]), 4);
    return Number.isNaN(new DataView(d.buffer, d.byteOffset, 4).getFloat32(0, true))
      ? kernel(launch)
      : undefined;
  };

/** cuBLASLt that computes row-major fp32 D = A.B of `size` on `driver`, algorithm i in `us[i]`. */
export function benchCublas(
  driver: BenchDriver,
  us: readonly number[],
  more: FakeCublasOptions = {},
): FakeCublasLt {
  return new FakeCublasLt({
    algorithms: us.length,
    run: (call, algorithm) => {
      driver.work(call.stream, us[algorithm] ?? 100, () => {
        // The first operand is our B, the second our A.
        const { m, n, k } = size;
        const view = (address: bigint, count: number): Float32Array => {
          const bytes = driver.bytes(address, 4 * count);
          return new Float32Array(bytes.buffer, bytes.byteOffset, count);
        };
        // Once is enough: what is not poisoned was computed before.
        if (!Number.isNaN(view(call.d, 1)[0] ?? 0)) return;
        const [b, a, d] = [view(call.a, k * n), view(call.b, m * k), view(call.d, m * n)];
        for (let i = 0; i < m; i++)
          for (let j = 0; j < n; j++) {
            let sum = 0;
            for (let l = 0; l < k; l++) sum += (a[i * k + l] ?? 0) * (b[l * n + j] ?? 0);
            d[i * n + j] = sum;
          }
      });
      return undefined;
    },
    ...more,
  });
}

export const benchJob = (more: Partial<BenchJob> = {}): BenchJob => ({
  problem: gemmProblem({ ...size, alpha: 1 }),
  candidates: [{ name: "ours", artifact: gemmArtifact({ ...size, alpha: 1 }) }],
  cublas: { algorithms: 8 },
  regimes: ["idle"],
  inputs: "normal",
  seed: 1,
  measure: { warmupMs: 2, budgetMs: 6, minRounds: 5, blockMs: 1, blocks: 2 },
  ...more,
});
