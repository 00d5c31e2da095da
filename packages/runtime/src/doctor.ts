/** What `tilewright doctor` shows of CUDA: what is there, what is not, and why not. Never fails. */
import type { Checked, Diagnostic } from "@tilewright/core";
import type { CudaDriver } from "./cuda/driver.ts";
import { type CudaDeviceInfo, describeDevice, startDriver } from "./cuda/info.ts";
import { type KoffiDriverOptions, loadKoffi, openKoffiDriver } from "./cuda/koffi.ts";
import { cudaVersion } from "./cuda/versions.ts";

export interface CudaReport {
  /** Version of koffi; null when it does not load. */
  readonly koffi: string | null;
  /** The driver library that was loaded; null when none was. */
  readonly library: string | null;
  /** Newest CUDA that the driver supports, e.g. `13.0`; null when it did not start. */
  readonly driver: string | null;
  readonly devices: readonly CudaDeviceInfo[];
  /** Why something above is missing; empty when a GPU can be used. */
  readonly problems: readonly Diagnostic[];
  /** Libraries that did not load, each with the loader's reason, as far as they were tried. */
  readonly missed: readonly string[];
}

/** How to get a driver; tests pass a fake one. */
export type DriverSource = (options?: Pick<KoffiDriverOptions, "missed">) => Promise<Checked<CudaDriver>>;

/** Look for koffi, the driver and its devices. */
export async function describeCuda(source: DriverSource = openKoffiDriver): Promise<CudaReport> {
  const koffi = await loadKoffi();
  const report: CudaReport = {
    koffi: koffi.ok ? koffi.value.version : null,
    library: null,
    driver: null,
    devices: [],
    problems: [],
    missed: [],
  };
  const missed: string[] = [];
  const driver = await source({
    // The loader's reason often begins with the library's name.
    missed: (library, reason) => missed.push(reason.startsWith(library) ? reason : `${library}: ${reason}`),
  });
  if (!driver.ok) return { ...report, problems: driver.error, missed };
  const found: CudaReport = { ...report, library: driver.value.library, missed };
  const started = startDriver(driver.value);
  if (!started.ok) return { ...found, problems: started.error };
  const devices: CudaDeviceInfo[] = [];
  const problems: Diagnostic[] = [];
  for (let index = 0; index < started.value.count; index++) {
    const described = describeDevice(driver.value, index, started.value);
    if (described.ok) devices.push(described.value.info);
    else problems.push(...described.error);
  }
  return { ...found, driver: cudaVersion(started.value.version).join("."), devices, problems };
}
