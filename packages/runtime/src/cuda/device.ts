/** A GPU as a `Device`. */
import { type Checked, ok } from "@tilewright/ir";
import type { Device, DeviceBuffer, DeviceModule } from "../device.ts";
import { disposeSymbol } from "../dispose.ts";
import { CudaBuffer } from "./buffer.ts";
import { CudaContext } from "./context.ts";
import type { CudaDriver } from "./driver.ts";
import { type CudaDeviceInfo, describeDevice, startDriver } from "./info.ts";
import { CudaModule } from "./module.ts";

export class CudaDevice implements Device {
  readonly kind = "cuda";
  readonly note: string | null;
  readonly #context: CudaContext;

  constructor(context: CudaContext, note: string | null) {
    this.#context = context;
    this.note = note;
  }

  get name(): string {
    return this.#context.info.name;
  }
  get arch(): string {
    return this.#context.info.arch;
  }
  get numSms(): number {
    return this.#context.info.numSms;
  }
  /** Limits, clocks and sizes, as the driver gives them. */
  get info(): CudaDeviceInfo {
    return this.#context.info;
  }

  load(image: string | Uint8Array): Checked<DeviceModule> {
    return CudaModule.load(this.#context, image);
  }

  alloc(size: number): Checked<DeviceBuffer> {
    return CudaBuffer.alloc(this.#context, size);
  }

  synchronize(): Checked<true> {
    return this.#context.call("device.synchronize", (driver) =>
      driver.streamSynchronize(this.#context.stream),
    );
  }

  close(): void {
    this.#context.close();
  }

  [disposeSymbol](): void {
    this.close();
  }
}

/** Open GPU `index` of a loaded driver. `note`: why this one was chosen, if it was not asked for. */
export function openCudaDevice(
  driver: CudaDriver,
  index = 0,
  note: string | null = null,
): Checked<CudaDevice> {
  const started = startDriver(driver);
  if (!started.ok) return started;
  const described = describeDevice(driver, index, started.value);
  if (!described.ok) return described;
  const context = CudaContext.open(driver, described.value.handle, described.value.info);
  return context.ok ? ok(new CudaDevice(context.value, note)) : context;
}
