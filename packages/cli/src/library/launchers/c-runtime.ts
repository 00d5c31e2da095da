/** The part of a C launcher that does not depend on its kernels. `LIB` stands for the library's name. */

/** Before the tables: types, the driver's functions, opening and closing. Constants of cuda.h carry its names. */
export const cHead = String.raw`#include <stdint.h>
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

/* Address in device memory: a CUdeviceptr. */
typedef uint64_t LIB_pointer;
/* A CUstream; 0 is the default stream. */
typedef void *LIB_stream;

/* What functions return: 0, one of these, or a CUresult, which is positive. LIB_last_error says more. */
enum {
  LIB_OK = 0,
  LIB_NO_KERNEL = -1,    /* no kernel of the library serves these arguments on this GPU */
  LIB_BAD_ARGUMENT = -2, /* an operand is missing or not aligned, or the workspace is too small */
  LIB_NO_FILE = -3,      /* an image cannot be read */
  LIB_NO_DRIVER = -4     /* no libcuda, or one without a function that is needed */
};

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
#if defined(_MSC_VER)
#define LIB_ALIGN64 __declspec(align(64))
#else
#define LIB_ALIGN64 __attribute__((aligned(64)))
#endif

typedef struct LIB_kernel {
  const char *entry;
  uint32_t block[3], cluster[3], dynamic_smem;
  int cooperative;
} LIB_kernel;

typedef struct LIB_launch {
  uint32_t grid[3];
  int params, workspace_param;
  LIB_ALIGN64 unsigned char param[LIB_PARAMS][LIB_PARAM_BYTES];
} LIB_launch;

/* One launch of an artefact: all its kernels. zero: 0 the workspace may hold anything, 1 zero at first, 2 zero before every launch. */
typedef struct LIB_plan {
  int64_t workspace;
  int zero, launches;
  LIB_launch launch[LIB_KERNELS];
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
  int (*cuGetErrorString)(int, const char **);
  int device, retained, major, minor, sms;
  char folder[1024];
  char message[2048]; /* of which a path may take 1536 */
  void *module[LIB_ARTEFACTS];
  void *function[LIB_ARTEFACTS][LIB_KERNELS];
} LIB_library;

/* What went wrong last, for people. */
static inline const char *LIB_last_error(const LIB_library *lib) { return lib->message; }

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
static inline int LIB_open(LIB_library *lib, const char *folder, int device) {
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
static inline void LIB_close(LIB_library *lib) {
  int i;
  for (i = 0; i < LIB_ARTEFACTS; i++)
    if (lib->module[i]) lib->cuModuleUnload(lib->module[i]);
  if (lib->retained) lib->cuDevicePrimaryCtxRelease(lib->device);
#ifdef _WIN32
  if (lib->driver) FreeLibrary((HMODULE)lib->driver);
#else
  if (lib->driver) dlclose(lib->driver);
#endif
  memset(lib, 0, sizeof *lib);
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

static inline int LIB_put_pointer(LIB_library *lib, LIB_launch *launch, const char *name, LIB_pointer value, uint64_t align) {
  if (value == 0) return LIB_fail(lib, LIB_BAD_ARGUMENT, "an operand is missing", name);
  if (value % align != 0) return LIB_fail(lib, LIB_BAD_ARGUMENT, "an operand is not aligned as the kernel needs it", name);
  LIB_put(launch, &value, sizeof value);
  return LIB_OK;
}

/* tune: CUtensorMapDataType, interleave, swizzle, L2 promotion, fill. */
static inline int LIB_put_map(LIB_library *lib, LIB_launch *launch, const char *name, LIB_pointer base, uint32_t rank,
                              const uint64_t *dims, const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
                              const int *tune) {
  if (base == 0) return LIB_fail(lib, LIB_BAD_ARGUMENT, "an operand is missing", name);
  if (!lib->cuTensorMapEncodeTiled) return LIB_fail(lib, LIB_NO_DRIVER, "the driver lacks a function", "cuTensorMapEncodeTiled");
  LIB_TRY(lib->cuTensorMapEncodeTiled(launch->param[launch->params++], tune[0], rank, (void *)(uintptr_t)base, dims, strides,
                                      box, steps, tune[1], tune[2], tune[3], tune[4]),
          name);
  return LIB_OK;
}
`;

/** After the tables: images, launches, dispatch. */
export const cTail = `
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

static inline int LIB_run(LIB_library *lib, int artefact, const LIB_args *args, LIB_stream stream) {
  LIB_plan plan;
  LIB_pointer workspace = args->workspace;
  int kernels, i, own = 0, status;
  const LIB_kernel *kernel = LIB_kernels(artefact, &kernels);
  memset(&plan, 0, sizeof plan);
  status = LIB_make_plan(lib, artefact, args, &plan);
  if (status == LIB_OK) status = LIB_load(lib, artefact);
  if (status != LIB_OK) return status;
  if (plan.workspace > 0 && workspace == 0) {
    if (!lib->cuMemAllocAsync || !lib->cuMemFreeAsync)
      return LIB_fail(lib, LIB_NO_DRIVER, "this driver cannot allocate on a stream", "give a workspace");
    LIB_TRY(lib->cuMemAllocAsync(&workspace, (size_t)plan.workspace, stream), "workspace");
    own = 1;
  } else if (plan.workspace > 0 && args->workspace_bytes < (uint64_t)plan.workspace) {
    return LIB_fail(lib, LIB_BAD_ARGUMENT, "the workspace is too small", "LIB_OPERATION_workspace says how much it takes");
  }
  if (plan.workspace > 0 && (plan.zero == 2 || (plan.zero == 1 && own)))
    status = LIB_cuda(lib, lib->cuMemsetD8Async(workspace, 0, (size_t)plan.workspace, stream), "workspace");
  for (i = 0; i < plan.launches && status == LIB_OK; i++) {
    LIB_launch *launch = &plan.launch[i];
    if (launch->workspace_param >= 0) memcpy(launch->param[launch->workspace_param], &workspace, sizeof workspace);
    status = LIB_start(lib, &kernel[i], lib->function[artefact][i], launch, stream);
  }
  if (own) {
    int freed = LIB_cuda(lib, lib->cuMemFreeAsync(workspace, stream), "workspace");
    if (status == LIB_OK) status = freed;
  }
  return status;
}

/* The first artefact of the list that this GPU runs and whose constraints hold; -1 where there is none. */
static inline int LIB_pick(const LIB_library *lib, const int *artefacts, int count, const LIB_args *args) {
  int i;
  for (i = 0; i < count; i++)
    if (LIB_fits(lib, artefacts[i], args)) return artefacts[i];
  return -1;
}

static inline int64_t LIB_workspace_of(LIB_library *lib, const int *artefacts, int count, const LIB_args *args) {
  int artefact = LIB_pick(lib, artefacts, count, args);
  return artefact < 0 ? 0 : LIB_workspace_bytes(lib, artefact, args);
}

static inline int LIB_dispatch(LIB_library *lib, const char *operation, const int *artefacts, int count, const LIB_args *args,
                               LIB_stream stream) {
  int artefact = LIB_pick(lib, artefacts, count, args);
  if (artefact >= 0) return LIB_run(lib, artefact, args, stream);
  snprintf(lib->message, sizeof lib->message, "%s has no kernel for m=%lld n=%lld k=%lld batch=%lld on compute capability %d.%d", operation,
           (long long)args->m, (long long)args->n, (long long)args->k, (long long)args->batch, lib->major, lib->minor);
  return LIB_NO_KERNEL;
}
`;
