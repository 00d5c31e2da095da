/** A kernel whose sizes come with the launch, taken through the passes of a simple schedule. */
import { defineProblem, findTarget, formatDiagnostic, type Problem } from "@tilewright/core";
import {
  bindEdges,
  bindLayouts,
  bindOwnership,
  elideGuards,
  entryName,
  gemmNest,
  loadFragments,
  type OwnershipMode,
  pipelineRing,
  runPasses,
  stageOperands,
  type TileProgram,
  vectorise,
} from "../../../src/index.ts";

const found = findTarget("sm_80");
if (!found.ok) throw new Error("sm_80 is in the table");
export const sm80 = found.value;

const request = {
  m: 300,
  n: 200,
  k: 80,
  symbolic: { m: { max: 1000 }, n: { multiple: 4 }, k: { multiple: 8 } },
};

export function symbolicProblem(more: object = {}): Problem {
  const made = defineProblem({ ...request, ...more });
  if (!made.ok) throw new Error(made.error.map(formatDiagnostic).join("\n"));
  return made.value;
}

/** Tiles of 32 x 32 x 8, two slots, guards elided. */
export function symbolicNest(problem: Problem = symbolicProblem()): TileProgram {
  const axis = (extent: number, warps: number, lanes: OwnershipMode, thread: number): OwnershipMode[] => [
    { tier: "grid", extent: Math.ceil(extent / 32), stride: 1 },
    { tier: "warp", extent: warps, stride: 1 },
    lanes,
    { tier: "register", extent: thread, stride: warps === 1 ? 1 : 4 },
  ];
  return gemmNest({
    name: entryName(problem),
    arch: "sm_80",
    problem,
    nest: {
      m: axis(problem.m, 2, { tier: "thread", extent: 4, stride: 8 }, 4),
      n: axis(problem.n, 1, { tier: "thread", extent: 8, stride: 1 }, 4),
      k: [
        { tier: "block", extent: Math.ceil(problem.k / 8), stride: 1 },
        { tier: "register", extent: 8, stride: 1 },
      ],
    },
    threads: 64,
    cluster: [1, 1],
    atom: "fma",
    directives: [
      { name: "stage", args: { operands: "ab", transport: "cp.async" } },
      { name: "fragment", args: { step: 1 } },
      { name: "ring", args: { slots: 2, registerPrefetch: 0 } },
      { name: "vector", args: { copy: 4, store: 1 } },
      { name: "guards", args: { elide: 1 } },
    ],
  });
}

const passes = [
  stageOperands,
  loadFragments,
  pipelineRing,
  bindEdges,
  bindOwnership,
  vectorise,
  bindLayouts,
  elideGuards,
];

export function boundSymbolic(problem: Problem = symbolicProblem()): TileProgram {
  const bound = runPasses(symbolicNest(problem), sm80, passes);
  if (!bound.ok) throw new Error(bound.error.map(formatDiagnostic).join("\n"));
  return bound.value;
}
