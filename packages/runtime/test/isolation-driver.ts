/** The driver of a worker process under test: kernels that hang, crash and fault, by name. */
import { ok } from "@tilewright/ir";
import { createFakeDriver, type FakeKernel } from "../src/cuda/fake/index.ts";
import { axpy, gemm } from "./kernels.ts";

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

/** No driver at all. */
export const broken = async () => {
  throw new Error("no such driver");
};
