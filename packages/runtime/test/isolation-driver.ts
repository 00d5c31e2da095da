/** The driver of a worker process under test: kernels that hang, crash and fault, by name. */
import { ok } from "@tilewright/core";
import { createFakeDriver, type FakeKernel } from "./fake/cuda/index.ts";
import { axpy, gemm } from "./kernels.ts";
import { benchDriver, onPoison } from "./timing/bench-driver.ts";

const hang: FakeKernel = () => {
  for (;;) {
    // As a GPU call that never returns.
  }
};

export const source = async () =>
  ok(
    createFakeDriver({
      kernels: {
        axpy,
        gemm,
        hang,
        crash: () => process.abort(),
        leave: () => process.exit(3),
        illegal: () => 700,
        failed: () => 719,
      },
    }),
  );

/** For benchmarks: kernels with times, and those that spoil them. */
export const bench = async () => {
  let launches = 0;
  return ok(
    benchDriver({
      kernels: {
        other: onPoison(gemm),
        hang,
        crash: () => process.abort(),
        illegal: () => 700,
        wrong: () => undefined,
        /** As one that leaves its counters dirty. */
        second: (launch) => (++launches > 1 ? hang(launch) : gemm(launch)),
      },
    }),
  );
};

/** No driver at all. */
export const broken = async () => {
  throw new Error("no such driver");
};
