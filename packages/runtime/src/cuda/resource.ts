/** What a context owns: given back once, by its owner or with the context. */
import { disposeSymbol } from "../dispose.ts";
import type { CudaContext } from "./context.ts";
import type { CudaDriver, CudaResult } from "./driver.ts";

export abstract class CudaResource implements Disposable {
  readonly context: CudaContext;
  readonly #resource: number;
  #released = false;

  /** `giveBack` holds handles, never this object, which could not be collected otherwise. */
  protected constructor(
    context: CudaContext,
    what: string,
    giveBack: (driver: CudaDriver) => CudaResult<true>,
  ) {
    this.context = context;
    this.#resource = context.resources.add(this, what, () => context.release(giveBack));
  }

  /** By its owner. */
  protected get givenBack(): boolean {
    return this.#released;
  }

  /** Or with the context. */
  protected get gone(): boolean {
    return this.#released || this.context.closed;
  }

  /** What has to be waited for before it is given back. */
  protected settle(): void {}

  protected release(): void {
    if (this.#released) return;
    this.settle();
    this.#released = true;
    this.context.resources.release(this.#resource);
  }

  [disposeSymbol](): void {
    this.release();
  }
}
