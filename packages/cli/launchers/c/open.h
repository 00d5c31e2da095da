/* Part of launcher.h: the driver and its errors. */
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
