// An NVML of one GPU that exists only here, for testing the binding. Signatures after the NVML API reference, "Device Queries": NVML's
// header does not come with every toolkit, so that they stand here.
#include <string.h>

typedef int nvmlReturn_t;
typedef struct nvmlDevice_st *nvmlDevice_t;
enum { NVML_SUCCESS = 0, NVML_ERROR_UNINITIALIZED = 1, NVML_ERROR_INVALID_ARGUMENT = 2, NVML_ERROR_NOT_FOUND = 6 };

static int started, token;
#define DEVICE ((nvmlDevice_t)&token)
#define CHECK(device) if (started == 0) return NVML_ERROR_UNINITIALIZED; if ((device) != DEVICE) return NVML_ERROR_INVALID_ARGUMENT

static nvmlReturn_t text(char *out, unsigned length, const char *value) {
  if (length <= strlen(value)) return 7;  // NVML_ERROR_INSUFFICIENT_SIZE
  strcpy(out, value);
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlInit_v2(void) { started++; return NVML_SUCCESS; }
nvmlReturn_t nvmlShutdown(void) { return started-- > 0 ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED; }
nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length) { return text(version, length, "580.159.04"); }
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus, nvmlDevice_t *device) {
  if (started == 0) return NVML_ERROR_UNINITIALIZED;
  *device = DEVICE;
  return strcmp(bus, "0000:17:00.0") == 0 ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
  *device = DEVICE;
  return index == 0 ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *name, unsigned length) { CHECK(d); return text(name, length, "Host H7"); }
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *uuid, unsigned length) { CHECK(d); return text(uuid, length, "GPU-7"); }
// nvmlClockType_t: graphics 0, SM 1, memory 2.
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t d, int type, unsigned *mhz) {
  CHECK(d);
  *mhz = type == 1 ? 1755 : type == 2 ? 3201 : 0;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t d, int type, unsigned *mhz) {
  CHECK(d);
  *mhz = type == 1 ? 1980 : 3201;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t d, unsigned *mw) { CHECK(d); *mw = 330500; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t d, unsigned *mw) { CHECK(d); *mw = 700000; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t d, int sensor, unsigned *celsius) {
  CHECK(d);
  *celsius = sensor == 0 ? 41 : 99;
  return NVML_SUCCESS;
}
// The name before driver 535. Bits beyond 32 must arrive, too.
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t d, unsigned long long *bits) {
  CHECK(d);
  *bits = 0x4ull | 1ull << 40;
  return NVML_SUCCESS;
}
const char *nvmlErrorString(nvmlReturn_t status) { return status == NVML_ERROR_NOT_FOUND ? "Not Found" : "something"; }
