// A CUDA driver of host memory, for testing the binding: cuda.h checks our idea of every signature, enumerator and structure.
// One kernel, `axpy(u64 p, u32 n, f32 x)`: adds x to n floats at p. An image that contains "broken" is rejected with a log.
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int token[8];
#define CTX ((CUcontext)&token[0])
#define MODULE ((CUmodule)&token[1])
#define FUNCTION ((CUfunction)&token[2])
#define STREAM ((CUstream)&token[3])
static int dynamic_smem_limit, non_portable;

CUresult cuInit(unsigned flags) { return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }
CUresult cuDriverGetVersion(int *v) { *v = 13000; return 0; }
CUresult cuDeviceGetCount(int *n) { *n = 1; return 0; }
CUresult cuDeviceGet(CUdevice *d, int ordinal) { *d = 7; return ordinal == 0 ? 0 : CUDA_ERROR_INVALID_DEVICE; }
CUresult cuDeviceGetName(char *name, int size, CUdevice d) { return snprintf(name, size, "Host H%d", d) < 0; }
CUresult cuDeviceTotalMem(size_t *bytes, CUdevice d) { *bytes = 150000000000ull; return d != 7; }
CUresult cuDeviceGetAttribute(int *v, CUdevice_attribute a, CUdevice d) {
  switch (a) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *v = 1024; return 0;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X: *v = 1024; return 0;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: *v = 1024; return 0;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: *v = 64; return 0;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: *v = 2147483647; return 0;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y: *v = 65535; return 0;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: *v = 65535; return 0;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *v = 49152; return 0;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *v = 232448; return 0;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *v = 132; return 0;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *v = 1980000; return 0;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *v = 2619000; return 0;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *v = 5120; return 0;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *v = 52428800; return 0;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *v = 9; return 0;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *v = 0; return 0;
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH: *v = 1; return 0;
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH: *v = 1; return 0;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) { *c = CTX; return d != 7; }
CUresult cuDevicePrimaryCtxRelease(CUdevice d) { return d != 7; }
CUresult cuCtxSetCurrent(CUcontext c) { return c == CTX || c == NULL ? 0 : CUDA_ERROR_INVALID_CONTEXT; }

CUresult cuModuleLoadDataEx(CUmodule *m, const void *image, unsigned n, CUjit_option *options, void **values) {
  char *info = NULL, *error = NULL;
  size_t info_size = 0, error_size = 0;
  int verbose = 0;
  for (unsigned i = 0; i < n; i++) switch (options[i]) {
    case CU_JIT_INFO_LOG_BUFFER: info = values[i]; break;
    case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES: info_size = (size_t)values[i]; break;
    case CU_JIT_ERROR_LOG_BUFFER: error = values[i]; break;
    case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: error_size = (size_t)values[i]; break;
    case CU_JIT_LOG_VERBOSE: verbose = (int)(size_t)values[i]; break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  if (!info || !error || info_size < 1024 || error_size < 1024 || verbose != 1) return CUDA_ERROR_INVALID_VALUE;
  if (strstr(image, "broken")) {
    snprintf(error, error_size, "ptxas application ptx input, line 3; fatal : Parsing error near 'broken'");
    return CUDA_ERROR_INVALID_PTX;
  }
  snprintf(info, info_size, "ptxas info : Used 8 registers; image of %zu bytes", strlen(image));
  *m = MODULE;
  return 0;
}
CUresult cuModuleUnload(CUmodule m) { return m == MODULE ? 0 : CUDA_ERROR_INVALID_HANDLE; }
CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) {
  *f = FUNCTION;
  return m != MODULE ? CUDA_ERROR_INVALID_HANDLE : strcmp(name, "axpy") ? CUDA_ERROR_NOT_FOUND : 0;
}
CUresult cuFuncGetAttribute(int *v, CUfunction_attribute a, CUfunction f) {
  switch (a) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *v = 1024; break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *v = 16; break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *v = 0; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *v = 8; break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: *v = 80; break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *v = 90; break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return f == FUNCTION ? 0 : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int v) {
  if (f != FUNCTION) return CUDA_ERROR_INVALID_HANDLE;
  if (a == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) dynamic_smem_limit = v;
  else if (a == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) non_portable = v;
  else return CUDA_ERROR_INVALID_VALUE;
  return 0;
}

CUresult cuMemGetInfo(size_t *f, size_t *t) { *f = 140000000000ull; *t = 150000000000ull; return 0; }
CUresult cuMemAlloc(CUdeviceptr *p, size_t n) {
  if (n > (1u << 30)) return CUDA_ERROR_OUT_OF_MEMORY;
  *p = (CUdeviceptr)aligned_alloc(256, (n + 255) / 256 * 256);
  return 0;
}
CUresult cuMemFree(CUdeviceptr p) { free((void *)p); return 0; }
CUresult cuMemcpyHtoD(CUdeviceptr p, const void *s, size_t n) { memcpy((void *)p, s, n); return 0; }
CUresult cuMemcpyDtoH(void *t, CUdeviceptr p, size_t n) { memcpy(t, (void *)p, n); return 0; }
CUresult cuMemsetD8(CUdeviceptr p, unsigned char v, size_t n) { memset((void *)p, v, n); return 0; }

CUresult cuStreamCreate(CUstream *s, unsigned flags) { *s = STREAM; return flags != CU_STREAM_DEFAULT; }
CUresult cuStreamDestroy(CUstream s) { return s == STREAM ? 0 : CUDA_ERROR_INVALID_HANDLE; }
CUresult cuStreamSynchronize(CUstream s) { return s == STREAM ? 0 : CUDA_ERROR_INVALID_HANDLE; }
CUresult cuEventCreate(CUevent *e, unsigned flags) {
  static int next = 4;
  *e = (CUevent)&token[next++ & 7];
  return flags != CU_EVENT_DEFAULT;
}
CUresult cuEventDestroy(CUevent e) { return e == NULL; }
CUresult cuEventRecord(CUevent e, CUstream s) { return e != NULL && s == STREAM ? 0 : CUDA_ERROR_INVALID_HANDLE; }
CUresult cuEventSynchronize(CUevent e) { return e == NULL; }
// Only the old name, which a driver before CUDA 12.8 has: the binding must fall back to it.
#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b) { *ms = 1.5f; return a == b; }

CUresult cuGetErrorName(CUresult e, const char **s) {
  *s = e == CUDA_ERROR_INVALID_PTX ? "CUDA_ERROR_INVALID_PTX" : NULL;
  return *s ? 0 : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGetErrorString(CUresult e, const char **s) {
  *s = e == CUDA_ERROR_INVALID_PTX ? "a PTX JIT compilation failed" : NULL;
  return *s ? 0 : CUDA_ERROR_INVALID_VALUE;
}

// Grid 2x3x1 blocks of 32x2x1; above 48 KB only after the opt-in; a cluster, if any, must be 2x3x1; cooperative iff n is odd.
CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params, void **extra) {
  if (f != FUNCTION || c->hStream != STREAM || extra != NULL) return CUDA_ERROR_INVALID_HANDLE;
  if (c->gridDimX != 2 || c->gridDimY != 3 || c->gridDimZ != 1) return CUDA_ERROR_INVALID_VALUE;
  if (c->blockDimX != 32 || c->blockDimY != 2 || c->blockDimZ != 1) return CUDA_ERROR_INVALID_VALUE;
  if (c->sharedMemBytes > 49152 && (int)c->sharedMemBytes > dynamic_smem_limit) return CUDA_ERROR_INVALID_VALUE;
  int cooperative = 0;
  for (unsigned i = 0; i < c->numAttrs; i++) {
    const CUlaunchAttribute *a = &c->attrs[i];
    if (a->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      if (a->value.clusterDim.x != 2 || a->value.clusterDim.y != 3 || a->value.clusterDim.z != 1) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    } else if (a->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) cooperative = a->value.cooperative;
    else return CUDA_ERROR_INVALID_VALUE;
  }
  float *p = *(float **)params[0];
  unsigned n = *(unsigned *)params[1];
  float x = *(float *)params[2];
  if (cooperative != (int)(n & 1)) return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  for (unsigned i = 0; i < n; i++) p[i] += x;
  return 0;
}
