/** What `ladder --json` prints. A contract: fields are added, never changed. */
import { problemSchema } from "@tilewright/core";
import { z } from "zod";

/** Schema of `realNumber`. */
export const real = z.union([z.number(), z.enum(["Infinity", "NaN"])]);

const counted = z.strictObject({
  warpInstructions: z.int().describe("executed by all warps"),
  matrixInstructions: z.int().describe("of those: multiply-accumulates on matrices"),
  globalBytesRead: z.int(),
  globalBytesWritten: z.int(),
  sharedBytesRead: z.int(),
  sharedBytesWritten: z.int(),
  tensorBytesRead: z.int().describe("out of tensor memory, by loads"),
  tensorBytesWritten: z.int().describe("into it, by matrix instructions and stores"),
  barriers: z.int(),
  waits: z.int().describe("at mbarriers: times that lanes have come to one"),
  waitsBlocked: z.int().describe("of those: times that it did not let them pass at once"),
  ring: z
    .strictObject({
      slots: z.int(),
      filled: z.number().describe("slots with operands in them, on average over the lives of the blocks"),
    })
    .nullable()
    .describe("the ring of operands; null without one that has mbarriers on both edges"),
  sharedWavefronts: z.int().describe("passes over the banks, as sampled"),
  sharedConflicts: z.int().describe("those beyond the fewest possible"),
  boundRatio: real.describe("largest error over its bound: at most 1 passes"),
  hazards: z.int(),
});

const timed = z.strictObject({
  us: z.number().describe("median of the idle regime"),
  tflops: z.number(),
  boundRatio: real,
});

const predicted = z.strictObject({
  gpu: z.string(),
  size: z.array(z.int()).length(3).describe("m, n and k: the ladder's for a GPU unless flags say otherwise"),
  us: z.number(),
  tflops: z.number(),
});

export const ladderResultSchema = z
  .strictObject({
    ok: z.boolean().describe("numbers within their bounds and no hazards, in every step"),
    arch: z.string(),
    device: z.enum(["emulator", "cuda", "none"]).describe("none: nothing ran"),
    deviceName: z.string(),
    ladders: z.array(
      z.strictObject({
        name: z.string(),
        backend: z.string(),
        summary: z.string(),
        problem: problemSchema,
        attention: z
          .string()
          .optional()
          .describe("sizes and masks, where the kernels are attention and problem is a product of theirs"),
        peer: timed.nullable().describe("cuBLASLt in the same run; null where it took no part"),
        steps: z.array(
          z.strictObject({
            name: z.string(),
            summary: z.string(),
            change: z.string().describe("schedule fields that change from the step before"),
            schedule: z.string().describe("canonical text: every field"),
            refused: z
              .array(z.string())
              .nullable()
              .describe("why the schedule is not legal here; null when it is"),
            ptxSha256: z.string().nullable(),
            smemBytes: z.int().nullable().describe("shared memory of a block"),
            predicted: predicted.nullable().describe("by the machine model, where no GPU measures"),
            counted: counted.nullable().describe("on the emulator"),
            timed: timed.nullable().describe("on a GPU"),
          }),
        ),
      }),
    ),
  })
  .describe("the result of tilewright ladder");

export type LadderResult = z.input<typeof ladderResultSchema>;
export type LadderOutcome = LadderResult["ladders"][number];
export type StepOutcome = LadderOutcome["steps"][number];

/** JSON has no infinities. */
export const realNumber = (value: number): number | "Infinity" | "NaN" =>
  Number.isFinite(value) ? value : Number.isNaN(value) ? "NaN" : "Infinity";
