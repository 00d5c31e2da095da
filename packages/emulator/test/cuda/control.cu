// Control flow and memory that compilers make of ordinary C++: switch tables, local arrays, functions that are not
// inlined, structures by value, loops that diverge, inline assembly with scopes and labels of its own.
// nvcc -std=c++17 -ptx -arch=sm_75 control.cu
typedef unsigned long long u64;

struct Options {
  const int* data;
  int* out;
  int n;
  short step;
  signed char shift;
  double scale;
};

extern "C" __global__ void by_value(const Options o) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= o.n) return;
  o.out[i] = (int)(((u64)(unsigned)o.data[i] << (o.shift & 31)) >> 3) * o.step + (int)(o.scale * i);
}

__device__ __noinline__ int collatz(unsigned x) {
  int steps = 0;
  while (x != 1) {
    x = x & 1 ? 3 * x + 1 : x >> 1;
    steps++;
  }
  return steps;
}

__device__ __noinline__ int apply(int kind, int x, int y) {
  switch (kind) {
    case 0: return x + y;
    case 1: return x - y;
    case 2: return x * y;
    case 3: return y ? x / y : -1;
    case 4: return y ? x % y : -2;
    case 5: return x & y;
    case 6: return x | ~y;
    case 7: return x ^ y;
    case 8: return x << (y & 31);
    case 9: return x >> (y & 31);
    case 10: return collatz((x & 1023) + 1);
    default: return kind;
  }
}

// A little stack machine: an array in local memory, a switch, calls.
extern "C" __global__ void machine(const unsigned char* code, int length, const int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int stack[16];
  int top = 0;
  stack[top++] = in[i];
  for (int k = 0; k < length; k++) {
    unsigned char op = code[(k + (in[i] & 1)) % length];
    if (op >= 100) {
      if (top < 16) stack[top++] = op - 100 + i;
    } else if (top > 1) {
      int y = stack[--top];
      stack[top - 1] = apply(op, stack[top - 1], y);
    }
  }
  int sum = 0;
  for (int k = 0; k < top; k++) sum = sum * 31 + stack[k];
  out[i] = sum;
}

// The same label in two inlined copies: its braces keep them apart.
__device__ __forceinline__ int highest(unsigned x) {
  int r;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      ".reg .b32 t, c;\n"
      "mov.b32 t, %1;\n"
      "mov.b32 c, -1;\n"
      "LOOP:\n"
      "setp.eq.u32 p, t, 0;\n"
      "@p bra DONE;\n"
      "shr.u32 t, t, 1;\n"
      "add.s32 c, c, 1;\n"
      "bra.uni LOOP;\n"
      "DONE:\n"
      "mov.b32 %0, c;\n"
      "}\n"
      : "=r"(r)
      : "r"(x));
  return r;
}

extern "C" __global__ void assembly(const unsigned* in, u64* out, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  unsigned x = in[i], low, high;
  asm("mul.lo.u32 %0, %2, %3;\n\tmul.hi.u32 %1, %2, %3;" : "=r"(low), "=r"(high) : "r"(x), "r"(x ^ 0x9e3779b9u));
  u64 both;
  asm("mov.b64 %0, {%1, %2};" : "=l"(both) : "r"(low), "r"(high));
  asm("{ .reg .pred q; setp.lt.s32 q, %1, 0; @q add.u64 %0, %0, 1; @!q xor.b64 %0, %0, 255; }" : "+l"(both) : "r"(x));
  out[i] = both * 64 + highest(x) + highest(x >> 7);
}

// 128-bit products from 64-bit halves, modular exponentiation, population counts: carries and high words.
__device__ u64 mulmod(u64 a, u64 b, u64 m) {
  u64 r = 0;
  for (; b; b >>= 1) {
    if (b & 1) r = r >= m - a ? r - (m - a) : r + a;
    a = a >= m - a ? a - (m - a) : a + a;
  }
  return r;
}

extern "C" __global__ void modpow(const u64* base, const u64* exponent, u64* out, u64 m, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  u64 r = 1, b = base[i] % m;
  for (u64 e = exponent[i]; e; e >>= 1) {
    if (e & 1) r = mulmod(r, b, m);
    b = mulmod(b, b, m);
  }
  out[i] = r ^ ((u64)__popcll(r) << 58) ^ (u64)__clzll(r | 1);
}
