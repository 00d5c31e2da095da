/** Writes the generated pages below a folder: `node --conditions=@tilewright/source scripts/docs/write.ts FOLDER`. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { narrowCharts } from "./charts.ts";
import { generatedPages } from "./pages.ts";

const [folder] = process.argv.slice(2);
if (folder === undefined) throw new TypeError("name a folder");
for (const [path, text] of await generatedPages()) {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), text);
}
for (const [name, picture] of narrowCharts()) writeFileSync(join(folder, "pictures", name), picture);
