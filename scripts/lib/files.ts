import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Folder of the workspace, with a separator at its end. */
export const root = fileURLToPath(new URL("../..", import.meta.url));

/** Files under a folder of the workspace whose names end so, as paths from the root; none where there is no such folder. */
export function filesUnder(folder: string, ending: string): readonly string[] {
  if (!existsSync(join(root, folder))) return [];
  return readdirSync(join(root, folder), { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(ending))
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length).replaceAll("\\", "/"))
    .sort();
}

/** The packages' folders: `packages/ir`, … */
export const packageFolders = (): readonly string[] =>
  readdirSync(join(root, "packages"), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => `packages/${entry.name}`);
