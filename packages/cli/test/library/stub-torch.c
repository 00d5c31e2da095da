/* The flags of a thread, where torch's libraries have them. */
#include <stdbool.h>
#include <stdint.h>

__thread uint64_t _ZN3c104impl26raw_local_dispatch_key_setE[2];
static __thread bool grad;
bool _ZN2at4impl27torch_function_mode_enabledEv(void) { return false; }
bool aoti_torch_grad_mode_is_enabled(void) { return grad; }

void stub_flags(int included, int recording) {
  _ZN3c104impl26raw_local_dispatch_key_setE[0] = (uint64_t)included;
  grad = recording;
}
