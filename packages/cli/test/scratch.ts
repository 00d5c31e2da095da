/** Temporary folders. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A folder that is gone after the test (`using`). */
export function scratch(): Disposable & { readonly path: string; list(): readonly string[] } {
  const path = mkdtempSync(join(tmpdir(), "tilewright-test-"));
  return {
    path,
    list: () => readdirSync(path, { recursive: true }).map(String).sort(),
    [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }),
  };
}
