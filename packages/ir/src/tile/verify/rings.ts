/** Rings and the buffers they manage fit together. */
import { bufferAt, type Verifier } from "./verifier.ts";

export const rings: Verifier = {
  name: "rings",
  code: "TW3116",
  property:
    "a ring's buffers are shared, have its number of slots and belong to no other ring; copies into them use its transport",
  from: "pipelined",
  *check(subject) {
    const { program, sites } = subject;
    const owner = new Map<string, string>();
    for (const ring of program.rings)
      for (const name of ring.buffers) {
        const buffer = bufferAt(subject, name);
        if (buffer.space !== "shared" && buffer.space !== "tensor")
          yield {
            at: ring,
            message: `manages %${name} in ${buffer.space} memory`,
            hint: "rings hold shared tiles",
          };
        if (buffer.slots !== ring.slots)
          yield {
            at: ring,
            message: `has ${ring.slots} slots, and its buffer %${name} has ${buffer.slots}`,
            hint: `write slots ${ring.slots} behind %${name}`,
          };
        const other = owner.get(name);
        if (other !== undefined)
          yield { at: ring, message: `manages %${name}, as ring %${other} does`, hint: "one ring a buffer" };
        owner.set(name, ring.name);
      }
    for (const site of sites) {
      const { stmt } = site;
      // A matrix load is complete when it has been issued, like a direct copy.
      if (stmt.kind !== "copy" || stmt.transport === "ldmatrix") continue;
      const ring = subject.rings.get(owner.get(stmt.dst.buffer) ?? "");
      const transport = ring?.transport ?? "direct";
      if (stmt.transport === transport) continue;
      // Before rings exist a copy's transport is a wish.
      if (ring === undefined && bufferAt(subject, stmt.dst.buffer).space === "global") continue;
      yield {
        at: site,
        message:
          ring === undefined
            ? `moves %${stmt.dst.buffer} by ${stmt.transport} without a ring to wait for it`
            : `fills ring %${ring.name} by ${stmt.transport}, and the ring says ${ring.transport}`,
        hint: `write transport ${transport}`,
      };
    }
  },
};
