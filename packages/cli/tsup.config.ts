import { cp } from "node:fs/promises";
import { defineLibrary } from "../../scripts/tsup.ts";

// The explorer's page, which `tilewright explore` serves, is built before this package; `tilewright explain` prints of the two pages of the documentation.
export default defineLibrary(["src/index.ts", "src/bin.ts", "src/tune/compile-worker.ts"], async () => {
  await cp("../explorer/dist", "dist/explorer", { recursive: true });
  for (const page of ["errors.md", "hazards/README.md"]) await cp(`../../docs/${page}`, `dist/docs/${page}`);
});
