// 64-bit hashing, division, histograms with atomics, warp votes, a grid-wide barrier by flags.
typedef unsigned long long u64;

__device__ __noinline__ u64 mix(u64 x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 29;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 32);
}

extern "C" __global__ void hash64(const u64* in, u64* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  u64 h = mix(in[i]);
  h = mix(h + (u64)i * 0x9e3779b97f4a7c15ULL) ^ (h % 1000003ULL) ^ (h / 77777ULL);
  long long s = (long long)h;
  out[i] = (u64)(s % 12345LL) + (u64)(s / -321LL) + __umul64hi(h, in[i]) + (u64)__mul64hi(s, (long long)in[i]);
}

extern "C" __global__ void histogram(const unsigned char* in, unsigned* out, int n) {
  __shared__ unsigned bins[256];
  for (int b = threadIdx.x; b < 256; b += blockDim.x) bins[b] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[in[i]], 1u);
  __syncthreads();
  for (int b = threadIdx.x; b < 256; b += blockDim.x)
    if (bins[b]) atomicAdd(&out[b], bins[b]);
}

extern "C" __global__ void divisions(const int* a, const int* b, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int x = a[i], y = b[i];
  unsigned ux = x, uy = y;
  out[6 * i] = x / y;
  out[6 * i + 1] = x % y;
  out[6 * i + 2] = ux / uy;
  out[6 * i + 3] = ux % uy;
  out[6 * i + 4] = __mulhi(x, y) ^ __umulhi(ux, uy);
  out[6 * i + 5] = __popc(ux) + 64 * __clz(x) + 4096 * (__brev(uy) & 63) + __funnelshift_l(ux, uy, y) + (int)__byte_perm(ux, uy, 0x6241);
}

extern "C" __global__ void warp_votes(const int* in, unsigned* out) {
  int t = threadIdx.x, v = in[t];
  unsigned ballot = __ballot_sync(0xffffffffu, v > 0);
  int any = __any_sync(0xffffffffu, v == 7), all = __all_sync(0xffffffffu, v > -100);
  unsigned same = __match_any_sync(0xffffffffu, v);
  int up = __shfl_up_sync(0xffffffffu, v, 3), idx = __shfl_sync(0xffffffffu, v, 5, 8);
  unsigned sum = 0;
  if (v & 1) sum = __popc(__activemask());
  __syncwarp();
  out[t] = ballot + 3 * any + 5 * all + 7 * same + 11 * (unsigned)up + 13 * (unsigned)idx + 17 * sum;
}

// Every block waits for all others between two phases.
extern "C" __global__ void grid_barrier(int* data, int* counter) {
  int b = blockIdx.x, n = gridDim.x;
  if (threadIdx.x == 0) data[b] = b + 1;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicAdd(counter, 1);
    while (*(volatile int*)counter < n) {}
  }
  __syncthreads();
  __threadfence();
  if (threadIdx.x == 0) data[n + b] = *(volatile int*)&data[(b + 1) % n] + *(volatile int*)&data[(b + n - 1) % n];
}

// A spin lock per block, taken by one thread.
extern "C" __global__ void locked(int* lock, int* value) {
  if (threadIdx.x != 0) return;
  while (atomicCAS(lock, 0, 1) != 0) {}
  __threadfence();
  *(volatile int*)value = *(volatile int*)value * 3 + 1;
  __threadfence();
  atomicExch(lock, 0);
}

// A switch (brx.idx) and an array in local memory with computed indices.
extern "C" __global__ void local_and_switch(const int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int a[16];
  for (int k = 0; k < 16; k++) a[k] = in[i] * k;
  for (int k = 0; k < 16; k++) a[(k * 7 + in[i]) & 15] += k;
  int r;
  switch (in[i] & 7) {
    case 0: r = a[in[i] & 15]; break;
    case 1: r = a[3] ^ a[5]; break;
    case 2: r = a[1] * 3; break;
    case 3: r = a[2] - a[9]; break;
    case 4: r = -a[4]; break;
    case 5: r = a[15] << 2; break;
    case 6: r = a[6] / 3; break;
    default: r = 42;
  }
  out[i] = r;
}

__constant__ int table[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__device__ int total = 100;
extern "C" __global__ void constants(const int* in, int* out, int n) {
  int i = threadIdx.x;
  if (i < n) out[i] = table[in[i] & 7] * 10 + total;
  __syncthreads();
  if (i < n) atomicMax(&total, in[i]);
}
