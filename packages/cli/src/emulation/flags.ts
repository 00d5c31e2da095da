/** Flags of everything that runs kernels on the emulator. */
import type { CheckName, Order, Switch } from "@tilewright/emulator";
import { choice, count, grouped, list, number, seed, text, toggle } from "../kit/flags.ts";
import { plural } from "../output/format.ts";
import { disableFlag } from "./rules.ts";
import { suppressFlag } from "./suppressions.ts";

/** Whose habits a kernel is judged by. */
const profiles = ["strict", "triton", "cutlass", "nvcc"] as const;
export type Profile = (typeof profiles)[number];

const orders = ["eager", "lazy", "random"] as const satisfies readonly Order[];
const checkNames = [
  "bounds",
  "alignment",
  "uninitialised",
  "race",
  "barrier",
  "async",
] as const satisfies readonly CheckName[];

export const emulationFlags = grouped("Emulation", {
  order: choice(
    "when what the PTX memory model leaves open completes: at once (eager, the default), as late as it may (lazy), at random; all: one run of each",
    [...orders, "all"],
  ),
  seed: seed("seed of random orders and of random inputs", 1),
});

/** Flag of the commands that keep an event log. */
export const traceFlag = grouped("Emulation", {
  trace: text(
    "write what warps, engines and barriers did, for ui.perfetto.dev: of the first run that shows a hazard, else of the first",
    "FILE",
  ),
});

/** The rules to run; `emulate` calls the flag --check, `run` calls it --hazards. */
export const hazardFlag = () =>
  grouped("Emulation", {
    hazards: list(
      `hazards to look for: ${checkNames.join(", ")} (default all)`,
      ["all", "none", ...checkNames],
      "all|none|A,B,…",
    ),
  }).hazards;

/** Flags of `emulate` alone: it runs a kernel as often as it takes. */
export const launchFlags = grouped("Emulation", {
  seeds: count("random orders of so many seeds, from --seed on; --order random unless given", 10_000),
  disable: disableFlag(),
  suppress: suppressFlag(),
  baseline: text("findings of an earlier run, which do not count", "FILE"),
  writeBaseline: text("write what was found, as a baseline of later runs", "FILE"),
  search: toggle("of a small launch, run all interleavings of its warps with few switches, for a failure"),
  switches: count("most switches between warps that --search goes through (default 2)", 64),
  budget: number("seconds after which --search ends (default 60)", "SECONDS"),
  writeSchedule: text(
    "write the schedule that --search ended at, with as few switches as show the failure",
    "FILE",
  ),
  replay: text("run one schedule again, which --write-schedule has written", "FILE"),
  profile: choice(
    "whose kernel it is: what the ISA asks for and that compiler leaves out is a note, where strict (the default) has an error",
    profiles,
  ),
  fmad: choice("as ptxas's flag: whether a mul and an add without a rounding become one fma (default true)", [
    "true",
    "false",
  ]),
  fuel: count(
    "warp instructions after which a launch is given up as endless (default: the launch file's, else 10^9)",
    1e12,
  ),
});

/** One run: completion order and, where it depends on one, seed. */
export interface RunPlan {
  readonly order: Order;
  readonly seed: number;
  /** Which warp runs when. */
  readonly schedule?: readonly Switch[];
}

/** Order, seed or schedule: what reproduces a run. */
export function runName({ order, seed, schedule }: RunPlan): string {
  if (schedule !== undefined)
    return `${order === "lazy" ? "order lazy, " : ""}schedule of ${plural(schedule.length, "switch", "switches")}`;
  return order === "random" ? `order random, seed ${seed}` : `order ${order}`;
}

/** The runs that --order, --seed and --seeds ask for: eager and lazy do not depend on a seed. */
export function runsOf(args: {
  readonly order?: Order | "all" | undefined;
  readonly seed: number;
  readonly seeds?: number | undefined;
}): readonly RunPlan[] {
  const { order, seed: first, seeds = 1 } = args;
  const wanted = order ?? (args.seeds === undefined ? "eager" : "random");
  return ordersOf(wanted).flatMap((one) =>
    Array.from({ length: one === "random" ? seeds : 1 }, (_, k) => ({ order: one, seed: first + k })),
  );
}

/** The runs that --order asks for. */
export const ordersOf = (order: Order | "all" | undefined): readonly Order[] =>
  order === "all" ? orders : [order ?? "eager"];

/** The rules named, in the emulator's terms. */
export function checksOf(
  names: readonly (CheckName | "all" | "none")[] | undefined,
): "all" | "none" | readonly CheckName[] {
  if (names === undefined || names.includes("all")) return "all";
  return names.includes("none") ? "none" : checkNames.filter((name) => names.includes(name));
}
