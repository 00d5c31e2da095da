/** Kernels with their statements, grids, parameters, tensor maps and workspace, the latter as `launches/` computes them. */
import type { Target } from "@tilewright/core";
import { reducingThreads, withSum } from "../tile/dsmemReduction.ts";
import { copyKernels, type LaunchHints, launchesOf } from "../tile/launches/kernels.ts";
import { reductionIn } from "../tile/launches/partialTiles.ts";
import { rewriteStmts } from "../tile/rewrite.ts";
import type { Stmt, TileProgram } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

/** The last of a backend's passes; `hints`: what it has ptxas told. */
export const declareLaunches = (hints: (program: TileProgram, target: Target) => LaunchHints): Pass => ({
  name: "declareLaunches",
  summary: "Kernels get statements of their own, grids, parameters, tensor maps and workspace",
  from: "machine",
  to: "machine",
  completes: true,
  run(input, target) {
    if (input.machine === undefined || input.machine.launches !== undefined) return input;
    const program = { ...input, body: [...withSumKernel(input), ...copyKernels(input)] };
    return {
      ...program,
      machine: { ...input.machine, launches: launchesOf(program, hints(program, target)) },
    };
  },
});

/** The statements of the main kernel, and behind them those of the second one of a `reduce … by kernel`: the same work tiles, of which it adds up what the first has left. */
function withSumKernel(program: TileProgram): readonly Stmt[] {
  const { tiles, combine } = reductionIn(program) ?? {};
  if (tiles === undefined || combine?.by !== "kernel") return program.body;
  const { acc } = combine;
  const added: Stmt = {
    kind: "reduction",
    unless: null,
    body: [
      { kind: "partial.load", acc },
      { kind: "partial.add", acc, partials: (tiles.split?.extent ?? 1) - 1 },
    ],
  };
  const sum: Stmt = { ...combine, body: [added, ...withSum(combine)] };
  const handedIn = combine.body.filter(({ kind }) => kind === "reduction");
  return [
    ...rewriteStmts(program.body, (stmt) => (stmt.kind === "reduce" ? { ...stmt, body: handedIn } : stmt)),
    {
      kind: "kernel",
      name: `${program.name}_sum`,
      warps: reducingThreads(program) / 32,
      body: [{ ...tiles, split: null, loop: null, body: [sum] }],
    },
  ];
}
