/** The launchers' source files, as they lie in the package. */
import { readFileSync } from "node:fs";

/**
 * Text of a file of the folder `launchers` beside this module's: `launcher.py`. The module lies one folder below the package's, from the sources, in `dist`
 * and in the bundle alike.
 */
export const launcherSource = (name: string): string =>
  readFileSync(new URL(`../launchers/${name}`, import.meta.url), "utf8");
