/** Kernels for tests: the PTX, and the same effect as functions for the fake driver. */
import type { FakeKernel } from "./fake/cuda/index.ts";

/** `p[i] += x` for i < n, one thread an element. */
export const axpyPtx = `.version 6.0
.target sm_70
.address_size 64
// .entry commented_out(.param .u64 q)
.visible .entry axpy(
  .param .u64 axpy_p,
  .param .u32 axpy_n,
  .param .f32 axpy_x
)
{
  .reg .pred %p<2>;
  .reg .b32 %r<6>;
  .reg .f32 %f<4>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [axpy_p];
  ld.param.u32 %r1, [axpy_n];
  ld.param.f32 %f1, [axpy_x];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra DONE;
  cvta.to.global.u64 %rd2, %rd1;
  mul.wide.u32 %rd3, %r5, 4;
  add.s64 %rd4, %rd2, %rd3;
  ld.global.f32 %f2, [%rd4];
  add.f32 %f3, %f2, %f1;
  st.global.f32 [%rd4], %f3;
DONE:
  ret;
}
`;

/** The same on host memory. */
export const axpy: FakeKernel = ({ config, params, memory }) => {
  const [p, n, x] = [u64(params[0]), u32(params[1]), f32(params[2])];
  const threads = config.grid[0] * config.block[0];
  for (let i = 0; i < Math.min(n, threads); i++) {
    const bytes = memory(p + BigInt(4 * i), 4);
    const view = new DataView(bytes.buffer, bytes.byteOffset, 4);
    view.setFloat32(0, view.getFloat32(0, true) + x, true);
  }
  return undefined;
};

const viewOf = (bytes: Uint8Array | undefined): DataView => {
  if (bytes === undefined) throw new Error("no such parameter");
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
};
export const u64 = (bytes: Uint8Array | undefined): bigint => viewOf(bytes).getBigUint64(0, true);
const u32 = (bytes: Uint8Array | undefined): number => viewOf(bytes).getUint32(0, true);
const f32 = (bytes: Uint8Array | undefined): number => viewOf(bytes).getFloat32(0, true);

/** `d[i, j] = alpha * sum_l a[i, l] * b[l, j]` in fp32, all row-major without padding, one thread an element: grid (n, m), block 1. */
export const gemmPtx = `.version 6.0
.target sm_70
.address_size 64
.visible .entry gemm(
  .param .u64 gemm_a,
  .param .u64 gemm_b,
  .param .u64 gemm_d,
  .param .f32 gemm_alpha,
  .param .u32 gemm_n,
  .param .u32 gemm_k
)
{
  .reg .pred %p<2>;
  .reg .b32 %r<12>;
  .reg .f32 %f<8>;
  .reg .b64 %rd<16>;
  ld.param.u64 %rd1, [gemm_a];
  ld.param.u64 %rd2, [gemm_b];
  ld.param.u64 %rd3, [gemm_d];
  ld.param.f32 %f1, [gemm_alpha];
  ld.param.u32 %r1, [gemm_n];
  ld.param.u32 %r2, [gemm_k];
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ctaid.y;
  mov.f32 %f2, 0f00000000;
  mov.u32 %r5, 0;
LOOP:
  mad.lo.s32 %r6, %r4, %r2, %r5;
  mul.wide.u32 %rd4, %r6, 4;
  add.s64 %rd5, %rd1, %rd4;
  ld.global.f32 %f3, [%rd5];
  mad.lo.s32 %r7, %r5, %r1, %r3;
  mul.wide.u32 %rd6, %r7, 4;
  add.s64 %rd7, %rd2, %rd6;
  ld.global.f32 %f4, [%rd7];
  fma.rn.f32 %f2, %f3, %f4, %f2;
  add.s32 %r5, %r5, 1;
  setp.lt.u32 %p1, %r5, %r2;
  @%p1 bra LOOP;
  mul.rn.f32 %f5, %f2, %f1;
  mad.lo.s32 %r8, %r4, %r1, %r3;
  mul.wide.u32 %rd8, %r8, 4;
  add.s64 %rd9, %rd3, %rd8;
  st.global.f32 [%rd9], %f5;
  ret;
}
`;

/** The same on host memory. */
export const gemm: FakeKernel = ({ config, params, memory }) => {
  const [a, b, d] = [u64(params[0]), u64(params[1]), u64(params[2])];
  const [alpha, n, k] = [f32(params[3]), u32(params[4]), u32(params[5])];
  const at = (base: bigint, index: number) => viewOf(memory(base + BigInt(4 * index), 4));
  for (let i = 0; i < config.grid[1]; i++) {
    for (let j = 0; j < config.grid[0]; j++) {
      let sum = 0;
      for (let l = 0; l < k; l++)
        sum += at(a, i * k + l).getFloat32(0, true) * at(b, l * n + j).getFloat32(0, true);
      at(d, i * n + j).setFloat32(0, alpha * sum, true);
    }
  }
  return undefined;
};
