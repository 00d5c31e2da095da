/** Libraries in C for tests of bindings; where there is no gcc, no cuda.h or no koffi they are skipped. */
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { loadKoffi } from "../../src/cuda/koffi.ts";

/** Folder of cuda.h; undefined where there is none. */
export const cudaInclude = ["/usr/local/cuda/include", "/usr/local/cuda-13.0/include"].find((path) =>
  existsSync(join(path, "cuda.h")),
);
export const hasKoffi = (await loadKoffi()).ok;
/** Whether C can be compiled and called here. */
export const canBind =
  hasKoffi && process.platform === "linux" && spawnSync("gcc", ["--version"]).status === 0;

/** Compile `source` (a file of this folder, or text) into the shared library `library`, whose path it returns. */
export function compileLibrary(library: string, source: string, ...flags: string[]): string {
  const isFile = /^\w[\w-]*\.c$/.test(source);
  const input = isFile ? fileURLToPath(new URL(`./${source}`, import.meta.url)) : "-";
  const include = cudaInclude === undefined ? [] : [`-I${cudaInclude}`];
  const args = ["-O1", "-Werror", "-shared", "-fPIC", ...include, ...flags, "-x", "c", "-o", library, input];
  execFileSync("gcc", args, { input: isFile ? "" : source });
  return library;
}
