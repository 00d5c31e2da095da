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
  launchPrepared: ["int cuLaunchKernelEx(uint64_t config, uint64_t fn, uint64_t params, uint64_t extra)"],
  getErrorName: ["int cuGetErrorName(int status, _Out_ const char **name)"],
  getErrorString: ["int cuGetErrorString(int status, _Out_ const char **text)"],
} as const satisfies Record<string, readonly string[]>;

export type PrototypeName = keyof typeof prototypes;

/** Functions that a driver may lack: calling one that is missing gives CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, and everything else works. */
export const optionalPrototypes = {
  memcpyDtoD: ["int cuMemcpyDtoD_v2(uint64_t target, uint64_t source, uint64_t size)"],
  memHostRegister: ["int cuMemHostRegister_v2(void *bytes, uint64_t size, uint32_t flags)"],
  memHostUnregister: ["int cuMemHostUnregister(void *bytes)"],
  memcpyHtoDAsync: [
    "int cuMemcpyHtoDAsync_v2(uint64_t target, void *source, uint64_t size, uint64_t stream)",
  ],
  memcpyDtoHAsync: [
    "int cuMemcpyDtoHAsync_v2(void *target, uint64_t source, uint64_t size, uint64_t stream)",
  ],
  memcpyDtoDAsync: [
    "int cuMemcpyDtoDAsync_v2(uint64_t target, uint64_t source, uint64_t size, uint64_t stream)",
  ],
  memcpyPeerAsync: [
    "int cuMemcpyPeerAsync(uint64_t target, uint64_t targetContext, uint64_t source, uint64_t sourceContext, uint64_t size, uint64_t stream)",
  ],
  memsetD8Async: ["int cuMemsetD8Async(uint64_t address, uint8_t value, uint64_t size, uint64_t stream)"],
  deviceCanAccessPeer: ["int cuDeviceCanAccessPeer(_Out_ int *can, int device, int peer)"],
  ctxEnablePeerAccess: ["int cuCtxEnablePeerAccess(uint64_t peer, uint32_t flags)"],
  ctxSetLimit: ["int cuCtxSetLimit(int limit, uint64_t value)"],
  ctxResetPersistingL2: ["int cuCtxResetPersistingL2Cache()"],
  streamPriorities: ["int cuCtxGetStreamPriorityRange(_Out_ int *least, _Out_ int *greatest)"],
  streamCreateWithPriority: [
    "int cuStreamCreateWithPriority(_Out_ uint64_t *stream, uint32_t flags, int priority)",
  ],
  streamQuery: ["int cuStreamQuery(uint64_t stream)"],
  streamWaitEvent: ["int cuStreamWaitEvent(uint64_t stream, uint64_t event, uint32_t flags)"],
  streamBeginCapture: ["int cuStreamBeginCapture_v2(uint64_t stream, int mode)"],
  streamEndCapture: ["int cuStreamEndCapture(uint64_t stream, _Out_ uint64_t *graph)"],
  graphGetNodes: ["int cuGraphGetNodes(uint64_t graph, void *nodes, _Inout_ uint64_t *count)"],
  graphInstantiate: ["int cuGraphInstantiateWithFlags(_Out_ uint64_t *exec, uint64_t graph, uint64_t flags)"],
  graphLaunch: ["int cuGraphLaunch(uint64_t exec, uint64_t stream)"],
  graphExecUpdate: ["int cuGraphExecUpdate_v2(uint64_t exec, uint64_t graph, void *result)"],
  graphExecDestroy: ["int cuGraphExecDestroy(uint64_t exec)"],
  graphDestroy: ["int cuGraphDestroy(uint64_t graph)"],
  eventQuery: ["int cuEventQuery(uint64_t event)"],
  occupancyBlocks: [
    "int cuOccupancyMaxActiveBlocksPerMultiprocessor(_Out_ int *blocks, uint64_t fn, int blockSize, uint64_t dynamicSmem)",
  ],
  occupancyClusters: ["int cuOccupancyMaxActiveClusters(_Out_ int *clusters, uint64_t fn, void *config)"],
  tensorMapEncodeTiled: [
    "int cuTensorMapEncodeTiled(uint64_t map, int dataType, uint32_t rank, uint64_t address, void *dims, void *strides, void *box, void *elementStrides, int interleave, int swizzle, int l2, int oob)",
  ],
  linkCreate: ["int cuLinkCreate_v2(uint32_t count, void *options, void *values, _Out_ uint64_t *state)"],
  linkAddData: [
    "int cuLinkAddData_v2(uint64_t state, int type, void *data, uint64_t size, const char *name, uint32_t count, void *options, void *values)",
  ],
  linkComplete: ["int cuLinkComplete(uint64_t state, _Out_ uint64_t *image, _Out_ uint64_t *size)"],
  linkDestroy: ["int cuLinkDestroy(uint64_t state)"],
} as const satisfies Record<string, readonly string[]>;

export type OptionalPrototypeName = keyof typeof optionalPrototypes;
