/** A fragment spread over a warp tile: factors of the tiles around an atom, put together with the atom's own. */
import type { OwnershipMode } from "../tile/types.ts";

/**
 * One axis of a register tile. `factors` are the nest's, whose tier `atom` stands for the atom's elements along this axis; where it stands
 * in several pieces, register factors may come between them (`register 2, atom 4, register 4, atom 2` interleaves four atoms in pairs of
 * columns). `own` are the atom's factors of that axis. Registers of the tiles around the atom begin at `first`.
 * Throws (a bug) when the pieces do not multiply to the atom.
 */
export function spreadAtom(
  factors: readonly OwnershipMode[],
  own: readonly OwnershipMode[],
  first: number,
): readonly OwnershipMode[] {
  const out: OwnershipMode[] = [];
  const rest = [...own];
  let stride = first;
  for (const f of [...factors].reverse()) {
    if (f.tier === "grid" || f.tier === "block" || f.tier === "cluster") continue;
    if (f.tier === "register") {
      if (f.extent > 1) out.unshift({ ...f, stride });
      stride *= f.extent;
    } else if (f.tier === "atom") out.unshift(...take(rest, f.extent));
    else out.unshift(f);
  }
  if (rest.length > 0) throw new RangeError("the nest's atom factors do not make up the atom");
  return out;
}

/**
 * One axis of a tile of scale factors, a register of which serves several atoms: `select` are the lanes among which an instruction's selector chooses, each with the
 * factors of an atom of its own. `own` are the lanes of an atom's rows or columns. Atoms beyond those have further registers.
 */
export function spreadFactors(
  factors: readonly OwnershipMode[],
  own: readonly OwnershipMode[],
  select: { readonly lanes: number; readonly stride: number },
): readonly OwnershipMode[] {
  let { lanes, stride } = select;
  const atoms = factors.map((f) => f);
  for (let at = atoms.length - 1; at >= 0; at--) {
    const f = atoms[at];
    if (f?.tier !== "register") continue;
    let taken = 1;
    while (2 * taken <= lanes && f.extent % (2 * taken) === 0) taken *= 2;
    const chosen: OwnershipMode = { tier: "thread", extent: taken, stride };
    atoms.splice(at, 1, { ...f, extent: f.extent / taken }, ...(taken > 1 ? [chosen] : []));
    lanes /= taken;
    stride *= taken;
  }
  return spreadAtom(atoms, own, 1);
}

/** The innermost factors that multiply to `extent`, removed from `rest`; the outermost of them may be cut. */
function take(rest: OwnershipMode[], extent: number): OwnershipMode[] {
  const taken: OwnershipMode[] = [];
  let need = extent;
  while (need > 1) {
    const f = rest.pop();
    if (f === undefined) throw new RangeError("the nest's atom factors exceed the atom");
    if (f.extent <= need && need % f.extent === 0) {
      taken.unshift(f);
      need /= f.extent;
    } else if (f.extent % need === 0) {
      taken.unshift({ ...f, extent: need });
      rest.push({ ...f, extent: f.extent / need, stride: f.stride * need });
      need = 1;
    } else throw new RangeError("the nest's atom factors cut the atom unevenly");
  }
  return taken;
}
