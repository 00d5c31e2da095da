/** Points in a stream: to wait for, and to take times between. */
import { type Checked, ok } from "@tilewright/core";
import { fail } from "../diagnostics.ts";
import type { CudaContext } from "./context.ts";
import type { CudaResult } from "./driver.ts";
import { CudaResource } from "./resource.ts";

export class CudaEvent extends CudaResource {
  readonly handle: bigint;

  private constructor(context: CudaContext, handle: bigint) {
    super(context, "event", (driver) => driver.eventDestroy(handle));
    this.handle = handle;
  }

  static create(context: CudaContext): Checked<CudaEvent> {
    const made = context.call("device.event", (driver) => driver.eventCreate());
    return made.ok ? ok(new CudaEvent(context, made.value)) : made;
  }

  get destroyed(): boolean {
    return this.gone;
  }

  /** Whether the work that it was recorded behind is done. True for an event that was never recorded. */
  done(): Checked<boolean> {
    return this.#call("event.done", (handle) => this.context.driver.eventQuery(handle));
  }

  /** Wait for that work. */
  synchronize(): Checked<true> {
    return this.#call("event.synchronize", (handle) => this.context.driver.eventSynchronize(handle));
  }

  /** Milliseconds from `start` to this event; both are recorded and done. The resolution is about 0.5 us. */
  since(start: CudaEvent): Checked<number> {
    if (start.context !== this.context) return fail("buffer", "event.since", "the events are of two devices");
    return this.#call("event.since", (handle) => this.context.driver.eventElapsedTime(start.handle, handle));
  }

  destroy(): void {
    this.release();
  }

  #call<T>(at: string, run: (handle: bigint) => CudaResult<T>): Checked<T> {
    if (this.givenBack) return fail("closed", at, "the event is destroyed", "make another one");
    return this.context.call(at, () => run(this.handle));
  }
}
