/** The launchers' source files, as they lie in the package. */
import { readFileSync } from "node:fs";

/**
 * Text of a file of the folder `launchers` beside this module's: `c/launcher.h`. The module lies one folder below the package's, from the sources, in `dist`
 * and in the bundle alike.
 */
export const launcherSource = (path: string): string =>
  readFileSync(new URL(`../launchers/${path}`, import.meta.url), "utf8");

/** A C header with the parts that it includes by name in their place, so that a library has one file. */
export const joinedHeader = (path: string): string =>
  launcherSource(path).replace(/^#include "([a-z]+\.h)"$/gm, (_, part: string) =>
    launcherSource(path.replace(/[^/]*$/, part)).trimEnd(),
  );

/** Modules of the Python launcher, each after those that it imports; its documentation is that of the last. */
const modules = ["_expressions", "_operands", "_attention", "_plans", "_library"];

/** The Python launcher as one file: its modules without what they import of each other. */
export function joinedPython(): string {
  const parts = modules.map((name) => {
    const [, doc = "", code = ""] =
      /^("""[\s\S]*?""")\n([\s\S]*)$/.exec(launcherSource(`python/${name}.py`)) ?? [];
    const imports = code.match(/^import \w+$/gm) ?? [];
    return { doc, imports, body: code.replace(/^(import \w+|from \._\w+ import .+)\n/gm, "").trim() };
  });
  const imports = [...new Set(parts.flatMap((part) => part.imports))].sort();
  return `${parts.at(-1)?.doc}\n${imports.join("\n")}\n\n\n${parts.map(({ body }) => body).join("\n\n\n")}\n`;
}
