/** The target has what the program uses. */
import { type Feature, hasFeature } from "../../target.ts";
import type { Edge, Transport } from "../types.ts";
import type { Fault, Subject, Verifier } from "./verifier.ts";

const transportNeeds: Readonly<Record<Transport, Feature | null>> = {
  direct: null,
  "cp.async": "cp.async",
  tma: "tma",
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
    for (const { at, feature } of needs(subject))
      if (feature !== null && !hasFeature(target, feature))
        yield {
          at,
          message: `needs ${feature}, which ${target.arch} has not`,
          hint: "use another transport or edge, or a later target",
        };
  },
};

function* needs(subject: Subject): Iterable<{ at: Fault["at"]; feature: Feature | null }> {
  for (const site of subject.sites) {
    const { stmt } = site;
    if (stmt.kind === "copy") yield { at: site, feature: transportNeeds[stmt.transport] };
    if (stmt.kind === "role" && stmt.registers !== null) yield { at: site, feature: "setmaxnreg" };
  }
  for (const ring of subject.program.rings) {
    yield { at: ring, feature: transportNeeds[ring.transport] };
    for (const edge of [ring.full, ring.empty])
      if (edge !== null) yield { at: ring, feature: edgeNeeds[edge.kind] };
  }
  for (const buffer of subject.program.buffers)
    if (buffer.space === "tensor") yield { at: buffer, feature: "tcgen05" };
}
