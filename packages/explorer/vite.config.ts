import { fileURLToPath } from "node:url";
import { build, defineConfig } from "vite";

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

const conditions = ["@tilewright/source", "browser", "import", "default"];

/** `virtual:prepared`: what src/worker/prepared.ts makes, bundled as workers are and run here. */
const withPrepared = {
  name: "with-prepared",
  resolveId: (id: string) => (id === "virtual:prepared" ? `\0${id}` : null),
  async load(id: string) {
    if (id !== "\0virtual:prepared") return null;
    const made = await build({
      ...{ configFile: false, logLevel: "warn", plugins: [withoutFiles], resolve: { conditions } },
      ssr: { noExternal: true, resolve: { conditions } },
      build: {
        ...{ ssr: fileURLToPath(new URL("src/worker/prepared.ts", import.meta.url)), write: false },
        ...{ target: "es2022", rolldownOptions: withoutCommandLine },
      },
    });
    const [code = ""] = [made].flat().flatMap((one) => ("output" in one ? [one.output[0].code] : []));
    const { prepare } = await import(`data:text/javascript,${encodeURIComponent(code)}`);
    return `export const prepared = JSON.parse(${JSON.stringify(JSON.stringify(prepare()))});`;
  },
};

// On the packages' sources, so that no build has to come before it. Relative addresses: the same files serve from any folder.
export default defineConfig({
  base: "./",
  plugins: [withPrepared],
  resolve: { conditions },
  worker: { format: "es", plugins: () => [withoutFiles], rolldownOptions: withoutCommandLine },
  build: {
    ...{ target: "es2022", chunkSizeWarningLimit: 3000, modulePreload: { polyfill: false } },
    rolldownOptions: { checks: { pluginTimings: false } },
  },
});
