/**
 * Values computed once in the prologue, memoised by what they are: thread numbers, tile coordinates, sums and products.
 * Integer division by constants becomes shifts and masks where they are powers of two.
 */
import { type EntryBuilder, type IntegerOperand, imm, special } from "@tilewright/ptx";
import type { Code, Reg } from "./code.ts";

type U32 = Reg<"u32">;

/** Consecutive warps of a block. */
export interface RoleThreads {
  readonly first: number;
  readonly warps: number;
  /** Registers of a thread, where the role has a budget of its own; absent: as many as the kernel's threads leave it. */
  readonly registers?: number;
  /** `grid`: each warp is a block of its own, numbered along the grid's third axis. Absent: they are warps of one block. */
  readonly across?: "grid";
  /** Blocks along x stand for those of clusters of so many, which the kernel itself has not. Absent: clusters are the hardware's. */
  readonly clusterOf?: number;
}

export class Values {
  readonly entry: EntryBuilder;
  readonly code: Code;
  /** Warps that the code is for: those of the block, or of a role. */
  readonly role: RoleThreads;
  readonly #memo = new Map<string, U32>();

  constructor(entry: EntryBuilder, prologue: Code, role: RoleThreads) {
    this.entry = entry;
    this.code = prologue;
    this.role = role;
  }

  /** The register of `key`; made by `compute` on first use. */
  memo(key: string, prefix: string, compute: (dst: U32) => void): U32 {
    const known = this.#memo.get(key);
    if (known) return known;
    const dst = this.entry.reg("u32", prefix);
    this.#memo.set(key, dst);
    compute(dst);
    return dst;
  }

  /** Warps of the role. */
  get warps(): number {
    return this.role.warps;
  }

  /** Number of the thread among those of the role. */
  thread(): U32 {
    return this.memo("tid", "tid", (d) => {
      this.code.emit(null, "mov.u32", d, special("%tid.x"));
      if (this.role.across === "grid") {
        const block = this.entry.reg("u32", "warp");
        this.code.emit(null, "mov.u32", block, special("%ctaid.z"));
        this.code.emit(null, "mad.lo.u32", d, block, imm(32), d);
      }
      if (this.role.first > 0) this.code.emit(null, "sub.u32", d, d, imm(32 * this.role.first));
    });
  }

  lane(): U32 {
    return this.memo("lane", "lane", (d) => this.code.emit(null, "and.b32", d, this.thread(), imm(31)));
  }

  warp(): U32 {
    return this.divide(this.thread(), 32);
  }

  /** Which block of its cluster this is. */
  rank(): U32 {
    const { clusterOf } = this.role;
    if (clusterOf !== undefined) return this.modulo(this.block(), clusterOf, Number.POSITIVE_INFINITY);
    return this.memo("ctarank", "rank", (d) =>
      this.code.emit(null, "mov.u32", d, special("%cluster_ctarank")),
    );
  }

  block(): U32 {
    return this.memo("ctaid", "ctaid", (d) => this.code.emit(null, "mov.u32", d, special("%ctaid.x")));
  }

  /** Which of the blocks that share a tile this is: the grid's third axis. */
  split(): U32 {
    return this.memo("ctaid.z", "split", (d) => this.code.emit(null, "mov.u32", d, special("%ctaid.z")));
  }

  sum(a: U32, b: U32 | IntegerOperand): U32 {
    return this.memo(`${name(a)}+${name(b)}`, "v", (d) => this.code.emit(null, "add.u32", d, a, b));
  }

  difference(a: U32 | IntegerOperand, b: U32 | IntegerOperand): U32 {
    return this.memo(`${name(a)}-${name(b)}`, "v", (d) => this.code.emit(null, "sub.u32", d, a, b));
  }

  least(a: U32, b: U32 | IntegerOperand): U32 {
    return this.memo(`min(${name(a)},${name(b)})`, "v", (d) => this.code.emit(null, "min.u32", d, a, b));
  }

  /** `yes` where a < b, else `no`. */
  choose(
    a: U32 | IntegerOperand,
    b: U32 | IntegerOperand,
    yes: U32 | IntegerOperand,
    no: U32 | IntegerOperand,
  ): U32 {
    return this.memo(`${name(a)}<${name(b)}?${name(yes)}:${name(no)}`, "v", (d) => {
      const less = this.entry.reg("pred", "p");
      this.code.emit(null, "setp.lt.u32", less, a, b);
      this.code.emit(null, "selp.b32", d, yes, no, less);
    });
  }

  scale(a: U32, factor: number): U32 {
    if (factor === 1) return a;
    if (factor > 0 && factor < 1) return this.divide(a, 1 / factor);
    const log = Math.log2(factor);
    return this.memo(`${name(a)}*${factor}`, "v", (d) =>
      Number.isInteger(log)
        ? this.code.emit(null, "shl.b32", d, a, imm(log))
        : this.code.emit(null, "mul.lo.u32", d, a, imm(factor)),
    );
  }

  product(a: U32, b: U32): U32 {
    return this.memo(`${name(a)}*${name(b)}`, "v", (d) => this.code.emit(null, "mul.lo.u32", d, a, b));
  }

  divide(a: U32, divisor: number | U32): U32 {
    if (divisor === 1) return a;
    if (typeof divisor !== "number")
      return this.memo(`${name(a)}/${name(divisor)}`, "v", (d) =>
        this.code.emit(null, "div.u32", d, a, divisor),
      );
    const log = Math.log2(divisor);
    return this.memo(`${name(a)}/${divisor}`, "v", (d) =>
      Number.isInteger(log)
        ? this.code.emit(null, "shr.u32", d, a, imm(log))
        : this.code.emit(null, "div.u32", d, a, imm(divisor)),
    );
  }

  /** a % divisor, where a < bound: a itself when the bound does not exceed the divisor. */
  modulo(a: U32, divisor: number | U32, bound: number): U32 {
    if (typeof divisor !== "number")
      return this.memo(`${name(a)}%${name(divisor)}`, "v", (d) =>
        this.code.emit(null, "rem.u32", d, a, divisor),
      );
    if (bound <= divisor) return a;
    const log = Math.log2(divisor);
    return this.memo(`${name(a)}%${divisor}`, "v", (d) =>
      Number.isInteger(log)
        ? this.code.emit(null, "and.b32", d, a, imm(divisor - 1))
        : this.code.emit(null, "rem.u32", d, a, imm(divisor)),
    );
  }
}

const name = (x: U32 | IntegerOperand): string => (x.kind === "register" ? x.name : String(x.value));
