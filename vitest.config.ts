import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { compileCache } from "./scripts/lib/workspace.mjs";

/** What runs for a minute: the backends' conformance, planted faults. */
const long = /\/(emulator(\.sm_\w+)?|mutation)\.test\.ts$/;

/** Long files first: begun last, one of them would run while the other cores have nothing left to do. */
class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isLong = ({ moduleId }: TestSpecification): boolean => long.test(moduleId);
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}

// For workers, which each compile vitest, and for the processes that tests start.
process.env.NODE_COMPILE_CACHE ??= compileCache;
// Schedules are those that every machine gets, whatever its user has tuned.
process.env.TILEWRIGHT_TUNED = "none";

// Tests run on the sources (export condition @tilewright/source), so none but project "dist" needs a build.
const conditions = ["@tilewright/source", "node", "import", "default"];

/**
 * A kernel on the emulator is hundreds of generated functions, most of which run a few dozen times: V8's optimising compilers took longer over them, in threads of their own,
 * than the tests themselves took. Each function runs ten times and three times as often as is usual before Maglev and TurboFan compile it.
 */
const seldomOptimised = ["--invocation-count-for-maglev=4000", "--invocation-count-for-turbofan=10000"];

/** Tests that want Vite: they replace a module, or load one anew. */
const replacing = [
  "packages/cli/test/run.test.ts",
  "packages/cli/test/library/certificate.test.ts",
  "packages/emulator/test/hosts.test.ts",
  // A module in a folder from which nothing leads to the packages.
  "scripts/docs/snippets.test.ts",
  // import.meta.glob is Vite's.
  "packages/explorer/test/measured.test.ts",
];

/** What both kinds of unit tests share. */
const unit = {
  exclude: ["**/*.gpu.test.ts", "scripts/shipped/**"],
  // The sources keep no state: a worker loads them once for all of its files. A test that changes a module loads it anew (vi.resetModules), before and after.
  isolate: false,
  // Seconds on a quiet machine; a runner with others on it is ten times as slow.
  testTimeout: 120_000,
  hookTimeout: 120_000,
};

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    sequence: { sequencer: LongFirst },
    // One core less unless said: of two, half. The main thread has little to do.
    maxWorkers: "100%",
    projects: [
      {
        extends: true,
        test: {
          ...unit,
          name: "unit",
          include: ["packages/*/test/**/*.test.ts", "scripts/**/*.test.ts"],
          exclude: [...unit.exclude, ...replacing],
          // Node takes the types away by itself, and reads an import as a variable, not by a getter: a tenth of the time less.
          experimental: { viteModuleRunner: false, nodeLoader: false },
          execArgv: ["--conditions=@tilewright/source", "--no-warnings", ...seldomOptimised],
        },
      },
      { extends: true, test: { ...unit, name: "replacing", include: replacing, execArgv: seldomOptimised } },
      // The only tests of what is shipped: they need `npm run build` first.
      { extends: true, test: { name: "dist", include: ["scripts/shipped/*.test.ts"], testTimeout: 60_000 } },
      {
        extends: true,
        test: { name: "gpu", include: ["packages/*/test/**/*.gpu.test.ts"], fileParallelism: false },
      },
    ],
  },
});
