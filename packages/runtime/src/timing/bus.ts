/** The PCI address of a GPU, by which NVML finds the same one: it numbers devices in another order than CUDA. */

import { bindFunctions } from "../cuda/foreign.ts";
import { loadKoffi } from "../cuda/koffi.ts";
import { textOf } from "../cuda/layout.ts";

const prototypes = { busId: ["int cuDeviceGetPCIBusId(void *text, int length, int device)"] } as const;

/** `0000:17:00.0`; null where the driver library does not say. `library`: as the driver was loaded; `device`: the driver's handle. */
export async function pciBusId(library: string, device: number): Promise<string | null> {
  const koffi = await loadKoffi();
  if (!koffi.ok) return null;
  try {
    const { functions, missing } = bindFunctions<"busId">(koffi.value.load(library), prototypes);
    if (missing.length > 0) return null;
    const text = new Uint8Array(new ArrayBuffer(64));
    return Number(functions.busId(text, text.byteLength, device)) === 0 ? textOf(text) : null;
  } catch {
    return null;
  }
}
