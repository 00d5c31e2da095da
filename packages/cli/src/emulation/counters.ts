/** What a launch counted, as text. */
import type { Counters } from "@tilewright/emulator";
import type { Paint } from "../output/colour.ts";
import { trim } from "../output/format.ts";
import { renderPairs, renderTable } from "../output/table.ts";

/** Rows of a table that is as long as the kernel; `--json` has all of them. */
const mostRows = 8;

const grouped = (count: number): string => count.toLocaleString("en-US");
const right = (head: string) => ({ head, align: "right" as const });

/** Instruction mix, bytes by memory level, the worst shared accesses and the longest waits. Ends with a newline. */
export function renderCounters(counters: Counters, paint: Paint): string {
  return [mix(counters, paint), levels(counters, paint), conflicts(counters, paint), waits(counters, paint)]
    .filter((part) => part !== "")
    .join("\n");
}

function mix({ instructions, warpInstructions }: Counters, paint: Paint): string {
  const rows = Object.entries(instructions).sort(([, a], [, b]) => b - a);
  const shown = rows.slice(0, mostRows);
  const rest = rows.slice(mostRows).reduce((sum, [, count]) => sum + count, 0);
  const share = (count: number): string => `${trim((100 * count) / Math.max(1, warpInstructions))} %`;
  return renderTable(
    [{ head: "instruction" }, right("warps"), right("share")],
    [
      ...shown.map(([opcode, count]) => [opcode, grouped(count), share(count)]),
      ...(rest === 0 ? [] : [[`${rows.length - mostRows} others`, grouped(rest), share(rest)]]),
      ["all", grouped(warpInstructions), ""],
    ],
    paint,
  );
}

function levels(counters: Counters, paint: Paint): string {
  const rows = [
    ["global", counters.globalBytesRead, counters.globalBytesWritten],
    ["shared", counters.sharedBytesRead, counters.sharedBytesWritten],
    ["tensor", counters.tensorBytesRead, counters.tensorBytesWritten],
    ["local", counters.localBytesRead, counters.localBytesWritten],
  ] as const;
  const used = rows.filter(([, read, written]) => read + written > 0);
  if (used.length === 0) return "";
  return renderTable(
    [{ head: "memory" }, right("bytes read"), right("bytes written")],
    used.map(([level, read, written]) => [level, grouped(read), grouped(written)]),
    paint,
  );
}

const lineOf = (location: { readonly line: number } | null): string =>
  location === null ? "" : `${location.line}`;

function conflicts({ sharedAccesses, sharedConflicts, sharedWavefronts }: Counters, paint: Paint): string {
  if (sharedAccesses.length === 0) return "";
  const bad = sharedAccesses
    .filter((access) => access.conflicts > 0)
    .sort((a, b) => b.conflicts / b.samples - a.conflicts / a.samples);
  const summary = renderPairs([
    [
      "bank conflicts",
      `${grouped(sharedConflicts)} of ${grouped(sharedWavefronts)} wavefronts sampled, in ${bad.length} of ${sharedAccesses.length} instructions`,
    ],
  ]);
  if (bad.length === 0) return summary;
  const rows = bad
    .slice(0, mostRows)
    .map(({ location, instruction, samples, wavefronts, conflicts: beyond, worst }) => [
      lineOf(location),
      trim(wavefronts / samples),
      trim((wavefronts - beyond) / samples),
      String(worst),
      instruction.trim(),
    ]);
  return (
    summary +
    renderTable(
      [right("line"), right("wavefronts"), right("at best"), right("worst"), { head: "shared access" }],
      rows,
      paint,
    )
  );
}

function waits({ waits: all }: Counters, paint: Paint): string {
  const rows = all
    .filter(({ blocked, polls }) => blocked + polls > 0)
    .sort((a, b) => b.polls - a.polls)
    .slice(0, mostRows)
    .map(({ location, instruction, executions, blocked, polls }) => [
      lineOf(location),
      grouped(executions),
      grouped(blocked),
      grouped(polls),
      instruction.trim(),
    ]);
  if (rows.length === 0) return "";
  return renderTable(
    [right("line"), right("executed"), right("blocked"), right("turns"), { head: "wait" }],
    rows,
    paint,
  );
}
