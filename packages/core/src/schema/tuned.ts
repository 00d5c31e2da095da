/** One line of a schedule store: what was measured to be the fastest schedule of a problem on a GPU. A contract: fields are added, never changed. */
import { z } from "zod";
import { attentionRequestSchema } from "./attention.ts";
import { problemRequestSchema } from "./problem.ts";

const hash = z.string().regex(/^[0-9a-f]{64}$/, {
  error: (issue) => `${JSON.stringify(issue.input)} is no SHA-256: 64 hexadecimal digits, in lower case`,
});
const positive = (what: string) => z.number().positive().describe(what);

const times = z
  .strictObject({
    median: positive("microseconds of a launch"),
    low: positive("95 % interval of the median"),
    high: positive("95 % interval of the median"),
    runs: z.int().positive().describe("launches that were timed"),
  })
  .describe("between events, in the idle regime of tilewright bench");

const clocks = z.strictObject({
  smMHz: z.number().nullable().describe("median clock of the SMs while it was timed"),
  memoryMHz: z.number().nullable(),
});

const peer = z.strictObject({
  name: z.string().describe("cublas: cuBLASLt's first choice"),
  us: positive("median, in the same rounds").optional(),
  ratio: positive("the peer's median over the kernel's: above 1 the kernel is faster"),
});

export const tunedSchema = z
  .strictObject({
    kind: z.literal("tilewright-tuned"),
    version: z.literal(1),
    gpu: z.string().min(1).describe("name in the table of GPUs (tilewright targets --gpus), or the driver's"),
    arch: z.string().describe("target of the text"),
    problem: problemRequestSchema,
    program: attentionRequestSchema
      .optional()
      .describe(
        "what is computed where it is no product, every field of it; problem then says what a launch takes",
      ),
    backend: z.string(),
    schedule: z.string().min(1).describe("text; fields left out take their defaults"),
    compiler: z.string().optional().describe("version that made the kernel"),
    ptxSha256: hash.optional().describe("of the PTX that was timed"),
    us: times.optional(),
    clocks: clocks.optional(),
    peer: peer.optional(),
    date: z.string().regex(/^\d{4}-\d\d-\d\d/, { error: "a date begins YYYY-MM-DD" }),
    note: z.string().optional(),
  })
  .describe("one line of a schedule store: a schedule that was measured");

/** An entry as JSON has it; its problem may leave out what has a default. */
export type TunedEntry = z.output<typeof tunedSchema>;
