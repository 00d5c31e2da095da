/* The flags of a thread, where torch's libraries have them, and what its stable C functions say of a tensor. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

__thread uint64_t _ZN3c104impl26raw_local_dispatch_key_setE[2];
static __thread bool grad;
bool _ZN2at4impl27torch_function_mode_enabledEv(void) { return false; }
bool aoti_torch_grad_mode_is_enabled(void) { return grad; }

void stub_flags(int included, int recording) {
  _ZN3c104impl26raw_local_dispatch_key_setE[0] = (uint64_t)included;
  grad = recording;
}

/* What a tensor of __init__.py holds, in an object of bytes: its characters begin where CPython has them. */
typedef struct {
  int64_t layout, device_type, device_index, dtype, dim, sizes, strides, data_ptr;
} Held;
enum { BYTES = 32 };
#define SAYS(field, type) \
  int aoti_torch_get_##field(void *handle, type *out) { return *out = (type)((const Held *)(*(char **)handle + BYTES))->field, 0; }
SAYS(layout, int32_t)
SAYS(device_type, int32_t)
SAYS(device_index, int32_t)
SAYS(dtype, int32_t)
SAYS(dim, int64_t)
SAYS(sizes, int64_t *)
SAYS(strides, int64_t *)
SAYS(data_ptr, void *)
int32_t aoti_torch_layout_strided(void) { return 7; }
int32_t aoti_torch_device_type_cuda(void) { return 1; }
