/** Flags of everything that runs kernels on the emulator. */
import type { CheckName, Order } from "@tilewright/emulator";
import { choice, count, list, seed, text } from "../kit/flags.ts";
import { disableFlag } from "./rules.ts";

const group = "Emulation";

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

export const emulationFlags = {
  order: choice(
    "when what the PTX memory model leaves open completes: at once (eager, the default), as late as it may (lazy), at random; all: one run of each",
    [...orders, "all"],
    { group },
  ),
  seed: seed("seed of random orders and of random inputs", 1, { group }),
};

/** Flag of the commands that keep an event log. */
export const traceFlag = {
  trace: text(
    "write what warps, engines and barriers did, for ui.perfetto.dev: of the first run that shows a hazard, else of the first",
    { hint: "FILE", group },
  ),
};

/** The rules to run; `emulate` calls the flag --check, `run` calls it --hazards. */
export const hazardFlag = () =>
  list(`hazards to look for: ${checkNames.join(", ")} (default all)`, ["all", "none", ...checkNames], {
    hint: "all|none|A,B,…",
    group,
  });

/** Flags of `emulate` alone: it runs a kernel as often as it takes. */
export const launchFlags = {
  seeds: count("random orders of so many seeds, from --seed on; --order random unless given", 10_000, {
    group,
  }),
  disable: disableFlag(group),
  profile: choice(
    "whose kernel it is: what the ISA asks for and that compiler leaves out is a note, where strict (the default) has an error",
    profiles,
    { group },
  ),
  fuel: count(
    "warp instructions after which a launch is given up as endless (default: the launch file's, else 10^9)",
    1e12,
    {
      group,
    },
  ),
};

/** One run: completion order and, where it depends on one, seed. */
export interface RunPlan {
  readonly order: Order;
  readonly seed: number;
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
