// Integer and 64-bit arithmetic, switch tables, local arrays, device calls, loops.
#include <cstdint>

__noinline__ __device__ int helper(int a, long long b, const int* table) { return a * 3 + (int)(b >> 7) + table[a & 7]; }

struct Pair { double x; int y; char z[12]; };
__noinline__ __device__ Pair make_pair_of(Pair p, float f) { p.x += f; p.y ^= 5; p.z[3] = (char)p.y; return p; }

__constant__ int lut[8] = {1, 2, 3, 5, 8, 13, 21, 34};
__device__ unsigned long long counter = 7;
__device__ int (*fptr)(int, long long, const int*) = helper;

extern "C" __global__ void scalar(int n, const int* __restrict__ in, long long* out, uint8_t* bytes, short* shorts) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int local[16];
  for (int j = 0; j < 16; ++j) local[j] = in[(i + j) % n];
  long long acc = 0;
  for (int j = 0; j < in[i]; ++j) acc += local[(j * 7) & 15] * (long long)j;
  unsigned long long u = (unsigned long long)acc * 0x9E3779B97F4A7C15ull;
  u ^= u >> 29; u = (u << 13) | (u >> 51);
  acc += __umul64hi(u, 12345678901234567ull) + __mulhi(i, n) + __popcll(u) + __clz(i) + __ffs(n) + __brev(i);
  acc /= (n | 1); acc %= 1000003; acc += (unsigned)i / 7u + i % 13 + (int)(u % 11);
  switch (i % 9) {
    case 0: acc += 1; break;
    case 1: acc *= 3; break;
    case 2: acc ^= 0x55; break;
    case 3: acc -= lut[i & 7]; break;
    case 4: acc = helper((int)acc, acc, lut); break;
    case 5: acc <<= 3; break;
    case 6: acc = acc > 100 ? 5 : 6; break;
    case 7: acc += __byte_perm(i, n, 0x3120); break;
    default: acc = -acc;
  }
  Pair p{1.0, i, "abc"};
  p = make_pair_of(p, 2.5f);
  acc += p.y + p.z[3] + (long long)p.x;
  bytes[i] = (uint8_t)(acc + __dp4a(i, n, 3)); shorts[i] = (short)(acc >> 3) * shorts[(i + 1) % n];
  acc += __usad(i, n, 3u) + abs(i - n) + min(i, n) + max((unsigned)i, 3u) + llabs(acc) + __funnelshift_l(i, n, 5);
  acc += fptr(i, acc, lut);
  out[i] = acc + counter + clock() + clock64();
}
