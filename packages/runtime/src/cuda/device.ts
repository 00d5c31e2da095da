/** A GPU as a `Device`. */
import { type Checked, ok, type TensorMapSpec } from "@tilewright/core";
import type { ModuleCache } from "../cache/modules.ts";
import type { Device, DeviceBuffer, DeviceModule } from "../device.ts";
import { disposeSymbol } from "../dispose.ts";
import { CudaBuffer } from "./buffer.ts";
import { CudaContext } from "./context.ts";
import type { CudaDriver } from "./driver.ts";
import { CudaEvent } from "./event.ts";
import { type CudaDeviceInfo, describeDevice, startDriver } from "./info.ts";
import { CudaModule } from "./module.ts";
import { PinnedMemory } from "./pinned.ts";
import { CudaStream, type StreamOptions } from "./stream.ts";
import { encodeTensorMap } from "./tensor-map.ts";

/** CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED: the context is shared, and somebody was first. */
const peerAccessEnabled = 704;

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
  /** Whether an earlier fault has taken the GPU from this process. */
  get lost(): boolean {
    return this.#context.lost;
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

  encodeTensorMap(spec: TensorMapSpec): Checked<Uint8Array> {
    return encodeTensorMap(this.#context, spec);
  }

  /** Host memory for copies that run beside other work. */
  pinned(size: number): Checked<PinnedMemory> {
    return PinnedMemory.alloc(this.#context, size);
  }

  stream(options: StreamOptions = {}): Checked<CudaStream> {
    return CudaStream.create(this.#context, options);
  }

  event(): Checked<CudaEvent> {
    return CudaEvent.create(this.#context);
  }

  /** Free and total bytes of the GPU's memory. */
  memory(): Checked<{ readonly free: number; readonly total: number }> {
    const info = this.#context.call("device.memory", (driver) => driver.memGetInfo());
    return info.ok ? ok({ free: info.value[0], total: info.value[1] }) : info;
  }

  /** Let kernels of this GPU use buffers of `other` directly. False: the hardware cannot; copies between them still work. */
  enablePeer(other: CudaDevice): Checked<boolean> {
    const context = this.#context;
    const peer = other.#context;
    if (peer === context || peer.device === context.device) return ok(true);
    const at = "device.enablePeer";
    const can = context.call(at, (driver) => driver.deviceCanAccessPeer(context.device, peer.device));
    if (!can.ok || !can.value) return can;
    const enabled = context.call(at, (driver) => {
      const result = driver.ctxEnablePeerAccess(peer.handle);
      return !result.ok && result.error === peerAccessEnabled ? ok(true as const) : result;
    });
    return enabled.ok ? ok(true) : enabled;
  }

  /** Bytes of L2 set aside for persisting accesses; what the device can at most, if that is less. 0 ends it and clears them. */
  persistL2(bytes: number): Checked<number> {
    const most = Math.min(bytes, this.info.maxPersistingL2);
    const set = this.#context.call("device.persistL2", (driver) => driver.ctxSetPersistingL2(most));
    if (!set.ok) return set;
    if (most > 0) return ok(most);
    const reset = this.#context.call("device.persistL2", (driver) => driver.ctxResetPersistingL2());
    return reset.ok ? ok(0) : reset;
  }

  /** The lowest and the highest priority that a stream or a launch can have; lower numbers go first. */
  priorities(): Checked<readonly [least: number, greatest: number]> {
    return this.#context.call("device.priorities", (driver) => driver.streamPriorities());
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

/**
 * Open GPU `index` of a loaded driver. `note`: why this one was chosen, if it was not asked for.
 * `cache`: where compiled modules are kept; none unless given (`openDevice` has one unless told otherwise).
 */
export function openCudaDevice(
  driver: CudaDriver,
  index = 0,
  note: string | null = null,
  cache: ModuleCache | null = null,
): Checked<CudaDevice> {
  const started = startDriver(driver);
  if (!started.ok) return started;
  const described = describeDevice(driver, index, started.value);
  if (!described.ok) return described;
  const context = CudaContext.open(driver, described.value.handle, described.value.info, cache);
  return context.ok ? ok(new CudaDevice(context.value, note)) : context;
}
