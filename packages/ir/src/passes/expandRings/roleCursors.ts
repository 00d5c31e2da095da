/** Where a role is in each of its rings, and where it begins. */
import { asLinear } from "../../tile/expr.ts";
import { eachStmt } from "../../tile/rewrite.ts";
import type { For, Ring, Role, Stmt, TileLoop, TileProgram, Tiles } from "../../tile/types.ts";
import { Cursor, type Side } from "./cursor.ts";

/** Chunks of a ring that were copied before the role begins. */
export interface Led {
  readonly ring: string;
  readonly chunks: number;
}

export class RoleCursors {
  readonly #program: TileProgram;
  readonly #role: Role;
  readonly #led: Led | null;
  readonly #prefix: string;
  readonly #cursors = new Map<string, Cursor>();
  readonly #loop: TileLoop | null;

  /** `prefix`: of the names of pipelines. */
  constructor(program: TileProgram, role: Role, led: Led | null, prefix: string) {
    this.#program = program;
    this.#role = role;
    this.#led = led;
    this.#prefix = prefix;
    this.#loop = eachStmt(role.body).find((s): s is Tiles => s.kind === "tiles")?.loop ?? null;
  }

  of(ring: Ring, side: Side): Cursor {
    const key = `${side} ${ring.name}`;
    const known = this.#cursors.get(key);
    if (known !== undefined) return known;
    const letter = this.#prefix + { producer: "p", consumer: "c", giver: "g" }[side];
    const name = this.#program.rings.length === 1 ? letter : `${letter}_${ring.name}`;
    const made = new Cursor(name, ring, side);
    this.#cursors.set(key, made);
    return made;
  }

  /** Where the role begins in each of its rings. */
  pipelines(): readonly Stmt[] {
    return [...this.#cursors.values()].map(({ name, ring, side }) => {
      const before = this.#chunksBefore(ring, side);
      const turned = Math.floor(before / ring.slots) % 2;
      const phase = side === "producer" ? 1 - turned : turned;
      return {
        kind: "pipeline",
        name,
        of: ring.name,
        stage: before % ring.slots,
        phase: phase === 0 ? 0 : 1,
      };
    });
  }

  /** Chunks that go by before the role's own first one: those that lead, and those of the ping-pong role before. */
  #chunksBefore(ring: Ring, side: Side): number {
    if (side === "producer") return this.#led?.ring === ring.name ? this.#led.chunks : 0;
    const loop = this.#loop;
    return loop === null || loop.turn === 0 || loop.ring === ring.name
      ? 0
      : loop.turn * this.chunksOfTile(ring, loop);
  }

  /** Chunks of a ring at each work tile: the factor of its ordinal in the number of a chunk. */
  chunksOfTile(ring: Ring, loop: TileLoop): number {
    for (const stmt of eachStmt(this.#role.body))
      if (stmt.kind === "wait" && stmt.ring === ring.name) {
        const chunks = asLinear(stmt.at)?.terms.get(loop.var);
        if (chunks !== undefined) return chunks;
      }
    throw new RangeError(`chunks of %${ring.name} are not numbered by work tiles`);
  }

  /** Cursors that began in a loop are from here on where another one is. */
  leave(loop: For, outer: For | null): void {
    for (const cursor of this.#cursors.values()) if (cursor.scope === loop) cursor.scope = outer;
  }

  /** What `make` makes, without moving the role. */
  unmoved<T>(make: () => T): T {
    const before = new Map([...this.#cursors].map(([key, cursor]) => [key, cursor.copy()]));
    try {
      return make();
    } finally {
      for (const [key, cursor] of before) this.#cursors.set(key, cursor);
    }
  }
}
