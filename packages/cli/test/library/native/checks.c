/* Right and wrong calls of the mixed library: what each ends with, a line a call. */
#include "mixed.h"

static mixed_library lib;

/* m x n x k = 64 x 48 x 32, bf16; B lies in columns. */
static mixed_args right(void) {
  mixed_args args;
  mixed_variable_defaults(&args, 64, 48, 32);
  mixed_variable_take(&lib, &args, "a", mixed_matrix(0x10000100, mixed_BF16, 64, 32));
  mixed_variable_take(&lib, &args, "weight", mixed_matrix(0x11000000, mixed_BF16, 48, 32));
  mixed_variable_take(&lib, &args, "d", mixed_matrix(0x12000010, mixed_BF16, 64, 48));
  mixed_variable_take(&lib, &args, "bias", mixed_vector(0x13000000, mixed_F32, 48));
  return args;
}

static void say(const char *name, int status) { printf("%s: %d %s\n", name, status, status == mixed_OK ? "" : mixed_last_error(&lib)); }

static void take(const char *name, const char *operand, mixed_tensor tensor) {
  mixed_args args = right();
  say(name, mixed_variable_take(&lib, &args, operand, tensor));
}

static mixed_tensor view(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride) {
  mixed_tensor made = mixed_matrix(0x10000100, mixed_BF16, rows, columns);
  made.stride[0] = row_stride;
  made.stride[1] = column_stride;
  return made;
}

/* Attention: 2 batches of 4 heads, of which 2 share keys, head dim 32. */
static mixed_args heads(int64_t queries) {
  mixed_args args;
  mixed_flash_defaults(&args);
  mixed_flash_take(&lib, &args, "q", mixed_heads(0x10000100, mixed_F16, 2, 4, queries, 32));
  mixed_flash_take(&lib, &args, "k", mixed_heads(0x11000000, mixed_F16, 2, 2, 64, 32));
  mixed_flash_take(&lib, &args, "v", mixed_heads(0x12000000, mixed_F16, 2, 2, 64, 32));
  mixed_flash_take(&lib, &args, "out", mixed_heads(0x13000000, mixed_F16, 2, 4, queries, 32));
  return args;
}

int main(int argc, char **argv) {
  mixed_args args;
  mixed_tensor tensor;
  if (mixed_open(&lib, argv[argc - 1], 0) != mixed_OK) return puts(mixed_last_error(&lib)), 1;
  args = right();
  say("right", mixed_variable(&lib, &args, 0));
  say("known", mixed_variable(&lib, &args, 0));
  args.a += 0x1000;
  say("new address", mixed_variable(&lib, &args, 0));
  take("dtype", "a", mixed_matrix(0x10000100, mixed_F16, 64, 32));
  take("no operand", "c", mixed_matrix(0x10000100, mixed_F16, 64, 32));
  take("shape", "a", mixed_matrix(0x10000100, mixed_BF16, 64, 40));
  take("weight as k, n", "b", mixed_matrix(0x10000100, mixed_BF16, 32, 48));
  take("transposed view", "b", view(32, 48, 1, 32));
  take("strided view", "a", view(64, 32, 64, 2));
  take("rows overlap", "a", view(64, 32, 16, 1));
  take("vector", "a", mixed_vector(0x10000100, mixed_BF16, 64));
  take("bias", "bias", mixed_vector(0x10000100, mixed_F32, 64));
  mixed_gated_defaults(&args, 64, 48, 32);
  say("both factors", mixed_gated_take(&lib, &args, "weight", mixed_matrix(0x11000000, mixed_BF16, 96, 32)));
  say("gate's bias", mixed_gated_take(&lib, &args, "bg", mixed_vector(0x13000000, mixed_F32, 48)));
  say("one factor", mixed_gated_take(&lib, &args, "weight", mixed_matrix(0x11000000, mixed_BF16, 48, 32)));
  tensor = mixed_matrix(0x10000100, mixed_BF16, 64, 32);
  tensor.device = 1;
  take("told GPU", "a", tensor);
  args = right();
  say("padded", mixed_variable_take(&lib, &args, "a", view(64, 32, 100, 1)));
  printf("lda %d\n", (int)args.lda);
  args = right(), args.a = 0x66000000;
  say("host memory", mixed_variable(&lib, &args, 0));
  args = right(), args.a = 0x67000000;
  say("other GPU", mixed_variable(&lib, &args, 0));
  args = right(), args.a = 0x68000100;
  say("too short", mixed_variable(&lib, &args, 0));
  args = right(), args.a += 8;
  say("alignment", mixed_variable(&lib, &args, 0));
  args = right(), args.d = 0;
  say("missing", mixed_variable(&lib, &args, 0));
  args = right(), args.beta = 0.75;
  say("factor", mixed_variable(&lib, &args, 0));
  args = right(), args.k = 33;
  say("no kernel", mixed_variable(&lib, &args, 0));
  args = right();
  say("right again", mixed_variable(&lib, &args, 0));
  args = heads(64);
  say("heads", mixed_flash(&lib, &args, 0));
  args.b += 0x1000;
  say("other keys", mixed_flash(&lib, &args, 0));
  args = heads(128);
  say("more queries", mixed_flash(&lib, &args, 0));
  args = heads(100);
  say("no such queries", mixed_flash(&lib, &args, 0));
  args = heads(64);
  args.tensor[0].stride[1] = 32, args.tensor[0].stride[2] = 128;
  say("rows before heads", mixed_flash(&lib, &args, 0));
  say("heads' dtype", mixed_flash_take(&lib, &args, "q", mixed_heads(0x10000100, mixed_BF16, 2, 4, 64, 32)));
  say("rank", mixed_flash_take(&lib, &args, "q", mixed_matrix(0x10000100, mixed_F16, 64, 32)));
  args = heads(64), args.epilogue[0] = 0;
  say("no v", mixed_flash(&lib, &args, 0));
  args = heads(64), args.a += 8;
  say("q's alignment", mixed_flash(&lib, &args, 0));
  args = heads(64), args.a = 0x66000000;
  say("q in host memory", mixed_flash(&lib, &args, 0));
  mixed_flash_defaults(&args);
  args.a = 0x10000100, args.b = 0x11000000, args.epilogue[0] = 0x12000000, args.d = 0x13000000;
  say("addresses alone", mixed_flash(&lib, &args, 0));
  mixed_close(&lib);
  return 0;
}
