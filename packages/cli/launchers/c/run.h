/* Part of launcher.h: images and launches. */
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
  for (i = 0; i < plan->patches && status == LIB_OK; i++) {
    if (!LIB_in_workspace(&plan->patch[i])) continue;
    status = lib->cuTensorMapReplaceAddress ? LIB_write(lib, &plan->patch[i], workspace)
                                            : LIB_fail(lib, LIB_NO_DRIVER, "the driver lacks a function", "cuTensorMapReplaceAddress");
  }
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
  LIB_why why = {0, 0, 0, 0, 0, 0, 0};
  int artefact = LIB_pick(lib, operation, args, &why);
  return artefact < 0 ? 0 : LIB_workspace_bytes(lib, artefact, args);
}
