/** `tilewright doctor`: what this machine has, what is missing, and what to do about it. */
import { formatDiagnostic } from "@tilewright/core";
import { z } from "zod";
import { examine, type Finding, type Status } from "../doctor/findings.ts";
import { defineCommand, type Session } from "../kit/command.ts";
import { exitCodes } from "../kit/exit.ts";
import type { Style } from "../output/colour.ts";
import { renderTable } from "../output/table.ts";

const styles: Record<Status, Style> = { ok: "green", optional: "yellow", bad: "red" };

function render(session: Session, findings: readonly Finding[]): string {
  const rows = findings.map(({ what, status, found }) => [
    what,
    { text: status, style: styles[status] },
    found,
  ]);
  const hints = findings
    .filter(({ hint }) => hint !== undefined)
    .map(({ what, hint }) => `  ${what}: ${hint}`);
  const table = renderTable([{ head: "part" }, { head: "status" }, { head: "found" }], rows, session.paint);
  const todo = hints.length === 0 ? "" : `\nWhat to do, if you want what is missing:\n${hints.join("\n")}\n`;
  return `${table}${todo}\nNext: tilewright run --arch sm_70 -m 300 -n 200 -k 77\n`;
}

export const doctor = defineCommand({
  name: "doctor",
  args: z.strictObject({}),
  async run(session) {
    const { findings, cuda } = await examine(session.context);
    const ready = findings.every(({ status }) => status !== "bad");
    session.result(
      { ok: ready, findings, cuda: { ...cuda, problems: cuda.problems.map(formatDiagnostic) } },
      () => render(session, findings),
    );
    return ready ? exitCodes.ok : exitCodes.toolchain;
  },
});
