/** The launchers by language, and the files that each consists of. */
import type { OutputFile } from "../../files/atomic.ts";
import { joinedPython } from "../../launchers.ts";
import type { Library } from "../model.ts";
import { cLauncher } from "./c.ts";
import { esmLauncher } from "./esm.ts";
import { rustLauncher } from "./rust.ts";

export const languages = ["c", "python", "rust", "esm"] as const;
export type Language = (typeof languages)[number];

const writers: Readonly<Record<Language, (library: Library) => readonly OutputFile[]>> = {
  c: cLauncher,
  python: (library) => [{ path: `${library.name}.py`, data: joinedPython() }],
  // The Rust module binds to the C launcher.
  rust: (library) => [{ path: `${library.name}.rs`, data: rustLauncher(library) }, ...cLauncher(library)],
  esm: esmLauncher,
};

/** The launchers of a library in some languages; paths relative to its folder. */
export const launcherFiles = (library: Library, wanted: readonly Language[]): readonly OutputFile[] => [
  ...new Map(
    wanted.flatMap((language) => writers[language](library)).map((file) => [file.path, file]),
  ).values(),
];
