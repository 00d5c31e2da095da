// Floating point: library functions, divisions, half precision, conversions, doubles.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

extern "C" __global__ void functions(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = in[i];
  float* o = out + 12 * i;
  o[0] = expf(x);
  o[1] = logf(fabsf(x) + 0.1f);
  o[2] = sinf(x);
  o[3] = cosf(x);
  o[4] = tanhf(x);
  o[5] = sqrtf(fabsf(x));
  o[6] = 1.0f / (x * x + 1.0f);
  o[7] = x / 3.7f;
  o[8] = rsqrtf(fabsf(x) + 1.0f);
  o[9] = erff(x);
  o[10] = powf(fabsf(x), 1.5f);
  o[11] = fmaxf(fminf(rintf(x), 2.0f), floorf(x) - ceilf(x));
}

extern "C" __global__ void doubles(const double* in, double* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double x = in[i];
  double* o = out + 6 * i;
  o[0] = fma(x, x, -1.0 / 3.0);
  o[1] = x / 3.1;
  o[2] = sqrt(fabs(x));
  o[3] = exp(x);
  o[4] = (double)(float)x + (double)(int)x;
  o[5] = __longlong_as_double(__double_as_longlong(x) ^ 0x8000000000000000LL) + (double)(long long)(x * 1e6);
}

extern "C" __global__ void halves(const __half2* a, const __half2* b, __half2* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  __half2 x = a[i], y = b[i];
  out[4 * i] = __hfma2(x, y, __hadd2(x, y));
  out[4 * i + 1] = __hmul2(__hsub2(x, y), x);
  out[4 * i + 2] = __hmax2(x, __hneg2(y));
  out[4 * i + 3] = __floats2half2_rn(__low2float(x) * 1.5f, (float)(int)__high2float(y) + (__hlt(__low2half(x), __low2half(y)) ? 1.0f : 0.0f));
}

extern "C" __global__ void bfloats(const float* a, __nv_bfloat16* out, unsigned char* fp8, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  __nv_bfloat16 x = __float2bfloat16_rn(a[i]);
  out[2 * i] = __hadd(x, __float2bfloat16_rn(0.7f));
  out[2 * i + 1] = __hfma(x, x, x);
  fp8[2 * i] = __nv_cvt_float_to_fp8(a[i], __NV_SATFINITE, __NV_E4M3);
  fp8[2 * i + 1] = __nv_cvt_float_to_fp8(a[i], __NV_SATFINITE, __NV_E5M2);
}
