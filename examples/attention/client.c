/*
 * Attention from C: a right call and a wrong one, beside numbers computed in double precision.
 *
 *   tilewright compile --library out --kernels examples/attention/library.json
 *   python examples/attention/data.py data
 *   cc -std=c99 -O2 -I out -o client examples/attention/client.c -ldl -lm && ./client out data
 */
#include "heads.h"

#include <math.h>

enum { BATCH = 2, HEADS = 4, SHARED = 2, QUERIES = 64, KEYS = 128, DIM = 64, BYTES = 2 };
enum { OUTPUTS = BATCH * HEADS * QUERIES * DIM };

/* What the client itself takes from the driver: memory and copies. */
static int (*alloc)(uint64_t *, size_t), (*put)(uint64_t, const void *, size_t), (*get)(void *, uint64_t, size_t);

static int find(void *driver, void *place, const char *name) {
  void *found = dlsym(driver, name);
  memcpy(place, &found, sizeof found);
  return found != 0;
}

static double half(uint16_t bits) {
  int exponent = bits >> 10 & 31;
  double value = exponent == 0 ? ldexp(bits & 1023, -24) : ldexp((bits & 1023) + 1024, exponent - 25);
  return bits >> 15 ? -value : value;
}

static size_t load(const char *folder, const char *name, void *data, size_t bytes) {
  char path[1024];
  FILE *file;
  size_t got = 0;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  file = fopen(path, "rb");
  if (file) got = fread(data, 1, bytes, file), fclose(file);
  return got;
}

/* A file as heads on the GPU; address 0 where it cannot be read. */
static heads_tensor upload(const char *folder, const char *name, int64_t heads, int64_t rows) {
  static char data[BATCH * HEADS * KEYS * DIM * BYTES];
  size_t bytes = (size_t)(BATCH * heads * rows * DIM * BYTES);
  heads_tensor made = heads_heads(0, heads_F16, BATCH, heads, rows, DIM);
  if (load(folder, name, data, bytes) == bytes && alloc(&made.data, bytes) == 0) put(made.data, data, bytes);
  return made;
}

int main(int argc, char **argv) {
  static uint16_t made[OUTPUTS];
  static double want[OUTPUTS];
  heads_library lib;
  heads_args args;
  heads_tensor out = heads_heads(0, heads_F16, BATCH, HEADS, QUERIES, DIM), q;
  double error = 0;
  int i, status = argc < 3 ? heads_NO_FILE : heads_open(&lib, argv[1], 0);
  if (argc < 3) return puts("client LIBRARY DATA"), 2;
  if (status == heads_NO_DRIVER) return puts(heads_last_error(&lib)), 4;
  if (status != heads_OK || !find(lib.driver, &alloc, "cuMemAlloc_v2") || !find(lib.driver, &put, "cuMemcpyHtoD_v2") ||
      !find(lib.driver, &get, "cuMemcpyDtoH_v2") || load(argv[2], "out.f64", want, sizeof want) != sizeof want)
    return puts(status == heads_OK ? "data.py makes the data" : heads_last_error(&lib)), 1;
  memset(made, 0xff, sizeof made);
  if (alloc(&out.data, sizeof made) == 0) put(out.data, made, sizeof made);
  q = upload(argv[2], "q.f16", HEADS, QUERIES);
  heads_flash_defaults(&args);
  heads_flash_take(&lib, &args, "q", q);
  heads_flash_take(&lib, &args, "k", upload(argv[2], "k.f16", SHARED, KEYS));
  heads_flash_take(&lib, &args, "v", upload(argv[2], "v.f16", SHARED, KEYS));
  heads_flash_take(&lib, &args, "out", out);
  /* Twice: the second launch is a known one. */
  for (i = 0; i < 2; i++)
    if (heads_flash(&lib, &args, 0) != heads_OK) return puts(heads_last_error(&lib)), 1;
  if (get(made, out.data, sizeof made) != 0) return puts("the launch failed"), 1; /* waits for the default stream */
  for (i = 0; i < OUTPUTS; i++) error = fmax(error, isnan(half(made[i])) || made[i] == 0xffff ? INFINITY : fabs(half(made[i]) - want[i]));
  q.shape[2] = QUERIES / 2;
  heads_flash_take(&lib, &args, "q", q);
  status = heads_flash(&lib, &args, 0);
  printf("refused: %s\n%d outputs, largest error %.2g\n", heads_last_error(&lib), OUTPUTS, error);
  heads_close(&lib);
  return !(error < 0.004 && status == heads_NO_KERNEL);
}
