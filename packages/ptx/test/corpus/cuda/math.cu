// Floating point: every rounding, division and square root variants, transcendental functions, conversions, f64.
extern "C" __global__ void math(int n, const float* a, const double* d, float* out, double* dout) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float x = a[i], y = a[i + 1];
  float r = sinf(x) + cosf(y) + expf(x) + logf(y) + tanf(x) + tanhf(y) + powf(x, y) + sqrtf(x) + rsqrtf(y) + cbrtf(x) + erff(y);
  r += __sinf(x) + __expf(y) + __logf(x) + __powf(x, y) + __fdividef(x, y) + x / y + 1.0f / x + fmodf(x, y) + fmaf(x, y, r);
  r += __fmaf_rz(x, y, r) + __fadd_ru(x, y) + __fmul_rd(x, y) + __fdiv_rn(x, y) + __fsqrt_rz(x) + __frcp_ru(y) + __saturatef(x);
  r += fminf(x, y) + fmaxf(x, y) + fabsf(x) + floorf(x) + ceilf(y) + truncf(x) + rintf(y) + roundf(x) + copysignf(x, y) + (isnan(x) ? 1 : 0) + (isinf(y) ? 1 : 0);
  r += (float)__float2int_rn(x) + __float2uint_rz(y) + __int2float_rd(n) + __float_as_int(x) + __int_as_float(n) + (float)(long long)x + (float)(unsigned long long)y;
  double u = d[i], v = d[i + 1];
  double s = sin(u) + exp(v) + log(u) + u / v + sqrt(v) + fma(u, v, 1.0) + __dadd_rz(u, v) + (double)r + floor(u) + 1.0 / v + pow(u, v) + (int)u + (long long)v;
  out[i] = r + (float)s + (x < y ? 1.f : 2.f) + ((x != y) && (u >= v) ? 3.f : 4.f);
  dout[i] = s;
  out[i + 1] = (float)(unsigned char)x + (signed char)n + (short)y + (unsigned short)r;
}
