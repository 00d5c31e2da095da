/** Errors of streams, graphs, peers, pinned memory and MPS; see `errors.ts`. */
import { bug, type CudaErrorRow, callRow, driverRow, faultRow } from "./error-row.ts";

const outsideUs = "another library of this process uses the driver in a way that ours does not expect";
const recordAgain = "inside a capture only queue work: no synchronising, allocating, freeing or loading";
const mps = "look at the MPS server's log, restart it, or unset CUDA_MPS_PIPE_DIRECTORY";

export const queueErrors: readonly (readonly [number, CudaErrorRow])[] = [
  [
    5,
    callRow(
      "CUDA_ERROR_PROFILER_DISABLED",
      "the profiler is switched off",
      "start the profiler, or run without it",
    ),
  ],
  [202, callRow("CUDA_ERROR_CONTEXT_ALREADY_CURRENT", "the context is current already", outsideUs)],
  [205, callRow("CUDA_ERROR_MAP_FAILED", "memory could not be mapped", outsideUs)],
  [206, callRow("CUDA_ERROR_UNMAP_FAILED", "memory could not be unmapped", outsideUs)],
  [207, callRow("CUDA_ERROR_ARRAY_IS_MAPPED", "an array is still mapped", outsideUs)],
  [208, callRow("CUDA_ERROR_ALREADY_MAPPED", "a resource is mapped already", outsideUs)],
  [210, callRow("CUDA_ERROR_ALREADY_ACQUIRED", "a resource is acquired already", outsideUs)],
  [211, callRow("CUDA_ERROR_NOT_MAPPED", "a resource is not mapped", outsideUs)],
  [
    215,
    callRow(
      "CUDA_ERROR_UNSUPPORTED_LIMIT",
      "this GPU does not have the limit that is set (persisting L2, for instance)",
      "leave the limit alone",
    ),
  ],
  [
    216,
    callRow(
      "CUDA_ERROR_CONTEXT_ALREADY_IN_USE",
      "the context belongs to another thread",
      "use the device from one thread",
    ),
  ],
  [
    217,
    callRow(
      "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
      "these two GPUs cannot reach each other's memory",
      "copy through stream.copy, which goes through the host where it must",
    ),
  ],
  [
    224,
    callRow(
      "CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY",
      "this GPU cannot give a context part of its multiprocessors",
      "unset CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    ),
  ],
  [
    225,
    callRow(
      "CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC",
      "the text waits on the device for its own launches, which this GPU does not do",
      "drop cudaDeviceSynchronize from device code",
    ),
  ],
  [301, callRow("CUDA_ERROR_FILE_NOT_FOUND", "the driver does not find a file", "reinstall NVIDIA's driver")],
  [402, callRow("CUDA_ERROR_LOSSY_QUERY", "the answer does not fit what was asked for", bug)],
  [
    703,
    callRow(
      "CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING",
      "textures of this launch do not go together",
      outsideUs,
    ),
  ],
  [
    704,
    callRow(
      "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
      "access to the peer is switched on already",
      "nothing needs to be done",
    ),
  ],
  [
    705,
    callRow(
      "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED",
      "access to the peer was never switched on",
      "call device.enablePeer first",
    ),
  ],
  [
    708,
    callRow(
      "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE",
      "the device's context is in use with other settings",
      outsideUs,
    ),
  ],
  [
    711,
    callRow(
      "CUDA_ERROR_TOO_MANY_PEERS",
      "the hardware has no room for another peer",
      "use fewer GPUs in one process",
    ),
  ],
  [
    712,
    callRow(
      "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
      "some of this host memory is pinned already",
      outsideUs,
    ),
  ],
  [713, callRow("CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "this host memory is not pinned", bug)],
  [806, driverRow("CUDA_ERROR_MPS_RPC_FAILURE", "the MPS server cannot be talked to", mps)],
  [
    807,
    driverRow(
      "CUDA_ERROR_MPS_SERVER_NOT_READY",
      "the MPS server recovers from a fault, or is still starting",
      mps,
    ),
  ],
  [
    808,
    driverRow("CUDA_ERROR_MPS_MAX_CLIENTS_REACHED", "the MPS server has as many clients as it takes", mps),
  ],
  [
    809,
    driverRow(
      "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED",
      "the MPS server has as many connections as it takes",
      mps,
    ),
  ],
  [
    810,
    faultRow(
      "CUDA_ERROR_MPS_CLIENT_TERMINATED",
      "the MPS server has ended this client, perhaps for the fault of another one",
      mps,
    ),
  ],
  [
    811,
    callRow(
      "CUDA_ERROR_CDP_NOT_SUPPORTED",
      "launches from the device are not supported here",
      "drop them from the device code",
    ),
  ],
  [
    812,
    callRow(
      "CUDA_ERROR_CDP_VERSION_MISMATCH",
      "device code was built for another version of launches from the device",
      "build it again",
    ),
  ],
  [
    900,
    callRow(
      "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
      "a graph is being recorded, and this call cannot be part of one",
      recordAgain,
    ),
  ],
  [
    901,
    callRow(
      "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
      "an earlier error has spoilt the graph that is being recorded",
      recordAgain,
    ),
  ],
  [902, callRow("CUDA_ERROR_STREAM_CAPTURE_MERGE", "two recordings meet", "record one graph at a time")],
  [
    903,
    callRow(
      "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
      "the recording was not begun on this stream",
      "end it where it was begun",
    ),
  ],
  [
    904,
    callRow(
      "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
      "a stream that joined the recording has not come back to it",
      "record an event on it, and wait for that event on the first stream",
    ),
  ],
  [
    905,
    callRow(
      "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
      "the recording depends on work outside it",
      "record the event that it waits for inside",
    ),
  ],
  [
    906,
    callRow(
      "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
      "a call on the default stream waits for a stream that records",
      recordAgain,
    ),
  ],
  [
    907,
    callRow(
      "CUDA_ERROR_CAPTURED_EVENT",
      "the event was recorded into a graph, where it has no time",
      "use an event of its own",
    ),
  ],
  [
    908,
    callRow(
      "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
      "another thread has begun the recording",
      "record from one thread",
    ),
  ],
  [
    909,
    callRow(
      "CUDA_ERROR_TIMEOUT",
      "the driver waited longer than it was told to",
      "look for other work on this GPU (nvidia-smi)",
    ),
  ],
  [
    910,
    callRow(
      "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
      "the new recording is not the same work in the same order",
      "record and instantiate a new graph",
    ),
  ],
  [
    911,
    faultRow(
      "CUDA_ERROR_EXTERNAL_DEVICE",
      "a device outside the GPU failed while the GPU waited for it",
      "look at dmesg",
    ),
  ],
  [913, callRow("CUDA_ERROR_FUNCTION_NOT_LOADED", "the kernel is not loaded yet", "launch it once first")],
  [
    914,
    callRow("CUDA_ERROR_INVALID_RESOURCE_TYPE", "a resource is of another type than this call takes", bug),
  ],
  [915, callRow("CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION", "resources do not go together", bug)],
  [916, callRow("CUDA_ERROR_KEY_ROTATION", "the GPU changes its encryption keys", "try again")],
];
