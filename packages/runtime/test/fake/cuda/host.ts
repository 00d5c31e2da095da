/** Host memory that is registered with the fake driver. */
export class FakeHost {
  readonly #registered = new Set<Uint8Array>();

  /** False when any of its bytes is registered already. */
  register(bytes: Uint8Array): boolean {
    for (const other of this.#registered) {
      const apart =
        other.buffer !== bytes.buffer ||
        other.byteOffset + other.byteLength <= bytes.byteOffset ||
        bytes.byteOffset + bytes.byteLength <= other.byteOffset;
      if (!apart) return false;
    }
    this.#registered.add(bytes);
    return true;
  }

  /** False when nothing is registered that begins there. */
  unregister(bytes: Uint8Array): boolean {
    for (const other of this.#registered) {
      if (other.buffer !== bytes.buffer || other.byteOffset !== bytes.byteOffset) continue;
      return this.#registered.delete(other);
    }
    return false;
  }

  /** Whether all of `bytes` is registered. */
  holds(bytes: Uint8Array): boolean {
    return [...this.#registered].some(
      (other) =>
        other.buffer === bytes.buffer &&
        other.byteOffset <= bytes.byteOffset &&
        bytes.byteOffset + bytes.byteLength <= other.byteOffset + other.byteLength,
    );
  }

  alive(): readonly string[] {
    return [...this.#registered].map(({ byteLength }) => `pinned memory of ${byteLength} B`);
  }
}
