/** Constants of the cost model that were calibrated on the user's GPUs: a JSON file beside the schedule store, read by whatever names the GPU. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { type Checked, diagnosticsOfIssues, err, type Gpu, type ModelConstant, ok } from "@tilewright/core";
import {
  type Calibrated,
  calibratedNames,
  constantsOf,
  type Machine,
  machineOf,
  type UsedConstant,
  withConstants,
} from "@tilewright/ir";
import { z } from "zod";
import { codes } from "../codes.ts";
import type { Context } from "../context.ts";
import { writeFiles } from "../files/atomic.ts";
import { readJsonFile } from "../files/json.ts";
import { storePlace } from "./files.ts";

const constant = z.number().nonnegative();

/** One calibration: when, from how many kernels, and how far off predictions of them were before and are with it (root of the mean square of the logarithms). */
const calibrationSchema = z.strictObject({
  date: z.string(),
  compiler: z.string(),
  kernels: z.int().positive(),
  before: z.number(),
  after: z.number(),
  constants: z.partialRecord(z.enum(calibratedNames), constant),
});
type CalibrationEntry = z.output<typeof calibrationSchema>;

const calibrationsSchema = z
  .strictObject({
    kind: z.literal("tilewright-gpus"),
    version: z.literal(1),
    gpus: z.record(z.string(), calibrationSchema),
  })
  .describe("constants of the cost model by GPU, as tilewright tune --calibrate found them");
type Calibrations = z.output<typeof calibrationsSchema>;

/** `tuned.gpus.json` beside `tuned.jsonl`; null where there is no store. */
export function calibrationsPath(context: Pick<Context, "env">, tuned: string | undefined): string | null {
  const place = storePlace(context, tuned);
  return place === null ? null : `${place.path.replace(/\.jsonl$/, "")}.gpus.json`;
}

function readCalibrations(context: Context, path: string | null): Checked<Calibrations["gpus"]> {
  if (path === null || !existsSync(resolve(context.cwd, path))) return ok({});
  const file = readJsonFile(context, path);
  if (!file.ok) return file;
  const { value, locate } = file.value;
  const parsed = calibrationsSchema.safeParse(value);
  if (parsed.success) return ok(parsed.data.gpus);
  const keys = () => Object.keys(calibrationsSchema.shape);
  return err(locate(diagnosticsOfIssues(parsed.error.issues, value, codes.badJson.code, path, keys)));
}

/** Puts a calibration in place of the GPU's last one. Errors: TW7012 a file that is none, TW7011 where it cannot be written. */
export function keepCalibration(
  context: Context,
  path: string,
  gpu: string,
  entry: CalibrationEntry,
): Checked<true> {
  const known = readCalibrations(context, path);
  if (!known.ok) return known;
  const all: Calibrations = { kind: "tilewright-gpus", version: 1, gpus: { ...known.value, [gpu]: entry } };
  const written = writeFiles(context.cwd, [{ path, data: `${JSON.stringify(all, null, 2)}\n` }]);
  return written.ok ? ok(true) : written;
}

/** A GPU as the cost model has it for this user. */
export interface UserMachine {
  readonly machine: Machine;
  /** Constants, calibrated ones in place of the shipped. */
  readonly constants: readonly UsedConstant[];
  /** The file that calibrated ones are from. */
  readonly calibration: { readonly path: string; readonly date: string } | null;
}

/** The constants of a GPU: the user's where it was calibrated, unless `tuned` is none. Errors: TW7012 a file that is none. */
export function userMachine(context: Context, gpu: Gpu, tuned: string | undefined): Checked<UserMachine> {
  const path = calibrationsPath(context, tuned);
  const found = readCalibrations(context, path);
  if (!found.ok) return found;
  const entry = found.value[gpu.name];
  const shipped = constantsOf(gpu.name);
  if (entry === undefined || path === null)
    return ok({ machine: machineOf(gpu), constants: shipped, calibration: null });
  const { date, kernels, constants } = entry;
  const own = (name: string): ModelConstant | undefined => {
    const value = Object.entries(constants).find(([key]) => key === name)?.[1];
    return value === undefined
      ? undefined
      : { value, from: "calibrated", how: `least squares over ${kernels} kernels, ${date}: ${path}` };
  };
  const calibrated: Calibrated = constants;
  return ok({
    machine: withConstants(machineOf(gpu), calibrated),
    constants: shipped.map((each) => {
      const mine = own(each.name);
      return mine === undefined ? each : { ...each, ...mine, gpu: gpu.name };
    }),
    calibration: { path, date },
  });
}
