/* Part of launcher.h: tensors of attention, whose kernels are made for shapes and strides. */
/* A packed tensor [batch, heads, rows, columns] on a GPU that is not told; of one that lies [batch, rows, heads, columns] set stride[1] and stride[2]. */
LIB_LINKAGE LIB_tensor LIB_heads(LIB_pointer data, int dtype, int64_t batch, int64_t heads, int64_t rows, int64_t columns) {
  LIB_tensor made = {data, dtype, -1, 4, {batch, heads, rows, columns}, {heads * rows * columns, rows * columns, columns, 1}};
  return made;
}

/* What the kernels of an artefact take, by operand; 0 of a product. */
static inline const LIB_extents *LIB_extents_of(int artefact);

/* The artefact that comes nearest to the arguments, and what keeps it from serving them: a constraint, or the shape or strides of a tensor. */
typedef struct LIB_why {
  int met;
  const char *text, *name;
  double value;
  const LIB_extents *wants;
  int tensor, by_strides;
} LIB_why;

static inline int64_t LIB_extents_reach(const LIB_extents *extents) {
  int64_t last = 1;
  int i;
  for (i = 0; i < extents->rank; i++) last += (extents->shape[i] - 1) * extents->stride[i];
  return last;
}

/* LIB_take of attention, behind dtype and GPU. */
static inline int LIB_take_extents(LIB_library *lib, const LIB_operation *operation, LIB_args *args, const LIB_operand *o, const LIB_tensor *tensor) {
  LIB_extents *extents = &args->tensor[o - operation->operands];
  const char *at;
  int i, rank = 1;
  for (at = o->axes; *at; at++) rank += *at == ',';
  if (tensor->rank != rank) {
    snprintf(lib->message, sizeof lib->message, "%s: %s has %d dimensions, and the kernels take [%s]", operation->name, o->label, tensor->rank, o->axes);
    return LIB_BAD_ARGUMENT;
  }
  memset(extents, 0, sizeof *extents);
  extents->rank = rank;
  for (i = 0; i < rank; i++) extents->shape[i] = tensor->shape[i], extents->stride[i] = tensor->stride[i];
  memcpy((char *)args + o->pointer, &tensor->data, sizeof tensor->data);
  return LIB_OK;
}

static inline int LIB_unlike(LIB_why *why, int tensor, const LIB_extents *wants, int by_strides) {
  if (2 * tensor + by_strides >= why->met) {
    LIB_why found = {2 * tensor + by_strides, 0, 0, 0, wants, tensor, by_strides};
    *why = found;
  }
  return 0;
}

/* Whether tensors are those of an artefact, where they are known. */
static inline int LIB_are(const LIB_args *args, LIB_why *why, const LIB_extents *wants, int count) {
  int i, d;
  for (i = 0; i < count; i++) {
    const LIB_extents *is = &args->tensor[i];
    if (is->rank == 0) continue;
    for (d = 0; d < is->rank; d++)
      if (is->shape[d] != wants[i].shape[d]) return LIB_unlike(why, i, &wants[i], 0);
    for (d = 0; d < is->rank; d++)
      if (is->shape[d] > 1 && is->stride[d] != wants[i].stride[d]) return LIB_unlike(why, i, &wants[i], 1);
  }
  return 1;
}

static inline void LIB_list(char *text, size_t room, const int64_t *values, int64_t count) {
  size_t length = 0;
  int i;
  for (i = 0; i < count && length < room; i++)
    length += (size_t)snprintf(text + length, room - length, "%s%lld", i == 0 ? "" : ", ", (long long)values[i]);
}

static inline int LIB_no_attention(LIB_library *lib, const LIB_operation *operation, const LIB_args *args, const LIB_why *why) {
  char wants[96] = "", is[96] = "";
  int length = snprintf(lib->message, sizeof lib->message, "%s has no kernel for these tensors on compute capability %d.%d: ", operation->name, lib->major,
                        lib->minor);
  const LIB_extents *given = &args->tensor[why->tensor];
  if (why->wants) {
    LIB_list(wants, sizeof wants, why->by_strides ? why->wants->stride : why->wants->shape, why->wants->rank);
    LIB_list(is, sizeof is, why->by_strides ? given->stride : given->shape, given->rank);
    snprintf(lib->message + length, sizeof lib->message - (size_t)length, "the nearest wants %s %s [%s], and %s [%s]",
             operation->operands[why->tensor].label, why->by_strides ? "with strides" : "of", wants, why->by_strides ? "they are" : "it is", is);
  } else
    snprintf(lib->message + length, sizeof lib->message - (size_t)length, "its kernels are for other GPUs");
  return LIB_NO_KERNEL;
}
