/** The GPU that is shown and ranked for. */
import { findGpu, type Gpu, gpuFor } from "@tilewright/core";

/** By its name; for an empty one the first of the architecture. Null where none is known. */
export function gpuOf(name: string, arch: string): Gpu | null {
  const found = name === "" ? null : findGpu(name);
  return found?.ok ? found.value : (gpuFor(arch) ?? null);
}
