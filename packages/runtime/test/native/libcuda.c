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
CUresult cuDeviceGetPCIBusId(char *id, int size, CUdevice d) {
  if (size < 13 || d != 7) return CUDA_ERROR_INVALID_DEVICE;
  strcpy(id, "0000:17:00.0");
  return 0;
}
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
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: *v = 2048; return 0;
    case CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE: *v = 3000; return 0;
    case CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE: *v = 4000; return 0;
    case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED: *v = 1; return 0;
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
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: *v = 24; break;
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
  int cooperative = 0, programmatic = 0, priority = 0, window = 0;
  for (unsigned i = 0; i < c->numAttrs; i++) {
    const CUlaunchAttribute *a = &c->attrs[i];
    if (a->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      if (a->value.clusterDim.x != 2 || a->value.clusterDim.y != 3 || a->value.clusterDim.z != 1) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    } else if (a->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) cooperative = a->value.cooperative;
    else if (a->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) programmatic = a->value.programmaticStreamSerializationAllowed;
    else if (a->id == CU_LAUNCH_ATTRIBUTE_PRIORITY) priority = a->value.priority;
    else if (a->id == CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION) {
      if (a->value.preferredClusterDim.x != 2 || a->value.preferredClusterDim.y != 3 || a->value.preferredClusterDim.z != 1) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    } else if (a->id == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW) {
      const CUaccessPolicyWindow *w = &a->value.accessPolicyWindow;
      if (w->num_bytes != 64 || w->hitRatio != 0.5f || w->hitProp != CU_ACCESS_PROPERTY_PERSISTING || w->missProp != CU_ACCESS_PROPERTY_STREAMING || w->base_ptr != *(void **)params[0]) return CUDA_ERROR_INVALID_VALUE;
      window = 1;
    }
    else return CUDA_ERROR_INVALID_VALUE;
  }
  float *p = *(float **)params[0];
  unsigned n = *(unsigned *)params[1];
  float x = *(float *)params[2];
  if (cooperative != (int)(n & 1)) return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  // With a window, all the other attributes too.
  if (window && (!programmatic || priority != -3)) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < n; i++) p[i] += x;
  return 0;
}

// What runs beside other work elsewhere runs at once here; sizes and places are checked by what arrives.
CUresult cuMemcpyDtoD(CUdeviceptr t, CUdeviceptr p, size_t n) { memmove((void *)t, (void *)p, n); return 0; }
static void *registered;
CUresult cuMemHostRegister(void *p, size_t n, unsigned flags) {
  if ((size_t)p % 4096 || n % 4096 || flags) return CUDA_ERROR_INVALID_VALUE;
  if (registered) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  registered = p;
  return 0;
}
CUresult cuMemHostUnregister(void *p) {
  if (p != registered) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  registered = NULL;
  return 0;
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr p, const void *s, size_t n, CUstream q) { memcpy((void *)p, s, n); return q != STREAM; }
CUresult cuMemcpyDtoHAsync(void *t, CUdeviceptr p, size_t n, CUstream q) { memcpy(t, (void *)p, n); return q != STREAM; }
CUresult cuMemcpyDtoDAsync(CUdeviceptr t, CUdeviceptr p, size_t n, CUstream q) { memcpy((void *)t, (void *)p, n); return q != STREAM; }
CUresult cuMemcpyPeerAsync(CUdeviceptr t, CUcontext tc, CUdeviceptr p, CUcontext pc, size_t n, CUstream q) {
  memcpy((void *)t, (void *)p, n);
  return tc != CTX || pc != CTX || q != STREAM;
}
CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char v, size_t n, CUstream q) { memset((void *)p, v, n); return q != STREAM; }
CUresult cuDeviceCanAccessPeer(int *can, CUdevice d, CUdevice peer) { *can = d == 7 && peer == 8; return 0; }
CUresult cuCtxEnablePeerAccess(CUcontext c, unsigned flags) { return c != CTX || flags ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED; }
CUresult cuCtxSetLimit(CUlimit l, size_t v) { return l == CU_LIMIT_PERSISTING_L2_CACHE_SIZE && v <= 3000 ? 0 : CUDA_ERROR_INVALID_VALUE; }
CUresult cuCtxResetPersistingL2Cache(void) { return 0; }
CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) { *least = 0; *greatest = -5; return 0; }
CUresult cuStreamCreateWithPriority(CUstream *s, unsigned flags, int priority) { *s = STREAM; return flags != CU_STREAM_NON_BLOCKING || priority != -2; }
CUresult cuStreamQuery(CUstream s) { static int asked; return s == STREAM ? (asked++ ? 0 : CUDA_ERROR_NOT_READY) : CUDA_ERROR_INVALID_HANDLE; }
CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags) { return s != STREAM || e == NULL || flags; }
CUresult cuEventQuery(CUevent e) { return e == NULL ? CUDA_ERROR_INVALID_HANDLE : 0; }

#define GRAPH ((CUgraph)&token[4])
#define EXEC ((CUgraphExec)&token[5])
CUresult cuStreamBeginCapture(CUstream s, CUstreamCaptureMode mode) { return s != STREAM || mode != CU_STREAM_CAPTURE_MODE_GLOBAL; }
CUresult cuStreamEndCapture(CUstream s, CUgraph *g) { *g = GRAPH; return s != STREAM; }
CUresult cuGraphGetNodes(CUgraph g, CUgraphNode *nodes, size_t *n) { *n = 3; return g != GRAPH || nodes != NULL; }
CUresult cuGraphInstantiate(CUgraphExec *e, CUgraph g, unsigned long long flags) { *e = EXEC; return g != GRAPH || flags; }
static int replays;
CUresult cuGraphLaunch(CUgraphExec e, CUstream s) { replays++; return e != EXEC || s != STREAM; }
CUresult cuGraphExecUpdate(CUgraphExec e, CUgraph g, CUgraphExecUpdateResultInfo *r) {
  memset(r, 0, sizeof *r);
  return e != EXEC || g != GRAPH ? 1 : replays > 1 ? CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE : 0;
}
CUresult cuGraphExecDestroy(CUgraphExec e) { return e != EXEC; }
CUresult cuGraphDestroy(CUgraph g) { return g != GRAPH; }

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, CUfunction f, int threads, size_t smem) {
  *n = (int)smem / threads;
  return f != FUNCTION;
}
CUresult cuOccupancyMaxActiveClusters(int *n, CUfunction f, const CUlaunchConfig *c) {
  if (c->numAttrs != 1 || c->attrs->id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) return CUDA_ERROR_INVALID_VALUE;
  *n = (int)(c->attrs->value.clusterDim.x * 100 + c->sharedMemBytes);
  return f != FUNCTION;
}
// The map holds a summary of everything that came, so that each argument is seen at its place.
CUresult cuTensorMapEncodeTiled(CUtensorMap *m, CUtensorMapDataType type, cuuint32_t rank, void *address, const cuuint64_t *dims,
                                const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *steps, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2, CUtensorMapFloatOOBfill oob) {
  if ((size_t)m % 64 || (size_t)address % 16) return CUDA_ERROR_INVALID_VALUE;
  memset(m, 0, sizeof *m);
  m->opaque[0] = (cuuint64_t)address;
  m->opaque[1] = type * 1000 + rank;
  for (unsigned i = 0; i < rank; i++) m->opaque[2 + i] = dims[i] * 1000000 + box[i] * 1000 + steps[i];
  for (unsigned i = 0; i + 1 < rank; i++) m->opaque[7 + i] = strides[i];
  m->opaque[15] = interleave * 1000 + swizzle * 100 + l2 * 10 + oob;
  return 0;
}
static char *link_log;
static char linked[64];
CUresult cuLinkCreate(unsigned n, CUjit_option *options, void **values, CUlinkState *s) {
  *s = (CUlinkState)&token[6];
  for (unsigned i = 0; i < n; i++) if (options[i] == CU_JIT_ERROR_LOG_BUFFER) link_log = values[i];
  return link_log == NULL;
}
CUresult cuLinkAddData(CUlinkState s, CUjitInputType type, void *data, size_t size, const char *name, unsigned n, CUjit_option *o, void **v) {
  if (s != (CUlinkState)&token[6] || type != CU_JIT_INPUT_PTX || ((char *)data)[size - 1] || strcmp(name, "tilewright.ptx") || n || o || v)
    return CUDA_ERROR_INVALID_VALUE;
  if (strstr(data, "broken")) { strcpy(link_log, "broken indeed"); return CUDA_ERROR_INVALID_PTX; }
  snprintf(linked, sizeof linked, "\x7f" "ELF of %zu", size);
  return 0;
}
CUresult cuLinkComplete(CUlinkState s, void **image, size_t *size) { *image = linked; *size = strlen(linked); return s == NULL; }
CUresult cuLinkDestroy(CUlinkState s) { memset(linked, 0, sizeof linked); return s == NULL; }
