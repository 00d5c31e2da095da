/** Bound programs with roles, bulk copies, clusters and persistent CTAs, small enough to run. */

import { targetOf } from "@tilewright/conformance";
import { defineProblem } from "@tilewright/core";
import {
  allocate,
  bindOwnership,
  bindRaster,
  bindTensorLayouts,
  type Directive,
  elideGuards,
  expandRings,
  expandStores,
  gemmNest,
  multicastCopies,
  type OwnershipMode,
  openKernel,
  type Pass,
  persistTiles,
  pipelineRing,
  rewriteStmts,
  runPasses,
  scheduleTiles,
  specialiseRoles,
  stageEpilogue,
  stageOperands,
  type TileProgram,
  withBody,
} from "@tilewright/ir";
import { awaitProducts } from "../../src/passes/awaitProducts.ts";
import { delayRelease } from "../../src/passes/delayRelease.ts";
import { peelFirst } from "../../src/passes/peelFirst.ts";
import { pingPongRoles } from "../../src/passes/pingPongRoles.ts";
import { splitTail } from "../../src/passes/splitTail.ts";

export const sm90 = targetOf("sm_90a");

const specialisedPasses: readonly Pass[] = [
  stageOperands,
  pipelineRing,
  specialiseRoles,
  persistTiles,
  multicastCopies,
  peelFirst,
  delayRelease,
  stageEpilogue,
  splitTail,
  pingPongRoles,
  bindTensorLayouts,
  bindOwnership,
  bindRaster,
  elideGuards,
];

export interface Case {
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly slots?: number;
  readonly cluster?: readonly [number, number];
  readonly b?: "row" | "col";
  /** Math warpgroups, one above the other. */
  readonly groups?: number;
  readonly directives?: readonly Directive[];
}

const TILE = { m: 64, n: 16, k: 64 } as const;
const factor = (tier: OwnershipMode["tier"], extent: number): OwnershipMode => ({ tier, extent, stride: 1 });

export function nestOf({
  m,
  n,
  k,
  slots = 3,
  cluster = [1, 1],
  b = "col",
  groups = 1,
  directives = [],
}: Case): TileProgram {
  const problem = defineProblem({
    m,
    n,
    k,
    a: { dtype: "bf16", align: 16 },
    b: { dtype: "bf16", layout: b, align: 16 },
    d: { dtype: "bf16", align: 16 },
  });
  if (!problem.ok) throw new Error(JSON.stringify(problem.error));
  const tiles = (size: number, tile: number, blocks: number): number =>
    Math.ceil(Math.ceil(size / tile) / blocks) * blocks;
  return gemmNest({
    name: "kernel",
    arch: "sm_90a",
    problem: problem.value,
    nest: {
      m: [
        factor("grid", tiles(m, TILE.m * groups, cluster[0])),
        { tier: "warp", extent: groups, stride: 4 },
        factor("atom", 64),
      ],
      n: [factor("grid", tiles(n, TILE.n, cluster[1])), factor("atom", 16)],
      k: [factor("block", Math.ceil(k / TILE.k)), factor("register", 4), factor("atom", 16)],
    },
    threads: 128 * groups + 32,
    cluster,
    atom: "m64n16k16.f32.bf16.bf16",
    directives: [
      { name: "stage", args: { operands: "ab", transport: "tma" } },
      { name: "ring", args: { slots, registerPrefetch: 0, ahead: 0 } },
      { name: "roles", args: { producer: 1, math: 4 * groups } },
      { name: "tensor", args: { swizzle: "128B" } },
      ...directives,
    ],
  });
}

/** The same at stage machine. */
export const machineOf = (program: TileProgram): TileProgram =>
  [awaitProducts, expandRings, issued, scheduleTiles("deferred"), expandStores, openKernel, allocate].reduce(
    (at, pass) => pass.run(at, sm90),
    bind(program),
  );

/** Products in groups of their own, as a backend issues them: none in a text of zeros that are written for every work tile. */
const issued: Pick<Pass, "run"> = {
  run: (program) =>
    withBody(
      program,
      rewriteStmts(program.body, (stmt) =>
        stmt.kind === "mma" ? [{ kind: "wgmma.fence" }, stmt, { kind: "wgmma.commit" }] : stmt,
      ),
    ),
};

export function bind(program: TileProgram): TileProgram {
  const done = runPasses(program, sm90, specialisedPasses);
  if (!done.ok) throw new Error(JSON.stringify(done.error));
  return done.value;
}
