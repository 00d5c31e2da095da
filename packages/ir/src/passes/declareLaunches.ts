/** Kernels with their grids, parameters, tensor maps and workspace, as `launches/` computes them. */
import type { Target } from "@tilewright/core";
import { type LaunchHints, launchesOf } from "../tile/launches/kernels.ts";
import type { TileProgram } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

/** The last of a backend's passes; `hints`: what it has ptxas told. */
export const declareLaunches = (hints: (program: TileProgram, target: Target) => LaunchHints): Pass => ({
  name: "declareLaunches",
  summary: "Kernels get their grids, parameters, tensor maps and workspace",
  from: "machine",
  to: "machine",
  run: (program, target) =>
    program.machine === undefined || program.machine.launches !== undefined
      ? program
      : {
          ...program,
          machine: { ...program.machine, launches: launchesOf(program, hints(program, target)) },
        },
});
