/**
 * What is alive on a device, so that nothing outlives it: every buffer and module is entered here with the way to give it back.
 * Released once: by its owner, by the device's `close`, or by the collector if its owner was dropped without either.
 */

interface Entry {
  readonly what: string;
  readonly release: () => void;
}

/** One registry for the process: a registry that is itself collected would forget what it watches. */
const net = new FinalizationRegistry<() => void>((release) => release());

/** Call `release` when `owner` is collected, unless `unwatch(token)` came first. `release` must not refer to `owner`. */
export function watch(owner: object, release: () => void, token: object): void {
  net.register(owner, release, token);
}

export function unwatch(token: object): void {
  net.unregister(token);
}

export class Resources {
  readonly #entries = new Map<number, Entry>();
  #next = 0;

  /**
   * Enter a resource and return its id. `release` must not refer to `owner`, which would keep it alive for ever.
   * `owner` null: only `release` and `releaseAll` give it back.
   */
  add(owner: object | null, what: string, release: () => void): number {
    const id = this.#next++;
    const entry = { what, release };
    this.#entries.set(id, entry);
    if (owner !== null) watch(owner, () => this.release(id), entry);
    return id;
  }

  /** Give one back; nothing happens when it is gone already. */
  release(id: number): void {
    const entry = this.#entries.get(id);
    if (entry === undefined) return;
    this.#entries.delete(id);
    unwatch(entry);
    entry.release();
  }

  /** Give all back, youngest first: a stream goes before the context it lives in. */
  releaseAll(): void {
    for (const id of [...this.#entries.keys()].reverse()) this.release(id);
  }

  /** Names of what is alive, oldest first. */
  alive(): readonly string[] {
    return [...this.#entries.values()].map((entry) => entry.what);
  }
}
