// The approximate functions of PTX, one entry each to list outputs and to hash them: nvcc -cubin -arch=sm_90 approx.cu
#include <cstdint>

// f32 in, f32 out.
#define F32(NAME, TEXT)                                                              \
  __device__ inline uint32_t f_##NAME(uint32_t x) {                                  \
    float y;                                                                         \
    asm(TEXT " %0, %1;" : "=f"(y) : "f"(__uint_as_float(x)));                        \
    return __float_as_uint(y);                                                       \
  }                                                                                  \
  ENTRIES(NAME)
// 16-bit forms.
#define F16(NAME, TEXT)                                                              \
  __device__ inline uint32_t f_##NAME(uint32_t x) {                                  \
    uint16_t y;                                                                      \
    asm(TEXT " %0, %1;" : "=h"(y) : "h"((uint16_t)x));                               \
    return y;                                                                        \
  }                                                                                  \
  ENTRIES(NAME)
// Two operands: pairs drawn from the index.
#define PAIR(NAME, TEXT)                                                             \
  __device__ inline uint32_t f_##NAME(uint32_t x) {                                  \
    float y;                                                                         \
    uint32_t a = x * 0x9E3779B1u, b = (x ^ (x >> 15)) * 0x85EBCA6Bu;                 \
    b ^= b >> 13;                                                                    \
    asm(TEXT " %0, %1, %2;" : "=f"(y) : "f"(__uint_as_float(a)), "f"(__uint_as_float(b))); \
    return __float_as_uint(y);                                                       \
  }                                                                                  \
  ENTRIES(NAME)
#define ENTRIES(NAME)                                                                \
  extern "C" __global__ void list_##NAME(uint32_t *out, uint32_t start) {            \
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;                              \
    out[i] = f_##NAME(start + i);                                                    \
  }                                                                                  \
  extern "C" __global__ void hash_##NAME(uint32_t *out, uint32_t count) {            \
    uint32_t h0 = 0, h1 = 0;                                                         \
    for (uint32_t k = threadIdx.x; k < count; k += blockDim.x) {                     \
      uint32_t i = blockIdx.x * count + k, y = f_##NAME(i);                          \
      uint32_t a = (y ^ (i * 0x9E3779B1u)) * 0x85EBCA6Bu, b = (y + i * 0xC2B2AE35u) * 0x27D4EB2Fu; \
      h0 += a ^ (a >> 15);                                                           \
      h1 += b ^ (b >> 13);                                                           \
    }                                                                                \
    atomicAdd(out + 2 * blockIdx.x, h0);                                             \
    atomicAdd(out + 2 * blockIdx.x + 1, h1);                                         \
  }

F32(rcp, "rcp.approx.f32")
F32(rcp_ftz, "rcp.approx.ftz.f32")
F32(rsqrt, "rsqrt.approx.f32")
F32(rsqrt_ftz, "rsqrt.approx.ftz.f32")
F32(sqrt, "sqrt.approx.f32")
F32(sqrt_ftz, "sqrt.approx.ftz.f32")
F32(ex2, "ex2.approx.f32")
F32(ex2_ftz, "ex2.approx.ftz.f32")
F32(lg2, "lg2.approx.f32")
F32(lg2_ftz, "lg2.approx.ftz.f32")
F32(sin, "sin.approx.f32")
F32(sin_ftz, "sin.approx.ftz.f32")
F32(cos, "cos.approx.f32")
F32(cos_ftz, "cos.approx.ftz.f32")
F32(tanh, "tanh.approx.f32")
F16(ex2_f16, "ex2.approx.f16")
F16(ex2_bf16, "ex2.approx.ftz.bf16")
F16(tanh_f16, "tanh.approx.f16")
F16(tanh_bf16, "tanh.approx.bf16")
PAIR(div_approx, "div.approx.f32")
PAIR(div_approx_ftz, "div.approx.ftz.f32")
PAIR(div_full, "div.full.f32")
PAIR(div_full_ftz, "div.full.ftz.f32")
