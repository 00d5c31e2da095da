/*
 * A libcuda that computes nothing: it writes every call that matters to the file STUB_LOG, one JSON object a line.
 * Parameters of launches are written as hexadecimal bytes, in the sizes that the PTX of the module declares.
 * STUB_CC (e.g. 80) is the compute capability, STUB_SMS the number of multiprocessors. STUB_REFUSE=cubin refuses images that are no text.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef struct Function {
  char entry[256];
  int params, size[32];
} Function;

static int number(const char *name, int otherwise) { return getenv(name) ? atoi(getenv(name)) : otherwise; }

static FILE *journal(void) {
  static FILE *file;
  if (!file) file = fopen(getenv("STUB_LOG") ? getenv("STUB_LOG") : "/dev/null", "a");
  setvbuf(file, 0, _IOLBF, 0);
  return file;
}

EXPORT int cuInit(unsigned flags) { return (int)flags; }
EXPORT int cuDeviceGet(int *device, int ordinal) { return ordinal == 0 ? (*device = 0, 0) : 101; }
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device) {
  int cc = number("STUB_CC", 80);
  *value = attribute == 75 ? cc / 10 : attribute == 76 ? cc % 10 : attribute == 16 ? number("STUB_SMS", 108) : -1;
  return device == 0 && *value >= 0 ? 0 : 1;
}
static char context;
static void *current;
EXPORT int cuDevicePrimaryCtxRetain(void **out, int device) { return *out = &context, device; }
EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
  fprintf(journal(), "{\"call\":\"release\"}\n");
  return device;
}
EXPORT int cuCtxGetCurrent(void **out) { return *out = current, 0; }
EXPORT int cuCtxSetCurrent(void *wanted) { return current = wanted, 0; }
EXPORT int cuCtxGetDevice(int *device) { return *device = 0; }
EXPORT int cuGetErrorString(int status, const char **text) { return *text = status == 209 ? "no kernel image" : "stub error", 0; }

EXPORT int cuModuleLoadData(void **module, const void *image) {
  int text = strstr(image, ".version") != 0;
  fprintf(journal(), "{\"call\":\"load\",\"text\":%s}\n", text ? "true" : "false");
  if (!text && getenv("STUB_REFUSE")) return 209;
  *module = text ? strdup(image) : strdup("");
  return 0;
}
EXPORT int cuModuleUnload(void *module) {
  fprintf(journal(), "{\"call\":\"unload\"}\n");
  free(module);
  return 0;
}

/* Sizes of .param declarations: `.param .u64 p_a`, `.param .align 64 .b8 p_map[128]`. */
EXPORT int cuModuleGetFunction(void **out, void *module, const char *entry) {
  char wanted[300];
  const char *at, *end;
  Function *function = calloc(1, sizeof *function);
  snprintf(wanted, sizeof wanted, ".entry %s(", entry);
  at = strstr(module, wanted);
  if (!at) return 500;
  snprintf(function->entry, sizeof function->entry, "%s", entry);
  end = strchr(at, ')');
  while ((at = strstr(at + 1, ".param ")) && at < end) {
    const char *type = at + strlen(".param "), *stop = strpbrk(at, ",)");
    const char *array;
    if (strncmp(type, ".align", 6) == 0) type = strstr(type, ".b8");
    array = strchr(type, '[');
    function->size[function->params++] = array && array < stop ? atoi(array + 1) : strncmp(type, ".u64", 4) == 0 || strncmp(type, ".f64", 4) == 0 ? 8 : 4;
  }
  *out = function;
  return 0;
}
EXPORT int cuFuncSetAttribute(void *function, int attribute, int value) {
  fprintf(journal(), "{\"call\":\"attribute\",\"entry\":\"%s\",\"attribute\":%d,\"value\":%d}\n", ((Function *)function)->entry, attribute, value);
  return 0;
}

typedef struct Attribute {
  uint32_t id, pad, value[16];
} Attribute;
typedef struct Config {
  uint32_t grid[3], block[3], dynamic_smem;
  void *stream;
  Attribute *attributes;
  uint32_t count;
} Config;

EXPORT int cuLaunchKernelEx(const Config *config, void *handle, void **params, void **extra) {
  Function *function = handle;
  FILE *out = journal();
  uint32_t i;
  int p, b;
  if (extra) return 1;
  fprintf(out, "{\"call\":\"launch\",\"entry\":\"%s\",\"grid\":[%u,%u,%u],\"block\":[%u,%u,%u],\"dynamicSmem\":%u,\"stream\":%llu", function->entry,
          config->grid[0], config->grid[1], config->grid[2], config->block[0], config->block[1], config->block[2], config->dynamic_smem,
          (unsigned long long)(uintptr_t)config->stream);
  for (i = 0; i < config->count; i++)
    fprintf(out, ",\"attribute%u\":[%u,%u,%u]", config->attributes[i].id, config->attributes[i].value[0], config->attributes[i].value[1],
            config->attributes[i].value[2]);
  fprintf(out, ",\"params\":[");
  for (p = 0; p < function->params; p++) {
    fprintf(out, "%s\"", p ? "," : "");
    for (b = 0; b < function->size[p]; b++) fprintf(out, "%02x", ((unsigned char *)params[p])[b]);
    fprintf(out, "\"");
  }
  fprintf(out, "]}\n");
  return 0;
}

static uint64_t next = 0x700000000000;
EXPORT int cuMemAllocAsync(uint64_t *address, size_t size, void *stream) {
  *address = next;
  fprintf(journal(), "{\"call\":\"alloc\",\"bytes\":%zu,\"stream\":%llu}\n", size, (unsigned long long)(uintptr_t)stream);
  return 0;
}
EXPORT int cuMemFreeAsync(uint64_t address, void *stream) {
  fprintf(journal(), "{\"call\":\"free\",\"stream\":%llu}\n", (unsigned long long)(uintptr_t)stream);
  return address == next ? 0 : 1;
}
EXPORT int cuMemsetD8Async(uint64_t address, unsigned char value, size_t size, void *stream) {
  fprintf(journal(), "{\"call\":\"set\",\"address\":%llu,\"value\":%u,\"bytes\":%zu,\"stream\":%llu}\n", (unsigned long long)address, value, size,
          (unsigned long long)(uintptr_t)stream);
  return 0;
}

/* The map is a plain record of what it was asked for, in words of 4 bytes. */
EXPORT int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address, const uint64_t *dims, const uint64_t *strides,
                                  const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int l2, int oob) {
  uint32_t *word = map, i;
  if ((uintptr_t)map % 64 != 0) return 1;
  memset(map, 0, 128);
  *word++ = (uint32_t)type;
  *word++ = rank;
  *word++ = (uint32_t)(uintptr_t)address;
  for (i = 0; i < rank; i++) *word++ = (uint32_t)dims[i];
  for (i = 0; i + 1 < rank; i++) *word++ = (uint32_t)strides[i];
  for (i = 0; i < rank; i++) *word++ = box[i];
  for (i = 0; i < rank; i++) *word++ = steps[i];
  *word++ = (uint32_t)(interleave | swizzle << 8 | l2 << 16 | oob << 24);
  return 0;
}

EXPORT int cuTensorMapReplaceAddress(void *map, void *address) {
  fprintf(journal(), "{\"call\":\"replace\",\"address\":%llu}\n", (unsigned long long)(uintptr_t)address);
  ((uint32_t *)map)[2] = (uint32_t)(uintptr_t)address;
  return 0;
}

/* Addresses 0x66...... are unknown to the driver, 0x67...... on GPU 1, 0x68...... in an allocation of 4096 bytes; all others are plenty. */
EXPORT int cuPointerGetAttribute(void *data, int attribute, uint64_t address) {
  uint64_t part = address >> 24;
  if (part == 0x66) return 1;
  if (attribute == 2) *(unsigned *)data = 2;
  if (attribute == 9) *(int *)data = part == 0x67;
  if (attribute == 11) *(uint64_t *)data = part == 0x68 ? 0x68000000 : address;
  if (attribute == 12) *(uint64_t *)data = part == 0x68 ? 4096 : (uint64_t)1 << 40;
  return 0;
}

/* What clients use themselves. Memory holds nothing: copies to the host give zeros. */
static uint64_t fresh = 0x10000000;
EXPORT int cuMemAlloc_v2(uint64_t *address, size_t size) { return *address = fresh, fresh += (size + 255) / 256 * 256, 0; }
EXPORT int cuMemFree_v2(uint64_t address) { return address == 0; }
EXPORT int cuMemsetD16_v2(uint64_t address, unsigned short value, size_t count) { return address == 0 || (count == 0 && value != 0); }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) { (void)to, (void)from, (void)bytes; return 0; }
EXPORT int cuMemcpyDtoH_v2(void *target, uint64_t source, size_t size) { return memset(target, 0, size), source == 0; }
