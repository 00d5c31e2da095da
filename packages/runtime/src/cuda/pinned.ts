/**
 * Host memory that the driver has locked, so that copies run beside other work.
 * The bytes are JavaScript's own and are registered with the driver, not allocated by it: a view that outlives `free` still reads plain
 * memory, and nothing a program does with it can touch memory that is gone.
 */
import { type Checked, ok, roundUp } from "@tilewright/core";
import { fail } from "../diagnostics.ts";
import { checkSize } from "../ranges.ts";
import type { CudaContext } from "./context.ts";
import { CudaResource } from "./resource.ts";

/** What is registered are whole pages. */
const pageBytes = 4096;

export class PinnedMemory extends CudaResource {
  /** Valid for ever; pinned until `free`. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Waits of the streams that copies of this memory are in flight on. */
  readonly #users = new Map<object, () => void>();

  private constructor(context: CudaContext, bytes: Uint8Array<ArrayBuffer>, pages: Uint8Array) {
    // Holds the pages until they are unregistered: they cannot be collected before.
    super(context, `pinned memory of ${bytes.byteLength} B`, (driver) => driver.memHostUnregister(pages));
    this.bytes = bytes;
  }

  /** Zeroed. */
  static alloc(context: CudaContext, size: number): Checked<PinnedMemory> {
    const at = "device.pinned";
    const sized = checkSize(at, size);
    if (!sized.ok) return sized;
    const whole = roundUp(size, pageBytes);
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
    return this.gone;
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
    this.release();
  }

  protected override settle(): void {
    for (const wait of [...this.#users.values()]) wait();
    this.#users.clear();
  }
}
