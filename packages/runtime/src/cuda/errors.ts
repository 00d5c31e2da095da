/**
 * CUDA errors: what each means for someone who wanted a matrix product, and what to do next.
 * Names and numbers are those of cuda.h (CUresult); a status that is not here is shown as the driver names it.
 */
import { useEmulator } from "../diagnostics.ts";
import { bug, type CudaErrorRow, callRow, driverRow, faultRow, jitRow, seeEmulator } from "./error-row.ts";
import { queueErrors } from "./queue-errors.ts";

export type { CudaErrorRow } from "./error-row.ts";

export const cudaErrors: ReadonlyMap<number, CudaErrorRow> = new Map<number, CudaErrorRow>([
  ...queueErrors,
  [1, callRow("CUDA_ERROR_INVALID_VALUE", "an argument is out of range", bug)],
  [
    2,
    {
      name: "CUDA_ERROR_OUT_OF_MEMORY",
      meaning: "the GPU has not enough free memory",
      next: "stop other programs on this GPU (nvidia-smi lists them), take a smaller problem, or another GPU (CUDA_VISIBLE_DEVICES)",
      as: "memory",
      sticky: false,
    },
  ],
  [3, driverRow("CUDA_ERROR_NOT_INITIALIZED", "the driver is not initialised", "restart the program")],
  [4, driverRow("CUDA_ERROR_DEINITIALIZED", "the driver is shutting down", "restart the program")],
  [
    34,
    driverRow(
      "CUDA_ERROR_STUB_LIBRARY",
      "the library that was found is the toolkit's stub and not a driver",
      "take the toolkit's stubs folder out of LD_LIBRARY_PATH",
    ),
  ],
  [
    36,
    driverRow(
      "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER",
      "this call needs a newer driver",
      "update NVIDIA's driver",
    ),
  ],
  [
    46,
    driverRow(
      "CUDA_ERROR_DEVICE_UNAVAILABLE",
      "another process holds the GPU for itself (exclusive compute mode)",
      "stop it, or nvidia-smi -c 0",
    ),
  ],
  [
    100,
    {
      name: "CUDA_ERROR_NO_DEVICE",
      meaning: "the driver sees no CUDA-capable GPU",
      next: `check nvidia-smi and CUDA_VISIBLE_DEVICES; or ${useEmulator}`,
      as: "noDevice",
      sticky: false,
    },
  ],
  [
    101,
    {
      name: "CUDA_ERROR_INVALID_DEVICE",
      meaning: "there is no GPU of this index",
      next: `tilewright doctor lists them; or ${useEmulator}`,
      as: "indexRange",
      sticky: false,
    },
  ],
  [
    102,
    driverRow("CUDA_ERROR_DEVICE_NOT_LICENSED", "the virtual GPU has no licence", "check the vGPU licence"),
  ],
  [
    200,
    {
      name: "CUDA_ERROR_INVALID_IMAGE",
      meaning: "the image is neither PTX nor a cubin",
      next: "check the file; a PTX text starts with .version",
      as: "image",
      sticky: false,
    },
  ],
  [201, callRow("CUDA_ERROR_INVALID_CONTEXT", "no CUDA context is current on this thread", bug)],
  [
    209,
    {
      name: "CUDA_ERROR_NO_BINARY_FOR_GPU",
      meaning: "the image holds no code for this GPU",
      next: `compile for this GPU's architecture (--arch native); or ${useEmulator}`,
      as: "deviceUnfit",
      sticky: false,
    },
  ],
  [
    214,
    {
      name: "CUDA_ERROR_ECC_UNCORRECTABLE",
      meaning: "the GPU's memory had an error that ECC could not correct",
      next: `the hardware is at fault: look at nvidia-smi -q -d ECC; or ${useEmulator}`,
      as: "call",
      sticky: true,
    },
  ],
  [218, jitRow("CUDA_ERROR_INVALID_PTX", "the JIT compiler rejects the text", "see its log above")],
  [
    220,
    {
      name: "CUDA_ERROR_NVLINK_UNCORRECTABLE",
      meaning: "an NVLink error could not be corrected",
      next: `the hardware is at fault: look at nvidia-smi nvlink -e; or ${useEmulator}`,
      as: "call",
      sticky: true,
    },
  ],
  [
    221,
    jitRow(
      "CUDA_ERROR_JIT_COMPILER_NOT_FOUND",
      "the driver's JIT compiler library (libnvidia-ptxjitcompiler) is missing",
      `install all of NVIDIA's driver, or load a cubin made by ptxas (--emit cubin); or ${useEmulator}`,
    ),
  ],
  [
    222,
    {
      name: "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
      meaning: "the text's PTX version is newer than this driver",
      next: `update NVIDIA's driver; or ${useEmulator}`,
      as: "driverTooOld",
      sticky: false,
    },
  ],
  [
    223,
    jitRow(
      "CUDA_ERROR_JIT_COMPILATION_DISABLED",
      "CUDA_DISABLE_PTX_JIT forbids PTX",
      "unset CUDA_DISABLE_PTX_JIT, or load a cubin (--emit cubin)",
    ),
  ],
  [
    226,
    faultRow(
      "CUDA_ERROR_CONTAINED",
      "a hardware error stopped the kernel",
      "look at dmesg for the Xid error",
    ),
  ],
  [
    300,
    {
      name: "CUDA_ERROR_INVALID_SOURCE",
      meaning: "the image cannot be compiled",
      next: "check the file; a PTX text starts with .version",
      as: "image",
      sticky: false,
    },
  ],
  [
    302,
    jitRow(
      "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND",
      "the text uses a symbol that nothing defines",
      "define it, or drop the .extern",
    ),
  ],
  [
    303,
    driverRow(
      "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED",
      "a library of the driver does not load",
      "reinstall NVIDIA's driver",
    ),
  ],
  [
    304,
    driverRow(
      "CUDA_ERROR_OPERATING_SYSTEM",
      "a call to the operating system failed",
      "check that /dev/nvidia* exist and may be opened",
    ),
  ],
  [400, callRow("CUDA_ERROR_INVALID_HANDLE", "a handle is not alive", bug)],
  [401, callRow("CUDA_ERROR_ILLEGAL_STATE", "a resource is not in the state this call needs", bug)],
  [
    500,
    {
      name: "CUDA_ERROR_NOT_FOUND",
      meaning: "the module has nothing of this name",
      next: "check the entry's name; `.visible .entry` lines of the text list them",
      as: "entry",
      sticky: false,
    },
  ],
  [600, callRow("CUDA_ERROR_NOT_READY", "the work is not finished", bug)],
  [
    700,
    faultRow("CUDA_ERROR_ILLEGAL_ADDRESS", "the kernel touched memory that is not allocated", seeEmulator),
  ],
  [
    701,
    {
      name: "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
      meaning: "a block needs more registers or shared memory than a multiprocessor has",
      next: "take a smaller tile or fewer threads in the schedule; `tilewright plan` shows what they need",
      as: "shape",
      sticky: false,
    },
  ],
  [
    702,
    faultRow(
      "CUDA_ERROR_LAUNCH_TIMEOUT",
      "the kernel ran longer than the display's watchdog allows",
      "take a smaller problem or a GPU without a display",
    ),
  ],
  [709, callRow("CUDA_ERROR_CONTEXT_IS_DESTROYED", "the CUDA context is destroyed", "open the device again")],
  [710, faultRow("CUDA_ERROR_ASSERT", "an assertion in the kernel failed", seeEmulator)],
  [
    714,
    faultRow(
      "CUDA_ERROR_HARDWARE_STACK_ERROR",
      "the kernel's call stack is corrupt or overflowed",
      seeEmulator,
    ),
  ],
  [
    715,
    faultRow(
      "CUDA_ERROR_ILLEGAL_INSTRUCTION",
      "the kernel met an illegal instruction or operand (a wrong descriptor, for instance)",
      seeEmulator,
    ),
  ],
  [
    716,
    faultRow(
      "CUDA_ERROR_MISALIGNED_ADDRESS",
      "the kernel used an address that is not aligned to the access",
      seeEmulator,
    ),
  ],
  [
    717,
    faultRow(
      "CUDA_ERROR_INVALID_ADDRESS_SPACE",
      "the kernel used an address of the wrong state space",
      seeEmulator,
    ),
  ],
  [718, faultRow("CUDA_ERROR_INVALID_PC", "the kernel jumped outside its code", seeEmulator)],
  [
    719,
    faultRow(
      "CUDA_ERROR_LAUNCH_FAILED",
      "the kernel died of an exception (a trap, shared memory out of bounds, or an unhandled fault)",
      seeEmulator,
    ),
  ],
  [
    720,
    {
      name: "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
      meaning: "the blocks of a cooperative grid do not all fit the GPU at once",
      next: "launch fewer blocks: at most blocks per multiprocessor times multiprocessors",
      as: "shape",
      sticky: false,
    },
  ],
  [
    721,
    faultRow(
      "CUDA_ERROR_TENSOR_MEMORY_LEAK",
      "the kernel ended with tensor memory still allocated",
      "pair every tcgen05.alloc with a dealloc",
    ),
  ],
  [
    800,
    driverRow(
      "CUDA_ERROR_NOT_PERMITTED",
      "the operation is not permitted here",
      "check the container's or MPS's permissions",
    ),
  ],
  [
    801,
    {
      name: "CUDA_ERROR_NOT_SUPPORTED",
      meaning: "this GPU or driver does not support the operation",
      next: useEmulator,
      as: "deviceUnfit",
      sticky: false,
    },
  ],
  [
    802,
    driverRow(
      "CUDA_ERROR_SYSTEM_NOT_READY",
      "the system is not ready for CUDA (fabric manager not running, or still starting)",
      "start nvidia-fabricmanager, or wait for it",
    ),
  ],
  [
    803,
    driverRow(
      "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
      "the driver's library and its kernel module are of different versions",
      "reboot, or reload the nvidia kernel module",
    ),
  ],
  [
    804,
    driverRow(
      "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
      "the forward-compatibility library does not support this GPU",
      "take the compat folder out of LD_LIBRARY_PATH",
    ),
  ],
  [
    805,
    driverRow(
      "CUDA_ERROR_MPS_CONNECTION_FAILED",
      "the MPS daemon does not answer",
      "start it, or unset CUDA_MPS_PIPE_DIRECTORY",
    ),
  ],
  [
    912,
    {
      name: "CUDA_ERROR_INVALID_CLUSTER_SIZE",
      meaning: "the GPU cannot schedule a cluster of this size with these resources",
      next: "take a smaller cluster in the schedule",
      as: "shape",
      sticky: false,
    },
  ],
  [
    999,
    driverRow(
      "CUDA_ERROR_UNKNOWN",
      "the driver failed without a reason",
      "look at dmesg; reload the nvidia kernel module or reboot",
    ),
  ],
]);
