/*
 * A generated kernel library from C: D = gelu(A.B + bias) in fp16, no CUDA toolkit, no CUDA header.
 *
 *   tilewright compile --library out --kernels examples/library.json --arch sm_80
 *   cc -O2 -I out -o client examples/c/main.c -ldl && ./client out
 *
 * A is all ones, B all 1/64, the bias 0.5: every element of D is gelu(192/64 + 0.5) = 3.4992, rounded to f16.
 */
#include "demo.h"

enum { M = 256, N = 256, K = 192, BYTES = 2 };

/* What the client itself takes from the driver: memory and copies. */
typedef struct Memory {
  int (*alloc)(uint64_t *, size_t);
  int (*free)(uint64_t);
  int (*set)(uint64_t, unsigned short, size_t);
  int (*get)(void *, uint64_t, size_t);
} Memory;

static int find(void *driver, void **place, const char *name) { return (*place = dlsym(driver, name)) != 0; }

static double half(uint16_t bits) {
  int exponent = bits >> 10 & 31;
  double value = exponent == 0 ? (bits & 1023) / 16777216.0 : (1024 + (bits & 1023)) / 33554432.0 * (1u << exponent);
  return bits >> 15 ? -value : value;
}

int main(int argc, char **argv) {
  static uint16_t d[M * N];
  demo_library lib;
  demo_args args;
  Memory memory;
  int i, wrong = 0, status = demo_open(&lib, argc > 1 ? argv[1] : "out", 0);
  if (status == demo_OK && !(find(lib.driver, (void **)&memory.alloc, "cuMemAlloc_v2") && find(lib.driver, (void **)&memory.free, "cuMemFree_v2") &&
                             find(lib.driver, (void **)&memory.set, "cuMemsetD16_v2") && find(lib.driver, (void **)&memory.get, "cuMemcpyDtoH_v2")))
    status = demo_NO_DRIVER;
  if (status != demo_OK) {
    fprintf(stderr, "%s\n", demo_last_error(&lib));
    return 1;
  }
  demo_linear_gelu_defaults(&args, M, N, K);
  memory.alloc(&args.a, M * K * BYTES);
  memory.alloc(&args.b, K * N * BYTES);
  memory.alloc(&args.d, M * N * BYTES);
  memory.alloc(&args.epilogue[0], N * BYTES);
  memory.set(args.a, 0x3c00, M * K);        /* 1 */
  memory.set(args.b, 0x2400, K * N);        /* 1/64 */
  memory.set(args.epilogue[0], 0x3800, N);  /* 0.5 */
  status = demo_linear_gelu(&lib, &args, 0);
  if (status != demo_OK) {
    fprintf(stderr, "%s\n", demo_last_error(&lib));
    return 1;
  }
  memory.get(d, args.d, sizeof d); /* waits for the default stream */
  for (i = 0; i < M * N; i++) wrong += half(d[i]) < 3.497 || half(d[i]) > 3.501;
  printf("D[0] = %.4f, %d of %d elements wrong\n", half(d[0]), wrong, M * N);
  memory.free(args.a);
  memory.free(args.b);
  memory.free(args.d);
  memory.free(args.epilogue[0]);
  demo_close(&lib);
  return wrong != 0;
}
