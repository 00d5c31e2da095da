/** Where a schedule is from, for people and for programs. */
import { formatDiagnostic } from "@tilewright/core";
import type { Artifact, Choice } from "@tilewright/ir";
import { z } from "zod";
import { sha256 } from "../files/hash.ts";
import type { Session } from "../kit/command.ts";
import { version } from "../version.ts";

const origins = ["given", "tuned", "shipped", "model"] as const;

export const choiceSchema = z
  .strictObject({
    from: z
      .enum(origins)
      .describe(
        "given; tuned: of the user's store; shipped: measured, with the compiler; model: ranked first",
      ),
    gpu: z.string().optional().describe("where it was measured"),
    arch: z.string().optional(),
    date: z.string().optional(),
    us: z.number().optional(),
    peer: z
      .strictObject({ name: z.string(), us: z.number().optional(), ratio: z.number() })
      .optional()
      .describe("what it was measured beside"),
  })
  .describe("where the schedule is from");

/** As `--json` has it. */
export const choiceData = ({
  choice: { from, tuned },
}: Pick<Artifact, "choice">): z.output<typeof choiceSchema> => {
  if (tuned === null) return { from };
  const { gpu, arch, date, us, peer } = tuned.entry;
  return { from, gpu, arch, date, ...(us ? { us: us.median } : {}), ...(peer ? { peer } : {}) };
};

/** `tuned on H200, 2026-11-20: 1.04 of cublas`. */
export function choiceText({ from, tuned }: Choice): string {
  if (tuned === null) return from === "given" ? "given" : "the model's choice";
  const { gpu, date, peer } = tuned.entry;
  const ratio = peer === undefined ? "" : `: ${peer.ratio} of ${peer.name}`;
  return `${from === "tuned" ? "tuned" : "shipped, tuned"} on ${gpu}, ${date.slice(0, 10)}${ratio}`;
}

/** What is to be known of the user's entries: those that do not count, and one whose kernel is no longer the one that was timed. */
export function tellChoice(
  session: Session,
  { choice, ptx, target }: Pick<Artifact, "choice" | "ptx" | "target">,
): void {
  for (const { tuned, reasons } of choice.refused)
    session.note(
      `the schedule tuned on ${tuned.entry.gpu} (${tuned.entry.date.slice(0, 10)}) does not count for ${target.arch}: ${reasons.map(formatDiagnostic).join("; ")}`,
    );
  const { tuned, from } = choice;
  if (from !== "tuned" || tuned?.entry.ptxSha256 === undefined || tuned.entry.ptxSha256 === sha256(ptx))
    return;
  const { compiler = "another version" } = tuned.entry;
  session.note(
    `tilewright ${compiler} timed this schedule on ${tuned.entry.gpu}, and ${version} makes another kernel of it: tilewright tune times it again`,
  );
}
