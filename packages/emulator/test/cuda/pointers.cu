// Functions through pointers: a table in device memory, a pointer that lanes choose differently.
// nvcc -std=c++17 -ptx -arch=sm_80 pointers.cu
typedef int (*Step)(int, int);
__device__ __noinline__ int add(int a, int b) { return a + b; }
__device__ __noinline__ int times(int a, int b) { return a * b; }
__device__ __noinline__ int loops(int a, int b) {
  for (int k = 0; k < (b & 7); k++) a = a * 3 + k;
  return a;
}
__device__ Step table[3] = {add, times, loops};

extern "C" __global__ void chain(const int* kinds, const int* in, int* out, int steps) {
  int i = threadIdx.x, x = in[i];
  for (int k = 0; k < steps; k++) x = table[(kinds[i] + k) % 3](x, i + k);
  out[i] = x;
}
