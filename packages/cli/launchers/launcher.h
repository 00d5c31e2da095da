/*
 * Kernel library LIB, made by tilewright @VERSION@. Generated: do not edit.
 *
 *   LIB_library lib;
 *   LIB_args args;
 *   LIB_open(&lib, "folder of this file", 0);
 *   LIB_@FIRST@_defaults(&args, m, n, k);
 *   args.a = ...; args.b = ...; args.d = ...;      addresses, or with what is known of them, checked:
 *   LIB_@FIRST@_take(&lib, &args, "a", LIB_matrix(address, LIB_F16, m, k));
 *   if (LIB_@FIRST@(&lib, &args, stream) != LIB_OK) puts(LIB_last_error(&lib));
 *   LIB_close(&lib);
 *
 * C99 or C++11 (LIB.hpp is made for C++); link with -ldl where dlopen is not in libc. No CUDA header or library is needed.
 * All functions are static, unless LIB_LINKAGE is defined (as nothing): LIB.c does so for hosts that want symbols.
 */
#ifndef LIB_TILEWRIGHT_H
#define LIB_TILEWRIGHT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif
#ifndef LIB_LINKAGE
#define LIB_LINKAGE static inline
#endif

/* @LIMITS@ */

/* Address in device memory: a CUdeviceptr. */
typedef uint64_t LIB_pointer;
/* A CUstream; 0 is the default stream. */
typedef void *LIB_stream;

/* What functions return: 0, one of these, or a CUresult, which is positive. LIB_last_error says more. */
enum {
  LIB_OK = 0,
  LIB_NO_KERNEL = -1,    /* no kernel of the library serves these arguments on this GPU */
  LIB_BAD_ARGUMENT = -2, /* an operand is missing, not what the kernels take, or not aligned; or the workspace is too small */
  LIB_NO_FILE = -3,      /* an image cannot be read */
  LIB_NO_DRIVER = -4     /* no libcuda, or one without a function that is needed */
};

/* Types of elements; 0 is not known. */
enum { LIB_F16 = 1, LIB_BF16, LIB_F32, LIB_F64, LIB_S8, LIB_U8, LIB_S32, LIB_E4M3, LIB_E5M2 };

/* Device memory with what is known of it, as DLPack has it. Strides are in elements; of a batch the first dimension counts matrices. */
typedef struct LIB_tensor {
  LIB_pointer data;
  int dtype, device; /* a LIB_F16 ..., the GPU's number or -1 where it is not known */
  int rank;
  int64_t shape[3], stride[3];
} LIB_tensor;

/* Arguments of every operation: set them with LIB_OPERATION_defaults, then change what differs. */
typedef struct LIB_args {
  int64_t m, n, k, batch;
  int64_t lda, ldb, ldc, ldd;                   /* elements */
  int64_t strideA, strideB, strideC, strideD;   /* elements between matrices of a batch */
  LIB_pointer a, b, c, d;
  LIB_pointer epilogue[LIB_STEPS];              /* what step i of the epilogue reads or writes */
  double alpha, beta;
  double scale[LIB_STEPS];                      /* the number of step i, where it takes one */
  /* Optional. Without it every launch allocates on its stream. Zero it before its first use, and when another operation or other sizes
     come to use it; one launch at a time may do so. */
  LIB_pointer workspace;
  uint64_t workspace_bytes;
} LIB_args;

/* Bytes of the widest parameter, a CUtensorMap, which the driver wants aligned to 64. */
#define LIB_PARAM_BYTES 128
/* Launches that a library keeps ready, by operation, sizes and numbers: of one that comes back only addresses are written. */
#define LIB_KEPT 32
/* What a launch may take without opting in (CUDA programming guide, technical specifications). */
#define LIB_PLAIN_SMEM (48 * 1024)
#define LIB_PORTABLE_CLUSTER 8
/* Bytes that an address of a tensor map is aligned to (cuTensorMapEncodeTiled). */
#define LIB_MAP_ALIGN 16

/* What an operation takes in one place. Extents are 'm', 'n', 'k', or 0; members of LIB_args go by their offsets, 0 for none. */
typedef struct LIB_operand {
  const char *name, *label;
  int dtype;
  char outer, inner; /* of a matrix as it lies in memory; a vector has an inner one only */
  int column_major;
  int64_t ld; /* of a matrix of the epilogue, which has no argument for it: a number, or 0 where it is packed */
  size_t pointer, ld_at, stride_at;
} LIB_operand;

typedef struct LIB_operation {
  const char *name;
  const int *artefacts; /* in the order in which they are tried */
  int artefact_count;
  const LIB_operand *operands;
  int operand_count;
} LIB_operation;

typedef struct LIB_kernel {
  const char *entry;
  uint32_t block[3], cluster[3], dynamic_smem;
  int cooperative;
} LIB_kernel;

typedef struct LIB_launch {
  uint32_t grid[3];
  int params, workspace_param;
  unsigned char (*param)[LIB_PARAM_BYTES]; /* aligned to 64 */
} LIB_launch;

/* A parameter that holds an address, or a tensor map over one. */
typedef struct LIB_patch {
  unsigned char *place;
  const char *name;
  size_t pointer; /* of its address in LIB_args */
  uint64_t align;
  int map;
} LIB_patch;

/* One launch of an artefact: all its kernels. zero: 0 the workspace may hold anything, 1 zero at first, 2 zero before every launch. */
typedef struct LIB_plan {
  const LIB_operation *operation; /* 0 while it is being made */
  LIB_args args;                  /* whose numbers it was made for, and whose addresses it holds */
  int artefact, zero, launches, patches;
  int64_t workspace;
  LIB_launch launch[LIB_KERNELS];
  LIB_patch patch[LIB_KERNELS * LIB_PARAMS];
  unsigned char memory[LIB_KERNELS * LIB_PARAMS * LIB_PARAM_BYTES + 64];
} LIB_plan;

/* CUlaunchAttribute and CUlaunchConfig of cuda.h. */
typedef struct LIB_attribute {
  uint32_t id, pad;
  uint32_t value[16];
} LIB_attribute;
typedef struct LIB_config {
  uint32_t grid[3], block[3], dynamic_smem;
  LIB_stream stream;
  LIB_attribute *attributes;
  uint32_t count;
} LIB_config;

typedef struct LIB_library {
  void *driver;
  int (*cuInit)(unsigned);
  int (*cuDeviceGet)(int *, int);
  int (*cuDeviceGetAttribute)(int *, int, int);
  int (*cuDevicePrimaryCtxRetain)(void **, int);
  int (*cuDevicePrimaryCtxRelease)(int);
  int (*cuCtxGetCurrent)(void **);
  int (*cuCtxSetCurrent)(void *);
  int (*cuCtxGetDevice)(int *);
  int (*cuModuleLoadData)(void **, const void *);
  int (*cuModuleUnload)(void *);
  int (*cuModuleGetFunction)(void **, void *, const char *);
  int (*cuFuncSetAttribute)(void *, int, int);
  int (*cuLaunchKernelEx)(const LIB_config *, void *, void **, void **);
  int (*cuMemAllocAsync)(uint64_t *, size_t, LIB_stream);
  int (*cuMemFreeAsync)(uint64_t, LIB_stream);
  int (*cuMemsetD8Async)(uint64_t, unsigned char, size_t, LIB_stream);
  int (*cuTensorMapEncodeTiled)(void *, int, uint32_t, void *, const uint64_t *, const uint64_t *, const uint32_t *,
                                const uint32_t *, int, int, int, int);
  int (*cuTensorMapReplaceAddress)(void *, void *);
  int (*cuPointerGetAttribute)(void *, int, uint64_t);
  int (*cuGetErrorString)(int, const char **);
  int device, retained, major, minor, sms;
  char folder[1024];
  char message[2048]; /* of which a path may take 1536 */
  void *module[LIB_ARTEFACTS];
  void *function[LIB_ARTEFACTS][LIB_KERNELS];
  LIB_plan *plan[LIB_KEPT];
  int latest; /* number of the plan that was used last */
} LIB_library;

/* What went wrong last, for people. */
LIB_LINKAGE const char *LIB_last_error(const LIB_library *lib) { return lib->message; }

static inline int LIB_fail(LIB_library *lib, int status, const char *what, const char *detail) {
  snprintf(lib->message, sizeof lib->message, "%s%s%s", what, *detail ? ": " : "", detail);
  return status;
}

static inline int LIB_cuda(LIB_library *lib, int status, const char *what) {
  const char *text = 0;
  if (status == 0) return 0;
  if (lib->cuGetErrorString) lib->cuGetErrorString(status, &text);
  return LIB_fail(lib, status, what, text ? text : "CUDA error");
}

#define LIB_TRY(expression, what)                          \
  do {                                                     \
    int status_ = LIB_cuda(lib, (expression), what);       \
    if (status_ != 0) return status_;                      \
  } while (0)

static inline int LIB_find(LIB_library *lib, void **place, const char *name, int needed) {
#ifdef _WIN32
  void *found = (void *)GetProcAddress((HMODULE)lib->driver, name);
#else
  void *found = dlsym(lib->driver, name);
#endif
  memcpy(place, &found, sizeof found);
  return found || !needed ? LIB_OK : LIB_fail(lib, LIB_NO_DRIVER, "the driver lacks a function", name);
}

/*
 * Opens the library that lies in folder, for GPU number device; -1 is the GPU of the current context.
 * With a number, the primary context of that GPU becomes the current one, which is also that of the CUDA runtime.
 * A LIB_library serves one thread at a time; kernels are loaded at their first launch.
 */
LIB_LINKAGE int LIB_open(LIB_library *lib, const char *folder, int device) {
  void *context = 0;
  memset(lib, 0, sizeof *lib);
  if (strlen(folder) >= sizeof lib->folder) return LIB_fail(lib, LIB_NO_FILE, "the folder's name is too long", folder);
  strcpy(lib->folder, folder);
#ifdef _WIN32
  lib->driver = (void *)LoadLibraryA("nvcuda.dll");
#else
  lib->driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
#endif
  if (!lib->driver) return LIB_fail(lib, LIB_NO_DRIVER, "no NVIDIA driver", "libcuda cannot be loaded");
  {
    struct {
      void *place;
      const char *name;
      int needed;
    } wanted[] = {
        {&lib->cuInit, "cuInit", 1},
        {&lib->cuDeviceGet, "cuDeviceGet", 1},
        {&lib->cuDeviceGetAttribute, "cuDeviceGetAttribute", 1},
        {&lib->cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 1},
        {&lib->cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", 1},
        {&lib->cuCtxGetCurrent, "cuCtxGetCurrent", 1},
        {&lib->cuCtxSetCurrent, "cuCtxSetCurrent", 1},
        {&lib->cuCtxGetDevice, "cuCtxGetDevice", 1},
        {&lib->cuModuleLoadData, "cuModuleLoadData", 1},
        {&lib->cuModuleUnload, "cuModuleUnload", 1},
        {&lib->cuModuleGetFunction, "cuModuleGetFunction", 1},
        {&lib->cuFuncSetAttribute, "cuFuncSetAttribute", 1},
        {&lib->cuLaunchKernelEx, "cuLaunchKernelEx", 1},
        {&lib->cuMemAllocAsync, "cuMemAllocAsync", 0},
        {&lib->cuMemFreeAsync, "cuMemFreeAsync", 0},
        {&lib->cuMemsetD8Async, "cuMemsetD8Async", 1},
        {&lib->cuTensorMapEncodeTiled, "cuTensorMapEncodeTiled", 0},
        {&lib->cuTensorMapReplaceAddress, "cuTensorMapReplaceAddress", 0},
        {&lib->cuPointerGetAttribute, "cuPointerGetAttribute", 0},
        {&lib->cuGetErrorString, "cuGetErrorString", 0},
    };
    size_t i;
    for (i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
      int status = LIB_find(lib, (void **)wanted[i].place, wanted[i].name, wanted[i].needed);
      if (status != LIB_OK) return status;
    }
  }
  LIB_TRY(lib->cuInit(0), "cuInit");
  if (device < 0) {
    LIB_TRY(lib->cuCtxGetCurrent(&context), "cuCtxGetCurrent");
    if (!context) return LIB_fail(lib, LIB_BAD_ARGUMENT, "there is no current context", "name a GPU instead of -1");
    LIB_TRY(lib->cuCtxGetDevice(&lib->device), "cuCtxGetDevice");
  } else {
    LIB_TRY(lib->cuDeviceGet(&lib->device, device), "cuDeviceGet");
    LIB_TRY(lib->cuDevicePrimaryCtxRetain(&context, lib->device), "cuDevicePrimaryCtxRetain");
    lib->retained = 1;
    LIB_TRY(lib->cuCtxSetCurrent(context), "cuCtxSetCurrent");
  }
  /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR, _MULTIPROCESSOR_COUNT */
  LIB_TRY(lib->cuDeviceGetAttribute(&lib->major, 75, lib->device), "cuDeviceGetAttribute");
  LIB_TRY(lib->cuDeviceGetAttribute(&lib->minor, 76, lib->device), "cuDeviceGetAttribute");
  LIB_TRY(lib->cuDeviceGetAttribute(&lib->sms, 16, lib->device), "cuDeviceGetAttribute");
  return LIB_OK;
}

/* Unloads the kernels and gives the context back. The streams that they were launched on must have come past. */
LIB_LINKAGE void LIB_close(LIB_library *lib) {
  int i;
  for (i = 0; i < LIB_ARTEFACTS; i++)
    if (lib->module[i]) lib->cuModuleUnload(lib->module[i]);
  for (i = 0; i < LIB_KEPT; i++) free(lib->plan[i]);
  if (lib->retained) lib->cuDevicePrimaryCtxRelease(lib->device);
#ifdef _WIN32
  if (lib->driver) FreeLibrary((HMODULE)lib->driver);
#else
  if (lib->driver) dlclose(lib->driver);
#endif
  memset(lib, 0, sizeof *lib);
}

/* A library in memory of its own, for hosts that do not know its size; 0 where there is no memory. Open it, and give it to LIB_delete at last. */
LIB_LINKAGE LIB_library *LIB_new(void) { return (LIB_library *)calloc(1, sizeof(LIB_library)); }
LIB_LINKAGE void LIB_delete(LIB_library *lib) {
  if (lib->driver) LIB_close(lib);
  free(lib);
}

/* A row-major matrix without padding, and a vector, on a GPU that is not told. */
LIB_LINKAGE LIB_tensor LIB_matrix(LIB_pointer data, int dtype, int64_t rows, int64_t columns) {
  LIB_tensor made = {data, dtype, -1, 2, {rows, columns, 0}, {columns, 1, 0}};
  return made;
}
LIB_LINKAGE LIB_tensor LIB_vector(LIB_pointer data, int dtype, int64_t length) {
  LIB_tensor made = {data, dtype, -1, 1, {length, 0, 0}, {1, 0, 0}};
  return made;
}

static inline const char *LIB_dtype_name(int dtype) {
  static const char *const names[] = {"of no known type", "f16", "bf16", "f32", "f64", "s8", "u8", "s32", "e4m3", "e5m2"};
  return names[dtype >= 0 && dtype <= LIB_E5M2 ? dtype : 0];
}
static inline int64_t LIB_dtype_bytes(int dtype) {
  static const char bytes[] = {1, 2, 2, 4, 8, 1, 1, 4, 1, 1};
  return bytes[dtype >= 0 && dtype <= LIB_E5M2 ? dtype : 0];
}

static inline int64_t *LIB_size_at(LIB_args *args, size_t at) { return (int64_t *)(void *)((char *)args + at); }
static inline int64_t LIB_size_of(const LIB_args *args, size_t at) { return *(const int64_t *)(const void *)((const char *)args + at); }
static inline LIB_pointer LIB_pointer_of(const LIB_args *args, size_t at) {
  return *(const LIB_pointer *)(const void *)((const char *)args + at);
}
static inline int64_t LIB_extent(const LIB_args *args, char name) {
  return name == 'm' ? args->m : name == 'n' ? args->n : name == 'k' ? args->k : 1;
}

/*
 * Sets an operand of an operation to a tensor ("a", "b", "c", "d", "epilogueI", or its label), its leading dimension and the distance between
 * matrices of a batch from its strides. LIB_BAD_ARGUMENT where the kernels take another dtype, GPU, shape or strides. A matrix in columns is
 * given as it lies in memory, its rows being those columns, or as the transposed view.
 */
static inline int LIB_take(LIB_library *lib, const LIB_operation *operation, LIB_args *args, const char *name, LIB_tensor tensor) {
  const LIB_operand *o = 0;
  int64_t wanted[2], shape[2], stride[2], ld;
  int i, lead, batched;
  for (i = 0; i < operation->operand_count; i++)
    if (strcmp(operation->operands[i].name, name) == 0 || strcmp(operation->operands[i].label, name) == 0) o = &operation->operands[i];
  if (!o) return LIB_fail(lib, LIB_BAD_ARGUMENT, operation->name, "it has no such operand");
#define LIB_REFUSE(...) \
  return snprintf(lib->message, sizeof lib->message, __VA_ARGS__), LIB_BAD_ARGUMENT
  if (tensor.dtype != o->dtype)
    LIB_REFUSE("%s: %s is %s, and the kernels take %s", operation->name, o->label, LIB_dtype_name(tensor.dtype), LIB_dtype_name(o->dtype));
  if (tensor.device >= 0 && tensor.device != lib->device)
    LIB_REFUSE("%s: %s is on GPU %d, and the library was opened for GPU %d", operation->name, o->label, tensor.device, lib->device);
  wanted[0] = LIB_extent(args, o->outer);
  wanted[1] = LIB_extent(args, o->inner);
  batched = o->outer && tensor.rank == 3;
  lead = batched ? 1 : 0;
  if (o->outer == 0 ? tensor.rank > 1 : tensor.rank - lead != 2)
    LIB_REFUSE("%s: %s has %d dimensions", operation->name, o->label, tensor.rank);
  if (o->outer && (batched ? tensor.shape[0] : 1) != args->batch)
    LIB_REFUSE("%s: %s has %lld matrices, and batch is %lld", operation->name, o->label, (long long)(batched ? tensor.shape[0] : 1),
               (long long)args->batch);
  shape[0] = o->outer ? tensor.shape[lead] : 1;
  stride[0] = o->outer ? tensor.stride[lead] : 0;
  shape[1] = tensor.rank == 0 ? 1 : tensor.shape[tensor.rank - 1];
  stride[1] = tensor.rank == 0 ? 1 : tensor.stride[tensor.rank - 1];
  if (o->column_major && shape[0] == wanted[1] && shape[1] == wanted[0] && stride[0] == 1 && !(shape[0] == shape[1] && stride[1] == 1)) {
    int64_t extent = shape[0], step = stride[0];
    shape[0] = shape[1], stride[0] = stride[1];
    shape[1] = extent, stride[1] = step;
  }
  if (shape[0] != wanted[0] || shape[1] != wanted[1])
    LIB_REFUSE("%s: %s has shape [%lld, %lld], and the kernels take %c%s%c = [%lld, %lld]", operation->name, o->label, (long long)shape[0],
               (long long)shape[1], o->outer ? o->outer : '1', ", ", o->inner ? o->inner : '1', (long long)wanted[0], (long long)wanted[1]);
  if (wanted[1] > 1 && stride[1] != 1)
    LIB_REFUSE("%s: %s has strides [%lld, %lld], and the kernels take %c contiguous (stride 1, not %lld)", operation->name, o->label,
               (long long)stride[0], (long long)stride[1], o->inner, (long long)stride[1]);
  ld = wanted[0] > 1 ? stride[0] : wanted[1];
  if (o->outer && ld < wanted[1])
    LIB_REFUSE("%s: %s has strides [%lld, %lld], so that its rows of %lld overlap", operation->name, o->label, (long long)stride[0],
               (long long)stride[1], (long long)wanted[1]);
  if (o->outer && !o->ld_at && wanted[0] > 1 && ld != (o->ld ? o->ld : wanted[1]))
    LIB_REFUSE("%s: %s has strides [%lld, %lld], and its kernels were made for a leading dimension of %lld", operation->name, o->label,
               (long long)stride[0], (long long)stride[1], (long long)(o->ld ? o->ld : wanted[1]));
#undef LIB_REFUSE
  if (o->ld_at && wanted[0] > 1) *LIB_size_at(args, o->ld_at) = ld;
  if (o->stride_at && batched && args->batch > 1) *LIB_size_at(args, o->stride_at) = tensor.stride[0];
  memcpy((char *)args + o->pointer, &tensor.data, sizeof tensor.data);
  return LIB_OK;
}

/* Bytes from an operand's address to its end. */
static inline int64_t LIB_reach(const LIB_args *args, const LIB_operand *o) {
  int64_t outer = LIB_extent(args, o->outer), inner = LIB_extent(args, o->inner);
  int64_t ld = o->ld_at ? LIB_size_of(args, o->ld_at) : o->ld ? o->ld : inner;
  int64_t between = o->stride_at ? LIB_size_of(args, o->stride_at) : o->outer ? ld * outer : 0;
  return ((args->batch - 1) * between + (outer - 1) * ld + inner) * LIB_dtype_bytes(o->dtype);
}

/* LIB_BAD_ARGUMENT for an address that the driver does not know, that is on another GPU, or too near to the end of its allocation. */
static inline int LIB_check_address(LIB_library *lib, const LIB_operation *operation, const LIB_args *args, const LIB_operand *o) {
  LIB_pointer address = LIB_pointer_of(args, o->pointer);
  uint64_t begin = 0, bytes = 0;
  unsigned kind = 0;
  int ordinal = lib->device, told;
  if (!lib->cuPointerGetAttribute || address == 0) return LIB_OK;
  /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE, of which 2 is CU_MEMORYTYPE_DEVICE; _DEVICE_ORDINAL, _RANGE_START_ADDR, _RANGE_SIZE */
  told = lib->cuPointerGetAttribute(&kind, 2, address) == 0;
  if (!told) {
    snprintf(lib->message, sizeof lib->message, "%s: %s is no memory of a GPU: the driver does not know the address 0x%llx", operation->name,
             o->label, (unsigned long long)address);
    return LIB_BAD_ARGUMENT;
  }
  if (kind == 2 && lib->cuPointerGetAttribute(&ordinal, 9, address) == 0 && ordinal != lib->device) {
    snprintf(lib->message, sizeof lib->message, "%s: %s is on GPU %d, and the library was opened for GPU %d", operation->name, o->label, ordinal,
             lib->device);
    return LIB_BAD_ARGUMENT;
  }
  if (lib->cuPointerGetAttribute(&begin, 11, address) == 0 && lib->cuPointerGetAttribute(&bytes, 12, address) == 0 && bytes > 0 &&
      (int64_t)(begin + bytes - address) < LIB_reach(args, o)) {
    snprintf(lib->message, sizeof lib->message, "%s: %s has %lld bytes to the end of its allocation, and takes %lld", operation->name, o->label,
             (long long)(begin + bytes - address), (long long)LIB_reach(args, o));
    return LIB_BAD_ARGUMENT;
  }
  return LIB_OK;
}

/* rule: 'p' this compute capability and later ones, 'f' of the same major version, 'a' exactly this one. */
static inline int LIB_runs(const LIB_library *lib, char rule, int major, int minor) {
  int later = lib->major > major || (lib->major == major && lib->minor >= minor);
  if (rule == 'p') return later;
  return lib->major == major && (rule == 'f' ? later : lib->minor == minor);
}

static inline int64_t LIB_floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
static inline int64_t LIB_ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0 && (a < 0) == (b < 0)); }
static inline int64_t LIB_floor_mod(int64_t a, int64_t b) { return a - LIB_floor_div(a, b) * b; }
static inline int64_t LIB_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t LIB_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline double LIB_min_real(double a, double b) { return a < b ? a : b; }
static inline double LIB_max_real(double a, double b) { return a > b ? a : b; }

/* The constraint that keeps an artefact from serving the arguments; of several artefacts that of the one that meets most before it. */
typedef struct LIB_why {
  int met;
  const char *text, *name;
  double value;
} LIB_why;

static inline int LIB_unmet(LIB_why *why, int met, const char *text, const char *name, double value) {
  if (met >= why->met) {
    LIB_why found = {met, text, name, value};
    *why = found;
  }
  return 0;
}

static inline int LIB_grid(LIB_library *lib, LIB_launch *launch, int64_t x, int64_t y, int64_t z) {
  if (x < 1 || x > 2147483647 || y < 1 || y > 65535 || z < 1 || z > 65535)
    return LIB_fail(lib, LIB_BAD_ARGUMENT, "no GPU launches such a grid", "");
  launch->grid[0] = (uint32_t)x;
  launch->grid[1] = (uint32_t)y;
  launch->grid[2] = (uint32_t)z;
  return LIB_OK;
}

static inline void LIB_put(LIB_launch *launch, const void *value, size_t size) {
  memcpy(launch->param[launch->params++], value, size);
}

/* Writes an address into its place. On the first time a map is over it already. */
static inline int LIB_write(LIB_library *lib, const LIB_patch *patch, LIB_pointer value) {
  if (value == 0) return LIB_fail(lib, LIB_BAD_ARGUMENT, "an operand is missing", patch->name);
  if (value % patch->align != 0) {
    snprintf(lib->message, sizeof lib->message, "%s is not aligned to %d bytes, as the kernel needs it", patch->name, (int)patch->align);
    return LIB_BAD_ARGUMENT;
  }
  if (patch->map) return LIB_cuda(lib, lib->cuTensorMapReplaceAddress(patch->place, (void *)(uintptr_t)value), patch->name);
  memcpy(patch->place, &value, sizeof value);
  return LIB_OK;
}

static inline int LIB_put_pointer(LIB_library *lib, LIB_plan *plan, LIB_launch *launch, const char *name, size_t pointer, uint64_t align) {
  LIB_patch *patch = &plan->patch[plan->patches++];
  LIB_patch made = {launch->param[launch->params++], name, pointer, align, 0};
  *patch = made;
  return LIB_write(lib, patch, LIB_pointer_of(&plan->args, pointer));
}

/* tune: CUtensorMapDataType, interleave, swizzle, L2 promotion, fill. */
static inline int LIB_put_map(LIB_library *lib, LIB_plan *plan, LIB_launch *launch, const char *name, size_t pointer, uint32_t rank,
                              const uint64_t *dims, const uint64_t *strides, const uint32_t *box, const uint32_t *steps, const int *tune) {
  LIB_pointer base = LIB_pointer_of(&plan->args, pointer);
  LIB_patch made = {launch->param[launch->params++], name, pointer, LIB_MAP_ALIGN, 0};
  int status = LIB_write(lib, &made, base);
  if (status != LIB_OK) return status;
  if (!lib->cuTensorMapEncodeTiled) return LIB_fail(lib, LIB_NO_DRIVER, "the driver lacks a function", "cuTensorMapEncodeTiled");
  LIB_TRY(lib->cuTensorMapEncodeTiled(made.place, tune[0], rank, (void *)(uintptr_t)base, dims, strides, box, steps, tune[1], tune[2], tune[3],
                                      tune[4]),
          name);
  made.map = 1;
  plan->patch[plan->patches++] = made;
  return LIB_OK;
}

/* @TABLES@ */

static inline int LIB_read(LIB_library *lib, const char *path, char **data) {
  char name[1536];
  long size;
  FILE *file;
  snprintf(name, sizeof name, "%s/%s", lib->folder, path);
  file = fopen(name, "rb");
  if (!file) return LIB_fail(lib, LIB_NO_FILE, "an image cannot be read", name);
  fseek(file, 0, SEEK_END);
  size = ftell(file);
  rewind(file);
  *data = size < 0 ? 0 : (char *)calloc((size_t)size + 1, 1); /* a NUL ends PTX */
  if (!*data || fread(*data, 1, (size_t)size, file) != (size_t)size) {
    fclose(file);
    free(*data);
    return LIB_fail(lib, LIB_NO_FILE, "an image cannot be read", name);
  }
  fclose(file);
  return LIB_OK;
}

/* Loads an artefact: the first of its images that this GPU runs and the driver takes. */
static inline int LIB_load(LIB_library *lib, int artefact) {
  int kernels, i;
  const LIB_kernel *kernel = LIB_kernels(artefact, &kernels);
  if (lib->module[artefact]) return LIB_OK;
  for (i = 0;; i++) {
    LIB_image image;
    char *data = 0;
    int status;
    if (!LIB_image_of(artefact, i, &image))
      return LIB_fail(lib, LIB_NO_KERNEL, "no image of the kernel runs on this GPU", kernel[0].entry);
    if (!LIB_runs(lib, image.rule, image.major, image.minor)) continue;
    status = LIB_read(lib, image.path, &data);
    if (status != LIB_OK) return status;
    status = lib->cuModuleLoadData(&lib->module[artefact], data);
    free(data);
    if (status == 0) break;
    lib->module[artefact] = 0;
    /* A driver may be too old for a cubin and still take the PTX. */
    if (!image.cubin) return LIB_cuda(lib, status, image.path);
  }
  for (i = 0; i < kernels; i++) {
    void **function = &lib->function[artefact][i];
    uint32_t blocks = kernel[i].cluster[0] * kernel[i].cluster[1] * kernel[i].cluster[2];
    LIB_TRY(lib->cuModuleGetFunction(function, lib->module[artefact], kernel[i].entry), kernel[i].entry);
    /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, _NON_PORTABLE_CLUSTER_SIZE_ALLOWED */
    if (kernel[i].dynamic_smem > LIB_PLAIN_SMEM)
      LIB_TRY(lib->cuFuncSetAttribute(*function, 8, (int)kernel[i].dynamic_smem), kernel[i].entry);
    if (blocks > LIB_PORTABLE_CLUSTER) LIB_TRY(lib->cuFuncSetAttribute(*function, 14, 1), kernel[i].entry);
  }
  return LIB_OK;
}

static inline int LIB_start(LIB_library *lib, const LIB_kernel *kernel, void *function, LIB_launch *launch, LIB_stream stream) {
  LIB_attribute attributes[2];
  LIB_config config;
  void *params[LIB_PARAMS];
  int i;
  memset(attributes, 0, sizeof attributes);
  memset(&config, 0, sizeof config);
  for (i = 0; i < launch->params; i++) params[i] = launch->param[i];
  for (i = 0; i < 3; i++) {
    config.grid[i] = launch->grid[i];
    config.block[i] = kernel->block[i];
  }
  config.dynamic_smem = kernel->dynamic_smem;
  config.stream = stream;
  config.attributes = attributes;
  if (kernel->cluster[0] * kernel->cluster[1] * kernel->cluster[2] > 1) {
    attributes[config.count].id = 4; /* CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION */
    for (i = 0; i < 3; i++) attributes[config.count].value[i] = kernel->cluster[i];
    config.count++;
  }
  if (kernel->cooperative) {
    attributes[config.count].id = 2; /* CU_LAUNCH_ATTRIBUTE_COOPERATIVE */
    attributes[config.count].value[0] = 1;
    config.count++;
  }
  return LIB_cuda(lib, lib->cuLaunchKernelEx(&config, function, params, 0), kernel->entry);
}

static inline int LIB_run(LIB_library *lib, LIB_plan *plan, const LIB_args *args, LIB_stream stream) {
  LIB_pointer workspace = args->workspace;
  int kernels, i, own = 0, status = LIB_OK;
  const LIB_kernel *kernel = LIB_kernels(plan->artefact, &kernels);
  if (plan->workspace > 0 && workspace == 0) {
    if (!lib->cuMemAllocAsync || !lib->cuMemFreeAsync)
      return LIB_fail(lib, LIB_NO_DRIVER, "this driver cannot allocate on a stream", "give a workspace");
    LIB_TRY(lib->cuMemAllocAsync(&workspace, (size_t)plan->workspace, stream), "workspace");
    own = 1;
  } else if (plan->workspace > 0 && args->workspace_bytes < (uint64_t)plan->workspace) {
    return LIB_fail(lib, LIB_BAD_ARGUMENT, "the workspace is too small", "LIB_OPERATION_workspace says how much it takes");
  }
  if (plan->workspace > 0 && (plan->zero == 2 || (plan->zero == 1 && own)))
    status = LIB_cuda(lib, lib->cuMemsetD8Async(workspace, 0, (size_t)plan->workspace, stream), "workspace");
  for (i = 0; i < plan->launches && status == LIB_OK; i++) {
    LIB_launch *launch = &plan->launch[i];
    if (launch->workspace_param >= 0) memcpy(launch->param[launch->workspace_param], &workspace, sizeof workspace);
    status = LIB_start(lib, &kernel[i], lib->function[plan->artefact][i], launch, stream);
  }
  if (own) {
    int freed = LIB_cuda(lib, lib->cuMemFreeAsync(workspace, stream), "workspace");
    if (status == LIB_OK) status = freed;
  }
  return status;
}

/* The first artefact of the operation that this GPU runs and whose constraints hold; -1 where there is none, and why. */
static inline int LIB_pick(const LIB_library *lib, const LIB_operation *operation, const LIB_args *args, LIB_why *why) {
  int i;
  for (i = 0; i < operation->artefact_count; i++)
    if (LIB_fits(lib, operation->artefacts[i], args, why)) return operation->artefacts[i];
  return -1;
}

static inline int64_t LIB_workspace_of(LIB_library *lib, const LIB_operation *operation, const LIB_args *args) {
  LIB_why why = {0, 0, 0, 0};
  int artefact = LIB_pick(lib, operation, args, &why);
  return artefact < 0 ? 0 : LIB_workspace_bytes(lib, artefact, args);
}

/* Whether a plan was made for an operation with these numbers. */
static inline int LIB_is_for(const LIB_plan *plan, const LIB_operation *operation, const LIB_args *args) {
  return plan && plan->operation == operation && memcmp(&plan->args, args, offsetof(LIB_args, a)) == 0 &&
         memcmp(&plan->args.alpha, &args->alpha, offsetof(LIB_args, workspace) - offsetof(LIB_args, alpha)) == 0;
}

/* Brings a plan's addresses up to date. */
static inline int LIB_point(LIB_library *lib, LIB_plan *plan, const LIB_args *args) {
  const LIB_operation *operation = plan->operation;
  int i, status;
  for (i = 0; i < operation->operand_count; i++) {
    const LIB_operand *o = &operation->operands[i];
    if (LIB_pointer_of(&plan->args, o->pointer) == LIB_pointer_of(args, o->pointer)) continue;
    status = LIB_check_address(lib, operation, args, o);
    if (status != LIB_OK) return status;
  }
  plan->operation = 0; /* until all of them are written */
  for (i = 0; i < plan->patches; i++) {
    LIB_pointer value = LIB_pointer_of(args, plan->patch[i].pointer);
    if (value == LIB_pointer_of(&plan->args, plan->patch[i].pointer)) continue;
    status = LIB_write(lib, &plan->patch[i], value);
    if (status != LIB_OK) return status;
  }
  plan->args = *args;
  plan->operation = operation;
  return LIB_OK;
}

static inline int LIB_no_kernel(LIB_library *lib, const LIB_operation *operation, const LIB_args *args, const LIB_why *why) {
  int length = snprintf(lib->message, sizeof lib->message, "%s has no kernel for m=%lld n=%lld k=%lld batch=%lld on compute capability %d.%d: ",
                        operation->name, (long long)args->m, (long long)args->n, (long long)args->k, (long long)args->batch, lib->major, lib->minor);
  if (why->text)
    snprintf(lib->message + length, sizeof lib->message - (size_t)length, "the nearest wants %s, and %s is %.17g", why->text, why->name, why->value);
  else
    snprintf(lib->message + length, sizeof lib->message - (size_t)length, "its kernels are for other GPUs");
  return LIB_NO_KERNEL;
}

/* Makes a plan in the place of the oldest. */
static inline int LIB_prepare(LIB_library *lib, const LIB_operation *operation, const LIB_args *args, LIB_plan **made) {
  LIB_why why = {0, 0, 0, 0};
  LIB_plan *plan;
  int i, status = LIB_OK, artefact = LIB_pick(lib, operation, args, &why);
  size_t used = 0;
  if (artefact < 0) return LIB_no_kernel(lib, operation, args, &why);
  for (i = 0; i < operation->operand_count && status == LIB_OK; i++) status = LIB_check_address(lib, operation, args, &operation->operands[i]);
  if (status != LIB_OK) return status;
  lib->latest = (lib->latest + 1) % LIB_KEPT;
  plan = lib->plan[lib->latest];
  if (!plan) plan = lib->plan[lib->latest] = (LIB_plan *)malloc(sizeof *plan);
  if (!plan) return LIB_fail(lib, LIB_BAD_ARGUMENT, operation->name, "there is no memory for a launch");
  memset(plan, 0, sizeof *plan);
  plan->args = *args;
  plan->artefact = artefact;
  used = (64 - (uintptr_t)plan->memory % 64) % 64;
  for (i = 0; i < LIB_KERNELS; i++, used += (size_t)LIB_PARAMS * LIB_PARAM_BYTES)
    plan->launch[i].param = (unsigned char(*)[LIB_PARAM_BYTES])(void *)(plan->memory + used);
  status = LIB_make_plan(lib, artefact, args, plan);
  if (status == LIB_OK) status = LIB_load(lib, artefact);
  if (status != LIB_OK) return status;
  plan->operation = operation;
  *made = plan;
  return LIB_OK;
}

static inline int LIB_dispatch(LIB_library *lib, const LIB_operation *operation, const LIB_args *args, LIB_stream stream) {
  int i, status;
  LIB_plan *plan = 0;
  for (i = 0; i < LIB_KEPT && !plan; i++) {
    int at = (lib->latest + LIB_KEPT - i) % LIB_KEPT;
    if (LIB_is_for(lib->plan[at], operation, args)) plan = lib->plan[at];
  }
  /* A driver that cannot write an address into a map encodes the map again. */
  status = plan && lib->cuTensorMapReplaceAddress ? LIB_point(lib, plan, args) : LIB_prepare(lib, operation, args, &plan);
  return status == LIB_OK ? LIB_run(lib, plan, args, stream) : status;
}

/* @OPERATIONS@ */

#ifdef __cplusplus
}
#endif
#endif
