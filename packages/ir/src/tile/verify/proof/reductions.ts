/**
 * Reductions of work tiles: partial tiles are published before they are counted, and read by whoever has seen all of them counted; slices of a cluster are
 * told of and waited for. A reduction is a straight line that all CTAs of a work tile run, so that what orders one order all.
 */

import { reducingThreads } from "../../dsmemReduction.ts";
import { reductionIn } from "../../launches/partialTiles.ts";
import { printHead } from "../../print.ts";
import { eachStmt } from "../../rewrite.ts";
import type { Stmt, TileProgram } from "../../types.ts";
import { fresh, isComplete, type Of, type Report, type State, step, type Tiles } from "./reductionSteps.ts";
import type { Finding } from "./rules.ts";

/** All findings of a program's reductions. */
export function reductionFindings(program: TileProgram): readonly Finding[] {
  if (program.stage !== "machine") return [];
  return eachStmt(program.body).flatMap((tiles) => {
    if (tiles.kind === "kernel" && tiles.warps !== undefined) return ofKernel(program, tiles);
    return tiles.kind === "tiles" && (tiles.split !== null || tiles.streamK !== undefined)
      ? eachStmt(tiles.body).flatMap((stmt) =>
          stmt.kind === "reduce" ? ofCombine(program, tiles, stmt, fresh()) : [],
        )
      : [];
  });
}

/** A kernel behind the main one has the tiles of that, and finds all partial tiles of each. */
function ofKernel(program: TileProgram, kernel: Of<"kernel">): readonly Finding[] {
  const { tiles, combine } = reductionIn(program) ?? {};
  const inside = eachStmt(kernel.body);
  const own = inside.find((stmt) => stmt.kind === "tiles");
  const sum = inside.find((stmt) => stmt.kind === "reduce");
  const finding = (stmt: Stmt, message: string, hint: string): Finding => ({
    ...{ rule: "reductions", at: `kernel @${kernel.name}`, message, hint, stmt },
  });
  if (tiles === undefined || combine?.by !== "kernel")
    return [finding(kernel, "finds nothing: no CTA leaves a partial tile", "reduce … by kernel in front")];
  if (own === undefined || sum?.by !== "kernel" || sum.acc.buffer !== combine.acc.buffer)
    return [
      finding(
        kernel,
        "adds up no partial tiles",
        `tiles, and in them reduce %${combine.acc.buffer} by kernel`,
      ),
    ];
  const head = printHead({ ...tiles, split: null, loop: null });
  const warps = reducingThreads(program) / 32;
  return [
    ...(printHead(own) === head ? [] : [finding(own, "are not the tiles whose parts it finds", head)]),
    ...(kernel.warps === warps
      ? []
      : [finding(kernel, "has not the warps of a work tile", `warps ${warps}`)]),
    ...ofCombine(program, tiles, sum, { ...fresh(), behind: true, last: true, acquired: true }),
  ];
}

function ofCombine(
  program: TileProgram,
  tiles: Tiles,
  combine: Of<"reduce">,
  state: State,
): readonly Finding[] {
  const findings: Finding[] = [];
  const report: Report = (stmt, message, hint, rule = "reductions") =>
    findings.push({ rule, at: `reduce %${combine.acc.buffer}`, message, hint, stmt });
  const reductions = combine.body.filter((s): s is Of<"reduction"> => s.kind === "reduction");
  const [reduction] = reductions;
  if (reduction === undefined || reductions.length > 1 || combine.body[0] !== reduction) {
    report(
      combine,
      `${reductions.length} reductions in front of what is done with the sum`,
      "one `reduction { … }` begins the combine",
    );
    return findings;
  }
  skipped(tiles, reduction, report);
  for (const stmt of reduction.body) step({ program, tiles, combine, state, report }, stmt);
  if (combine.body.some(({ kind }) => kind === "slices") !== (combine.by === "slices"))
    report(combine, `is combined by ${combine.by}, and 'slices' says otherwise`, "write both, or neither");
  for (const stmt of combine.body)
    if (stmt.kind === "slices") step({ program, tiles, combine, state, report }, stmt);
  if (state.behind) added(combine, state, report);
  else ending(combine, state, report);
  return findings;
}

/** CTAs that have a whole tile go past the reduction, and no others. */
function skipped(tiles: Tiles, reduction: Of<"reduction">, report: Report): void {
  const { unless } = reduction;
  const { streamK: share } = tiles;
  if (share === undefined) {
    if (unless !== null)
      report(reduction, "is left out, and every CTA has a part of its tile", "remove the condition");
    return;
  }
  const whole =
    unless !== null &&
    unless.op === "==" &&
    unless.lhs.kind === "var" &&
    unless.lhs.name === share.count &&
    isComplete(tiles, unless.rhs);
  if (!whole)
    report(
      reduction,
      "does not go by whether the CTA has its whole tile: nobody else then hands in a part",
      `write unless %${share.count} == CHUNKS, the chunks of a tile`,
    );
}

/** All partial tiles are in the registers. */
function added(combine: Of<"reduce">, { loaded, read }: State, report: Report): void {
  if (!loaded) report(combine, "the sum is not read", "partial.load begins the reduction");
  if (read === undefined)
    report(combine, "one partial tile is all of the sum", "partial.add behind partial.load");
}

/** What holds when the sum is used. */
function ending(combine: Of<"reduce">, state: State, report: Report): void {
  const want = (holds: boolean, message: string, hint: string): void => {
    if (!holds) report(combine, message, hint);
  };
  switch (combine.by) {
    case "kernel":
    case "slices":
      want(state.handed, "no CTA hands in its partial tile", "partial.store in the reduction");
      return;
    case "cluster":
      want(state.sent !== null, "no CTA sends its slices", "dsmem.send in the reduction");
      want(state.summed, "nobody adds up the slices", "dsmem.add ends the reduction");
      return;
    default:
      want(state.last, "every CTA goes on as if its part were the sum", "counter.add and counter.leave");
      want(state.cleared, "the counter is not 0 for the next launch", "counter.clear behind counter.leave");
      if (combine.by === "last") added(combine, state, report);
      else want(state.zeroed, "the sum is not 0 for the next launch", "partial.clear behind partial.load");
  }
}
