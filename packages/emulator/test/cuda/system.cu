// Calls of the device runtime: printf and assert.
#include <cassert>
#include <cstdio>

extern "C" __global__ void say(int n, float x) {
  int args = printf("n=%d x=%.3f %s %5u|%-6x|%08.2e %c %lld %%\n", n, x, "hi", 42u, 255u, 12345.678, 'q',
                    -123456789012LL);
  printf("%d arguments, thread %d\n", args, threadIdx.x);
}

extern "C" __global__ void check(int n) { assert(n > (int)threadIdx.x && "n is small"); }
