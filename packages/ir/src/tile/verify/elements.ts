/** Statements that compute with elements: tiles that meet, and threads that hold them. */
import { stepOfBuffer } from "@tilewright/core";
import { findAtom } from "../../atoms/atoms.ts";
import { findWarpgroupAtom } from "../../atoms/warpgroup.ts";
import { type ElementStmt, elementDomain, elementSources, factorOf, isElementStmt } from "../elements.ts";
import { weighted } from "../ownership.ts";
import { type Ownership, type OwnershipMode, reached, type Stmt, type View } from "../types.ts";
import { sameView, viewsOf } from "../views.ts";
import { codeExtent, codesOf, codeTypeOf, weightColumns, weightScaling } from "../weights.ts";
import { bufferAt, type Fault, type Site, type Subject, type Verifier, viewText } from "./verifier.ts";

const text = (factors: readonly OwnershipMode[]): string =>
  JSON.stringify(factors.filter((f) => f.extent > 1 && f.tier !== "register"));

export const elements: Verifier = {
  name: "elements",
  code: "TW3166",
  property:
    "what vote leaves out are multiplications by its factor, also of what is loaded from tensor memory and stored there again; what map and reduce.row read has the statement's rows and columns, or fewer, each then for a run of them, and codes of weights their words; from stage staged on they write registers of f32, tiles that instructions take from registers, shared memory, or a further result in global memory, and one register tile says which thread has which element",
  from: "nest",
  *check(subject) {
    // Instructions take some from registers, or from tensor memory, where threads store them.
    const factors = new Set(
      subject.sites.flatMap(({ stmt }) =>
        stmt.kind === "copy" && stmt.transport === "tcgen05.st"
          ? [stmt.src.buffer]
          : stmt.kind === "mma" && (findWarpgroupAtom(stmt.atom) ?? findAtom(stmt.atom)) !== null
            ? [stmt.a.buffer, stmt.b.buffer]
            : [],
      ),
    );
    for (const site of subject.sites) {
      const { stmt } = site;
      if (stmt.kind === "vote") yield* voteFaults(subject, site, stmt);
      if (!isElementStmt(stmt)) continue;
      const [rows, cols] = elementDomain(stmt);
      const dst = bufferAt(subject, stmt.dst.buffer);
      const words = codesOf(stmt);
      if (words !== null) yield* weightFaults(subject, site, stmt, words);
      for (const view of elementSources(stmt.value)) {
        const codes = view === words ? codeTypeOf(stmt.value) : null;
        const wanted = codes === null ? null : codeExtent(codes, [rows, cols]);
        if (
          wanted === null
            ? rows % view.extent[0] !== 0 || cols % view.extent[1] !== 0
            : wanted[0] !== view.extent[0] || wanted[1] !== view.extent[1]
        )
          yield {
            at: site,
            message: `reads ${viewText(view)} for ${rows} x ${cols} elements`,
            hint:
              wanted === null
                ? "as many rows and columns, or a part of them"
                : `their codes are ${wanted.join(" x ")} words`,
          };
      }
      const step = stepOfBuffer(dst.name);
      const stores = step !== null && subject.program.problem.epilogue[step]?.kind === "result";
      const written =
        stmt.kind === "map" ? ["register", "shared", ...(stores ? ["global"] : [])] : ["register"];
      // At stage nest factors of products may be in registers still.
      const rounded =
        dst.dtype !== "f32" && reached(subject.program.stage, "staged") && !factors.has(dst.name);
      if (!written.includes(dst.space) || (dst.space === "register" && rounded))
        yield {
          at: site,
          message: `writes %${dst.name}, ${dst.dtype} in ${dst.space} memory`,
          hint: `write a register tile of f32${stmt.kind === "map" ? ", or a shared tile" : ""}`,
        };
      if (stmt.kind === "reduce.row" && stmt.runs === undefined && stmt.dst.extent[1] !== 1)
        yield {
          at: site,
          message: `reduces rows into ${viewText(stmt.dst)}`,
          hint: "a row has one sum or maximum: write a tile of one column",
        };
      if (stmt.kind === "map" && stmt.unless === "one" && factorOf(stmt)?.extent[1] !== 1)
        yield {
          at: site,
          message: "leaves out what is no multiplication by a factor of each row",
          hint: "remove unless one, or write map %t = %t*%z with a %z of one column",
        };
      for (const view of viewsOf(stmt))
        if (bufferAt(subject, view.buffer).space === "tensor")
          yield {
            at: site,
            message: `uses %${view.buffer}, tensor memory`,
            hint: "copy it into a register tile",
          };
      const held = viewsOf(stmt)
        .map((view) => ({ view, buffer: bufferAt(subject, view.buffer) }))
        .filter(({ buffer }) => buffer.space === "register");
      const like = held.find(({ view }) => view.extent[0] === rows && view.extent[1] === cols);
      if (like === undefined)
        yield {
          at: site,
          message: `no register tile has its ${rows} x ${cols} elements`,
          hint: "map the values into a register tile first",
        };
      const made = bufferAt(subject, stmt.dst.buffer);
      if (
        stmt.kind === "reduce.row" &&
        stmt.runs !== undefined &&
        !keptByLanes(like?.buffer.own, made.own, stmt.runs)
      )
        yield {
          at: site,
          message: `reduces runs of ${stmt.runs} columns into ${viewText(stmt.dst)}, whose columns are not those of the lanes that hold the elements`,
          hint: "as many columns as lanes hold parts of a row, and runs of the columns that are neighbours in a lane",
        };
      for (const { view, buffer } of held) {
        const [own, other] = [like?.buffer.own, buffer.own];
        if (!own || !other || text(own.rows) === text(other.rows)) continue;
        // An element that every thread has is wherever it is wanted.
        const everywhere = [...other.rows, ...other.cols].every(({ tier }) => tier === "register");
        if (everywhere && view.extent[0] * view.extent[1] === 1) continue;
        yield {
          at: site,
          message: `%${buffer.name} and %${like?.buffer.name} lie with different threads`,
          hint: "the same own rows(…) for both",
        };
      }
    }
  },
};

/** Whether each lane has all columns that go to its own one of what is made of them; true before there are owners. */
function keptByLanes(
  own: Ownership | null | undefined,
  made: Ownership | null | undefined,
  runs: number,
): boolean {
  if (!own || !made) return true;
  const [lane, ...more] = weighted(own.cols).filter(({ tier }) => tier !== "register");
  const [kept, ...others] = made.cols;
  return (
    more.length + others.length === 0 &&
    lane?.tier === "thread" &&
    lane.weight === runs &&
    kept?.tier === "thread" &&
    kept.extent === lane.extent &&
    kept.stride === lane.stride
  );
}

/** What a warp leaves out where its factors are 1 changes nothing there: multiplications by them, also of what is loaded from tensor memory for that, and stored again. */
function* voteFaults(
  subject: Subject,
  at: Site,
  { factor, body }: Extract<Stmt, { kind: "vote" }>,
): Iterable<Fault> {
  const scales = (stmt: Stmt | undefined): boolean =>
    stmt !== undefined && factorOf(stmt)?.buffer === factor.buffer;
  const moves = body.filter((stmt) => stmt.kind === "copy");
  // Registers that hold columns of tensor memory while these are multiplied, and at no other time.
  const passed = new Set(
    moves.flatMap(({ dst, transport }) => (transport === "tcgen05.ld" ? [dst.buffer] : [])),
  );
  for (const { stmt } of subject.sites)
    if (stmt.kind !== "vote" && !body.includes(stmt))
      for (const { buffer } of viewsOf(stmt)) passed.delete(buffer);
  const inPlace = (stmt: Stmt, i: number): boolean => {
    if (stmt.kind !== "copy") return false;
    const [other, held] = stmt.transport === "tcgen05.ld" ? [body[i + 2], stmt.dst] : [body[i - 2], stmt.src];
    const map = body[stmt.transport === "tcgen05.ld" ? i + 1 : i - 1];
    if (other?.kind !== "copy" || !passed.has(held.buffer) || !scales(map) || map?.kind !== "map")
      return false;
    const pair = [stmt.transport, other.transport];
    return (
      pair.includes("tcgen05.ld") &&
      pair.includes("tcgen05.st") &&
      sameView(stmt.src, other.dst) &&
      sameView(stmt.dst, other.src) &&
      sameView(map.dst, held)
    );
  };
  for (const [i, stmt] of body.entries())
    if (stmt.kind !== "wgmma.wait" && stmt.kind !== "pin" && !scales(stmt) && !inPlace(stmt, i))
      yield {
        at,
        message: `may leave out what is no multiplication by ${viewText(factor)}`,
        hint: `write map %t = %t * %${factor.buffer} only, or that of what is loaded from tensor memory and stored there again`,
      };
}

/** Weights are made of codes in shared memory in one way, and by the threads that hold what a word has. */
function* weightFaults(subject: Subject, at: Site, stmt: ElementStmt, words: View): Iterable<Fault> {
  const dst = bufferAt(subject, stmt.dst.buffer);
  const staged = reached(subject.program.stage, "staged");
  const memory = bufferAt(subject, words.buffer);
  if (weightScaling(stmt.value) === null)
    yield {
      at,
      message: "makes weights of codes in another way",
      hint: "write (codes %words - zero) * %scales, or codes:e2m1 %words * %scales (s8: both ways, e4m3: the second)",
    };
  if (dst.space !== "register" || (dst.dtype !== "bf16" && dst.dtype !== "f16"))
    yield {
      at,
      message: `makes weights in %${dst.name}, ${dst.dtype} in ${dst.space} memory`,
      hint: "write a register tile of bf16 or f16",
    };
  if (memory.dtype !== "s32" || (staged && memory.space !== "shared"))
    yield {
      at,
      message: `reads codes of %${memory.name}, ${memory.dtype} in ${memory.space} memory`,
      hint: "copy their words into a shared tile of s32",
    };
  if (dst.own !== null && weightColumns(dst.own) === null)
    yield {
      at,
      message: `makes weights in %${dst.name}, whose threads hold others than the words that they read`,
      hint: "the own(…) of a fragment of B, in pairs of instructions along n",
    };
}
