/**
 * Partial tiles that bulk copies add to memory: each warp puts its registers into slots of its room in shared memory, a fence and a meeting of its lanes before its first
 * lane copies, and goes on when all has been added.
 */
import { elementsPerRegister } from "../../../atoms/atoms.ts";
import { compare } from "../../cond.ts";
import { REDUCTION_ROOM, REDUCTION_SLOTS } from "../../dsmemReduction.ts";
import { elementBytes } from "../../elementBytes.ts";
import { evaluateExpr, freeVars, lit } from "../../expr.ts";
import { registersPerThread } from "../../ownership.ts";
import { bufferOf, childrenOf } from "../../rewrite.ts";
import type { Buffer, Expr, Stmt, TileProgram } from "../../types.ts";
import { Broken } from "./machine.ts";
import type { Finding } from "./rules.ts";
import { fenceStaged, newStaging, stage } from "./staging.ts";

type Of<K extends Stmt["kind"]> = Extract<Stmt, { readonly kind: K }>;
type Run = Of<"partial.stage"> | Of<"bulk.reduce">;

/** Most statements that are gone through: accumulators have fewer registers. */
const MOST_STEPS = 10_000;

/** The first finding of a `partial.reduce` by bulk copies; null where each register is added once and all of them before the CTA goes on. */
export function bulkReductionFinding(program: TileProgram, stmt: Of<"partial.reduce">): Finding | null {
  const walk = new Walk(bufferOf(program, stmt.acc.buffer));
  try {
    walk.list(stmt.body);
    walk.end();
    return null;
  } catch (error) {
    if (error instanceof Broken) return error.at(stmt).finding;
    throw error;
  }
}

function broken(message: string, hint: string): never {
  throw new Broken("reductions", "each warp", message, hint);
}

class Walk {
  readonly #warp = newStaging("each warp");
  /** Registers of a thread; of those how often each has been added; and the most that a slot has room for. */
  readonly #registers: number;
  readonly #added: number[];
  readonly #room: number;
  /** What slots have, as `first : count`. */
  readonly #held = new Map<number, string>();
  /** Groups that are complete, and whether the lanes have met since all are. */
  #complete = 0;
  #met = false;
  #steps = 0;

  constructor(acc: Buffer) {
    const packed = elementsPerRegister(acc.dtype);
    this.#registers = acc.own === null ? 0 : Math.max(1, registersPerThread(acc.own) / packed);
    this.#added = new Array<number>(this.#registers).fill(0);
    this.#room = REDUCTION_ROOM / REDUCTION_SLOTS / (32 * packed * elementBytes(acc));
  }

  list(stmts: readonly Stmt[]): void {
    for (const stmt of stmts)
      try {
        this.#step(stmt);
      } catch (error) {
        throw error instanceof Broken ? error.at(stmt) : error;
      }
  }

  end(): void {
    const wrong = this.#added.findIndex((times) => times !== 1);
    if (wrong >= 0)
      broken(
        `register ${wrong} of each thread is added ${this.#added[wrong]} times`,
        "partial.stage and bulk.reduce for each register, once",
      );
    if (this.#complete < this.#warp.stores || this.#isOpen())
      broken(
        "goes on while bulk copies may still add",
        "bulk.commit behind the last of them, then bulk.wait pending 0 complete",
      );
    if (!this.#met) broken("goes on while the lane that waits may still wait", "warp.sync at the end");
  }

  /** A copy stands behind the last group. */
  #isOpen(): boolean {
    return [...this.#warp.staging.values()].some(({ stored }) => (stored ?? 0) > this.#warp.stores);
  }

  #step(stmt: Stmt): void {
    if (++this.#steps > MOST_STEPS) broken("has more turns than registers", "a turn for each slot of them");
    const { values } = this.#warp;
    switch (stmt.kind) {
      case "for":
        for (let i = this.#value(stmt.from); i < this.#value(stmt.to); i++) {
          values.set(stmt.var, i);
          this.list(stmt.body);
        }
        values.delete(stmt.var);
        return;
      case "if":
        if (compare(stmt.cond.op, this.#value(stmt.cond.lhs), this.#value(stmt.cond.rhs)))
          this.list(childrenOf(stmt));
        return;
      case "partial.stage":
      case "bulk.reduce":
        this.#move(stmt);
        return;
      case "fence":
        if (stmt.what === "async") fenceStaged(this.#warp);
        return;
      case "warp.sync":
        stage(this.#warp, { kind: "gather" });
        this.#met = this.#complete >= this.#warp.stores;
        return;
      case "bulk.commit":
        stage(this.#warp, { kind: "stores" });
        this.#met = false;
        return;
      case "bulk.wait":
        stage(this.#warp, { kind: "stored", pending: stmt.pending });
        if (stmt.complete === true)
          this.#complete = Math.max(this.#complete, this.#warp.stores - stmt.pending);
        return;
      default:
        broken(`'${stmt.kind}' is no part of a reduction by bulk copies`, "put it in front, or behind");
    }
  }

  #value(e: Expr): number {
    const { values } = this.#warp;
    for (const name of freeVars(e))
      if (!values.has(name)) broken(`asks for %${name}`, "constants, and variables of loops inside");
    return evaluateExpr(e, values);
  }

  #move({ kind, from, count, slot }: Run): void {
    const [first, number] = [this.#value(from), this.#value(slot)];
    if (first + count > this.#registers || count > this.#room || number >= REDUCTION_SLOTS)
      broken(
        `takes registers ${first} to ${first + count - 1} of ${this.#registers} and slot ${number}`,
        `at most ${this.#room} registers, and ${REDUCTION_SLOTS} slots`,
      );
    const run = `${first} : ${count}`;
    const at = { buffer: "partials", slot: lit(number) };
    if (kind === "partial.stage") {
      stage(this.#warp, { kind: "stage", ...at });
      this.#held.set(number, run);
      return;
    }
    stage(this.#warp, { kind: "store", ...at });
    const held = this.#held.get(number);
    if (held !== run)
      broken(
        `adds registers ${run} from a slot that has ${held ?? "none"}`,
        "the registers of the partial.stage before it",
      );
    for (let i = first; i < first + count; i++) this.#added[i] = (this.#added[i] ?? 0) + 1;
  }
}
