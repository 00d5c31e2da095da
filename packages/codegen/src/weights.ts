/**
 * Weights of codes in shared memory: words whose fields lie as instructions take fragments, four codes of pairs along k. Where weights are made below themselves one multiply-add makes
 * them of bits that count from the least subnormal. Elsewhere a whole number is put under an exponent by one lop3, which is exact; zero point and scale are a subtraction and a
 * multiplication of pairs. The bits of an e2m1 or e4m3 go to their places in a wider format, whose exponent counts from elsewhere: a power of two makes up for that, exact too.
 */
import { type DType, dtypes, WEIGHT_COLUMNS, type WeightType } from "@tilewright/core";
import {
  bufferOf,
  codesOf,
  must,
  type OwnedRegister,
  type Ownership,
  type View,
  type WeightScaling,
  weightColumns,
  weightScaling,
} from "@tilewright/ir";
import { imm } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";
import type { StmtOf } from "./engine.ts";
import { AND_OR, AND_XOR, pairConstant, SIGNS, twice } from "./pairs.ts";
import { ownedTile, ownerOf } from "./registers.ts";
import { sharedAddress } from "./sharedAddress.ts";
import { insideBlock, NOWHERE, ownedPosition, type ThreadPosition } from "./threads.ts";
import { bitsOfPair, widenPair } from "./widenPair.ts";
import { loadRun, shifted, type Word } from "./words.ts";

/** How pairs of a dtype are made. */
interface PairForm {
  readonly dtype: "bf16" | "f16";
  /** Pairs whose fields begin at these bits of each half, by the shift that brings them there: `field` bits above the lowest. */
  readonly fields: readonly { readonly shift: number; readonly field: number }[];
  /** The exponent under which a field at bit 0 is itself plus `bias`, in both halves. */
  readonly magic: number;
  readonly bias: number;
  /** A number of up to 8 bits in both halves. */
  pair(value: number): number;
  /** Bits of its mantissa, and of its exponent what stands for 1 (IEEE 754). */
  readonly mantissa: number;
  readonly one: number;
}

/** Numbers of 8 bits with an exponent: exact in both. */
const bits: Readonly<Partial<Record<DType, (x: number) => number>>> = {
  bf16: (x) => (new Uint32Array(new Float32Array([x]).buffer)[0] ?? 0) >>> 16,
  f16: (x) => {
    const [word = 0] = new Uint32Array(new Float32Array([x]).buffer);
    if (x === 0) return word >>> 16;
    return ((word >>> 16) & 0x8000) | (((word >>> 13) - ((127 - 15) << 10)) & 0x7fff);
  },
};

const forms: Readonly<Partial<Record<DType, PairForm>>> = {
  // Seven bits of mantissa hold a field at the lowest bits only.
  bf16: {
    dtype: "bf16",
    fields: [0, 4, 8, 12].map((shift) => ({ shift, field: 0 })),
    magic: 0x4300_4300,
    bias: 128,
    pair: (value) => twice(bits.bf16?.(value) ?? 0),
    ...{ mantissa: 7, one: 127 },
  },
  // Ten bits hold the field above, too: it counts 16 times.
  f16: {
    dtype: "f16",
    fields: [0, 4, 8, 12].map((bit) => ({ shift: bit & 8, field: bit & 4 })),
    magic: 0x6400_6400,
    bias: 1024,
    pair: (value) => twice(bits.f16?.(value) ?? 0),
    ...{ mantissa: 10, one: 15 },
  },
};

/** A field in both halves. */
const FIELD = 0x000f_000f;
/** The bits of a byte in both halves that a bf16 with the exponent of 128 has room for, and the sign above them. */
const BYTE: { readonly low: number; readonly sign: number } = { low: twice(0x7f), sign: twice(0x80) };
/** An e2m1: sign, exponent of two bits that stands for 1 at 1, one bit of mantissa (OCP Microscaling Formats). */
const E2M1 = { sign: 3, bits: 0x7, one: 1, mantissa: 1 } as const;
/** The exponent of an e4m3 that stands for 1. */
const E4M3_ONE = 7;
/** Powers of two below themselves that differences of codes and zero points are, where no factor is out of range. */
const NEAR = 6;

export function lowerWeights(ctx: Context, stmt: StmtOf<"map">): void {
  const words = codesOf(stmt);
  const tile = ownedTile(ctx, stmt.dst.buffer, ctx.constant(stmt.dst.slot, "slot of the weights"));
  const form = forms[tile.dtype];
  const own = ownerOf(bufferOf(ctx.program, stmt.dst.buffer));
  const [parts, columns] = [weightScaling(stmt.value), weightColumns(own)];
  // The verifier of elements says so.
  if (words === null || form === undefined || parts === null || columns === null)
    throw new TypeError("a map makes weights that no instruction takes");
  const { dtype, zero, scale, below } = parts;
  // A lane's 16 bytes of a block.
  const ofWords = ownedPosition(
    ctx.values,
    {
      rows: columns,
      cols: [
        { tier: "thread", extent: 32, stride: 1 },
        { tier: "atom", extent: 4, stride: 1 },
      ],
    },
    insideBlock,
  );
  const factors = new Factors(ctx, form, own, stmt.dst.extent[0]);
  const at = new Map(tile.elements.map((e): [string, OwnedRegister] => [`${e.row} ${e.col}`, e]));
  const firsts = [...new Set(tile.elements.map(({ col }) => col - (col % WEIGHT_COLUMNS)))];
  // Codes in each half of a word; a step of 16 rows has four pairs.
  const fields = 16 / dtypes[dtype].bits;
  for (let block = 0; block < stmt.dst.extent[0]; block += 16 * fields)
    for (const first of firsts) {
      const four = Array.from({ length: 4 }, () => ctx.entry.reg("b32", "codes"));
      const from = sharedAddress(ctx, words, ofWords, first / WEIGHT_COLUMNS, (block / (16 * fields)) * 128);
      loadRun(ctx, null, "shared", "s32", 4, four, from);
      four.forEach((word, number) => {
        for (let field = 0; field < fields; field++) {
          const pair = number * fields + field;
          const [row, col] = [block + 16 * (pair >> 2) + 8 * ((pair >> 1) & 1), first + 8 * (pair & 1)];
          const element = at.get(`${row} ${col}`);
          if (element === undefined) throw new TypeError("a fragment has a part of each word");
          if (below > 0) {
            factors.below(tile.at(element.register), word, field, parts, [row, col]);
            continue;
          }
          const exact = exactly[dtype](factors, word, field, [zero ?? 0, row, col]);
          factors.times(tile.at(element.register), exact, scale, row, col);
        }
      });
    }
}

type ZeroAt = readonly [zero: number | View, row: number, col: number];

/** What a field of a word is, exactly: a whole number without its zero point, or a float. */
const exactly: Readonly<
  Record<WeightType, (factors: Factors, word: Word, field: number, zero: ZeroAt) => Word>
> = {
  s4: (factors, word, field, zero) => factors.whole(word, field, ...zero),
  s8: (factors, word, field, zero) => factors.byte(word, field, ...zero),
  e2m1: (factors, word, field) => factors.float(word, 4 * field),
  e4m3: (factors, word, field) => factors.byteFloat(word, field),
};

/** Zero points and scales as pairs, each loaded once for the runs that it is of. */
class Factors {
  readonly #ctx: Context;
  readonly #form: PairForm;
  readonly #position: ThreadPosition;
  readonly #rows: number;
  readonly #type: "bf16x2" | "f16x2";
  readonly #known = new Map<string, Word>();

  constructor(ctx: Context, form: PairForm, own: Ownership, rows: number) {
    this.#ctx = ctx;
    this.#form = form;
    this.#rows = rows;
    this.#type = `${form.dtype}x2`;
    this.#position = { row: NOWHERE, col: ownedPosition(ctx.values, own, insideBlock).col };
  }

  /** The whole numbers of a word's fields number `i`, without their zero point. */
  whole(word: Word, i: number, zero: number | View, row: number, col: number): Word {
    const { shift, field } = this.#form.fields[i] ?? { shift: 0, field: 0 };
    const biased = this.#ctx.entry.reg("b32", "weight");
    const mask = pairConstant(this.#ctx, (FIELD << field) >>> 0);
    const magic = pairConstant(this.#ctx, this.#form.magic);
    this.#ctx.emitAny(
      null,
      "lop3.b32",
      biased,
      shifted(this.#ctx, null, word, shift),
      mask,
      magic,
      imm(AND_OR),
    );
    return this.#without(biased, field, zero, row, col);
  }

  /**
   * The weights of a word's fields number `i`, so many powers of two below themselves. A field of up to 8 bits has those below a bf16's exponent and the lowest of it, where it counts from
   * the least subnormal; a float's bits are at their places: one multiply-add takes either to its scale and subtracts the zero point times it, which is exact where that is a power of two.
   */
  below(into: Reg, word: Word, i: number, of: WeightScaling, [row, col]: readonly [number, number]): void {
    const { dtype, zero, scale, below } = of;
    const { bits, lift, bias } = this.#bitsOf(dtype, word, i);
    const { pair } = this.#form;
    const times = (factor: number): Word =>
      this.#once(`scale ${factor}`, scale, row, col, (s) =>
        this.#fma(s, pairConstant(this.#ctx, pair(factor)), pairConstant(this.#ctx, SIGNS)),
      );
    if (zero !== null && typeof zero !== "number") {
      const point = this.#once("point below", zero, row, col, (z) =>
        this.#fma(
          z,
          pairConstant(this.#ctx, pair(-(2 ** -NEAR))),
          pairConstant(this.#ctx, pair(-bias * 2 ** -NEAR)),
        ),
      );
      const exact = this.#fma(bits, pairConstant(this.#ctx, pair(2 ** (lift - NEAR))), point);
      this.#times(into, exact, times(2 ** (NEAR - below)));
      return;
    }
    const off = (zero ?? 0) + bias;
    const up = times(2 ** (lift - below));
    if (off === 0) this.#times(into, bits, up);
    else this.#ctx.emitAny(null, `fma.rn.${this.#type}`, into, bits, up, times(-off * 2 ** -below));
  }

  /** Bits of a word's fields number `i` as pairs, by how many powers of two they count too little, and how many of these are more than the code. */
  #bitsOf(
    dtype: WeightType,
    word: Word,
    i: number,
  ): { readonly bits: Word; readonly lift: number; readonly bias: number } {
    const ctx = this.#ctx;
    const { mantissa, one } = this.#form;
    const least = one - 1 + mantissa;
    switch (dtype) {
      case "s4": {
        const [bits, field] = [ctx.entry.reg("b32", "weight"), 4 * (i & 1)];
        const mask = pairConstant(ctx, (FIELD << field) >>> 0);
        ctx.emitAny(null, "and.b32", bits, shifted(ctx, null, word, 8 * (i >> 1)), mask);
        return { bits, lift: least - field, bias: 0 };
      }
      case "s8": {
        const bits = ctx.entry.reg("b32", "weight");
        const [mask, sign] = [BYTE.low | BYTE.sign, BYTE.sign].map((field) => pairConstant(ctx, field));
        const halves = shifted(ctx, null, word, 8 * i);
        ctx.emitAny(null, "lop3.b32", bits, halves, must(mask, "a mask"), must(sign, "a sign"), imm(AND_XOR));
        return { bits, lift: least, bias: 128 };
      }
      case "e2m1":
        return { bits: this.#floatBits(word, 4 * i), lift: one - E2M1.one, bias: 0 };
      case "e4m3":
        return {
          bits: bitsOfPair(ctx, this.#form.dtype, this.#moved(word, 8 - 8 * i)),
          lift: one - E4M3_ONE,
          bias: 0,
        };
    }
  }

  /** The signed bytes number `field` of a word's halves, without their zero point: their bits below the sign under an exponent, less the sign under the same one. */
  byte(word: Word, field: number, zero: number | View, row: number, col: number): Word {
    const halves = shifted(this.#ctx, null, word, 8 * field);
    const magic = pairConstant(this.#ctx, this.#form.magic);
    const [low, sign] = [BYTE.low, BYTE.sign].map((bits) => {
      const d = this.#ctx.entry.reg("b32", "weight");
      this.#ctx.emitAny(null, "lop3.b32", d, halves, pairConstant(this.#ctx, bits), magic, imm(AND_OR));
      return d;
    });
    const less = pairConstant(this.#ctx, this.#form.pair(-1));
    const number = this.#fma(must(sign, "a sign"), less, must(low, "a number"));
    if (zero === 0) return number;
    const point =
      typeof zero === "number"
        ? pairConstant(this.#ctx, this.#form.pair(zero))
        : this.#once("point", zero, row, col, (pair) => pair);
    return this.#fma(point, less, number);
  }

  /** The e4m3 number `field` of a word's halves. */
  byteFloat(word: Word, field: number): Word {
    const d = this.#ctx.entry.reg("b32", "weight");
    widenPair(this.#ctx, this.#form.dtype, this.#moved(word, 8 - 8 * field), d);
    return d;
  }

  /** The floats whose bits begin at `place` in a word's halves. */
  float(word: Word, place: number): Word {
    const { one, pair } = this.#form;
    return this.#fma(
      this.#floatBits(word, place),
      pairConstant(this.#ctx, pair(2 ** (one - E2M1.one))),
      pairConstant(this.#ctx, SIGNS),
    );
  }

  /** The bits of these floats at their places, with the exponents that they have. */
  #floatBits(word: Word, place: number): Word {
    const { mantissa } = this.#form;
    const up = mantissa - E2M1.mantissa;
    const [sign, float] = [this.#ctx.entry.reg("b32", "weight"), this.#ctx.entry.reg("b32", "weight")];
    this.#ctx.emitAny(
      null,
      "and.b32",
      sign,
      this.#moved(word, 15 - E2M1.sign - place),
      pairConstant(this.#ctx, SIGNS),
    );
    this.#ctx.emitAny(
      null,
      "lop3.b32",
      float,
      this.#moved(word, up - place),
      pairConstant(this.#ctx, twice(E2M1.bits << up)),
      sign,
      imm(AND_OR),
    );
    return float;
  }

  /** A word with its bits so many places further up, or down. */
  #moved(word: Word, by: number): Word {
    if (by <= 0) return shifted(this.#ctx, null, word, -by);
    const d = this.#ctx.entry.reg("b32", "weight");
    this.#ctx.emitAny(null, "shl.b32", d, word, imm(by));
    return d;
  }

  /** The number of a field under its exponent, without that and the zero point. */
  #without(biased: Word, field: number, zero: number | View, row: number, col: number): Word {
    const up = 2 ** field;
    const off =
      typeof zero === "number"
        ? pairConstant(this.#ctx, this.#form.pair(-(this.#form.bias / up + zero)))
        : this.#once(`zero ${field}`, zero, row, col, (point) =>
            this.#fma(
              point,
              pairConstant(this.#ctx, this.#form.pair(-1)),
              pairConstant(this.#ctx, this.#form.pair(-this.#form.bias / up)),
            ),
          );
    return this.#fma(biased, pairConstant(this.#ctx, this.#form.pair(1 / up)), off);
  }

  /** Times the scale, rounded once: what is added is nothing. */
  times(into: Reg, value: Word, scale: View, row: number, col: number): void {
    this.#times(
      into,
      value,
      this.#once("scale", scale, row, col, (s) => s),
    );
  }

  #times(into: Reg, value: Word, pair: Word): void {
    this.#ctx.emitAny(null, `fma.rn.${this.#type}`, into, value, pair, pairConstant(this.#ctx, SIGNS));
  }

  #fma(a: Word, b: Word, c: Word): Word {
    const d = this.#ctx.entry.reg("b32", "weight");
    this.#ctx.emitAny(null, `fma.rn.${this.#type}`, d, a, b, c);
    return d;
  }

  /** A factor of a column and run of rows in both halves of a word. */
  #once(what: string, view: View, row: number, col: number, make: (pair: Word) => Word): Word {
    const run = Math.floor(row / (this.#rows / view.extent[0]));
    const key = `${what} ${run} ${col}`;
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const loaded = this.#known.get(`${view.buffer} ${run} ${col}`) ?? this.#load(view, run, col);
    this.#known.set(`${view.buffer} ${run} ${col}`, loaded);
    const made = make(loaded);
    this.#known.set(key, made);
    return made;
  }

  #load(view: View, run: number, col: number): Word {
    const ctx = this.#ctx;
    const [half, pair] = [ctx.entry.reg("b32", "scale"), ctx.entry.reg("b32", "scale")];
    const { dtype } = bufferOf(ctx.program, view.buffer);
    loadRun(ctx, null, "shared", dtype, 1, [half], sharedAddress(ctx, view, this.#position, run, col));
    ctx.emitAny(null, "prmt.b32", pair, half, half, imm(0x1010));
    return pair;
  }
}
