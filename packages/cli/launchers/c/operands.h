/* Part of launcher.h: tensors and addresses against what the kernels take. */
/* A row-major matrix without padding, and a vector, on a GPU that is not told. */
LIB_LINKAGE LIB_tensor LIB_matrix(LIB_pointer data, int dtype, int64_t rows, int64_t columns) {
  LIB_tensor made = {data, dtype, -1, 2, {rows, columns, 0, 0}, {columns, 1, 0, 0}};
  return made;
}
LIB_LINKAGE LIB_tensor LIB_vector(LIB_pointer data, int dtype, int64_t length) {
  LIB_tensor made = {data, dtype, -1, 1, {length, 0, 0, 0}, {1, 0, 0, 0}};
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
  return name == 'm' ? args->m : name == 'n' ? args->n : name == 'k' ? args->k : name == 'N' ? 2 * args->n : name == 'K' ? 2 * args->k : name == 'M' ? (args->m + 127) / 128 * 128 : name == 'G' ? (args->m + 127 * args->batch + 127) / 128 * 128 : name == 'E' ? args->batch : 1;
}
/* Lines of an operand, and matrices of which a batch has one each. */
static inline int64_t LIB_lines(const LIB_args *args, const LIB_operand *o) { return o->rows ? o->rows : LIB_extent(args, o->outer); }
static inline int64_t LIB_copies(const LIB_args *args, const LIB_operand *o) { return o->outer && !o->shared ? args->batch : 1; }

/*
 * Sets an operand of an operation to a tensor ("a", "b", "c", "d", "epilogueI", or its label), its leading dimension and the distance between
 * matrices of a batch from its strides. LIB_BAD_ARGUMENT where the kernels take another dtype, GPU, shape or strides. A matrix in columns is
 * given as it lies in memory, its rows being those columns, or as the transposed view. Attention's shapes and strides decide the kernel at the launch.
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
  if (o->axes) return LIB_take_extents(lib, operation, args, o, &tensor);
  if (o->inner == '*') {
    const int64_t all = LIB_extent(args, o->outer) * args->n / o->ld * LIB_copies(args, o);
    int64_t count = 1, dense = 1;
    for (i = tensor.rank - 1; i >= 0; i--) {
      if (tensor.shape[i] > 1 && tensor.stride[i] != count) dense = 0;
      count *= tensor.shape[i];
    }
    if (count != all || !dense)
      LIB_REFUSE("%s: %s has %lld elements%s, and the kernels take %lld, one behind the other", operation->name, o->label, (long long)count,
                 dense ? "" : " with gaps", (long long)all);
    memcpy((char *)args + o->pointer, &tensor.data, sizeof tensor.data);
    return LIB_OK;
  }
  wanted[0] = LIB_lines(args, o);
  wanted[1] = LIB_extent(args, o->inner);
  batched = o->outer && !o->shared && tensor.rank == 3;
  lead = batched ? 1 : 0;
  if (o->outer == 0 ? tensor.rank > 1 : tensor.rank - lead != 2)
    LIB_REFUSE("%s: %s has %d dimensions", operation->name, o->label, tensor.rank);
  if ((batched ? tensor.shape[0] : 1) != LIB_copies(args, o))
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
  if (batched && args->batch > 1 && !o->stride_at && tensor.stride[0] != ld * wanted[0])
    LIB_REFUSE("%s: the matrices of %s do not follow each other", operation->name, o->label);
#undef LIB_REFUSE
  if (o->ld_at && wanted[0] > 1) *LIB_size_at(args, o->ld_at) = ld;
  if (o->stride_at && batched && args->batch > 1) *LIB_size_at(args, o->stride_at) = tensor.stride[0];
  memcpy((char *)args + o->pointer, &tensor.data, sizeof tensor.data);
  return LIB_OK;
}

/* Bytes from an operand's address to its end, for a kernel. */
static inline int64_t LIB_reach(const LIB_operation *operation, const LIB_args *args, const LIB_operand *o, int artefact) {
  int64_t outer = LIB_lines(args, o), inner = LIB_extent(args, o->inner);
  int64_t ld = o->ld_at ? LIB_size_of(args, o->ld_at) : o->ld ? o->ld : inner;
  int64_t between = o->stride_at ? LIB_size_of(args, o->stride_at) : o->outer ? ld * outer : 0;
  if (o->inner == '*') return outer * args->n / o->ld * LIB_copies(args, o) * LIB_dtype_bytes(o->dtype);
  if (o->axes) return LIB_extents_reach(&LIB_extents_of(artefact)[o - operation->operands]) * LIB_dtype_bytes(o->dtype);
  return ((LIB_copies(args, o) - 1) * between + (outer - 1) * ld + inner) * LIB_dtype_bytes(o->dtype);
}

/* LIB_BAD_ARGUMENT for an address that the driver does not know, that is on another GPU, or too near to the end of its allocation. */
static inline int LIB_check_address(LIB_library *lib, const LIB_operation *operation, const LIB_args *args, const LIB_operand *o, int artefact) {
  LIB_pointer address = LIB_pointer_of(args, o->pointer);
  uint64_t begin = 0, bytes = 0;
  int64_t reach = LIB_reach(operation, args, o, artefact);
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
      (int64_t)(begin + bytes - address) < reach) {
    snprintf(lib->message, sizeof lib->message, "%s: %s has %lld bytes to the end of its allocation, and takes %lld", operation->name, o->label,
             (long long)(begin + bytes - address), (long long)reach);
    return LIB_BAD_ARGUMENT;
  }
  return LIB_OK;
}
