/** Device memory of the fake driver: allocations at made-up addresses, backed by host bytes. */

interface Allocation {
  readonly address: bigint;
  readonly bytes: Uint8Array;
}

/** Granule of cuMemAlloc: every address is a multiple of it. */
const align = 256n;

export class FakeMemory {
  readonly #allocations = new Map<bigint, Allocation>();
  /** Looks like a device address, and no small integer can be taken for one. */
  #next = 0x7f00_0000_0000n;

  alloc(size: number): bigint {
    const address = this.#next;
    // A gap after each allocation, so that running over the end never lands in a neighbour.
    this.#next += ((BigInt(size) + align - 1n) / align + 1n) * align;
    // Not zero: what was not written must not look like a result.
    this.#allocations.set(address, { address, bytes: new Uint8Array(size).fill(0xcd) });
    return address;
  }

  /** False when nothing is allocated exactly there. */
  free(address: bigint): boolean {
    return this.#allocations.delete(address);
  }

  /** The live bytes [address, address + size), or null when they are not all inside one allocation. */
  at(address: bigint, size: number): Uint8Array | null {
    for (const { address: start, bytes } of this.#allocations.values()) {
      const offset = Number(address - start);
      if (offset >= 0 && offset + size <= bytes.byteLength) return bytes.subarray(offset, offset + size);
    }
    return null;
  }

  used(): number {
    return [...this.#allocations.values()].reduce((sum, { bytes }) => sum + bytes.byteLength, 0);
  }

  alive(): readonly string[] {
    return [...this.#allocations.values()].map(({ bytes }) => `buffer of ${bytes.byteLength} B`);
  }
}
