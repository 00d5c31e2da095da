/** What `run --json` prints. A contract: fields are added, never changed. */

import { problemSchema } from "@tilewright/core";
import { z } from "zod";
import { real } from "../ladder/result.ts";
import { choiceSchema } from "../tuned/choice.ts";

/** JSON has no infinities: `Infinity` and `NaN` are written as text. */
export const runResultSchema = z
  .strictObject({
    ok: z.boolean().describe("numbers within their bounds and no hazards"),
    arch: z.string(),
    device: z.enum(["emulator", "cuda"]),
    deviceName: z.string(),
    problem: problemSchema,
    schedule: z.string().describe("canonical text: every field"),
    choice: choiceSchema,
    error: z
      .strictObject({
        maxAbs: real.describe("largest |actual - expected|"),
        boundRatio: real.describe("largest error over its bound: at most 1 passes"),
        nan: z.int().describe("elements of D that are NaN by the reference: no error is measured of them"),
      })
      .nullable()
      .describe("against the float64 reference, over every element; null with --no-check"),
    hazards: z
      .array(
        z.object({
          rule: z.string(),
          check: z.string(),
          severity: z.enum(["error", "note"]),
          message: z.string(),
          instruction: z.string(),
          location: z.object({ line: z.int(), column: z.int(), file: z.string().optional() }).nullable(),
          block: z.array(z.int()).readonly(),
          warp: z.int(),
          count: z.int(),
        }),
      )
      .readonly()
      .describe("findings of the emulator; always empty on a GPU"),
    timeMs: z
      .number()
      .describe(
        "of the launch: on a GPU between events, on the emulator host time; the longest of several orders",
      ),
    ptxSha256: z.string().describe("hexadecimal SHA-256 of the PTX text"),
  })
  .describe("the result of tilewright run");

export type RunResult = z.input<typeof runResultSchema>;
