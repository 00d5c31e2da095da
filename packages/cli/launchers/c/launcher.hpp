/*
 * Kernel library LIB for C++17, made by tilewright @VERSION@. Generated: do not edit.
 *
 *   LIB::library library("folder of this file");
 *   library.@FIRST@(@EXTENTS@{{@TAKEN@}, ...}, {}, stream);
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
    LIB_args args;                                                                                                     \
    LIB_##name##_defaults(&args, m, n, k);                                                                             \
    take(args, LIB_##name##_take, tensors, more);                                                                      \
    check(LIB_##name(lib_.get(), &args, stream));                                                                      \
  }
/* Tensors decide the sizes. */
#define LIB_ATTENTION(name)                                                                   \
  void name(operands tensors, const numbers &more = {}, LIB_stream stream = nullptr) {        \
    LIB_args args;                                                                            \
    LIB_##name##_defaults(&args);                                                             \
    take(args, LIB_##name##_take, tensors, more);                                             \
    check(LIB_##name(lib_.get(), &args, stream));                                             \
  }
  /* @METHODS@ */
#undef LIB_OPERATION
#undef LIB_ATTENTION

 private:
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

  void take(LIB_args &args, take_function taken, operands tensors, const numbers &more) {
    if (more.batch != 0) args.batch = more.batch;
    if (more.factors) args.alpha = more.alpha, args.beta = more.beta;
    for (const auto &[step, value] : more.scale) args.scale[step] = value;
    args.workspace = more.workspace;
    args.workspace_bytes = more.workspace_bytes;
    for (const auto &[name, value] : tensors) check(taken(lib_.get(), &args, name, value));
  }

  std::unique_ptr<LIB_library, close> lib_;
};

}  // namespace LIB

#endif
