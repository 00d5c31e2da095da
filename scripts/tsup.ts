import { readFileSync } from "node:fs";
import { defineConfig } from "tsup";

/** The one place that knows how a package is built, so that a change of bundler is a change of this file. `onSuccess`: what to do when it is. */
export function defineLibrary(entry: string[], onSuccess?: () => Promise<void>) {
  const { optionalDependencies = {} } = JSON.parse(readFileSync("package.json", "utf8"));
  return defineConfig({
    entry,
    // tsup leaves out dependencies and peers by itself.
    external: Object.keys(optionalDependencies),
    format: ["esm"],
    // From the types of packages built before this one, not from their sources once more. `npm start` runs the command alone: without them it is there in half the time.
    dts: process.env.TILEWRIGHT_TYPES !== "none" && { compilerOptions: { customConditions: [] } },
    sourcemap: true,
    clean: true,
    target: "node20",
    treeshake: true,
    // `node:fs` stays `node:fs`, so that a look at dist tells what runs in a browser.
    removeNodeProtocol: false,
    ...(onSuccess === undefined ? {} : { onSuccess }),
  });
}
