/** Rings and the buffers they manage fit together. */
import { sizeOf } from "@tilewright/core";
import { equalExpr } from "../expr.ts";
import { tensorPlace } from "../tensor.ts";
import { type Buffer, type Cond, type Copy, placesOf, type Ring, reached, type Stmt } from "../types.ts";
import { sameView } from "../views.ts";
import { bufferAt, type Fault, type Verifier } from "./verifier.ts";

/** Least bytes of an answer: clusterlaunchcontrol.try_cancel writes 16 (PTX ISA), a number is a word. */
const RESPONSE_BYTES = 16;
const NUMBER_BYTES = 4;

/** What fills slots in tensor memory. */
const tensorTransports: readonly Ring["transport"][] = ["tcgen05.mma", "tcgen05.st"];

/** Whether both may hold: conditions that differ are taken for ones that exclude each other. */
const mayMeet = (a: Cond | null, b: Cond | null): boolean =>
  a === null || b === null || (a.op === b.op && equalExpr(a.lhs, b.lhs) && equalExpr(a.rhs, b.rhs));

export const rings: Verifier = {
  name: "rings",
  code: "TW3116",
  property:
    "a ring's buffers are shared (tensor tiles where matrix instructions, or stores of tensor memory, fill them), have its number of slots (two for one whose chunks share columns; one where chunks are carried on, of one accumulator) and belong to no other ring; copies into them use its transport, and no two write the same part of a chunk; responses are 16 bytes, numbers of a counter 4",
  from: "pipelined",
  *check(subject) {
    const { program, sites } = subject;
    const owner = new Map<string, string>();
    for (const ring of program.rings)
      for (const name of ring.buffers) {
        const buffer = bufferAt(subject, name);
        const space = tensorTransports.includes(ring.transport) ? "tensor" : "shared";
        if (buffer.space !== space)
          yield {
            at: ring,
            message: `manages %${name} in ${buffer.space} memory`,
            hint: `rings that ${ring.transport} fills hold ${space} tiles`,
          };
        const [rows, cols] = buffer.shape;
        if (ring.transport === "clc" && rows * cols * sizeOf(buffer.dtype) !== RESPONSE_BYTES)
          yield {
            at: ring,
            message: `keeps responses in slots of ${rows * cols * sizeOf(buffer.dtype)} bytes`,
            hint: `a response of the launch control has ${RESPONSE_BYTES} bytes: s32[1, 4]`,
          };
        if (ring.transport === "atomic" && rows * cols * sizeOf(buffer.dtype) < NUMBER_BYTES)
          yield {
            at: ring,
            message: `keeps numbers of tiles in slots of ${rows * cols * sizeOf(buffer.dtype)} bytes`,
            hint: `a number has ${NUMBER_BYTES} bytes: s32[1, 1]`,
          };
        const places = placesOf(ring);
        if (buffer.slots !== places)
          yield {
            at: ring,
            message: `has ${ring.slots} slots${ring.overlapped === undefined ? "" : ", each of two places"}, and its buffer %${name} has ${buffer.slots}`,
            hint: `write slots ${places} behind %${name}`,
          };
        if (ring.overlapped !== undefined) yield* lapped(ring, buffer, ring.overlapped);
        if (
          ring.carried === true &&
          (ring.transport !== "tcgen05.mma" ||
            ring.slots !== 1 ||
            ring.buffers.length !== 1 ||
            ring.overlapped !== undefined)
        )
          yield {
            at: ring,
            message: "chunks are carried on, which one accumulator of a ring of one slot may",
            hint: "write slots 1, one buffer and transport tcgen05.mma, or leave out `carried`",
          };
        const other = owner.get(name);
        if (other !== undefined)
          yield { at: ring, message: `manages %${name}, as ring %${other} does`, hint: "one ring a buffer" };
        owner.set(name, ring.name);
      }
    if (reached(program.stage, "machine"))
      for (const ring of program.rings)
        if (
          ["tma", "clc", ...tensorTransports, "atomic"].includes(ring.transport) &&
          ring.full?.kind !== "mbarrier"
        )
          yield {
            at: ring,
            message: `is filled by ${ring.transport}, and nobody waits at an mbarrier for that`,
            hint: "full mbarrier:1",
          };
    // Copies since the last event of a ring, of one list of statements.
    let since: { readonly list: readonly Stmt[]; readonly copies: Copy[] } = { list: [], copies: [] };
    for (const site of sites) {
      const { stmt } = site;
      if (since.list !== site.parents || "ring" in stmt) since = { list: site.parents, copies: [] };
      if (stmt.kind === "copy" && stmt.transport !== "direct" && owner.has(stmt.dst.buffer)) {
        if (since.copies.some((copy) => sameView(copy.dst, stmt.dst) && mayMeet(copy.when, stmt.when)))
          yield {
            at: site,
            message: `writes the part of %${stmt.dst.buffer} that an asynchronous copy before it may still be writing`,
            hint: "leave one of them out",
          };
        since.copies.push(stmt);
      }
      // Loads into registers are complete when they have been issued, like a direct copy; factors go in order with what multiplies by them.
      if (
        stmt.kind !== "copy" ||
        ["ldmatrix", "factors", "tcgen05.ld", "tcgen05.cp"].includes(stmt.transport)
      )
        continue;
      const ring = subject.rings.get(owner.get(stmt.dst.buffer) ?? "");
      const transport = ring?.transport ?? "direct";
      if (stmt.transport === transport) continue;
      // Whoever changes an accumulator in its place has loaded it.
      if (ring?.carried === true && stmt.transport === "tcgen05.st") continue;
      // Stores of tensor memory are complete when they have been issued, too; before rings exist another copy's transport is a wish.
      if (ring === undefined && stmt.transport === "tcgen05.st") continue;
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

/** Two accumulators that share columns: of one ring's slot, in tensor memory, and neither lies inside the other. */
function* lapped(ring: Ring, buffer: Buffer, lap: number): Iterable<Fault> {
  if (ring.transport !== "tcgen05.mma" || ring.slots !== 1 || ring.buffers.length !== 1)
    yield {
      at: ring,
      message: "chunks share columns, which one accumulator of a ring of one slot may",
      hint: "write slots 1, one buffer and transport tcgen05.mma, or leave out `lap`",
    };
  const place = tensorPlace(buffer);
  if (place !== null && (lap >= place.width || place.stacks > 1 || place.form === "split"))
    yield {
      at: ring,
      message: `chunks share ${lap} columns of %${buffer.name}, ${place.stacks > 1 ? `of which ${place.stacks} instructions have some each` : place.form === "split" ? "whose halves lie in the same columns" : `which has ${place.width}`}`,
      hint: `less than the ${place.width} columns of one instruction, or no \`lap\``,
    };
}
