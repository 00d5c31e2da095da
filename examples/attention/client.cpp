// Attention from C++: a right call and a wrong one, beside numbers computed in double precision.
//
//   tilewright compile --library out --kernels examples/attention/library.json
//   python examples/attention/data.py data
//   c++ -std=c++17 -O2 -I out -o client examples/attention/client.cpp -ldl && ./client out data
#include "heads.hpp"

#include <cmath>
#include <cstdio>
#include <fstream>
#include <vector>

constexpr int64_t BATCH = 2, HEADS = 4, SHARED = 2, QUERIES = 64, KEYS = 128, DIM = 64;

// What the client itself takes from the driver: memory and copies.
template <typename Function>
Function *driver(const char *name) {
  static void *library = dlopen("libcuda.so.1", RTLD_NOW);
  return reinterpret_cast<Function *>(dlsym(library, name));
}
const auto alloc = driver<int(heads_pointer *, size_t)>("cuMemAlloc_v2");
const auto put = driver<int(heads_pointer, const void *, size_t)>("cuMemcpyHtoD_v2");
const auto get = driver<int(void *, heads_pointer, size_t)>("cuMemcpyDtoH_v2");

template <typename T>
std::vector<T> load(const std::string &path, size_t count) {
  std::vector<T> data(count);
  if (!std::ifstream(path, std::ios::binary).read(reinterpret_cast<char *>(data.data()), std::streamsize(count * sizeof(T))))
    throw std::runtime_error(path + " cannot be read; data.py makes it");
  return data;
}

heads::tensor upload(const std::vector<uint16_t> &data, int64_t heads, int64_t rows) {
  heads_pointer at = 0;
  if (alloc(&at, data.size() * 2) != 0 || put(at, data.data(), data.size() * 2) != 0) throw std::runtime_error("no memory on the GPU");
  return heads_heads(at, heads_F16, BATCH, heads, rows, DIM);
}

double half(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double value = exponent == 0 ? std::ldexp(fraction, -24) : exponent == 31 ? NAN : std::ldexp(fraction + 1024, exponent - 25);
  return bits >> 15 ? -value : value;
}

int main(int, char **argv) try {
  heads::library library(argv[1]);
  const std::string data = std::string(argv[2]) + "/";
  const auto read = [&](const char *name, int64_t heads, int64_t rows) {
    return upload(load<uint16_t>(data + name, size_t(BATCH * heads * rows * DIM)), heads, rows);
  };
  const auto want = load<double>(data + "out.f64", size_t(BATCH * HEADS * QUERIES * DIM));
  std::vector<uint16_t> made(want.size(), 0x7fff);
  auto q = read("q.f16", HEADS, QUERIES);
  const auto k = read("k.f16", SHARED, KEYS), v = read("v.f16", SHARED, KEYS), out = upload(made, HEADS, QUERIES);
  // Twice: the second launch is a known one.
  for (int i = 0; i < 2; i++) library.flash({{"q", q}, {"k", k}, {"v", v}, {"out", out}});
  if (get(made.data(), out.data, made.size() * 2) != 0) throw std::runtime_error("the launch failed");
  double error = 0;
  for (size_t i = 0; i < want.size(); i++) {
    const double off = std::fabs(half(made[i]) - want[i]);
    error = std::isnan(off) ? INFINITY : std::fmax(error, off);
  }
  int refused = 0;
  q.shape[2] = QUERIES / 2;
  try {
    library.flash({{"q", q}, {"k", k}, {"v", v}, {"out", out}});
  } catch (const heads::error &wrong) {
    refused = wrong.status();
    std::printf("refused: %s\n", wrong.what());
  }
  std::printf("%zu outputs, largest error %.2g\n", want.size(), error);
  return !(error < 0.004 && refused == heads_NO_KERNEL);
} catch (const std::exception &error) {
  return std::puts(error.what()), 1;
}
