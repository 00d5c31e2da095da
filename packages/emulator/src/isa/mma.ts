/** mma.sync: products of fragments that a warp's lanes hold in registers. PTX ISA 9.0, chapter 9.7.14.5. */
import type { Instruction, Operation, Register } from "../load/types.ts";
import type { Machine, Warp } from "../machine/state.ts";
import { bitsDouble, doubleHigh, doubleLow } from "../numerics/bits.ts";
import { fma64 } from "../numerics/exact.ts";
import { fromF16, toF16 } from "../numerics/floats.ts";
import { fmaNearest } from "../numerics/fma64.ts";
import { operandTable, tf32Mask } from "../numerics/operands.ts";
import { stepDot, tileDotInt } from "../numerics/tensor-dot.ts";
import { type OperandFormat, stepOf } from "../numerics/tensorcore.ts";
import { aligned, checkWritten, laneZero, markWritten, registersIn } from "./aligned.ts";
import { type Coordinates, type Fragments, fragmentIndex, fragmentsOf } from "./fragments.ts";
import type { Decoder, Row, Table } from "./row.ts";

const shapes = [
  "m8n8k4",
  "m8n8k16",
  "m8n8k32",
  "m8n8k128",
  "m16n8k4",
  "m16n8k8",
  "m16n8k16",
  "m16n8k32",
  "m16n8k64",
  "m16n8k128",
  "m16n8k256",
] as const;

/** Element types, by the arithmetic that multiplies them. */
const elementTypes = {
  f16: { bits: 16, kind: "float" },
  bf16: { bits: 16, kind: "float" },
  tf32: { bits: 32, kind: "float" },
  e4m3: { bits: 8, kind: "float" },
  e5m2: { bits: 8, kind: "float" },
  f64: { bits: 64, kind: "double" },
  s8: { bits: 8, kind: "integer" },
  u8: { bits: 8, kind: "integer" },
  s4: { bits: 4, kind: "integer" },
  u4: { bits: 4, kind: "integer" },
  b1: { bits: 1, kind: "integer" },
} as const;
type ElementType = keyof typeof elementTypes;
const elementNames = Object.keys(elementTypes) as readonly ElementType[];
const accumulatorBits = { f16: 16, f32: 32, f64: 64, s32: 32 } as const;
type AccumulatorType = keyof typeof accumulatorBits;

interface Form {
  readonly fragments: Fragments;
  readonly aType: ElementType;
  readonly bType: ElementType;
  readonly cType: AccumulatorType;
  readonly dType: AccumulatorType;
  readonly rounding: "rn" | "rz" | "rm" | "rp";
  readonly saturate: boolean;
  readonly combine: "multiply" | "xor" | "and";
  readonly a: readonly Register[];
  readonly b: readonly Register[];
  readonly c: readonly Register[];
  readonly d: readonly Register[];
}

/** Element numbers of the operands in row-major A[m][k], B[n][k], C[m][n], tiles behind one another. */
interface Indices {
  readonly a: Int32Array;
  readonly b: Int32Array;
  readonly c: Int32Array;
  readonly d: Int32Array;
}

function indicesOf({ m, n, k, a, b, c, d }: Fragments, place: (k: number) => number = (at) => at): Indices {
  const accumulator = (at: Coordinates): number => (at.t * m + at.m) * n + at.n;
  return {
    a: fragmentIndex(a, (at) => (at.t * m + at.m) * k + place(at.k)),
    b: fragmentIndex(b, (at) => (at.t * n + at.n) * k + place(at.k)),
    c: fragmentIndex(c, accumulator),
    d: fragmentIndex(d, accumulator),
  };
}

const mma: Row = (d) => {
  d.choice("sync");
  d.choice("aligned");
  const shape = d.choice(...shapes);
  const aOrder = d.choice("row", "col");
  const bOrder = d.choice("row", "col");
  const rounding = d.option("rn", "rz", "rm", "rp");
  const saturate = d.flag("satfinite");
  const dType = d.type("f16", "f32", "f64", "s32");
  const aType = d.type(...elementNames);
  const bType = d.type(...elementNames);
  const cType = d.type("f16", "f32", "f64", "s32");
  const bitOperation = d.option("xor", "and");
  if (bitOperation !== null) d.choice("popc");
  const { kind, bits } = elementTypes[aType];
  if (!typesAgree(aType, bType, cType, dType))
    d.refuse(`.${dType}.${aType}.${bType}.${cType} is no form of it`);
  if ((aType === "b1") !== (bitOperation !== null)) d.refuse("single bits are combined by .xor or .and");
  if (rounding !== null && kind !== "double") d.refuse("only .f64 has a rounding mode");
  if (saturate && kind !== "integer") d.refuse("only integers saturate");
  const fragments = fragmentsOf({
    shape,
    bits,
    cBits: accumulatorBits[cType],
    dBits: accumulatorBits[dType],
    aOrder,
    bOrder,
  });
  if (fragments === null) return d.refuse(`.${shape}.${aOrder}.${bOrder} does not exist for .${aType}`);
  const form: Form = {
    fragments,
    aType,
    bType,
    cType,
    dType,
    rounding: rounding ?? "rn",
    saturate,
    combine: bitOperation ?? "multiply",
    ...operands(d, fragments, aType, cType, dType),
  };
  return operationOf(form);
};

function typesAgree(a: ElementType, b: ElementType, c: AccumulatorType, d: AccumulatorType): boolean {
  const { kind, bits } = elementTypes[a];
  if (elementTypes[b].kind !== kind || elementTypes[b].bits !== bits) return false;
  switch (kind) {
    case "float":
      if (bits !== 8 && a !== b) return false;
      if (a === "bf16" || a === "tf32") return c === "f32" && d === "f32";
      // Volta alone has f32 results from f16 accumulators; its layout is the only one for that pair.
      return (c === "f16" || c === "f32") && (d === c || (d === "f32" && a === "f16"));
    case "double":
      return c === "f64" && d === "f64";
    case "integer":
      return c === "s32" && d === "s32";
    default:
      kind satisfies never;
      return false;
  }
}

function operands(
  d: Decoder,
  fragments: Fragments,
  aType: ElementType,
  cType: AccumulatorType,
  dType: AccumulatorType,
): Pick<Form, "a" | "b" | "c" | "d"> {
  const view = (type: AccumulatorType) => (type === "f32" || type === "f64" ? "float" : "int");
  const elements = aType === "f64" ? "float" : "int";
  return {
    d: registersIn(d, d.def(0, view(dType)), fragments.d.registers),
    a: registersIn(d, d.use(1, elements), fragments.a.registers),
    b: registersIn(d, d.use(2, elements), fragments.b.registers),
    c: registersIn(d, d.use(3, view(cType)), fragments.c.registers),
  };
}

function operationOf(form: Form): Operation {
  const { kind } = elementTypes[form.aType];
  const read = [...form.a, ...form.b, ...form.c];
  return aligned((machine, instruction: Instruction) => {
    const run =
      kind === "float"
        ? floatProduct(machine, form)
        : kind === "double"
          ? doubleProduct(machine, form)
          : integerProduct(machine, form);
    return (warp) => {
      checkWritten(machine, instruction, warp, read);
      run(warp);
      markWritten(machine, warp, form.d);
    };
  });
}

// ---------------------------------------------------------------- floating point

const isOperandFormat = (type: ElementType): type is OperandFormat => elementTypes[type].kind === "float";

function floatProduct(machine: Machine, form: Form): (warp: Warp) => void {
  const { fragments, aType, bType, dType } = form;
  const { m, n, k, tiles } = fragments;
  if (!isOperandFormat(aType) || !isOperandFormat(bType)) return () => undefined;
  const known = stepOf(machine.arithmetic, aType);
  const { unpacked } = known;
  // Unpacked: the lower two of each four elements fill the first half of K, which is one step.
  const place = (at: number): number => ((at & 2) === 0 ? 0 : k / 2) + (at >> 2) * 2 + (at & 1);
  const index = unpacked ? indicesOf(fragments, place) : indicesOf(fragments);
  const arithmetic = unpacked ? { ...known, step: k / 2 } : known;
  const half = dType === "f16";
  const shape = {
    aKind: unpacked ? "f16" : aType,
    bKind: unpacked ? "f16" : bType,
    m,
    n,
    k,
    accumulator: half ? "f16" : "f32",
  } as const;
  const a = new Float32Array(m * k * tiles);
  const b = new Float32Array(n * k * tiles);
  const c = new Float32Array(m * n * tiles);
  const cBits = new Int32Array(c.buffer);
  // Tiles lie behind one another.
  const parts = Array.from({ length: tiles }, (_, t) => ({
    a: a.subarray(t * m * k, (t + 1) * m * k),
    b: b.subarray(t * n * k, (t + 1) * n * k),
    c: c.subarray(t * m * n, (t + 1) * m * n),
  }));
  const accumulators = new Float32Array(unpacked ? c.length : 0);
  const loadA = loader(machine, form.a, index.a, aType, a);
  const loadB = loader(machine, form.b, index.b, bType, b);
  return (warp) => {
    loadA(warp);
    loadB(warp);
    loadAccumulators(machine, warp, form, index.c, c, cBits);
    if (unpacked) {
      accumulators.set(c);
      c.fill(0);
    }
    for (const part of parts) stepDot(arithmetic, shape, part.a, part.b, part.c);
    if (unpacked) addAccumulators(accumulators, c, cBits, half);
    storeAccumulators(machine, warp, form, index.d, c, cBits);
  };
}

/** The accumulators added to products that started from zero, each sum rounded to nearest even. */
function addAccumulators(
  accumulators: Float32Array,
  c: Float32Array,
  cBits: Int32Array,
  half: boolean,
): void {
  for (let at = 0; at < c.length; at++) {
    const sum = (accumulators[at] as number) + (c[at] as number);
    if (Number.isNaN(sum)) cBits[at] = 0x7fffffff;
    else c[at] = half ? fromF16(toF16(sum)) : sum;
  }
}

/** Decodes an operand's registers. */
function loader(
  machine: Machine,
  registers: readonly Register[],
  index: Int32Array,
  format: OperandFormat,
  to: Float32Array,
): (warp: Warp) => void {
  if (format === "tf32") {
    const bits = new Int32Array(to.buffer);
    return (warp) => {
      const { words } = machine.arena;
      registers.forEach((register, r) => {
        const base = laneZero(warp, register);
        // A NaN whose bits all lie in the part that does not exist is an infinity.
        for (let l = 0; l < 32; l++)
          bits[index[r * 32 + l] as number] = (words[base + l] as number) & tf32Mask;
      });
    };
  }
  const { values } = operandTable(format);
  const bits = elementTypes[format].bits;
  const parts = 32 / bits;
  const mask = 2 ** bits - 1;
  return (warp) => {
    const { words } = machine.arena;
    let from = 0;
    for (const register of registers) {
      const base = laneZero(warp, register);
      for (let l = 0; l < 32; l++) {
        const word = words[base + l] as number;
        for (let p = 0; p < parts; p++) {
          to[index[from] as number] = values[(word >>> (p * bits)) & mask] as number;
          from += 1;
        }
      }
    }
  };
}

function loadAccumulators(
  machine: Machine,
  warp: Warp,
  { c, cType }: Form,
  index: Int32Array,
  values: Float32Array,
  bits: Int32Array,
): void {
  const { words } = machine.arena;
  c.forEach((register, r) => {
    const base = laneZero(warp, register);
    for (let l = 0; l < 32; l++) {
      const word = words[base + l] as number;
      if (cType === "f32") bits[index[r * 32 + l] as number] = word;
      else {
        values[index[(r * 32 + l) * 2] as number] = fromF16(word & 0xffff);
        values[index[(r * 32 + l) * 2 + 1] as number] = fromF16(word >>> 16);
      }
    }
  });
}

function storeAccumulators(
  machine: Machine,
  warp: Warp,
  { d, dType }: Form,
  index: Int32Array,
  values: Float32Array,
  bits: Int32Array,
): void {
  const { words } = machine.arena;
  d.forEach((register, r) => {
    const base = laneZero(warp, register);
    for (let l = 0; l < 32; l++) {
      if (dType === "f32") words[base + l] = bits[index[r * 32 + l] as number] as number;
      else {
        const low = toF16(values[index[(r * 32 + l) * 2] as number] as number);
        const high = toF16(values[index[(r * 32 + l) * 2 + 1] as number] as number);
        words[base + l] = low | (high << 16);
      }
    }
  });
}

// ---------------------------------------------------------------- f64

/** One fused multiply-add per element of K, in ascending order. */
function doubleProduct(machine: Machine, form: Form): (warp: Warp) => void {
  const { m, n, k } = form.fragments;
  const index = indicesOf(form.fragments);
  const a = new Float64Array(m * k);
  const b = new Float64Array(n * k);
  const c = new Float64Array(m * n);
  const { rounding } = form;
  return (warp) => {
    loadDoubles(machine, warp, form.a, index.a, a);
    loadDoubles(machine, warp, form.b, index.b, b);
    loadDoubles(machine, warp, form.c, index.c, c);
    for (let row = 0; row < m; row++)
      for (let column = 0; column < n; column++) {
        let sum = c[row * n + column] as number;
        for (let i = 0; i < k; i++) {
          const [x, y] = [a[row * k + i] as number, b[column * k + i] as number];
          sum = rounding === "rn" ? fmaNearest(x, y, sum) : fma64(x, y, sum, rounding);
        }
        c[row * n + column] = sum;
      }
    const { words } = machine.arena;
    form.d.forEach((register, r) => {
      for (let l = 0; l < 32; l++) {
        const value = c[index.d[r * 32 + l] as number] as number;
        const [low, high] = wordsOf64(warp, register, l);
        words[low] = doubleLow(value);
        words[high] = doubleHigh(value);
      }
    });
  };
}

const wordsOf64 = (warp: Warp, register: Register, lane: number): readonly [number, number] =>
  register.cls === "f64"
    ? [laneZero(warp, register) + 2 * lane, laneZero(warp, register) + 2 * lane + 1]
    : [laneZero(warp, register) + lane, laneZero(warp, register) + 32 + lane];

function loadDoubles(
  machine: Machine,
  warp: Warp,
  registers: readonly Register[],
  index: Int32Array,
  to: Float64Array,
): void {
  const { words } = machine.arena;
  registers.forEach((register, r) => {
    for (let l = 0; l < 32; l++) {
      const [low, high] = wordsOf64(warp, register, l);
      to[index[r * 32 + l] as number] = bitsDouble(words[low] as number, words[high] as number);
    }
  });
}

// ---------------------------------------------------------------- integers

/** Exact; beyond 32 bits the result wraps, or stops at the ends with .satfinite. */
function integerProduct(machine: Machine, form: Form): (warp: Warp) => void {
  const { m, n, k } = form.fragments;
  const { combine, saturate } = form;
  const index = indicesOf(form.fragments);
  const a = new Int16Array(m * k);
  const b = new Int16Array(n * k);
  const c = new Int32Array(m * n);
  return (warp) => {
    loadIntegers(machine, warp, form.a, index.a, form.aType, a);
    loadIntegers(machine, warp, form.b, index.b, form.bType, b);
    const { words } = machine.arena;
    form.c.forEach((register, r) => {
      const base = laneZero(warp, register);
      for (let l = 0; l < 32; l++) c[index.c[r * 32 + l] as number] = words[base + l] as number;
    });
    if (combine === "multiply") tileDotInt(form.fragments, a, b, c, saturate);
    else combineBits(combine, form.fragments, a, b, c);
    form.d.forEach((register, r) => {
      const base = laneZero(warp, register);
      for (let l = 0; l < 32; l++) words[base + l] = c[index.d[r * 32 + l] as number] as number;
    });
  };
}

/** Counts of the bits that .xor or .and leaves; they do not saturate. */
function combineBits(
  combine: "xor" | "and",
  { m, n, k }: Fragments,
  a: Int16Array,
  b: Int16Array,
  c: Int32Array,
): void {
  for (let row = 0; row < m; row++)
    for (let column = 0; column < n; column++) {
      let count = 0;
      for (let i = 0; i < k; i++) {
        const x = a[row * k + i] as number;
        const y = b[column * k + i] as number;
        count += combine === "xor" ? x ^ y : x & y;
      }
      c[row * n + column] = ((c[row * n + column] as number) + count) | 0;
    }
}

function loadIntegers(
  machine: Machine,
  warp: Warp,
  registers: readonly Register[],
  index: Int32Array,
  type: ElementType,
  to: Int16Array,
): void {
  const { words } = machine.arena;
  const { bits } = elementTypes[type];
  const parts = 32 / bits;
  const signed = type === "s8" || type === "s4";
  let from = 0;
  for (const register of registers) {
    const base = laneZero(warp, register);
    for (let l = 0; l < 32; l++) {
      const word = words[base + l] as number;
      for (let p = 0; p < parts; p++) {
        // Up to the top of the word, and back down with its sign or zeros.
        const top = word << (32 - bits * (p + 1));
        to[index[from] as number] = signed ? top >> (32 - bits) : top >>> (32 - bits);
        from += 1;
      }
    }
  }
}

export const mmaTable: Table = { mma };
