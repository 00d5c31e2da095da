/* Part of launcher.h: which kernel, and launches that are kept. */
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
    status = LIB_check_address(lib, operation, args, o, plan->artefact);
    if (status != LIB_OK) return status;
  }
  plan->operation = 0; /* until all of them are written */
  for (i = 0; i < plan->patches; i++) {
    LIB_pointer value = LIB_pointer_of(args, plan->patch[i].pointer);
    if (LIB_in_workspace(&plan->patch[i]) || value == LIB_pointer_of(&plan->args, plan->patch[i].pointer)) continue;
    status = LIB_write(lib, &plan->patch[i], value);
    if (status != LIB_OK) return status;
  }
  plan->args = *args;
  plan->operation = operation;
  return LIB_OK;
}

static inline int LIB_no_kernel(LIB_library *lib, const LIB_operation *operation, const LIB_args *args, const LIB_why *why) {
  int length;
  if (operation->operands[0].axes) return LIB_no_attention(lib, operation, args, why);
  length = snprintf(lib->message, sizeof lib->message, "%s has no kernel for m=%lld n=%lld k=%lld batch=%lld on compute capability %d.%d: ",
                        operation->name, (long long)args->m, (long long)args->n, (long long)args->k, (long long)args->batch, lib->major, lib->minor);
  if (why->text)
    snprintf(lib->message + length, sizeof lib->message - (size_t)length, "the nearest wants %s, and %s is %.17g", why->text, why->name, why->value);
  else
    snprintf(lib->message + length, sizeof lib->message - (size_t)length, "its kernels are for other GPUs");
  return LIB_NO_KERNEL;
}

/* Makes a plan in the place of the oldest. */
static inline int LIB_prepare(LIB_library *lib, const LIB_operation *operation, const LIB_args *args, LIB_plan **made) {
  LIB_why why = {0, 0, 0, 0, 0, 0, 0};
  LIB_plan *plan;
  int i, status = LIB_OK, artefact = LIB_pick(lib, operation, args, &why);
  size_t used = 0;
  if (artefact < 0) return LIB_no_kernel(lib, operation, args, &why);
  for (i = 0; i < operation->operand_count && status == LIB_OK; i++)
    status = LIB_check_address(lib, operation, args, &operation->operands[i], artefact);
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
