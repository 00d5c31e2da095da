/** One line of a results file: one problem in one regime, with everything that is needed to believe it. A contract: fields are added, never changed. */
import { problemSchema } from "@tilewright/core";
import { inputKinds, regimes } from "@tilewright/runtime";
import { z } from "zod";
import { choiceSchema } from "../tuned/choice.ts";

const span = z.strictObject({ min: z.number(), median: z.number(), max: z.number() }).nullable();
const summary = z.strictObject({
  samples: z.int(),
  median: z.number(),
  q1: z.number(),
  q3: z.number(),
  min: z.number(),
  max: z.number(),
});
const interval = z.tuple([z.number(), z.number()]);

const ratio = z.strictObject({
  candidate: z.string(),
  peer: z.string(),
  value: z.number().describe("peer's median over the candidate's: above 1 the candidate is faster"),
  low: z.number().describe("95 % interval by bootstrap over paired rounds"),
  high: z.number(),
});

const contender = z.strictObject({
  name: z.string(),
  role: z
    .enum(["candidate", "peer", "command"])
    .describe("command: ran in a process of its own, not interleaved"),
  arch: z.string().nullable(),
  backend: z.string().nullable(),
  schedule: z.string().nullable().describe("canonical text: every field"),
  choice: choiceSchema.optional(),
  detail: z.string().describe("registers of a kernel, algorithm of a library"),
  ptxSha256: z.string().nullable(),
  cubinSha256: z.string().nullable().describe("machine code that the driver made of the PTX"),
  check: z
    .strictObject({
      against: z.string(),
      sampled: z.int(),
      maxAbs: z.number(),
      boundRatio: z.number().describe("largest error over its bound: at most 1"),
      unwritten: z.int().nullable(),
    })
    .nullable()
    .describe("numbers, before the clock started; null for commands, which check themselves"),
  us: summary.describe("microseconds of one launch, between events"),
  spreadUs: interval.describe("95 % interval of the median"),
  tflops: z.number(),
  percentOfPeak: z.number().nullable().describe("of the datasheet's peak"),
  percentAtClock: z.number().nullable().describe("of the peak at the median clock of this run"),
  impossible: z.int().describe("rounds left out because a time was below the floor"),
  graphUs: summary.nullable().describe("of one launch among many in a graph; for kernels under 20 us"),
});

export const benchRecordSchema = z
  .strictObject({
    kind: z.literal("tilewright-bench"),
    version: z.literal(1),
    key: z.string().describe("what was measured; --resume leaves out what a file has already"),
    date: z.string().describe("UTC, ISO 8601"),
    tilewright: z.string(),
    group: z.string(),
    problem: problemSchema,
    regime: z.enum(regimes),
    inputs: z.enum(inputKinds).describe("normal unless something else was asked for"),
    seed: z.int(),
    gpu: z.strictObject({
      name: z.string(),
      arch: z.string(),
      numSms: z.int(),
      l2Bytes: z.number(),
      memoryBytes: z.number(),
      memoryGBs: z.number(),
      maxClockMHz: z.number(),
      cuda: z.int(),
      driver: z.string().nullable(),
      uuid: z.string().nullable(),
      powerLimitWatts: z.number().nullable(),
    }),
    cublasVersion: z.int().nullable(),
    sets: z.int().describe("buffer sets that launches walk through"),
    rotatedBytes: z.number(),
    floorUs: z.number(),
    flops: z.number(),
    bytes: z.number(),
    pauseUs: z.array(z.number()).readonly(),
    state: z
      .strictObject({
        readings: z.int(),
        smMHz: span,
        memoryMHz: span,
        watts: span,
        celsius: span,
        reasons: z.array(z.string()).readonly().describe("what held the clock down"),
      })
      .nullable()
      .describe("NVML during the run"),
    contenders: z.array(contender).readonly(),
    ratios: z.array(ratio).readonly(),
    graphRatios: z.array(ratio).readonly(),
    notes: z.array(z.string()).readonly(),
  })
  .describe("one line that tilewright bench writes");

export type BenchRecord = z.output<typeof benchRecordSchema>;
export type RecordContender = BenchRecord["contenders"][number];
export type RecordRatio = BenchRecord["ratios"][number];
