/*
 * Kernel library LIB for C++17, made by tilewright @VERSION@. Generated: do not edit.
 *
 *   LIB::library library("folder of this file");
 *   library.@FIRST@(m, n, k, {{"a", LIB_matrix(a, LIB_F16, m, k)}, {"b", ...}, {"d", ...}}, {}, stream);
 *
 * Tensors are checked as LIB_OPERATION_take says; what does not fit, and what the driver says, is a LIB::error.
 */
#ifndef LIB_TILEWRIGHT_HPP
#define LIB_TILEWRIGHT_HPP

#include "LIB.h"

#include <initializer_list>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace LIB {

/* status() is one of LIB.h's, or a CUresult, which is positive. */
class error : public std::runtime_error {
 public:
  error(int status, const std::string &what) : std::runtime_error(what), status_(status) {}
  int status() const { return status_; }

 private:
  int status_;
};

using tensor = LIB_tensor;
using operands = std::initializer_list<std::pair<const char *, tensor>>;

/* What differs from the operation's defaults. scale: the number of each step of the epilogue that takes one. */
struct numbers {
  int64_t batch = 0; /* 0: the operation's own */
  double alpha = 1, beta = 0;
  bool factors = false; /* whether alpha and beta are given */
  std::map<int, double> scale;
  LIB_pointer workspace = 0;
  uint64_t workspace_bytes = 0;
};

/* One GPU's kernels, for one thread at a time; they are loaded at their first launch. */
class library {
 public:
  explicit library(const std::string &folder, int device = 0) : lib_(new LIB_library()) {
    check(LIB_open(lib_.get(), folder.c_str(), device));
  }
  library(library &&) = default;

#define LIB_OPERATION(name)                                                                                            \
  void name(int64_t m, int64_t n, int64_t k, operands tensors, const numbers &more = {}, LIB_stream stream = nullptr) { \
    LIB_args args = make(LIB_##name##_defaults, LIB_##name##_take, m, n, k, tensors, more);                            \
    check(LIB_##name(lib_.get(), &args, stream));                                                                      \
  }
  /* @METHODS@ */
#undef LIB_OPERATION

 private:
  using defaults_function = void (*)(LIB_args *, int64_t, int64_t, int64_t);
  using take_function = int (*)(LIB_library *, LIB_args *, const char *, LIB_tensor);

  struct close {
    void operator()(LIB_library *lib) const {
      if (lib->driver) LIB_close(lib);
      delete lib;
    }
  };

  void check(int status) const {
    if (status != LIB_OK) throw error(status, LIB_last_error(lib_.get()));
  }

  LIB_args make(defaults_function defaults, take_function take, int64_t m, int64_t n, int64_t k, operands tensors, const numbers &more) {
    LIB_args args;
    defaults(&args, m, n, k);
    if (more.batch != 0) args.batch = more.batch;
    if (more.factors) args.alpha = more.alpha, args.beta = more.beta;
    for (const auto &[step, value] : more.scale) args.scale[step] = value;
    args.workspace = more.workspace;
    args.workspace_bytes = more.workspace_bytes;
    for (const auto &[name, value] : tensors) check(take(lib_.get(), &args, name, value));
    return args;
  }

  std::unique_ptr<LIB_library, close> lib_;
};

}  // namespace LIB

#endif
