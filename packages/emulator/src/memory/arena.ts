/**
 * The machine's memory: one buffer that holds global memory and, during a launch, register files, shared windows, local
 * memory and parameters, seen through typed views. One buffer, so that generated code and (later) WebAssembly kernels reach
 * everything with one base.
 *
 * Beside every 32-bit word stands one shadow byte: bit b says that byte b of the word has been written, bit 4+b that it is
 * allocated. So one comparison of the shadow with all ones answers "allocated and initialised" for an access of 4, 8 or 16
 * bytes (through the 8-, 16- and 32-bit views of the shadow), and everything else takes the slow path that finds out why.
 */
import { type Checked, err, ok, roundUp } from "@tilewright/core";
import { createMemory, pageBytes, type WasmMemory } from "../compile/wasm.ts";

/** High word of the address of every global byte; the low word is its offset in the arena. A truncated pointer faults. */
export const globalTag = 0x7f00;
/** High words of generic addresses of the other windows. */
export const paramTag = 0x7e00;
export const sharedTag = 0x7e01;
export const localTag = 0x7e02;

/** Below the heap: never allocated, so that small integers taken for pointers fault. Holds the sink of skipped accesses. */
export const heapBase = 1 << 16;
/** Where an access that must not happen is sent: 64 bytes (the widest access is 32), zero before each use. */
export const sinkOffset = 1 << 12;
/** Unallocated bytes behind each allocation: one overrun of a vector or a row's tail must not reach the next buffer. */
const guardBytes = 4096;
/** Offsets stay positive as signed 32-bit integers, which is what generated code computes with. */
const maxArenaBytes = 2 ** 31 - 2 ** 16;

/** Address space that a device starts with; the host's pages come with use. Growing links compiled code again. */
const initialBytes = 1 << 24;
/** Freed bytes that are kept from use, so that stale pointers fault; beyond, the oldest are given out again. */
const quarantineBytes = 1 << 25;

export interface Allocation {
  readonly offset: number;
  readonly size: number;
  readonly name: string | null;
  live: boolean;
}

export class Arena {
  bytes: Uint8Array = new Uint8Array(0);
  sbytes: Int8Array = new Int8Array(0);
  halves: Uint16Array = new Uint16Array(0);
  shalves: Int16Array = new Int16Array(0);
  words: Int32Array = new Int32Array(0);
  floats: Float32Array = new Float32Array(0);
  doubles: Float64Array = new Float64Array(0);
  shadow: Uint8Array = new Uint8Array(0);
  shadow16: Uint16Array = new Uint16Array(0);
  shadow32: Int32Array = new Int32Array(0);
  /** First offset past all allocations: what lies beyond is no global memory. */
  heapTop = heapBase;
  /** Rises when the buffer is replaced: compiled code holds views and must be made again. */
  generation = 0;
  readonly allocations: Allocation[] = [];
  /** WebAssembly's view of the arena; null where the host has none. */
  readonly memory: WasmMemory | null;
  readonly #limit: number;
  #freed = 0;

  /** @param limit most bytes the arena may grow to. */
  constructor(limit: number) {
    // Whole pages, since WebAssembly's memory grows by pages; never less than the null region and one buffer.
    this.#limit = Math.max(2 * heapBase, Math.floor(Math.min(limit, maxArenaBytes) / pageBytes) * pageBytes);
    const initial = Math.min(initialBytes, this.#limit);
    this.memory = createMemory(initial, this.#limit);
    this.#resize(initial);
  }

  #resize(size: number): void {
    const buffer = this.#buffer(size);
    this.bytes = new Uint8Array(buffer);
    this.sbytes = new Int8Array(buffer);
    this.halves = new Uint16Array(buffer);
    this.shalves = new Int16Array(buffer);
    this.words = new Int32Array(buffer);
    this.floats = new Float32Array(buffer);
    this.doubles = new Float64Array(buffer);
    const shadowBuffer = new ArrayBuffer(size >> 2);
    const shadow = new Uint8Array(shadowBuffer);
    shadow.set(this.shadow);
    this.shadow = shadow;
    this.shadow16 = new Uint16Array(shadowBuffer);
    this.shadow32 = new Int32Array(shadowBuffer);
    this.generation += 1;
  }

  /** The buffer, grown to `size` bytes with its contents: WebAssembly's memory, or a plain buffer where there is none. */
  #buffer(size: number): ArrayBuffer {
    if (this.memory !== null) {
      const missing = size - this.memory.buffer.byteLength;
      if (missing > 0) this.memory.grow(missing / pageBytes);
      return this.memory.buffer;
    }
    const buffer = new ArrayBuffer(size);
    new Uint8Array(buffer).set(this.bytes);
    return buffer;
  }

  /** Make offsets up to `end` exist. */
  ensure(end: number): Checked<true> {
    if (end <= this.bytes.length) return ok(true);
    if (end > this.#limit)
      return err([
        {
          code: "TW5030",
          kind: "unsupported",
          at: "memory",
          message: `the emulated device would need ${end} bytes, its limit is ${this.#limit}`,
          hint: "smaller sizes fit; createEmulator({ memoryLimit }) raises it, up to 2 GiB",
        },
      ]);
    let size = this.bytes.length;
    while (size < end) size *= 2;
    this.#resize(Math.min(size, this.#limit));
    return ok(true);
  }

  /**
   * Reserve `size` bytes of global memory; returns the offset. The bytes are allocated, not initialised, and filled with
   * 0xff, which is NaN as floating point and -1 as an integer.
   */
  allocate(size: number, align: number, name: string | null = null): Checked<number> {
    const place = (from: number): number => roundUp(from, align);
    let offset = place(this.heapTop);
    if (this.#freed > quarantineBytes || offset + size + guardBytes > this.#limit)
      offset = this.#reuse(size, align) ?? offset;
    const grown = this.ensure(Math.ceil((offset + size + guardBytes) / 65536) * 65536);
    if (!grown.ok) return grown;
    this.heapTop = Math.max(this.heapTop, Math.ceil((offset + size + guardBytes) / 256) * 256);
    this.bytes.fill(0xff, offset, offset + size);
    this.markAllocated(offset, size);
    this.allocations.push({ offset, size, name, live: true });
    return ok(offset);
  }

  /** Room in the oldest freed block that is large enough; what is left of it stays freed. */
  #reuse(size: number, align: number): number | null {
    for (const [index, entry] of this.allocations.entries()) {
      if (entry.live) continue;
      const offset = roundUp(entry.offset, align);
      if (offset + size > entry.offset + entry.size) continue;
      const rest = Math.ceil((offset + size + guardBytes) / 256) * 256;
      const left = entry.offset + entry.size - rest;
      const remainder: Allocation[] = left > 0 ? [{ offset: rest, size: left, name: null, live: false }] : [];
      this.allocations.splice(index, 1, ...remainder);
      this.#freed -= entry.size - Math.max(0, left);
      return offset;
    }
    return null;
  }

  /** Give an allocation back; false when no live allocation starts at `offset`. */
  release(offset: number): boolean {
    const entry = this.allocations.find((a) => a.live && a.offset === offset);
    if (entry === undefined) return false;
    entry.live = false;
    this.#freed += entry.size;
    this.clearShadow(entry.offset, entry.size);
    return true;
  }

  /** Take over another arena's heap, word for word, with its shadow. Allocations stay unknown. */
  adopt(heap: Int32Array, shadow: Uint8Array): Checked<true> {
    const top = heapBase + 4 * heap.length;
    const grown = this.ensure(top);
    if (!grown.ok) return grown;
    this.clearShadow(heapBase, Math.max(top, this.heapTop) - heapBase);
    this.words.set(heap, heapBase >> 2);
    this.shadow.set(shadow, heapBase >> 2);
    this.heapTop = top;
    return ok(true);
  }

  /** A copy of the heap's words and of their shadow. */
  heap(): { readonly heap: Int32Array<ArrayBuffer>; readonly shadow: Uint8Array<ArrayBuffer> } {
    const [from, to] = [heapBase >> 2, this.heapTop >> 2];
    return { heap: this.words.slice(from, to), shadow: this.shadow.slice(from, to) };
  }

  /** The live allocation that holds all of [offset, offset+size), if any. */
  find(offset: number, size: number): Allocation | undefined {
    return this.allocations.find((a) => a.live && offset >= a.offset && offset + size <= a.offset + a.size);
  }

  /** What stands nearest to an address, for messages: live allocations first. */
  nearest(offset: number): { readonly allocation: Allocation; readonly distance: number } | null {
    let best: { allocation: Allocation; distance: number } | null = null;
    for (const allocation of this.allocations) {
      const end = allocation.offset + allocation.size;
      const distance =
        offset < allocation.offset ? allocation.offset - offset : offset >= end ? offset - end : 0;
      const better =
        best === null ||
        distance < best.distance ||
        (distance === best.distance && allocation.live && !best.allocation.live);
      if (better) best = { allocation, distance };
    }
    return best;
  }

  /** Bytes [offset, offset+size) become allocated and uninitialised. */
  markAllocated(offset: number, size: number): void {
    this.#mark(offset, size, 0x10, 0xf0);
  }

  /** Bytes [offset, offset+size), allocated already, become initialised. */
  markInitialised(offset: number, size: number): void {
    this.#mark(offset, size, 0x01, 0x0f);
  }

  /** Bytes [offset, offset+size) are no longer allocated. Takes whole words: allocations start at words. */
  clearShadow(offset: number, size: number): void {
    this.shadow.fill(0, offset >> 2, (offset + size + 3) >> 2);
  }

  #mark(offset: number, size: number, byteBit: number, wordBits: number): void {
    const { shadow } = this;
    const end = offset + size;
    let at = offset;
    for (; at < end && (at & 3) !== 0; at++) shadow[at >> 2] = (shadow[at >> 2] ?? 0) | (byteBit << (at & 3));
    const whole = end & ~3;
    if (at < whole) {
      // Allocating resets the initialised bits; initialising sets all eight, since the bytes are allocated.
      shadow.fill(wordBits === 0xf0 ? 0xf0 : 0xff, at >> 2, whole >> 2);
      at = whole;
    }
    for (; at < end; at++) shadow[at >> 2] = (shadow[at >> 2] ?? 0) | (byteBit << (at & 3));
  }

  /** Whether byte `offset` is allocated. */
  isAllocated(offset: number): boolean {
    return (((this.shadow[offset >> 2] ?? 0) >> (4 + (offset & 3))) & 1) === 1;
  }

  /** Whether byte `offset` has been written. */
  isInitialised(offset: number): boolean {
    return (((this.shadow[offset >> 2] ?? 0) >> (offset & 3)) & 1) === 1;
  }
}
