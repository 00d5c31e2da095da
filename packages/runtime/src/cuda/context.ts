/**
 * One GPU in use: its primary context, one stream, the two events around a launch, and every call to the driver on its behalf.
 * The context is made current before each call, because another device of this process may have been used in between.
 */
import { type Checked, type Diagnostic, err, ok } from "@tilewright/core";
import type { ModuleCache } from "../cache/modules.ts";
import { diagnose, useEmulator } from "../diagnostics.ts";
import { Resources, unwatch, watch } from "../resources.ts";
import { statusDiagnostic } from "./call.ts";
import type { CudaDriver, CudaResult, CudaStatus } from "./driver.ts";
import { cudaErrors } from "./errors.ts";
import type { CudaDeviceInfo } from "./info.ts";

/** Handles that live as long as the context. */
interface Handles {
  readonly context: bigint;
  readonly stream: bigint;
  readonly start: bigint;
  readonly end: bigint;
}

export class CudaContext {
  readonly driver: CudaDriver;
  readonly info: CudaDeviceInfo;
  /** CUdevice. */
  readonly device: number;
  /** Compiled modules of earlier processes; null for none. */
  readonly cache: ModuleCache | null;
  /** Buffers, modules, streams, events, graphs, pinned memory. */
  readonly resources = new Resources();
  /** All work of this device goes through this stream, in order. */
  readonly stream: bigint;
  /** Events around a launch. */
  readonly start: bigint;
  readonly end: bigint;
  /** CUcontext. */
  readonly handle: bigint;
  /** Context, stream and events; apart from `resources`, because they are what remains when this object is collected. */
  readonly #roots: Resources;
  #closed = false;
  #lost: string | null = null;

  private constructor(
    driver: CudaDriver,
    device: number,
    info: CudaDeviceInfo,
    cache: ModuleCache | null,
    handles: Handles,
    roots: Resources,
  ) {
    this.driver = driver;
    this.device = device;
    this.info = info;
    this.cache = cache;
    this.handle = handles.context;
    this.stream = handles.stream;
    this.start = handles.start;
    this.end = handles.end;
    this.#roots = roots;
    watch(this, () => roots.releaseAll(), roots);
  }

  /** Retain the primary context of `device` (a driver handle, not an index), and make its stream and events. */
  static open(
    driver: CudaDriver,
    device: number,
    info: CudaDeviceInfo,
    cache: ModuleCache | null = null,
  ): Checked<CudaContext> {
    const roots = new Resources();
    const handles = openHandles(driver, device, roots);
    if (handles.ok) return ok(new CudaContext(driver, device, info, cache, handles.value, roots));
    roots.releaseAll();
    return err([statusDiagnostic(driver, "device.open", handles.error)]);
  }

  get name(): string {
    return this.info.name;
  }

  get closed(): boolean {
    return this.#closed;
  }

  /**
   * Run a driver call in this context. `at`: what is being done. `detail`: more for the message when it fails.
   * Refused without a call when the device is closed, or lost to an earlier fault.
   */
  call<T>(at: string, run: (driver: CudaDriver) => CudaResult<T>, detail?: () => string): Checked<T> {
    const refusal = this.unusable(at);
    if (refusal !== null) return err([refusal]);
    const current = this.driver.ctxSetCurrent(this.handle);
    const result = current.ok ? run(this.driver) : current;
    return result.ok ? result : this.failed(at, result.error, detail);
  }

  /** A failure by its status; a sticky one makes the device lost. */
  failed(at: string, status: CudaStatus, detail?: () => string) {
    const row = cudaErrors.get(status);
    if (row?.sticky === true) this.#lost = `${row.meaning} (${row.name})`;
    return err([statusDiagnostic(this.driver, at, status, detail?.())]);
  }

  /** Make the context current; a status. For the paths where nothing may be allocated. */
  enter(): CudaStatus {
    const current = this.driver.ctxSetCurrent(this.handle);
    return current.ok ? 0 : current.error;
  }

  /** Whether an earlier fault has taken the GPU from this process. */
  get lost(): boolean {
    return this.#lost !== null;
  }

  /** Why no call can be made any more, or null. */
  unusable(at: string): Diagnostic | null {
    if (this.#closed) return diagnose("closed", at, `the device ${this.name} is closed`, "open it again");
    if (this.#lost === null) return null;
    return diagnose(
      "lost",
      at,
      `the GPU is unusable in this process since an earlier error: ${this.#lost}`,
      `start a new process; or ${useEmulator}`,
    );
  }

  /** A call that gives something back: never fails, because there is nothing left to do about it. */
  release(run: (driver: CudaDriver) => CudaResult<true>): void {
    if (this.driver.ctxSetCurrent(this.handle).ok) run(this.driver);
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.resources.releaseAll();
    unwatch(this.#roots);
    this.#roots.releaseAll();
  }
}

/** Enters in `roots` what it could make, also when it fails half-way. Closures here hold handles only, never the context object. */
function openHandles(driver: CudaDriver, device: number, roots: Resources): CudaResult<Handles> {
  const retained = driver.primaryCtxRetain(device);
  if (!retained.ok) return retained;
  const context = retained.value;
  roots.add(null, "context", () => {
    driver.ctxSetCurrent(0n);
    driver.primaryCtxRelease(device);
  });
  const current = driver.ctxSetCurrent(context);
  if (!current.ok) return current;

  const make = (
    what: string,
    made: CudaResult<bigint>,
    destroy: (handle: bigint) => CudaResult<true>,
  ): CudaResult<bigint> => {
    if (made.ok) {
      roots.add(null, what, () => {
        if (driver.ctxSetCurrent(context).ok) destroy(made.value);
      });
    }
    return made;
  };
  const event = () => make("event", driver.eventCreate(), (handle) => driver.eventDestroy(handle));
  const stream = make("stream", driver.streamCreate(), (handle) => driver.streamDestroy(handle));
  if (!stream.ok) return stream;
  const start = event();
  if (!start.ok) return start;
  const end = event();
  if (!end.ok) return end;
  return ok({ context, stream: stream.value, start: start.value, end: end.value });
}
