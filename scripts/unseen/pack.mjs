// node scripts/unseen/pack.mjs FOLDER: measure.ts with its worker. Put beside the files of lib/ of an unpacked bundle, they run on its Node.
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { bundleCode } from "../bundle/code.mjs";

const folder = process.argv[2] ?? "out/unseen";
const { files } = bundleCode({ measure: "scripts/unseen/measure.ts", worker: "scripts/unseen/worker.ts" });
for (const { path, data } of files) {
  const place = join(folder, path);
  mkdirSync(dirname(place), { recursive: true });
  writeFileSync(place, data);
}
