/** The version of this package, which is that of all packages (they are released together). */
import manifest from "../package.json" with { type: "json" };

export const version: string = manifest.version;
