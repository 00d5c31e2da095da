/** Lines that say the same thing say it alike: problem, nest, directives, tiles, accumulators and epilogues, by the facts that `gemmNest` makes them from. */

import type { Problem } from "@tilewright/core";
import { printEpilogue, WARP } from "@tilewright/core";
import { sameValue } from "../expr.ts";
import { tierExtent, tileExtent } from "../gemm.ts";
import type { Epilogue, Nest, OwnershipMode } from "../types.ts";
import { alphaOfSums } from "../weights.ts";
import { bufferAt, type Fault, type Subject, type Verifier } from "./verifier.ts";

export const agreement: Verifier = {
  name: "agreement",
  code: "TW3136",
  property:
    "the problem's accumulator, alpha, beta and steps are those of the statements, and C's part is D's; the nest has the grid of the tiles, the tile of the accumulators and no more warps than the block",
  from: "nest",
  *check(subject) {
    const { nest, problem } = subject.program;
    if (nest !== null) yield* nestFaults(subject, nest);
    for (const site of subject.sites) {
      const { stmt } = site;
      if (stmt.kind === "mma") {
        const { dtype, name } = bufferAt(subject, stmt.acc.buffer);
        if (dtype !== problem.acc)
          yield {
            at: site,
            message: `adds up in %${name}, which is ${dtype}, and the problem says acc=${problem.acc}`,
            hint: `write acc=${dtype} in the problem, or declare %${name} as ${problem.acc}`,
          };
      }
      if (stmt.kind === "epilogue") {
        const { c, dst } = stmt;
        const elsewhere =
          c !== null &&
          bufferAt(subject, c.buffer).space === "global" &&
          c.origin.some((origin, axis) => !sameValue(origin, dst.origin[axis === 0 ? 0 : 1]));
        if (elsewhere)
          yield {
            at: site,
            message: `adds a part of %${c.buffer} that lies elsewhere than the part of %${dst.buffer} it stores`,
            hint: "give both the same rows and columns",
          };
        for (const [what, here, there] of epilogueFacts(stmt, problem))
          if (here !== there)
            yield {
              at: site,
              message: `has ${what} ${here}, and the problem says ${there}`,
              hint: `write ${what} ${there}, or change the problem's ${what}`,
            };
      }
    }
  },
};

/** What both say, as text: of the epilogue, and of the problem. */
const epilogueFacts = (
  { alpha, beta, steps, gated }: Epilogue,
  problem: Problem,
): readonly (readonly [what: string, here: string, there: string])[] => [
  ["alpha", String(alpha), String(alphaOfSums(problem))],
  ["beta", String(beta), String(problem.beta)],
  ["steps", printEpilogue(steps), printEpilogue(problem.epilogue)],
  ["gated", String(gated === true), String(problem.gated !== undefined)],
];

function* nestFaults({ program, sites }: Subject, nest: Nest): Iterable<Fault> {
  const tiles = sites.find(({ stmt }) => stmt.kind === "tiles")?.stmt;
  if (tiles?.kind === "tiles") {
    const extents = { m: tiles.extents[0], n: tiles.extents[1] };
    for (const axis of ["m", "n"] as const)
      yield* differs(`nest ${axis}`, nest[axis], "grid", extents[axis], `tiles along ${axis}`);
    // Shares and clusters cut k otherwise than the nest did, and what is merged is split along another axis.
    const merged = sites.some(({ stmt }) => stmt.kind === "merge");
    if (program.stage === "nest")
      yield* differs(
        "nest k",
        nest.k,
        "grid",
        merged ? 1 : (tiles.split?.extent ?? 1),
        "blocks that split a tile",
      );
  }
  const warps = (["m", "n"] as const).reduce(
    (product, axis) => product * tierExtent(nest[axis], "warpgroup") * tierExtent(nest[axis], "warp"),
    1,
  );
  if (warps * WARP > program.launch.threads)
    yield {
      at: "nest",
      message: `has ${warps} warps, and the launch ${program.launch.threads} threads`,
      hint: `write launch threads=${warps * WARP}, or fewer warps`,
    };
  const acc = sites.findLast(({ stmt }) => stmt.kind === "mma")?.stmt;
  if (program.stage !== "nest" || acc?.kind !== "mma") return;
  const tile = [tileExtent(nest.m), tileExtent(nest.n)];
  if (acc.acc.extent.some((extent, axis) => extent !== tile[axis]))
    yield {
      at: "nest",
      message: `has tiles of ${tile.join(" x ")}, and %${acc.acc.buffer} has ${acc.acc.extent.join(" x ")}`,
      hint: "let the factors inside the grid multiply to the accumulator's rows and columns",
    };
}

function* differs(
  at: string,
  factors: readonly OwnershipMode[],
  tier: OwnershipMode["tier"],
  wanted: number,
  what: string,
): Iterable<Fault> {
  const found = tierExtent(factors, tier);
  if (found !== wanted)
    yield {
      at,
      message: `has ${tier} ${found}, and there are ${wanted} ${what}`,
      hint: `write ${tier} ${wanted}`,
    };
}
