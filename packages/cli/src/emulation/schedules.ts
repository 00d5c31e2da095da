/** The search of interleavings on the command line: what it covered, the schedule that it ended at, and files of those. */

import { type Checked, type Diagnostic, diagnosticsOfIssues, err, ok } from "@tilewright/core";
import type { SearchReport, Switch } from "@tilewright/emulator";
import { z } from "zod";
import { codes, failWith, problemWith } from "../codes.ts";
import type { Context } from "../context.ts";
import { readJsonFile } from "../files/json.ts";
import { plural } from "../output/format.ts";
import type { Searched } from "./launches.ts";

const scheduleSchema = z
  .strictObject({
    entry: z.string(),
    order: z.enum(["eager", "lazy"]).describe("when asynchronous copies complete"),
    switches: z
      .array(z.strictObject({ point: z.int().nonnegative(), warp: z.int().nonnegative() }))
      .describe("from which point on which warp goes on; warps of all blocks are numbered through"),
    steps: z.array(z.string()).optional().describe("the same for the reader"),
  })
  .describe("which warp runs when: tilewright emulate --search --write-schedule FILE");

export type ScheduleFile = z.output<typeof scheduleSchema>;

/** Errors: no such file, JSON that is no schedule (TW7012), the schedule of another entry (TW7005). */
export function readSchedule(context: Context, path: string, entry: string): Checked<ScheduleFile> {
  const file = readJsonFile(context, path);
  if (!file.ok) return file;
  const parsed = scheduleSchema.safeParse(file.value.value);
  if (!parsed.success) {
    const found = diagnosticsOfIssues(parsed.error.issues, file.value.value, codes.badJson.code, path, () =>
      Object.keys(scheduleSchema.shape),
    );
    return err(file.value.locate(found));
  }
  if (parsed.data.entry === entry) return ok(parsed.data);
  return failWith(
    codes.conflict,
    "--replay",
    `${path} is a schedule of ${parsed.data.entry}, not of ${entry}`,
  );
}

const stepsOf = ({ failure }: SearchReport): readonly string[] =>
  failure?.steps.map(
    ({ stops, before, goesOn }) => `warp ${stops} stops before ${before}; warp ${goesOn} goes on`,
  ) ?? [];

/** The schedule that a search ended at, to be replayed. */
export const scheduleFile = (
  entry: string,
  order: ScheduleFile["order"],
  schedule: readonly Switch[],
  report: SearchReport,
): ScheduleFile => ({
  ...{ entry, order, steps: [...stepsOf(report)] },
  switches: schedule.map(({ point, warp }) => ({ point, warp })),
});

/** What the search covered, and step by step what it ended at. */
export function renderSearch({ report }: Searched): string {
  const steps = stepsOf(report).map((step, k) => `  ${k + 1}. ${step}\n`);
  const none = report.failure !== null && steps.length === 0 ? "  no switch is needed\n" : "";
  return `search: ${report.summary}\n${none}${steps.join("")}`;
}

/** A search for `--json`: without the counters of the failing run, which is one of the runs. */
export function searchResult({ report, place }: Searched) {
  const { failure, ...covered } = report;
  return {
    ...covered,
    failure: failure === null ? null : { schedule: failure.schedule, steps: stepsOf(report), differs: place },
  };
}

/** Memory that depends on the schedule, as an error. */
export function searchErrors({ report, place }: Searched): readonly Diagnostic[] {
  if (place === null) return [];
  const count = plural(report.failure?.schedule.length ?? 0, "switch", "switches");
  return [
    problemWith(
      codes.orderDependent,
      place.buffer,
      `the result depends on the schedule: byte ${place.byte} is another after ${count} between warps`,
      { hint: "--write-schedule FILE keeps the schedule, --replay FILE runs it again" },
    ),
  ];
}
