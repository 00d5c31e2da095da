/**
 * CUDA errors: what each means for someone who wanted a matrix product, and what to do next.
 * Names and numbers are those of cuda.h (CUresult); a status that is not here is shown as the driver names it.
 */
import { type RuntimeCode, useEmulator } from "../diagnostics.ts";

export interface CudaErrorRow {
  readonly name: string;
  readonly meaning: string;
  /** What to do next. */
  readonly next: string;
  /** The diagnostic that it becomes. */
  readonly as: RuntimeCode;
  /** True where the context is unusable afterwards: every later call in this process gives the same error. */
  readonly sticky: boolean;
}

/** The emulator shows the instruction, which the driver does not. */
const seeEmulator = "find the instruction with --device emulator (all checks on)";
const bug = "this is a bug of the runtime: report the command with the output of `tilewright doctor`";
const outsideUs = "another library of this process uses the driver in a way that ours does not expect";
const recordAgain = "inside a capture only queue work: no synchronising, allocating, freeing or loading";
const mps = "look at the MPS server's log, restart it, or unset CUDA_MPS_PIPE_DIRECTORY";

/** Name behind `CUDA_ERROR_`, the diagnostic (`sticky` where the context is lost, as behind every fault), what it means, and what to do next. */
const texts = {
  1: `INVALID_VALUE | call | an argument is out of range | ${bug}`,
  2: "OUT_OF_MEMORY | memory | the GPU has not enough free memory | stop other programs on this GPU (nvidia-smi lists them), take a smaller problem, or another GPU (CUDA_VISIBLE_DEVICES)",
  3: "NOT_INITIALIZED | driverStart | the driver is not initialised | restart the program",
  4: "DEINITIALIZED | driverStart | the driver is shutting down | restart the program",
  5: "PROFILER_DISABLED | call | the profiler is switched off | start the profiler, or run without it",
  34: "STUB_LIBRARY | driverStart | the library that was found is the toolkit's stub and not a driver | take the toolkit's stubs folder out of LD_LIBRARY_PATH",
  36: "CALL_REQUIRES_NEWER_DRIVER | driverStart | this call needs a newer driver | update NVIDIA's driver",
  46: "DEVICE_UNAVAILABLE | driverStart | another process holds the GPU for itself (exclusive compute mode) | stop it, or nvidia-smi -c 0",
  100: `NO_DEVICE | noDevice | the driver sees no CUDA-capable GPU | check nvidia-smi and CUDA_VISIBLE_DEVICES; or ${useEmulator}`,
  101: `INVALID_DEVICE | indexRange | there is no GPU of this index | tilewright doctor lists them; or ${useEmulator}`,
  102: "DEVICE_NOT_LICENSED | driverStart | the virtual GPU has no licence | check the vGPU licence",
  200: "INVALID_IMAGE | image | the image is neither PTX nor a cubin | check the file; a PTX text starts with .version",
  201: `INVALID_CONTEXT | call | no CUDA context is current on this thread | ${bug}`,
  202: `CONTEXT_ALREADY_CURRENT | call | the context is current already | ${outsideUs}`,
  205: `MAP_FAILED | call | memory could not be mapped | ${outsideUs}`,
  206: `UNMAP_FAILED | call | memory could not be unmapped | ${outsideUs}`,
  207: `ARRAY_IS_MAPPED | call | an array is still mapped | ${outsideUs}`,
  208: `ALREADY_MAPPED | call | a resource is mapped already | ${outsideUs}`,
  209: `NO_BINARY_FOR_GPU | deviceUnfit | the image holds no code for this GPU | compile for this GPU's architecture (--arch native); or ${useEmulator}`,
  210: `ALREADY_ACQUIRED | call | a resource is acquired already | ${outsideUs}`,
  211: `NOT_MAPPED | call | a resource is not mapped | ${outsideUs}`,
  214: `ECC_UNCORRECTABLE | call sticky | the GPU's memory had an error that ECC could not correct | the hardware is at fault: look at nvidia-smi -q -d ECC; or ${useEmulator}`,
  215: "UNSUPPORTED_LIMIT | call | this GPU does not have the limit that is set (persisting L2, for instance) | leave the limit alone",
  216: "CONTEXT_ALREADY_IN_USE | call | the context belongs to another thread | use the device from one thread",
  217: "PEER_ACCESS_UNSUPPORTED | call | these two GPUs cannot reach each other's memory | copy through stream.copy, which goes through the host where it must",
  218: "INVALID_PTX | jit | the JIT compiler rejects the text | see its log above",
  220: `NVLINK_UNCORRECTABLE | call sticky | an NVLink error could not be corrected | the hardware is at fault: look at nvidia-smi nvlink -e; or ${useEmulator}`,
  221: `JIT_COMPILER_NOT_FOUND | jit | the driver's JIT compiler library (libnvidia-ptxjitcompiler) is missing | install all of NVIDIA's driver, or load a cubin made by ptxas (--emit cubin); or ${useEmulator}`,
  222: `UNSUPPORTED_PTX_VERSION | driverTooOld | the text's PTX version is newer than this driver | update NVIDIA's driver; or ${useEmulator}`,
  223: "JIT_COMPILATION_DISABLED | jit | CUDA_DISABLE_PTX_JIT forbids PTX | unset CUDA_DISABLE_PTX_JIT, or load a cubin (--emit cubin)",
  224: "UNSUPPORTED_EXEC_AFFINITY | call | this GPU cannot give a context part of its multiprocessors | unset CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
  225: "UNSUPPORTED_DEVSIDE_SYNC | call | the text waits on the device for its own launches, which this GPU does not do | drop cudaDeviceSynchronize from device code",
  226: "CONTAINED | fault | a hardware error stopped the kernel | look at dmesg for the Xid error",
  300: "INVALID_SOURCE | image | the image cannot be compiled | check the file; a PTX text starts with .version",
  301: "FILE_NOT_FOUND | call | the driver does not find a file | reinstall NVIDIA's driver",
  302: "SHARED_OBJECT_SYMBOL_NOT_FOUND | jit | the text uses a symbol that nothing defines | define it, or drop the .extern",
  303: "SHARED_OBJECT_INIT_FAILED | driverStart | a library of the driver does not load | reinstall NVIDIA's driver",
  304: "OPERATING_SYSTEM | driverStart | a call to the operating system failed | check that /dev/nvidia* exist and may be opened",
  400: `INVALID_HANDLE | call | a handle is not alive | ${bug}`,
  401: `ILLEGAL_STATE | call | a resource is not in the state this call needs | ${bug}`,
  402: `LOSSY_QUERY | call | the answer does not fit what was asked for | ${bug}`,
  500: `NOT_FOUND | entry | the module has nothing of this name | check the entry's name; \`.visible .entry\` lines of the text list them`,
  600: `NOT_READY | call | the work is not finished | ${bug}`,
  700: `ILLEGAL_ADDRESS | fault | the kernel touched memory that is not allocated | ${seeEmulator}`,
  701: `LAUNCH_OUT_OF_RESOURCES | shape | a block needs more registers or shared memory than a multiprocessor has | take a smaller tile or fewer threads in the schedule; \`tilewright plan\` shows what they need`,
  702: "LAUNCH_TIMEOUT | fault | the kernel ran longer than the display's watchdog allows | take a smaller problem or a GPU without a display",
  703: `LAUNCH_INCOMPATIBLE_TEXTURING | call | textures of this launch do not go together | ${outsideUs}`,
  704: "PEER_ACCESS_ALREADY_ENABLED | call | access to the peer is switched on already | nothing needs to be done",
  705: "PEER_ACCESS_NOT_ENABLED | call | access to the peer was never switched on | call device.enablePeer first",
  708: `PRIMARY_CONTEXT_ACTIVE | call | the device's context is in use with other settings | ${outsideUs}`,
  709: "CONTEXT_IS_DESTROYED | call | the CUDA context is destroyed | open the device again",
  710: `ASSERT | fault | an assertion in the kernel failed | ${seeEmulator}`,
  711: "TOO_MANY_PEERS | call | the hardware has no room for another peer | use fewer GPUs in one process",
  712: `HOST_MEMORY_ALREADY_REGISTERED | call | some of this host memory is pinned already | ${outsideUs}`,
  713: `HOST_MEMORY_NOT_REGISTERED | call | this host memory is not pinned | ${bug}`,
  714: `HARDWARE_STACK_ERROR | fault | the kernel's call stack is corrupt or overflowed | ${seeEmulator}`,
  715: `ILLEGAL_INSTRUCTION | fault | the kernel met an illegal instruction or operand (a wrong descriptor, for instance) | ${seeEmulator}`,
  716: `MISALIGNED_ADDRESS | fault | the kernel used an address that is not aligned to the access | ${seeEmulator}`,
  717: `INVALID_ADDRESS_SPACE | fault | the kernel used an address of the wrong state space | ${seeEmulator}`,
  718: `INVALID_PC | fault | the kernel jumped outside its code | ${seeEmulator}`,
  719: `LAUNCH_FAILED | fault | the kernel died of an exception (a trap, shared memory out of bounds, or an unhandled fault) | ${seeEmulator}`,
  720: "COOPERATIVE_LAUNCH_TOO_LARGE | shape | the blocks of a cooperative grid do not all fit the GPU at once | launch fewer blocks: at most blocks per multiprocessor times multiprocessors",
  721: "TENSOR_MEMORY_LEAK | fault | the kernel ended with tensor memory still allocated | pair every tcgen05.alloc with a dealloc",
  800: "NOT_PERMITTED | driverStart | the operation is not permitted here | check the container's or MPS's permissions",
  801: `NOT_SUPPORTED | deviceUnfit | this GPU or driver does not support the operation | ${useEmulator}`,
  802: "SYSTEM_NOT_READY | driverStart | the system is not ready for CUDA (fabric manager not running, or still starting) | start nvidia-fabricmanager, or wait for it",
  803: "SYSTEM_DRIVER_MISMATCH | driverStart | the driver's library and its kernel module are of different versions | reboot, or reload the nvidia kernel module",
  804: "COMPAT_NOT_SUPPORTED_ON_DEVICE | driverStart | the forward-compatibility library does not support this GPU | take the compat folder out of LD_LIBRARY_PATH",
  805: "MPS_CONNECTION_FAILED | driverStart | the MPS daemon does not answer | start it, or unset CUDA_MPS_PIPE_DIRECTORY",
  806: `MPS_RPC_FAILURE | driverStart | the MPS server cannot be talked to | ${mps}`,
  807: `MPS_SERVER_NOT_READY | driverStart | the MPS server recovers from a fault, or is still starting | ${mps}`,
  808: `MPS_MAX_CLIENTS_REACHED | driverStart | the MPS server has as many clients as it takes | ${mps}`,
  809: `MPS_MAX_CONNECTIONS_REACHED | driverStart | the MPS server has as many connections as it takes | ${mps}`,
  810: `MPS_CLIENT_TERMINATED | fault | the MPS server has ended this client, perhaps for the fault of another one | ${mps}`,
  811: "CDP_NOT_SUPPORTED | call | launches from the device are not supported here | drop them from the device code",
  812: "CDP_VERSION_MISMATCH | call | device code was built for another version of launches from the device | build it again",
  900: `STREAM_CAPTURE_UNSUPPORTED | call | a graph is being recorded, and this call cannot be part of one | ${recordAgain}`,
  901: `STREAM_CAPTURE_INVALIDATED | call | an earlier error has spoilt the graph that is being recorded | ${recordAgain}`,
  902: "STREAM_CAPTURE_MERGE | call | two recordings meet | record one graph at a time",
  903: "STREAM_CAPTURE_UNMATCHED | call | the recording was not begun on this stream | end it where it was begun",
  904: "STREAM_CAPTURE_UNJOINED | call | a stream that joined the recording has not come back to it | record an event on it, and wait for that event on the first stream",
  905: "STREAM_CAPTURE_ISOLATION | call | the recording depends on work outside it | record the event that it waits for inside",
  906: `STREAM_CAPTURE_IMPLICIT | call | a call on the default stream waits for a stream that records | ${recordAgain}`,
  907: "CAPTURED_EVENT | call | the event was recorded into a graph, where it has no time | use an event of its own",
  908: "STREAM_CAPTURE_WRONG_THREAD | call | another thread has begun the recording | record from one thread",
  909: "TIMEOUT | call | the driver waited longer than it was told to | look for other work on this GPU (nvidia-smi)",
  910: "GRAPH_EXEC_UPDATE_FAILURE | call | the new recording is not the same work in the same order | record and instantiate a new graph",
  911: "EXTERNAL_DEVICE | fault | a device outside the GPU failed while the GPU waited for it | look at dmesg",
  912: "INVALID_CLUSTER_SIZE | shape | the GPU cannot schedule a cluster of this size with these resources | take a smaller cluster in the schedule",
  913: "FUNCTION_NOT_LOADED | call | the kernel is not loaded yet | launch it once first",
  914: `INVALID_RESOURCE_TYPE | call | a resource is of another type than this call takes | ${bug}`,
  915: `INVALID_RESOURCE_CONFIGURATION | call | resources do not go together | ${bug}`,
  916: "KEY_ROTATION | call | the GPU changes its encryption keys | try again",
  999: "UNKNOWN | driverStart | the driver failed without a reason | look at dmesg; reload the nvidia kernel module or reboot",
} as const satisfies Record<number, `${string} | ${RuntimeCode}${"" | " sticky"} | ${string} | ${string}`>;

/** What every next step of a diagnostic ends with. */
const ways: Partial<Record<RuntimeCode, string>> = {
  driverStart: `; or ${useEmulator}`,
  fault: "; this process has lost the GPU, start a new one",
};

function rowOf(text: string): CudaErrorRow {
  const [name = "", kind = "", meaning = "", next = ""] = text.split(" | ");
  const [as, sticky] = kind.split(" ") as [RuntimeCode, string?];
  return {
    name: `CUDA_ERROR_${name}`,
    meaning,
    next: `${next}${ways[as] ?? ""}`,
    as,
    sticky: as === "fault" || sticky !== undefined,
  };
}

export const cudaErrors: ReadonlyMap<number, CudaErrorRow> = new Map(
  Object.entries(texts).map(([code, text]) => [Number(code), rowOf(text)]),
);
