// Whole blocks at work: demoted and dynamic shared variables, sorting, a queue on global atomics, last block adds up.
// nvcc -std=c++17 -ptx -arch=sm_90 blocks.cu
extern __shared__ int dynamic[];

// Bitonic sort of one tile in dynamic shared memory; the number of threads is half the tile.
extern "C" __global__ void bitonic(int* data, int size) {
  int t = threadIdx.x;
  int* tile = data + (size_t)blockIdx.x * size;
  dynamic[t] = tile[t];
  dynamic[t + size / 2] = tile[t + size / 2];
  for (int k = 2; k <= size; k <<= 1)
    for (int j = k >> 1; j > 0; j >>= 1) {
      __syncthreads();
      int low = 2 * t - (t & (j - 1)), high = low + j;
      int a = dynamic[low], b = dynamic[high];
      if ((a > b) == ((low & k) == 0)) {
        dynamic[low] = b;
        dynamic[high] = a;
      }
    }
  __syncthreads();
  tile[t] = dynamic[t];
  tile[t + size / 2] = dynamic[t + size / 2];
}

// Histogram with one set of bins a warp, merged at the end: shared atomics, warp-aggregated by match.
extern "C" __global__ void histogram(const unsigned short* in, unsigned* bins, int n) {
  __shared__ unsigned local[4][64];
  unsigned warp = threadIdx.x / 32, lane = threadIdx.x & 31;
  for (int b = lane; b < 64; b += 32) local[warp][b] = 0;
  __syncwarp();
  int stride = gridDim.x * blockDim.x;
  for (int base = blockIdx.x * blockDim.x; base < n; base += stride) {
    int i = base + threadIdx.x;
    unsigned key = i < n ? in[i] & 63 : 64;
    unsigned peers = __match_any_sync(0xffffffffu, key);
    if (key < 64 && lane == (unsigned)__ffs(peers) - 1) atomicAdd(&local[warp][key], (unsigned)__popc(peers));
  }
  __syncthreads();
  for (int b = threadIdx.x; b < 64; b += blockDim.x) {
    unsigned sum = 0;
    for (int w = 0; w < (int)(blockDim.x / 32); w++) sum += local[w][b];
    if (sum) atomicAdd(&bins[b], sum);
  }
}

// The last block to finish adds the partial sums of all: threadfence, an atomic ticket, reads past the cache.
__device__ unsigned ticket = 0;
extern "C" __global__ void total(const float* in, volatile float* partial, float* out, int n) {
  __shared__ float warps[32];
  __shared__ bool last;
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
  for (int o = 16; o > 0; o >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, o);
  if ((threadIdx.x & 31) == 0) warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    float block = 0;
    for (unsigned w = 0; w < blockDim.x / 32; w++) block += warps[w];
    partial[blockIdx.x] = block;
    __threadfence();
    last = atomicInc(&ticket, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float all = 0;
    for (unsigned b = 0; b < gridDim.x; b++) all += partial[b];
    *out = all;
  }
}

// Two demoted shared variables of one function that is not inlined, reached through generic pointers.
__device__ __noinline__ void exchange(int* slot, int value) {
  slot[threadIdx.x] = value;
  __syncthreads();
}

extern "C" __global__ void demoted(const int4* in, int4* out) {
  __shared__ int left[64];
  __shared__ int right[64];
  int4 v = in[threadIdx.x];
  exchange(left, v.x + v.w);
  exchange(right, v.y - v.z);
  int k = (threadIdx.x + 21) & 63;
  out[threadIdx.x] = make_int4(left[k], right[k], left[63 - k], threadIdx.x % 3 ? right[63 - k] : v.w);
}
