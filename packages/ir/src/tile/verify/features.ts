/** The target has what the program uses. */

import { type Feature, features, hasFeature, type Target } from "@tilewright/core";
import { findAtom } from "../../atoms/atoms.ts";
import { findTensorKind } from "../../atoms/tensorKinds.ts";
import { findWarpgroupAtom } from "../../atoms/warpgroup.ts";
import { gathersRows } from "../launches/tensorMaps.ts";
import { bufferOf } from "../rewrite.ts";
import { storesInBulk } from "../staged.ts";
import type { Edge, TileProgram, Transport } from "../types.ts";
import { type Fault, type Site, subjectOf, type Verifier } from "./verifier.ts";

const transportNeeds: Readonly<Record<Transport, Feature | null>> = {
  direct: null,
  "cp.async": "cp.async",
  tma: "tma",
  ldmatrix: "ldmatrix",
  "tcgen05.ld": "tcgen05",
  "tcgen05.st": "tcgen05",
  "tcgen05.cp": "tcgen05",
  factors: "mma.blockScale",
  "tcgen05.mma": "tcgen05",
  clc: "clc",
  atomic: "mbarrier",
};
const edgeNeeds: Readonly<Record<Edge["kind"], Feature | null>> = {
  barrier: null,
  implied: null,
  mbarrier: "mbarrier",
};

export const featuresPresent: Verifier = {
  name: "features",
  code: "TW3118",
  property:
    "the program is for this target, and the target has the transports, barriers and register budgets it uses",
  from: "nest",
  *check(subject) {
    const { program, target } = subject;
    if (target === null) return;
    if (program.arch !== target.arch)
      yield {
        at: "arch",
        message: `is written for ${program.arch}, and the target is ${target.arch}`,
        hint: `compile for ${program.arch}, or write arch ${target.arch}`,
      };
    yield* kinds(subject.sites, target);
    for (const { at, feature } of needs(program, subject.sites))
      if (!hasFeature(target, feature))
        yield {
          at,
          message: `needs ${feature}, which ${target.arch} has not`,
          hint: "use another transport or edge, or a later target",
        };
  },
};

/** A matrix instruction; null where there is none of its name. */
const atomOf = (name: string) => findTensorKind(name) ?? findWarpgroupAtom(name) ?? findAtom(name);

/** Products are by one kind of instruction, which there is. */
function* kinds(sites: readonly Site[], target: Target): Iterable<Fault> {
  const products = sites.flatMap(({ stmt, ...site }) =>
    stmt.kind === "mma" ? [{ at: { stmt, ...site }, name: stmt.atom }] : [],
  );
  const first = products[0]?.name;
  const kindOf = (name: string): string =>
    findTensorKind(name) !== null
      ? "tensor"
      : findWarpgroupAtom(name) !== null
        ? "warpgroup"
        : name === "fma"
          ? name
          : "warp";
  for (const { at, name } of products) {
    const atom = atomOf(name);
    const other = first === undefined || kindOf(name) === kindOf(first) ? null : first;
    if (name === "fma" ? other === null : atom !== null && other === null && hasFeature(target, atom.feature))
      continue;
    yield {
      at,
      message:
        other !== null
          ? `multiplies by ${name}, and other products by ${other}`
          : `multiplies by ${name}, which ${target.arch} has not`,
      hint: "one kind of instruction for all products of a kernel, of those that the target has",
    };
  }
}

/** Features that a program asks for by its transports, edges, register budgets and memories. */
export const featuresOf = (program: TileProgram): readonly Feature[] => {
  const used = new Set([...needs(program, subjectOf(program, null).sites)].map((need) => need.feature));
  return features.filter((feature) => used.has(feature));
};

function* needs(
  program: TileProgram,
  sites: readonly Site[],
): Iterable<{ readonly at: Fault["at"]; readonly feature: Feature }> {
  for (const site of sites) {
    const { stmt } = site;
    const feature = stmt.kind === "copy" ? transportNeeds[stmt.transport] : null;
    if (feature !== null) yield { at: site, feature };
    if (stmt.kind === "epilogue" && storesInBulk(stmt)) yield { at: site, feature: "tma" };
    // bf16 is added in memory where vectors are.
    if (stmt.kind === "epilogue" && stmt.adds && bufferOf(program, stmt.dst.buffer).dtype === "bf16")
      yield { at: site, feature: "red.vector" };
    if (stmt.kind === "reduce" && stmt.by === "bulk") yield { at: site, feature: "tma" };
    if (stmt.kind === "copy" && gathersRows(program, stmt)) yield { at: site, feature: "tma.gather4" };
    if (stmt.kind === "copy" && stmt.multicast !== null) yield { at: site, feature: "cluster" };
    if (stmt.kind === "role" && stmt.registers !== null) yield { at: site, feature: "setmaxnreg" };
  }
  for (const ring of program.rings)
    for (const feature of [
      transportNeeds[ring.transport],
      ring.full && edgeNeeds[ring.full.kind],
      ring.empty && edgeNeeds[ring.empty.kind],
    ])
      if (feature !== null) yield { at: ring, feature };
  for (const buffer of program.buffers)
    if (buffer.space === "tensor") yield { at: buffer, feature: "tcgen05" };
}
