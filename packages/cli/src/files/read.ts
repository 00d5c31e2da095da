/** Reading input files, with the operating system's errors as diagnostics. */
import { closeSync, fstatSync, openSync, readFileSync, readSync } from "node:fs";
import { resolve } from "node:path";
import { type Checked, err, ok } from "@tilewright/ir";
import { codes, problemWith } from "../codes.ts";
import type { Context } from "../context.ts";
import { systemCode } from "./atomic.ts";

const reasons: Readonly<Record<string, string>> = {
  ENOENT: "there is no such file",
  EACCES: "no permission to read it",
  EPERM: "no permission to read it",
  EISDIR: "it is a folder",
  ENOTDIR: "a part of the path is a file, not a folder",
  ERR_FS_FILE_TOO_LARGE: "it is larger than 2 GiB",
};

function unreadable(path: string, error: unknown) {
  const code = systemCode(error);
  if (code === null) throw error;
  return err([problemWith(codes.unreadable, path, `cannot read ${path}: ${reasons[code] ?? code}`)]);
}

/** A text file; `-` is standard input. */
export function readText(context: Context, path: string): Checked<string> {
  if (path === "-") return ok(context.readStdin());
  try {
    return ok(readFileSync(resolve(context.cwd, path), "utf8"));
  } catch (error) {
    return unreadable(path, error);
  }
}

/** A file that is read in pieces. */
export interface RandomAccess {
  /** Bytes. */
  readonly size: number;
  /** `length` bytes at `offset`; both must lie within the file. In memory of its own, aligned for any element type. */
  read(offset: number, length: number): Uint8Array;
}

/** Open `path`, hand it to `use`, and close it. */
export function withFile<T>(
  context: Context,
  path: string,
  use: (file: RandomAccess) => Checked<T>,
): Checked<T> {
  let handle: number | null = null;
  try {
    const fd = openSync(resolve(context.cwd, path), "r");
    handle = fd;
    const status = fstatSync(fd);
    if (status.isDirectory())
      return err([problemWith(codes.unreadable, path, `cannot read ${path}: it is a folder`)]);
    return use({
      size: status.size,
      read(offset, length) {
        const bytes = new Uint8Array(length);
        for (let done = 0; done < length; ) {
          const count = readSync(fd, bytes, done, length - done, offset + done);
          if (count === 0) throw new RangeError(`${path} became shorter while it was read`);
          done += count;
        }
        return bytes;
      },
    });
  } catch (error) {
    return unreadable(path, error);
  } finally {
    if (handle !== null) closeSync(handle);
  }
}
