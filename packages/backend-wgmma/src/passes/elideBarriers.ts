/** Barriers in front of what threads write for a product, where they have met already since the products before have read it. */
import {
  ELEMENT_BARRIER,
  eachStmt,
  elementSources,
  type Pass,
  rewriteStmts,
  type Stmt,
} from "@tilewright/ir";

/**
 * A `reduce.row` through shared memory, of sums that products of the same turn have made, has warps wait for these products, and with them for all before, which end in order
 * (PTX ISA, wgmma.wait_group), and then for each other: behind it nobody reads what products before have multiplied.
 */
export const elideBarriers: Pass = {
  name: "elideBarriers",
  summary: "Warpgroups do not wait for each other again before they write a factor",
  from: "specialised",
  to: "specialised",
  run: (program) => ({
    ...program,
    body: rewriteStmts(program.body, (stmt) => ("body" in stmt ? { ...stmt, body: once(stmt.body) } : stmt)),
  }),
};

function once(stmts: readonly Stmt[]): readonly Stmt[] {
  const made = new Set<string>();
  let met = false;
  return stmts.filter((stmt, i) => {
    for (const each of eachStmt([stmt]))
      if (each.kind === "mma") {
        made.add(each.acc.buffer);
        met = false;
      }
    if (stmt.kind === "reduce.row" && stmt.via !== null)
      met ||= elementSources(stmt.value).some(({ buffer }) => made.has(buffer));
    const before = stmt.kind === "barrier" && stmt.id === ELEMENT_BARRIER && stmts[i + 1]?.kind === "map";
    return !(before && met);
  });
}
