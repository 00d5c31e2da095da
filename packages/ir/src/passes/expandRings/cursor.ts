/** Where a role is in a ring, chunk by chunk, as its text goes on. */
import { lit, mod, sameValue, substituteExpr } from "../../tile/expr.ts";
import { type Expr, type For, placesOf, type Ring } from "../../tile/types.ts";

/** `giver`: where a role that gives slots back late does so, behind where it reads. */
export type Side = "producer" | "consumer" | "giver";

/** A rolled loop that is open, all loops around the statement, and the constants of the unrolled ones. */
export interface Within {
  readonly loop: For | null;
  readonly scopes: readonly For[];
  readonly constants: ReadonlyMap<string, Expr>;
}

/** A chunk that has been waited for, by the name under which its slot is known. */
interface Held {
  readonly name: string;
  readonly at: Expr;
}

export class Cursor {
  readonly name: string;
  readonly ring: Ring;
  readonly side: Side;
  /** Chunk that was acquired or waited for last; null before the first. */
  at: Expr | null = null;
  /** Whether that has not been given back. */
  open = false;
  /** The loop that waits for it; null where none does. */
  loop: For | null = null;
  /** The innermost loop around that wait, outside of which a slot held there has no name; null outside of loops. */
  scope: For | null = null;
  /** Chunks before it that have not been given back either. */
  readonly held: Held[] = [];
  /** Name of the slot of the chunk at hand: the pipeline's, or one that stays. */
  slot: string;
  #entered: { readonly loop: For; readonly first: Expr } | null = null;

  constructor(name: string, ring: Ring, side: Side) {
    this.name = name;
    this.ring = ring;
    this.side = side;
    this.slot = name;
  }

  /** The same place, to go on from. */
  copy(): Cursor {
    const made = new Cursor(this.name, this.ring, this.side);
    made.at = this.at;
    made.open = this.open;
    made.loop = this.loop;
    made.scope = this.scope;
    made.held.push(...this.held);
    made.slot = this.slot;
    made.#entered = this.#entered;
    return made;
  }

  begin(at: Expr, { loop, scopes, constants }: Within): void {
    this.leaveLoop(loop);
    this.at = substituteExpr(at, constants);
    this.open = true;
    this.loop = loop;
    this.scope = scopes.at(-1) ?? null;
  }

  /** What was waited for before a loop that has ended since: the chunk that its last turn waited for. */
  leaveLoop(loop: For | null): void {
    const entered = this.#entered;
    if (entered === null || this.at === null || loop === entered.loop) return;
    const last = entered.loop.to;
    if (!sameValue(atTurn(this.at, entered.loop, before(last)), atTurn(entered.first, entered.loop, last)))
      throw new RangeError(`turns of a loop do not end with the chunk of the next one in %${this.ring.name}`);
    this.#entered = null;
    this.at = atTurn(this.at, entered.loop, before(last));
  }

  /**
   * Whether the role is at this chunk, or at one in the same slot. What was waited for before the open loop is the chunk of its first turn, where every turn ends with the
   * next one waited for.
   */
  isAt(wanted: Expr, within: Within, slots: boolean): boolean {
    this.leaveLoop(within.loop);
    if (this.at === null) return false;
    const chunk = substituteExpr(wanted, within.constants);
    const same = slots ? this.#sameSlot : sameValue;
    if (same(this.at, chunk)) return true;
    const { loop } = within;
    if (loop === null || this.#entered !== null || !same(this.at, atTurn(chunk, loop, loop.from)))
      return false;
    this.at = chunk;
    this.#entered = { loop, first: chunk };
    return true;
  }

  /** Whether a statement is in the loop of the wait, and the name of the slot has been given around it. */
  reaches({ loop, scopes }: Within): boolean {
    const named = this.slot === this.name || this.scope === null || scopes.includes(this.scope);
    return named && (this.loop === null || this.loop === loop);
  }

  /** The name of the slot in which this chunk lies; null where the role is elsewhere. */
  slotOf(wanted: Expr, within: Within): string | null {
    const chunk = substituteExpr(wanted, within.constants);
    const held = this.held.find(({ at }) => this.#sameSlot(at, chunk));
    if (held !== undefined) return held.name;
    return this.isAt(wanted, within, true) ? this.slot : null;
  }

  readonly #sameSlot = (x: Expr, y: Expr): boolean =>
    sameValue(mod(x, placesOf(this.ring)), mod(y, placesOf(this.ring)));
}

/** An expression with a loop's variable at a turn. */
const atTurn = (e: Expr, loop: For, turn: Expr): Expr => substituteExpr(e, new Map([[loop.var, turn]]));

const before = (e: Expr): Expr =>
  e.kind === "const" ? lit(e.value - 1) : { kind: "sub", lhs: e, rhs: lit(1) };
