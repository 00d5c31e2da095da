/** Memory of a GPU. */
import { type Checked, type Diagnostic, err } from "@tilewright/core";
import { isBuffer } from "../arguments.ts";
import type { DeviceBuffer, LaunchArgument } from "../device.ts";
import { diagnose, fail } from "../diagnostics.ts";
import { checkSize, rangeProblem } from "../ranges.ts";
import type { CudaContext } from "./context.ts";
import { CudaResource } from "./resource.ts";

export class CudaBuffer extends CudaResource implements DeviceBuffer {
  readonly address: bigint;
  readonly size: number;

  private constructor(context: CudaContext, address: bigint, size: number) {
    super(context, `buffer of ${size} B`, (driver) => driver.memFree(address));
    this.address = address;
    this.size = size;
  }

  static alloc(context: CudaContext, size: number): Checked<CudaBuffer> {
    const sized = checkSize("device.alloc", size);
    if (!sized.ok) return sized;
    const allocated = context.call(
      "device.alloc",
      (driver) => driver.memAlloc(size),
      () => memoryNote(context, size),
    );
    return allocated.ok ? { ok: true, value: new CudaBuffer(context, allocated.value, size) } : allocated;
  }

  get freed(): boolean {
    return this.gone;
  }

  write(data: Uint8Array, offset = 0): Checked<true> {
    const refusal = this.#refusal("buffer.write", offset, data.byteLength);
    if (refusal !== null) return refusal;
    if (data.byteLength === 0) return { ok: true, value: true };
    return this.context.call("buffer.write", (driver) =>
      driver.memcpyHtoD(this.address + BigInt(offset), data),
    );
  }

  read(offset = 0, size = this.size - offset): Checked<Uint8Array> {
    const refusal = this.#refusal("buffer.read", offset, size);
    if (refusal !== null) return refusal;
    const data = new Uint8Array(size);
    if (size === 0) return { ok: true, value: data };
    const read = this.context.call("buffer.read", (driver) =>
      driver.memcpyDtoH(data, this.address + BigInt(offset)),
    );
    return read.ok ? { ok: true, value: data } : read;
  }

  fill(byte: number): Checked<true> {
    const refusal = this.#refusal("buffer.fill", 0, this.size);
    if (refusal !== null) return refusal;
    return this.context.call("buffer.fill", (driver) =>
      driver.memsetD8(this.address, byte & 0xff, this.size),
    );
  }

  free(): void {
    this.release();
  }

  #refusal(at: string, offset: number, count: number) {
    if (this.context.closed) return fail("closed", at, `the device ${this.context.name} is closed`);
    if (this.givenBack) return fail("buffer", at, "the buffer is freed");
    const range = rangeProblem(at, offset, count, this.size);
    return range === null ? null : err([range]);
  }
}

/** How much was asked for and how much there is. */
function memoryNote(context: CudaContext, size: number): string {
  const info = context.driver.memGetInfo();
  const gib = (bytes: number): string => `${(bytes / 2 ** 30).toFixed(2)} GiB`;
  if (!info.ok) return `: ${size} B were asked for`;
  return `: ${size} B (${gib(size)}) were asked for, ${gib(info.value[0])} of ${gib(info.value[1])} are free`;
}

/** Why an argument's buffer cannot be used by `context`, or null. */
export function bufferProblem(context: CudaContext, at: string, argument: LaunchArgument): Diagnostic | null {
  if (!isBuffer(argument)) return null;
  if (!(argument instanceof CudaBuffer) || argument.context !== context) {
    return diagnose("buffer", at, "the buffer belongs to another device");
  }
  return argument.freed ? diagnose("buffer", at, "the buffer is freed") : null;
}
