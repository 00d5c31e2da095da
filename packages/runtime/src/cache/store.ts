/**
 * Files by key on disk, bounded, for several processes at once and for machines that lose power.
 * A file appears whole or not at all (written beside its place and renamed), carries the hash of its contents, and is thrown away when
 * they do not match. What was used longest ago goes first. Nothing here fails a caller: a cache that cannot be read or written is no cache.
 */
import { createHash, randomBytes } from "node:crypto";
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";

const magic = new TextEncoder().encode("TWCACHE1");
const hashBytes = 32;
const suffix = ".bin";
const temporary = ".tmp";
/** A temporary file as old as this, in milliseconds, belongs to a process that died. */
const abandonedAfter = 60 * 60 * 1000;

const digest = (bytes: Uint8Array): Uint8Array => createHash("sha256").update(bytes).digest();

/** Remove a file if there is one and we may; another process may have been faster. */
function remove(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // Not ours to remove.
  }
}

export interface StoreStatistics {
  readonly entries: number;
  readonly bytes: number;
}

export class FileStore {
  readonly folder: string;
  readonly #maxBytes: number;

  /** `maxBytes`: what the files may have together; a single larger one is not kept. */
  constructor(folder: string, maxBytes: number) {
    this.folder = folder;
    this.#maxBytes = maxBytes;
  }

  /** The bytes under `key` (a file name without its ending); null when there are none, or none that are sound. */
  get(key: string): Uint8Array | null {
    const path = this.#path(key);
    let file: Uint8Array;
    try {
      file = readFileSync(path);
    } catch {
      return null;
    }
    const start = magic.byteLength + hashBytes;
    const bytes = file.subarray(start);
    const sound =
      file.byteLength > start &&
      Buffer.compare(file.subarray(0, magic.byteLength), magic) === 0 &&
      Buffer.compare(file.subarray(magic.byteLength, start), digest(bytes)) === 0;
    if (!sound) {
      this.drop(key);
      return null;
    }
    try {
      const now = new Date();
      utimesSync(path, now, now);
    } catch {
      // Read-only, or gone meanwhile: then it only looks older than it is.
    }
    return new Uint8Array(bytes);
  }

  /** Keep `bytes`, if there is room and the disk lets us; false when it does not. */
  put(key: string, bytes: Uint8Array): boolean {
    const size = magic.byteLength + hashBytes + bytes.byteLength;
    if (size > this.#maxBytes) return false;
    const place = this.#path(key);
    const beside = `${place}.${process.pid}-${randomBytes(6).toString("hex")}${temporary}`;
    try {
      mkdirSync(this.folder, { recursive: true, mode: 0o700 });
      writeFileSync(beside, Buffer.concat([magic, digest(bytes), bytes]), { mode: 0o600 });
      renameSync(beside, place);
    } catch {
      remove(beside);
      return false;
    }
    this.#shrink();
    return true;
  }

  drop(key: string): void {
    remove(this.#path(key));
  }

  /** How full it is. */
  statistics(): StoreStatistics {
    const files = this.#files();
    return { entries: files.length, bytes: files.reduce((sum, { size }) => sum + size, 0) };
  }

  #path(key: string): string {
    return join(this.folder, key + suffix);
  }

  /** The entries, oldest first; leftovers of dead processes are removed on the way. */
  #files(): { readonly path: string; readonly size: number; readonly used: number }[] {
    let names: string[];
    try {
      names = readdirSync(this.folder);
    } catch {
      return [];
    }
    const files: { path: string; size: number; used: number }[] = [];
    for (const name of names) {
      const path = join(this.folder, name);
      try {
        const { size, mtimeMs } = statSync(path);
        if (name.endsWith(suffix)) files.push({ path, size, used: mtimeMs });
        else if (name.endsWith(temporary) && Date.now() - mtimeMs > abandonedAfter) rmSync(path);
      } catch {
        // Another process was faster.
      }
    }
    return files.sort((a, b) => a.used - b.used || (a.path < b.path ? -1 : 1));
  }

  #shrink(): void {
    const files = this.#files();
    let total = files.reduce((sum, { size }) => sum + size, 0);
    for (const { path, size } of files) {
      if (total <= this.#maxBytes) return;
      remove(path);
      total -= size;
    }
  }
}
