/** Memory that queued work uses. */
import type { CudaBuffer } from "./buffer.ts";
import type { PinnedMemory } from "./pinned.ts";

export type StreamUse = CudaBuffer | PinnedMemory;
