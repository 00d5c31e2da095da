// The C++ header: a right call, and exceptions with the C launcher's words.
#include "mixed.hpp"

#include <cstdio>

int main(int, char **argv) {
  mixed::library library(argv[1]);
  const auto call = [&](int dtype, int64_t k) {
    try {
      library.variable(64, 48, k,
                       {{"a", mixed_matrix(0x10000100, dtype, 64, k)},
                        {"b", mixed_matrix(0x11000000, mixed_BF16, 48, k)},
                        {"d", mixed_matrix(0x12000010, mixed_BF16, 64, 48)},
                        {"bias", mixed_vector(0x13000000, mixed_F32, 48)}});
      std::puts("ok");
    } catch (const mixed::error &error) {
      std::printf("%d %s\n", error.status(), error.what());
    }
  };
  call(mixed_BF16, 32);
  call(mixed_F16, 32);
  call(mixed_BF16, 33);
  for (int64_t queries : {64, 100}) try {
      library.flash({{"q", mixed_heads(0x10000100, mixed_F16, 2, 4, queries, 32)},
                     {"k", mixed_heads(0x11000000, mixed_F16, 2, 2, 64, 32)},
                     {"v", mixed_heads(0x12000000, mixed_F16, 2, 2, 64, 32)},
                     {"out", mixed_heads(0x13000000, mixed_F16, 2, 4, queries, 32)}});
      std::puts("ok");
    } catch (const mixed::error &error) {
      std::printf("%d %s\n", error.status(), error.what());
    }
  try {
    mixed::library missing(argv[1], 7);
  } catch (const mixed::error &error) {
    std::printf("%d %s\n", error.status(), error.what());
  }
}
