import { defineConfig } from "vite";

/** What only the command line's commands use: nothing of it may be left in a worker, and a worker that still names it does not start. */
const withoutCommandLine = {
  external: [/^node:/, "bullmq", "execa", "koffi"],
  treeshake: { moduleSideEffects: "no-external" as const },
};

/** Launchers and pages are files of the command line, which a page has no use for; left alone, each becomes an asset beside it. */
const withoutFiles = {
  name: "without-files",
  enforce: "pre" as const,
  load: (id: string) =>
    id.endsWith("/cli/src/launchers.ts")
      ? ["launcherSource", "joinedHeader", "joinedPython"]
          .map((name) => `export const ${name} = () => '';`)
          .join("\n")
      : null,
};

// On the packages' sources, so that no build has to come before it. Relative addresses: the same files serve from any folder.
export default defineConfig({
  base: "./",
  resolve: { conditions: ["@tilewright/source", "browser", "import", "default"] },
  worker: { format: "es", plugins: () => [withoutFiles], rolldownOptions: withoutCommandLine },
  build: { target: "es2022", chunkSizeWarningLimit: 3000, modulePreload: { polyfill: false } },
});
