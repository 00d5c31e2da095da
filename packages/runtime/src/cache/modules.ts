/** Compiled modules on disk: machine code by the text it was made from and all that its making depends on. */
import { createHash } from "node:crypto";
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";
import type { CudaDeviceInfo } from "../cuda/info.ts";
import { FileStore, type StoreStatistics } from "./store.ts";

/** Version of what a key stands for: raised when the way of compiling changes. */
const format = 1;
/** A cubin has some 10 to 200 KB. */
const defaultMaxBytes = 256 * 2 ** 20;

export interface ModuleCacheOptions {
  /** Folder; by environment unless given, see {@link cacheFolder}. */
  readonly folder?: string;
  /** Bytes on disk that are kept at most; 256 MiB unless given. */
  readonly maxBytes?: number;
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Where compiled modules lie: TILEWRIGHT_CACHE_DIR, else tilewright/modules in XDG_CACHE_HOME, else in ~/.cache.
 * Null: TILEWRIGHT_CACHE_DIR is empty or `off`, which means no cache.
 */
export function cacheFolder(env: Environment = process.env): string | null {
  const own = env.TILEWRIGHT_CACHE_DIR;
  if (own === "" || own === "off") return null;
  if (own !== undefined) return join(own, "modules");
  const xdg = env.XDG_CACHE_HOME;
  // The XDG specification has relative paths ignored.
  const base = xdg !== undefined && isAbsolute(xdg) ? xdg : join(homedir(), ".cache");
  return join(base, "tilewright", "modules");
}

export class ModuleCache {
  readonly #store: FileStore;
  #hits = 0;
  #misses = 0;

  constructor(folder: string, maxBytes = defaultMaxBytes) {
    this.#store = new FileStore(folder, maxBytes);
  }

  /** The cache that the options and the environment ask for; null for none. */
  static open(options: ModuleCacheOptions | false = {}, env: Environment = process.env): ModuleCache | null {
    if (options === false) return null;
    const folder = options.folder ?? cacheFolder(env);
    return folder === null ? null : new ModuleCache(folder, options.maxBytes);
  }

  get folder(): string {
    return this.#store.folder;
  }

  /** Since this object was made; entries and bytes are those on disk. */
  get statistics(): StoreStatistics & { readonly hits: number; readonly misses: number } {
    return { ...this.#store.statistics(), hits: this.#hits, misses: this.#misses };
  }

  /**
   * The key of a text on a device: everything that decides about the machine code. `options` are those of the JIT.
   * The name is in it although the capability decides, so that a cache shared by unlike machines never has to be trusted on that.
   */
  key(ptx: string, info: CudaDeviceInfo, options: readonly string[] = []): string {
    const text = createHash("sha256").update(ptx).digest("hex");
    const { driverVersion, computeCapability, name } = info;
    const parts = [format, text, driverVersion, computeCapability, name, options];
    return createHash("sha256").update(JSON.stringify(parts)).digest("hex");
  }

  get(key: string): Uint8Array | null {
    const found = this.#store.get(key);
    if (found === null) this.#misses++;
    else this.#hits++;
    return found;
  }

  put(key: string, cubin: Uint8Array): void {
    this.#store.put(key, cubin);
  }

  /** Forget an entry that the driver refuses. */
  drop(key: string): void {
    this.#store.drop(key);
  }
}
