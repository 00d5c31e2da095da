import { defineConfig } from "vitest/config";

// Tests run on the sources (export condition @tilewright/source), so none but project "dist" needs a build.
const conditions = ["@tilewright/source", "node", "import", "default"];

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          include: ["packages/*/test/**/*.test.ts", "scripts/**/*.test.ts"],
          exclude: ["**/*.gpu.test.ts", "scripts/shipped/**"],
          testTimeout: 60_000,
        },
      },
      // The only tests of what is shipped: they need `npm run build` first.
      { extends: true, test: { name: "dist", include: ["scripts/shipped/*.test.ts"], testTimeout: 60_000 } },
      {
        extends: true,
        test: { name: "gpu", include: ["packages/*/test/**/*.gpu.test.ts"], fileParallelism: false },
      },
    ],
  },
});
