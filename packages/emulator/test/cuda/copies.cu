// cp.async through the pipeline intrinsics: a two-stage copy of tiles, each used by other threads than those that copied it.
#include <cuda_pipeline.h>

extern "C" __global__ void staged(const float4* in, float* out, int tiles) {
  __shared__ float4 stage[2][64];
  int t = threadIdx.x;
  __pipeline_memcpy_async(&stage[0][t], &in[t], 16);
  __pipeline_commit();
  float sum = 0;
  for (int k = 0; k < tiles; k++) {
    if (k + 1 < tiles) __pipeline_memcpy_async(&stage[(k + 1) & 1][t], &in[(k + 1) * 64 + t], 16);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    float4 v = stage[k & 1][(t + 17) & 63];
    sum += v.x + 2 * v.y + 3 * v.z + 4 * v.w;
    __syncthreads();
  }
  out[t] = sum;
}
