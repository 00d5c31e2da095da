/* Part of launcher.h: constraints, grids, parameters and tensor maps. */
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

static inline int LIB_unmet(LIB_why *why, int met, const char *text, const char *name, double value) {
  if (met >= why->met) {
    LIB_why found = {met, text, name, value, 0, 0, 0};
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
  if (patch->map) return LIB_cuda(lib, lib->cuTensorMapReplaceAddress(patch->place, (void *)(uintptr_t)(value + patch->at)), patch->name);
  memcpy(patch->place, &value, sizeof value);
  return LIB_OK;
}

static inline int LIB_put_pointer(LIB_library *lib, LIB_plan *plan, LIB_launch *launch, const char *name, size_t pointer, uint64_t align) {
  LIB_patch *patch = &plan->patch[plan->patches++];
  LIB_patch made = {launch->param[launch->params++], name, pointer, align, 0, 0};
  *patch = made;
  return LIB_write(lib, patch, LIB_pointer_of(&plan->args, pointer));
}

/* Whether a place has what is only known when a launch has its workspace. */
static inline int LIB_in_workspace(const LIB_patch *patch) { return patch->pointer == offsetof(LIB_args, workspace); }

/* tune: CUtensorMapDataType, interleave, swizzle, L2 promotion, fill. at: bytes from the pointer to the tensor. */
static inline int LIB_put_map(LIB_library *lib, LIB_plan *plan, LIB_launch *launch, const char *name, size_t pointer, uint64_t at,
                              uint32_t rank, const uint64_t *dims, const uint64_t *strides, const uint32_t *box, const uint32_t *steps, const int *tune) {
  LIB_patch made = {launch->param[launch->params++], name, pointer, LIB_MAP_ALIGN, at, 0};
  /* Until there is a workspace any address has the place of one. */
  LIB_pointer base = LIB_in_workspace(&made) ? (LIB_pointer)1 << 32 : LIB_pointer_of(&plan->args, pointer);
  int status = LIB_write(lib, &made, base);
  if (status != LIB_OK) return status;
  if (!lib->cuTensorMapEncodeTiled) return LIB_fail(lib, LIB_NO_DRIVER, "the driver lacks a function", "cuTensorMapEncodeTiled");
  LIB_TRY(lib->cuTensorMapEncodeTiled(made.place, tune[0], rank, (void *)(uintptr_t)(base + at), dims, strides, box, steps, tune[1], tune[2], tune[3],
                                      tune[4]),
          name);
  made.map = 1;
  plan->patch[plan->patches++] = made;
  return LIB_OK;
}
