/** Look-up of targets and GPUs by what people type. */
import type { Checked } from "../diagnostics.ts";
import { err, ok } from "../ids.ts";
import { nearest } from "../nearest.ts";
import type { Gpu, Target } from "../target.ts";
import { gpus } from "./gpus.ts";
import { targets } from "./table.ts";

const archNames = targets.map((target) => target.arch);

/** `sm_90a` for `90`, `SM90`, `compute_90a`, `9.0`, …; null where it is no number of an architecture. */
function normalise(name: string): string | null {
  const match = /^(?:sm|compute)?[ _-]?(\d{1,2})\.?(\d)([af]?)$/.exec(name.trim().toLowerCase());
  return match === null ? null : `sm_${match[1]}${match[2]}${match[3]}`;
}

/** Known architectures nearest to an unknown one: same number with another suffix first, then the next lower and the next higher. */
function neighbours(arch: string): readonly string[] {
  const number = (name: string) => Number(/\d+/.exec(name)?.[0] ?? 0);
  const wanted = number(arch);
  const same = archNames.filter((name) => number(name) === wanted);
  if (same.length > 0) return same;
  const lower = archNames.filter((name) => number(name) < wanted).at(-1);
  const higher = archNames.find((name) => number(name) > wanted);
  return [lower, higher].filter((name) => name !== undefined);
}

/**
 * The target called `name`, exactly as in the table. Anything else is TW1101 (invalid) with the nearest names: `sm_100` is not taken for
 * `sm_100a`, because code for the latter runs on no other GPU and the choice is the caller's. A GPU's name hints at its architecture.
 */
export function findTarget(name: string): Checked<Target> {
  const exact = targets.find((target) => target.arch === name);
  if (exact) return ok(exact);
  const arch = normalise(name);
  const gpu = arch === null ? nearestGpus(name)[0] : undefined;
  const near = arch !== null ? neighbours(arch) : gpu ? [gpu.arch] : nearest(name, archNames);
  const known = `known: ${archNames.join(", ")}`;
  const hint =
    near.length === 0 ? known : `did you mean ${near.join(" or ")}${gpu ? ` (${gpu.name})` : ""}? (${known})`;
  return err([
    { code: "TW1101", kind: "invalid", at: "arch", message: `there is no target '${name}'`, hint },
  ]);
}

const squash = (name: string): string => name.toLowerCase().replace(/nvidia|geforce|tesla|[^a-z0-9]/g, "");

function nearestGpus(name: string): readonly Gpu[] {
  const wanted = squash(name);
  if (wanted.length < 2) return [];
  const containing = gpus.filter(
    (gpu) => squash(gpu.name).includes(wanted) || wanted.includes(squash(gpu.name)),
  );
  if (containing.length > 0) return containing;
  const names = nearest(
    wanted,
    gpus.map((gpu) => squash(gpu.name)),
  );
  return names.flatMap((near) => gpus.find((gpu) => squash(gpu.name) === near) ?? []);
}

/**
 * The GPU called `name`: case, spaces and vendor words do not matter (`NVIDIA H100-SXM`), and a part that fits one GPU only is enough
 * (`4090`). Errors: TW1102 (invalid) with the nearest names.
 */
export function findGpu(name: string): Checked<Gpu> {
  const wanted = squash(name);
  const exact = gpus.find((gpu) => squash(gpu.name) === wanted);
  if (exact) return ok(exact);
  const near = nearestGpus(name);
  const [only, ...others] = near.filter((gpu) => wanted.length >= 2 && squash(gpu.name).includes(wanted));
  if (only && others.length === 0) return ok(only);
  const hint =
    near.length > 0
      ? `did you mean ${near.map((gpu) => gpu.name).join(" or ")}?`
      : `known: ${gpus.map((gpu) => gpu.name).join(", ")}`;
  return err([
    { code: "TW1102", kind: "invalid", at: "gpu", message: `there is no GPU '${name}' in the table`, hint },
  ]);
}

/** The planner's default GPU for an architecture: the first one listed, or the first of its number with another suffix; null when the table has none. */
export const gpuFor = (arch: string): Gpu | null =>
  gpus.find((gpu) => gpu.arch === arch) ?? gpus.find((gpu) => gpu.arch.replace(/[af]$/, "") === arch) ?? null;

/**
 * Whether PTX for `target` runs on a device of this compute capability: portable text on every later one, `arch` text on exactly its
 * own, `family` text within its major version.
 */
export function runsOn(target: Target, major: number, minor: number): boolean {
  const later = major > target.major || (major === target.major && minor >= target.minor);
  switch (target.portability) {
    case "portable":
      return later;
    case "family":
      return later && major === target.major;
    case "arch":
      return major === target.major && minor === target.minor;
  }
}
