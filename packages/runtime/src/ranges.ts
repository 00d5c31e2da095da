/** Byte ranges inside a buffer. */
import type { Checked, Diagnostic } from "@tilewright/core";
import { diagnose, fail } from "./diagnostics.ts";

/** Null when [offset, offset + count) lies inside `size` bytes. */
export function rangeProblem(at: string, offset: number, count: number, size: number): Diagnostic | null {
  const sound = Number.isSafeInteger(offset) && Number.isSafeInteger(count) && offset >= 0 && count >= 0;
  if (sound && offset + count <= size) return null;
  return diagnose(
    "buffer",
    at,
    `bytes ${offset} to ${offset + count} are not inside a buffer of ${size} B`,
    `at most ${Math.max(0, size - (sound ? offset : 0))} B from there`,
  );
}

/** A size that can be allocated. */
export function checkSize(at: string, size: number): Checked<number> {
  if (Number.isSafeInteger(size) && size > 0) return { ok: true, value: size };
  return fail("buffer", at, `${size} B cannot be allocated`, "take a positive integer of bytes");
}
