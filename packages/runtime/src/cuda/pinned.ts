/**
 * Host memory that the driver has locked, so that copies run beside other work.
 * The bytes are JavaScript's own and are registered with the driver, not allocated by it: a view that outlives `free` still reads plain
 * memory, and nothing a program does with it can touch memory that is gone.
 */
import { type Checked, ok } from "@tilewright/core";
import { fail } from "../diagnostics.ts";
import { disposeSymbol } from "../dispose.ts";
import { checkSize } from "../ranges.ts";
import type { CudaContext } from "./context.ts";

/** What is registered are whole pages. */
const pageBytes = 4096;

export class PinnedMemory implements Disposable {
  /** Valid for ever; pinned until `free`. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly context: CudaContext;
  /** Waits of the streams that copies of this memory are in flight on. */
  readonly #users = new Map<object, () => void>();
  readonly #resource: number;
  #freed = false;

  private constructor(context: CudaContext, bytes: Uint8Array<ArrayBuffer>, pages: Uint8Array) {
    this.context = context;
    this.bytes = bytes;
    // Holds the pages until they are unregistered, and not this object: they cannot be collected before.
    this.#resource = context.resources.add(this, `pinned memory of ${bytes.byteLength} B`, () =>
      context.release((driver) => driver.memHostUnregister(pages)),
    );
  }

  /** Zeroed. */
  static alloc(context: CudaContext, size: number): Checked<PinnedMemory> {
    const at = "device.pinned";
    const sized = checkSize(at, size);
    if (!sized.ok) return sized;
    const whole = Math.ceil(size / pageBytes) * pageBytes;
    let buffer: ArrayBuffer;
    try {
      buffer = new ArrayBuffer(whole + pageBytes);
    } catch {
      return fail("memory", at, `the host has no ${size} B in one piece`, "take less, in several pieces");
    }
    const start = context.driver.hostAddress(new Uint8Array(buffer));
    const offset = Number((BigInt(pageBytes) - (start % BigInt(pageBytes))) % BigInt(pageBytes));
    const pages = new Uint8Array(buffer, offset, whole);
    const registered = context.call(
      at,
      (driver) => driver.memHostRegister(pages),
      () => `: ${size} B of host memory`,
    );
    return registered.ok
      ? ok(new PinnedMemory(context, new Uint8Array(buffer, offset, size), pages))
      : registered;
  }

  get freed(): boolean {
    return this.#freed || this.context.closed;
  }

  /** A stream uses this memory until `wait` has returned, or until `released`. */
  usedBy(stream: object, wait: () => void): void {
    this.#users.set(stream, wait);
  }
  released(stream: object): void {
    this.#users.delete(stream);
  }

  /** Waits for the copies that are in flight. */
  free(): void {
    if (this.#freed) return;
    for (const wait of [...this.#users.values()]) wait();
    this.#users.clear();
    this.#freed = true;
    this.context.resources.release(this.#resource);
  }

  [disposeSymbol](): void {
    this.free();
  }
}
