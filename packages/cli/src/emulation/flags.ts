/** Flags of everything that runs kernels on the emulator. */
import type { CheckName, Order } from "@tilewright/emulator";
import { choice, list, seed } from "../kit/flags.ts";

const group = "Emulation";

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

/** The rules to run; `emulate` calls the flag --check, `run` calls it --hazards. */
export const hazardFlag = () =>
  list("hazards to look for (default all)", ["all", "none", ...checkNames], {
    hint: "all|none|A,B,…",
    group,
  });

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
