/** Output files: written beside their place and renamed into it, so that a reader never sees half a file and a failure leaves none. */
import { mkdirSync, renameSync, rmdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { type Checked, type Diagnostic, err, ok } from "@tilewright/core";
import { codes, problemWith } from "../codes.ts";

export interface OutputFile {
  /** Absolute, or relative to the working directory of the context. */
  readonly path: string;
  readonly data: string | Uint8Array;
}

/** What the operating system's error codes mean for somebody who wants a file there. */
const reasons: Readonly<Record<string, string>> = {
  EACCES: "no permission to write there",
  EPERM: "no permission to write there",
  EROFS: "the file system is read-only",
  ENOENT: "the folder does not exist and cannot be made",
  ENOTDIR: "a part of the path is a file, not a folder",
  EEXIST: "a file is where a folder is needed",
  EISDIR: "a folder is where the file should go",
  ENOSPC: "no space is left on the device",
  ENAMETOOLONG: "the name is too long",
};

/** The system's code of an error thrown by node:fs; null for anything else. */
export function systemCode(error: unknown): string | null {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : null;
}

function unwritable(path: string, error: unknown): Diagnostic {
  const code = systemCode(error);
  if (code === null) throw error;
  if (code === "ERR_INVALID_ARG_VALUE")
    return problemWith(
      codes.unwritable,
      JSON.stringify(path),
      "cannot write there: the name holds a NUL character",
    );
  return problemWith(codes.unwritable, path, `cannot write ${path}: ${reasons[code] ?? code}`, {
    hint: "name a folder that you can write to",
  });
}

/**
 * Make a folder and those above it; `made` gets every one that was not there. `mkdirSync` with `recursive` is not used: where the system
 * says ENOENT for a folder that is there (/proc), it tries for ever.
 */
function makeFolder(path: string, made: string[]): void {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory() === true) return;
  if (dirname(path) !== path) makeFolder(dirname(path), made);
  try {
    mkdirSync(path);
    made.push(path);
  } catch (error) {
    // Somebody else was quicker.
    if (systemCode(error) !== "EEXIST" || !statSync(path).isDirectory()) throw error;
  }
}

/**
 * Write all files or none: everything goes to temporary files in the same folders first, then they are renamed.
 * Folders are made as needed, and taken away again if the writing fails. Returns the paths.
 */
export function writeFiles(cwd: string, files: readonly OutputFile[]): Checked<readonly string[]> {
  const placed: { readonly temporary: string; readonly path: string }[] = [];
  const madeFolders: string[] = [];
  let current = "";
  try {
    for (const file of files) {
      current = file.path;
      const path = resolve(cwd, file.path);
      makeFolder(dirname(path), madeFolders);
      if (statSync(path, { throwIfNoEntry: false })?.isDirectory() === true)
        return undo(problemWith(codes.unwritable, file.path, `cannot write ${file.path}: ${reasons.EISDIR}`));
      const temporary = join(dirname(path), `.${basename(path)}.${process.pid}.tmp`);
      placed.push({ temporary, path });
      writeFileSync(temporary, file.data);
    }
    for (const { temporary, path } of placed) {
      current = path;
      renameSync(temporary, path);
    }
    return ok(files.map((file) => file.path));
  } catch (error) {
    return undo(unwritable(current, error));
  }

  function undo(diagnostic: Diagnostic): Checked<never> {
    for (const { temporary } of placed) rmSync(temporary, { force: true });
    // Of what others put there meanwhile nothing is taken away.
    for (const folder of madeFolders.reverse())
      try {
        rmdirSync(folder);
      } catch {}
    return err([diagnostic]);
  }
}
