/** `emulate` without a launch file: what there is to launch, and a launch file to complete. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import type { Checked } from "@tilewright/core";
import { writeFiles } from "../files/atomic.ts";
import type { Session } from "../kit/command.ts";
import { exitCodes } from "../kit/exit.ts";
import { toJson } from "../output/json.ts";
import { renderTable } from "../output/table.ts";
import { type Entry, launchTemplate, readEntries, shortName } from "./entries.ts";

function render(session: Session, entries: readonly Entry[]): string {
  const heads = ["entry", "block", "shared", "parameters", "runs"].map((head) => ({ head }));
  const rows = entries.map((entry) => [
    entry.entry,
    entry.block?.join("x") ?? "not said",
    entry.dynamicSmem === null ? "not said" : String(entry.dynamicSmem),
    entry.params.map((param) => `.${param.type} ${shortName(entry, param)}`).join(", "),
    entry.lacks.length === 0
      ? { text: "yes", style: "green" as const }
      : { text: entry.lacks[0]?.message ?? "no", style: "red" as const },
  ]);
  return renderTable(heads, rows, session.paint);
}

/**
 * Show the entries of the text, and write `NAME.launch.json` beside it for the first that runs, unless the text comes from
 * standard input or there is such a file. Returns the exit code.
 */
export function describeText(session: Session, path: string): number {
  const { context } = session;
  const read = readEntries(context, path);
  if (!read.ok) return session.fail(read.error);
  const entry = read.value.find(({ lacks }) => lacks.length === 0);
  const target = `${path.replace(/\.ptx$/, "")}.launch.json`;
  const isThere = existsSync(resolve(context.cwd, target));
  const files: Checked<readonly string[]> =
    entry === undefined || path === "-" || isThere
      ? { ok: true, value: [] }
      : writeFiles(context.cwd, [{ path: target, data: toJson(launchTemplate(entry)) }]);
  if (!files.ok) return session.fail(files.error);
  session.result({ ok: true, entries: read.value, files: files.value }, () => render(session, read.value));
  if (entry !== undefined && path !== "-")
    session.note(
      `${isThere ? "there is" : "wrote"} ${target}: complete it (tilewright schema launch), then tilewright emulate ${path} --launch ${target}`,
    );
  return exitCodes.ok;
}
