/** Reading input files, with the operating system's errors as diagnostics. */
import { closeSync, fstatSync, openSync, readFileSync, readSync, statSync } from "node:fs";
import { totalmem } from "node:os";
import { resolve } from "node:path";
import { type Checked, ok } from "@tilewright/core";
import { codes, failWith } from "../codes.ts";
import type { Context } from "../context.ts";
import { formatBytes } from "../output/format.ts";
import { systemCode } from "./atomic.ts";
import { MOST_TEXT_BYTES, tooLong, Unreadable } from "./pipes.ts";

const reasons: Readonly<Record<string, string>> = {
  ENOENT: "there is no such file",
  EACCES: "no permission to read it",
  EPERM: "no permission to read it",
  EISDIR: "it is a folder",
  ENOTDIR: "a part of the path is a file, not a folder",
  ENXIO: "nobody is at the other end",
  ELOOP: "its symbolic links lead in a circle",
  ENAMETOOLONG: "the name is too long",
};

const refuse = (path: string, why: string) => failWith(codes.unreadable, path, `cannot read ${path}: ${why}`);

function unreadable(path: string, error: unknown) {
  if (error instanceof Unreadable) return refuse(path, error.message);
  const code = systemCode(error);
  // Node's own refusal of a name that no system call takes.
  if (code === "ERR_INVALID_ARG_VALUE") return refuse(JSON.stringify(path), "the name holds a NUL character");
  if (code === null) throw error;
  return refuse(path, reasons[code] ?? code);
}

/** Where something is that ends: a file or a pipe. A device such as /dev/zero never does. */
function finitePlace(context: Context, path: string): Checked<{ place: string; pipe: boolean }> {
  const place = resolve(context.cwd, path);
  const status = statSync(place);
  if (status.isDirectory()) return refuse(path, reasons.EISDIR ?? "");
  if (status.isCharacterDevice() || status.isBlockDevice()) return refuse(path, "it is a device, not a file");
  return ok({ place, pipe: status.isFIFO() });
}

/** A text file of at most {@link MOST_TEXT_BYTES}; `-` is standard input. */
export function readText(context: Context, path: string): Checked<string> {
  try {
    if (path === "-") return ok(context.readPipe());
    const found = finitePlace(context, path);
    if (!found.ok) return found;
    const { place, pipe } = found.value;
    if (pipe) return ok(context.readPipe(place));
    if (statSync(place).size > MOST_TEXT_BYTES) throw tooLong();
    return ok(readFileSync(place, "utf8"));
  } catch (error) {
    return unreadable(path, error);
  }
}

/** Bytes of one call of the system, which takes less than 2 GiB. */
const MOST_AT_ONCE = 2 ** 30;

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
    const found = finitePlace(context, path);
    if (!found.ok) return found;
    if (found.value.pipe) return refuse(path, "it is a pipe, and a matrix is read in pieces");
    const fd = openSync(found.value.place, "r");
    handle = fd;
    return use({
      size: fstatSync(fd).size,
      read(offset, length) {
        if (length > totalmem() / 2)
          throw new Unreadable(`its ${formatBytes(length)} are more than half of this machine's memory`);
        const bytes = new Uint8Array(length);
        for (let done = 0; done < length; ) {
          const count = readSync(fd, bytes, done, Math.min(length - done, MOST_AT_ONCE), offset + done);
          if (count === 0) throw new Unreadable("it became shorter while it was read");
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
