import { defineLibrary } from "../../scripts/tsup.ts";

export default defineLibrary(["src/index.ts"]);
