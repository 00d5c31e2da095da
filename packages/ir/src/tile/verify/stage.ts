/** Which statements and declarations each stage may have. */
import { findWarpgroupAtom } from "../../atoms/warpgroup.ts";
import { type Buffer, type MachineStmt, reached, type Stage, type Stmt, type StmtKind } from "../types.ts";
import { bufferAt, type Subject, type Verifier } from "./verifier.ts";

/** First stage of each statement that is not one of the stage machine alone. */
const since: Readonly<
  Record<Exclude<StmtKind, MachineStmt["kind"]>, Stage> & Partial<Record<MachineStmt["kind"], Stage>>
> = {
  tiles: "nest",
  for: "nest",
  if: "nest",
  fill: "nest",
  mma: "nest",
  epilogue: "nest",
  reduce: "nest",
  map: "nest",
  "reduce.row": "nest",
  merge: "nest",
  copy: "staged",
  acquire: "pipelined",
  commit: "pipelined",
  wait: "pipelined",
  release: "pipelined",
  request: "specialised",
  next: "specialised",
  role: "specialised",
  vote: "staged",
  barrier: "specialised",
  "wgmma.wait": "bound",
};

/** Statements of rings: `expandRings` replaces them. */
const until: ReadonlySet<StmtKind> = new Set(["acquire", "commit", "wait", "release"]);

const before = (a: Stage, b: Stage): boolean => !reached(a, b);

/** Accumulators in registers are owned; in tensor memory their place follows from their layout. */
const ownerless = ({ space, own }: Buffer): boolean => space === "register" && own === null;

/** Fragments are multiplied by fma and mma.sync, which have no form that overwrites; sums of two levels begin anew by themselves. */
const addsOnly = (subject: Subject, { atom, b, twoLevel }: Extract<Stmt, { kind: "mma" }>): boolean =>
  twoLevel !== undefined ||
  (bufferAt(subject, b.buffer).space === "register" && findWarpgroupAtom(atom) === null);

export const stageLegality: Verifier = {
  name: "stage",
  code: "TW3107",
  property:
    "statements, shared tiles, rings, places and products that overwrite appear from their stage on; ring edges are set from specialised on",
  from: "nest",
  *check(subject) {
    const { program, sites } = subject;
    const { stage } = program;
    for (const site of sites) {
      const first = since[site.stmt.kind] ?? "machine";
      if (before(stage, first))
        yield {
          at: site,
          message: `'${site.stmt.kind}' at stage ${stage}`,
          hint: `it begins with stage ${first}`,
        };
      // Tensor memory is filled by products only: those who carry sums there through a loop say so at once.
      const early =
        site.stmt.kind === "mma" &&
        (subject.buffers.get(site.stmt.acc.buffer)?.space !== "tensor" || before(stage, "staged"));
      if (site.stmt.kind === "mma" && site.stmt.keep !== undefined && stage !== "machine" && early)
        yield {
          at: site,
          message: `a product that overwrites at stage ${stage}`,
          hint: "write +=: passes say from stage machine on which products overwrite",
        };
      if (site.stmt.kind === "mma" && site.stmt.keep !== undefined && addsOnly(subject, site.stmt))
        yield {
          at: site,
          message: "a product that overwrites, by instructions that only add",
          hint: "write +=, behind fill of the accumulator",
        };
      if (stage === "machine" && until.has(site.stmt.kind))
        yield {
          at: site,
          message: `'${site.stmt.kind}' at stage ${stage}`,
          hint: "write what it stands for: waits, arrivals and fences (print the program before the edit with --ir machine)",
        };
    }
    for (const buffer of program.buffers)
      if ((buffer.space === "shared" || buffer.space === "tensor") && before(stage, "staged"))
        yield {
          at: buffer,
          message: `${buffer.space} memory at stage ${stage}`,
          hint: "tiles are staged from stage staged on",
        };
    if (before(stage, "machine")) {
      const placed = program.buffers.find((b) => b.place !== undefined);
      if (placed !== undefined || program.machine !== undefined)
        yield {
          at: placed ?? "memory",
          message: `a place at stage ${stage}`,
          hint: "places begin with stage machine: remove '@', 'every', 'mbar', 'scratch' and 'memory'",
        };
    }
    for (const ring of program.rings) {
      if (before(stage, "pipelined"))
        yield { at: ring, message: `a ring at stage ${stage}`, hint: "rings begin with stage pipelined" };
      for (const edge of ["full", "empty"] as const)
        if (ring[edge] === null && !before(stage, "specialised"))
          yield {
            at: ring,
            message: `edge '${edge}' is not set at stage ${stage}`,
            hint: `write ${edge} barrier:0, ${edge} mbarrier:N or ${edge} implied`,
          };
    }
    if (program.nest !== null || reached(stage, "bound")) return;
    for (const site of sites)
      if (site.stmt.kind === "mma" && ownerless(bufferAt(subject, site.stmt.acc.buffer)))
        yield {
          at: site,
          message: `%${site.stmt.acc.buffer} has no owner and the program no nest to derive it from`,
          hint: "keep the nest lines, or write own rows(…) cols(…) behind the buffer",
        };
  },
};
