import { cp } from "node:fs/promises";
import { defineLibrary } from "../../scripts/tsup.ts";

// The explorer's page, which `tilewright explore` serves, is built before this package.
export default defineLibrary(["src/index.ts", "src/bin.ts"], () =>
  cp("../explorer/dist", "dist/explorer", { recursive: true }),
);
