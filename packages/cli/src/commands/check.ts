/** `tilewright check`: which kernels of a folder the emulator can run. */
import { readdirSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { type Checked, type Diagnostic, ok } from "@tilewright/core";
import { z } from "zod";
import { codes, failWith } from "../codes.ts";
import type { Context } from "../context.ts";
import { readEntries } from "../emulation/entries.ts";
import { defineCommand } from "../kit/command.ts";
import { exitCodes } from "../kit/exit.ts";
import { argument } from "../kit/flags.ts";
import { plural } from "../output/format.ts";
import { renderTable } from "../output/table.ts";

/** Deepest folder that is looked into: a cache has one or two levels, and links may lead in circles. */
const deepest = 8;

/** Texts of a folder and those below it, in order of their names; a file is itself. */
function textsIn(context: Context, path: string): Checked<readonly string[]> {
  const status = statSync(resolve(context.cwd, path), { throwIfNoEntry: false });
  if (status === undefined)
    return failWith(codes.unreadable, path, `cannot read ${path}: there is no such file or folder`);
  if (!status.isDirectory()) return ok([path]);
  const walk = (folder: string, depth: number): readonly string[] =>
    readdirSync(resolve(context.cwd, folder), { withFileTypes: true })
      .sort((a, b) => (a.name < b.name ? -1 : 1))
      .flatMap((item) => {
        const place = join(folder, item.name);
        if (item.isDirectory()) return depth < deepest ? walk(place, depth + 1) : [];
        return item.isFile() && item.name.endsWith(".ptx") ? [place] : [];
      });
  const found = walk(path, 0);
  if (found.length > 0) return ok(found);
  return failWith(codes.unreadable, path, `there is no .ptx file in ${path}`);
}

/** One kernel, or a text that does not load at all. */
interface Row {
  readonly file: string;
  readonly entry: string | null;
  readonly lacks: readonly Diagnostic[];
}

function rowsOf(context: Context, file: string): readonly Row[] {
  const read = readEntries(context, file);
  if (!read.ok) return [{ file, entry: null, lacks: read.error }];
  return read.value.map(({ entry, lacks }) => ({ file, entry, lacks }));
}

export const check = defineCommand({
  name: "check",
  args: z.strictObject({ path: argument("a folder, or one .ptx file", "DIR") }),
  positionals: ["path"],
  async run(session, { path }) {
    const { context } = session;
    const texts = textsIn(context, path);
    if (!texts.ok) return session.fail(texts.error);
    const rows = session.working(`loading ${plural(texts.value.length, "text")}`, () =>
      texts.value.flatMap((file) => rowsOf(context, file)),
    );
    const lacking = rows.filter(({ lacks }) => lacks.length > 0);
    session.result({ ok: lacking.length === 0, kernels: rows }, () => {
      const table = renderTable(
        [{ head: "file" }, { head: "kernel" }, { head: "runs" }],
        rows.map(({ file, entry, lacks: [first] }) => [
          file,
          entry ?? "",
          first === undefined
            ? { text: "yes", style: "green" as const }
            : { text: first.message, style: "red" as const },
        ]),
        session.paint,
      );
      return `${table}${rows.length - lacking.length} of ${plural(rows.length, "kernel")} ${rows.length === 1 ? "runs" : "run"}\n`;
    });
    return lacking.length === 0 ? exitCodes.ok : exitCodes.unsupported;
  },
});
