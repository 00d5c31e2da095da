/** Blocks that divide the K of a tile multiply each of its elements once between them. */

import type { Stmt } from "../types.ts";
import { type Apart, Counting } from "./countProducts.ts";
import { type Fault, MOST_ITERATIONS, type Subject, type Verifier } from "./verifier.ts";

export const coverage: Verifier = {
  name: "coverage",
  code: "TW3140",
  property:
    "where blocks divide the K of a tile, their parts together read every element of A and B of the tile once",
  from: "nest",
  *check(subject) {
    const tiles = subject.sites.find(({ stmt }) => stmt.kind === "tiles" && divides(stmt));
    // Parts that are merged are those of another axis.
    const merged = subject.sites.some(({ stmt }) => stmt.kind === "merge");
    if (tiles === undefined || merged || subject.program.problem.k > MOST_ITERATIONS) return;
    const count = new Counting(subject);
    if (!count.run()) return;
    for (const operand of ["A", "B"] as const) {
      const found = count.fault(operand);
      if (found !== null)
        yield { at: tiles, message: found, hint: "let the parts follow each other from chunk to chunk" };
    }
  },
};

/** Every chunk of K is multiplied once, wherever its copies are. */
export const products: Verifier = {
  name: "products",
  code: "TW3159",
  property:
    "the products of a work tile go over K once, or once for each time that their sums begin anew, of A and B at the same elements, and are scaled by the factors of these; further products take columns of sums with the rows of the same number",
  from: "nest",
  waivable: true,
  given: true,
  *check(subject) {
    const { k } = subject.program.problem;
    const first = subject.sites.find(({ stmt }) => stmt.kind === "mma");
    if (first === undefined || k > MOST_ITERATIONS) return;
    const count = new Counting(subject);
    if (!count.run()) return;
    for (const [stmt, [sums, factors]] of count.scaled)
      yield {
        at: subject.sites.find((site) => site.stmt === stmt) ?? first,
        message: `scales sums ${alongK(sums)} by factors ${alongK(factors)}`,
        hint: "copy the factors of the chunk that is multiplied before it is promoted",
      };
    const proven = isProven(subject);
    if (!proven) yield* apartIn(count, subject);
    if ((!proven && count.apart.size > 0) || count.once()) return;
    yield {
      at: first,
      message: `the products of a tile go over ${count.products} elements of K, and the problem has ${k}`,
      hint: "let loops over K chunks begin and end where those of the copies do",
    };
  },
};

/** Where roles meet at mbarriers the proof says which wait or slot is at fault, and only then what is left. */
const isProven = ({ program }: Subject): boolean =>
  program.rings.some(({ full }) => full?.kind === "mbarrier");

function* apartIn({ apart }: Counting, { sites }: Subject): Iterable<Fault> {
  for (const at of sites) {
    const places = apart.get(at.stmt);
    if (places === undefined) continue;
    yield {
      at,
      message: messageOf(at.stmt, places),
      hint: "copy fragments and slots of both from the same chunk and step",
    };
  }
}

/** Of a further product by the columns of its first factor and the rows of its second. */
function messageOf(stmt: Stmt, { from: [a, b], later }: Apart): string {
  return later && stmt.kind === "mma"
    ? `multiplies %${stmt.a.buffer} from column ${a} of its matrix by %${stmt.b.buffer} from row ${b}`
    : `multiplies A ${alongK(a)} by B ${alongK(b)}`;
}

/** Products of factors at different elements of their inner axis in a program whose slots are handed over as they should be. */
export function* productsApart(subject: Subject): Iterable<Fault> {
  const { k } = subject.program.problem;
  if (k > MOST_ITERATIONS || !isProven(subject)) return;
  const count = new Counting(subject);
  if (count.run()) yield* apartIn(count, subject);
}

const alongK = (element: number): string =>
  Number.isNaN(element) ? "that nobody has copied" : `at element ${element} along K`;

const divides = (stmt: Extract<Stmt, { kind: "tiles" }>): boolean =>
  stmt.streamK !== undefined || (stmt.split !== null && stmt.loop === null);
