/**
 * C declarations of the driver functions, as the binding wants them: one row per method of `CudaDriver`.
 * Handles and addresses are `uint64_t`: CUDA exists on 64-bit hosts only. Versioned names are those that cuda.h maps the plain names to.
 * Each row lists its symbols from the newest to the oldest; the first one that the library exports is used.
 */
export const prototypes = {
  init: ["int cuInit(uint32_t flags)"],
  driverGetVersion: ["int cuDriverGetVersion(_Out_ int *version)"],
  deviceGetCount: ["int cuDeviceGetCount(_Out_ int *count)"],
  deviceGet: ["int cuDeviceGet(_Out_ int *device, int ordinal)"],
  deviceGetName: ["int cuDeviceGetName(void *name, int size, int device)"],
  deviceTotalMem: ["int cuDeviceTotalMem_v2(_Out_ uint64_t *bytes, int device)"],
  deviceGetAttribute: ["int cuDeviceGetAttribute(_Out_ int *value, int attribute, int device)"],
  primaryCtxRetain: ["int cuDevicePrimaryCtxRetain(_Out_ uint64_t *context, int device)"],
  primaryCtxRelease: [
    "int cuDevicePrimaryCtxRelease_v2(int device)",
    "int cuDevicePrimaryCtxRelease(int device)",
  ],
  ctxSetCurrent: ["int cuCtxSetCurrent(uint64_t context)"],
  moduleLoadDataEx: [
    "int cuModuleLoadDataEx(_Out_ uint64_t *module, void *image, uint32_t count, void *options, void *values)",
  ],
  moduleUnload: ["int cuModuleUnload(uint64_t module)"],
  moduleGetFunction: ["int cuModuleGetFunction(_Out_ uint64_t *fn, uint64_t module, const char *name)"],
  funcGetAttribute: ["int cuFuncGetAttribute(_Out_ int *value, int attribute, uint64_t fn)"],
  funcSetAttribute: ["int cuFuncSetAttribute(uint64_t fn, int attribute, int value)"],
  memGetInfo: ["int cuMemGetInfo_v2(_Out_ uint64_t *free, _Out_ uint64_t *total)"],
  memAlloc: ["int cuMemAlloc_v2(_Out_ uint64_t *address, uint64_t size)"],
  memFree: ["int cuMemFree_v2(uint64_t address)"],
  memcpyHtoD: ["int cuMemcpyHtoD_v2(uint64_t target, void *source, uint64_t size)"],
  memcpyDtoH: ["int cuMemcpyDtoH_v2(void *target, uint64_t source, uint64_t size)"],
  memsetD8: ["int cuMemsetD8_v2(uint64_t address, uint8_t value, uint64_t size)"],
  streamCreate: ["int cuStreamCreate(_Out_ uint64_t *stream, uint32_t flags)"],
  streamDestroy: ["int cuStreamDestroy_v2(uint64_t stream)"],
  streamSynchronize: ["int cuStreamSynchronize(uint64_t stream)"],
  eventCreate: ["int cuEventCreate(_Out_ uint64_t *event, uint32_t flags)"],
  eventDestroy: ["int cuEventDestroy_v2(uint64_t event)"],
  eventRecord: ["int cuEventRecord(uint64_t event, uint64_t stream)"],
  eventSynchronize: ["int cuEventSynchronize(uint64_t event)"],
  eventElapsedTime: [
    "int cuEventElapsedTime_v2(_Out_ float *ms, uint64_t start, uint64_t end)",
    "int cuEventElapsedTime(_Out_ float *ms, uint64_t start, uint64_t end)",
  ],
  launchKernelEx: ["int cuLaunchKernelEx(void *config, uint64_t fn, void **params, void **extra)"],
  getErrorName: ["int cuGetErrorName(int status, _Out_ const char **name)"],
  getErrorString: ["int cuGetErrorString(int status, _Out_ const char **text)"],
} as const satisfies Record<string, readonly string[]>;

export type PrototypeName = keyof typeof prototypes;
