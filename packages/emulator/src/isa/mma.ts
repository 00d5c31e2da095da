/** mma.sync: products of fragments that a warp's lanes hold in registers. PTX ISA 9.0, chapter 9.7.14.5. */
import type { Operation, Register } from "../load/types.ts";
import type { Execution, Machine, Warp } from "../machine/state.ts";
import { decodeRow } from "../numerics/decode-rows.ts";
import { fromF16, toF16 } from "../numerics/floats.ts";
import { operandTable, tf32Mask } from "../numerics/operands.ts";
import { type ScaleFactors, scaledDot } from "../numerics/scaled-dot.ts";
import { gatherStored } from "../numerics/sparsity.ts";
import { stepDot } from "../numerics/tensor-dot.ts";
import { stepOf, type TensorKind } from "../numerics/tensorcore.ts";
import { aligned, checkWritten, laneZero, markWritten, registersIn } from "./aligned.ts";
import { type Fragments, fragmentsOf } from "./fragments.ts";
import { doubleProduct } from "./mma-double.ts";
import {
  type AccumulatorType,
  accumulatorBits,
  accumulatorNames,
  type BlockScales,
  type ElementType,
  elementNames,
  elementTypes,
  type Form,
  indicesOf,
  type ScaleOperand,
  shapes,
} from "./mma-forms.ts";
import { integerProduct } from "./mma-integer.ts";
import { fragmentProduct } from "./register-rows.ts";
import type { Decoder, Row, Table } from "./row.ts";
import { decodeSparsity, type StoredPositions, storedPositions } from "./sparse.ts";

const mma: Row = (d) => {
  const sparse = d.option("sp", "sp::ordered_metadata");
  const shape = d.choice(...shapes);
  const aOrder = d.choice("row", "col");
  const bOrder = d.choice("row", "col");
  const rounding = d.option("rn", "rz", "rm", "rp");
  const narrow = d.option("kind::f8f6f4", "kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4");
  const packed = narrow === "kind::mxf4" || narrow === "kind::mxf4nvf4";
  const scaled = d.flag("block_scale");
  const vector = d.option("scale_vec::1X", "scale_vec::2X", "scale_vec::4X");
  const saturate = d.flag("satfinite");
  const dType = d.choice(...accumulatorNames);
  const aType = d.choice(...elementNames);
  const bType = d.choice(...elementNames);
  const cType = d.choice(...accumulatorNames);
  const bitOperation = d.option("xor", "and");
  if (bitOperation !== null) d.choice("popc");
  const scaleType = scaled ? d.choice("ue8m0", "ue4m3") : null;
  const bits = packed ? 4 : elementTypes[aType].bits;
  const fragments = fragmentsOf({
    shape,
    bits,
    cBits: accumulatorBits[cType],
    dBits: accumulatorBits[dType],
    aOrder,
    bOrder,
    sparse: sparse !== null,
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
    ...productOperands(d, fragments, aType, cType, dType),
    packed,
    scales:
      scaleType === null
        ? null
        : decodeScales(
            d,
            scaleType,
            vector === "scale_vec::4X" ? 4 : packed ? 2 : 1,
            sparse === null ? 4 : 6,
          ),
    sparsity: sparse === null ? null : decodeSparsity(d, 4, sparse === "sp::ordered_metadata"),
  };
  return productOf(form);
};

/** The registers of D, A, B and C, in this order. */
export function productOperands(
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

/** The operation of a form; all lanes of the warp take part. */
export function productOf(form: Form): Operation {
  const { kind } = elementTypes[form.aType];
  const { sparsity } = form;
  const further = [
    ...(sparsity === null ? [] : [sparsity.metadata]),
    ...(form.scales === null ? [] : [form.scales.a.register, form.scales.b.register]),
  ];
  const read = [...form.a, ...form.b, ...form.c, ...further];
  return aligned((machine) => {
    const stored =
      sparsity === null
        ? null
        : storedPositions(sparsity, {
            bits: form.packed ? 4 : elementTypes[form.aType].bits,
            k: form.fragments.k,
          });
    const run =
      kind === "float"
        ? floatProduct(machine, form, stored)
        : kind === "double"
          ? doubleProduct(machine, form)
          : integerProduct(machine, form, stored);
    return (by) => {
      checkWritten(by, read);
      run(by);
      markWritten(machine, by.warp, form.d);
    };
  });
}

// ---------------------------------------------------------------- floating point

const isTensorKind = (type: ElementType): type is TensorKind => elementTypes[type].kind === "float";

function floatProduct(machine: Machine, form: Form, stored: StoredPositions): (by: Execution) => void {
  const { fragments, aType, bType, dType } = form;
  const { m, n, k, tiles } = fragments;
  // Of a sparse A half the columns are stored, and the tensor core adds up products of those alone.
  const depth = stored === null ? k : k / 2;
  if (!isTensorKind(aType) || !isTensorKind(bType)) return () => undefined;
  const of = stepOf(machine.arithmetic, aType);
  // wmma.mma of tf32 is two products of 4 elements of K, where mma.sync takes 8 at once: an H100 has these bits in all of cuda-samples' tf32 products.
  const known = aType === "tf32" && n === 16 ? { ...of, step: Math.min(of.step, 4) } : of;
  const { unpacked } = known;
  // Unpacked: the lower two of each four elements fill the first half of K, which is one step.
  const place = (at: number): number =>
    unpacked ? ((at & 2) === 0 ? 0 : depth / 2) + (at >> 2) * 2 + (at & 1) : at;
  const index = indicesOf(fragments, place, stored === null ? place : (at) => at);
  const arithmetic = unpacked ? { ...known, step: depth / 2 } : known;
  const inPlace = fragmentProduct(machine, form, index, arithmetic);
  if (inPlace !== null) return inPlace;
  const half = dType === "f16";
  const shape = {
    aKind: unpacked ? "f16" : aType,
    bKind: unpacked ? "f16" : bType,
    m: stored === null ? m : 1,
    n,
    k: depth,
    accumulator: half ? "f16" : "f32",
  } as const;
  const a = new Float32Array(m * depth * tiles);
  const b = new Float32Array(n * k * tiles);
  const c = new Float32Array(m * n * tiles);
  const cBits = new Int32Array(c.buffer);
  const met = new Float32Array(n * depth);
  // Tiles lie behind one another. Each row of a sparse A meets elements of B of its own.
  const parts = Array.from({ length: stored === null ? tiles : m }, (_, t) => ({
    a: a.subarray(t * shape.m * depth, (t + 1) * shape.m * depth),
    b: stored === null ? b.subarray(t * n * k, (t + 1) * n * k) : met,
    c: c.subarray(t * shape.m * n, (t + 1) * shape.m * n),
  }));
  const accumulators = new Float32Array(unpacked ? c.length : 0);
  const loadA = loader(machine, form.a, index.a, aType, form.packed, a);
  const loadB = loader(machine, form.b, index.b, bType, form.packed, b);
  const loadScales = form.scales === null ? null : scaleLoader(machine, form.scales, fragments, depth);
  return (by) => {
    const { warp } = by;
    loadA(warp);
    loadB(warp);
    loadAccumulators(machine, warp, form, index.c, c, cBits);
    if (unpacked) {
      accumulators.set(c);
      c.fill(0);
    }
    const positions = stored?.(by);
    for (const [row, part] of parts.entries()) {
      if (positions !== undefined) gatherStored(b, k, positions, row, met, place);
      if (loadScales === null) stepDot(arithmetic, shape, part.a, part.b, part.c);
      else scaledDot(shape, part.a, part.b, part.c, loadScales(warp, row));
    }
    if (unpacked) addAccumulators(accumulators, c, cBits, half);
    storeAccumulators(machine, warp, form, index.d, c, cBits);
  };
}

/** Registers of scale factors and their selectors, four operands from `first` on. */
function decodeScales(
  d: Decoder,
  format: BlockScales["format"],
  count: BlockScales["count"],
  first: number,
): BlockScales {
  const operand = (index: number): ScaleOperand => {
    const [register] = registersIn(d, d.use(index, "int"), 1);
    const selector = d.use(index + 1, "int");
    const [byte, thread] = selector.kind === "vector" ? selector.elements : [];
    if (register === undefined || byte === undefined || thread === undefined)
      return d.refuse("scale factors have a register, and a byte and a thread in braces");
    return { register, byte, thread };
  };
  return { format, count, a: operand(first), b: operand(first + 2) };
}

/** The factors that the selectors choose: rows i and i + 8 of A have the first or the second two lanes of four, columns of B any lane. */
function scaleLoader(
  machine: Machine,
  { format, count, a, b }: BlockScales,
  { m, n }: Fragments,
  depth: number,
): (warp: Warp, part: number) => ScaleFactors {
  const bytes = new Uint8Array(Math.max(m, n) * count);
  const factors: ScaleFactors = {
    block: depth / count === 16 ? 16 : 32,
    format,
    a: new Float32Array(m * count),
    b: new Float32Array(n * count),
  };
  const load = (
    warp: Warp,
    operand: ScaleOperand,
    lane: (row: number, thread: number) => number,
    to: Float32Array,
  ): void => {
    const { words } = machine.arena;
    const [byte, thread] = [
      machine.lane(warp, operand.byte, 0) & 3,
      machine.lane(warp, operand.thread, 0) & 3,
    ];
    for (let row = 0; row < to.length / count; row++) {
      const word = words[laneZero(warp, operand.register) + lane(row, thread)] as number;
      for (let i = 0; i < count; i++) bytes[row * count + i] = word >>> (8 * (byte + i));
    }
    decodeRow(format, bytes, 0, to.length, to, 0);
  };
  return (warp, part) => {
    load(warp, a, (row, thread) => (row & 7) * 4 + (thread & 1) * 2 + (row >> 3), factors.a);
    load(warp, b, (column, thread) => column * 4 + thread, factors.b);
    // Rows of a sparse A are multiplied one by one.
    return { ...factors, a: factors.a.subarray(part * count) };
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
  format: TensorKind,
  packed: boolean,
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
  const bits = packed ? 4 : elementTypes[format].bits;
  const parts = 32 / bits;
  const mask = values.length - 1;
  // In a byte of its own an element of 4 bits has bits 2 to 5.
  const low = format === "e2m1" && !packed ? 2 : 0;
  return (warp) => {
    const { words } = machine.arena;
    let from = 0;
    for (const register of registers) {
      const base = laneZero(warp, register);
      for (let l = 0; l < 32; l++) {
        const word = words[base + l] as number;
        for (let p = 0; p < parts; p++) {
          to[index[from] as number] = values[(word >>> (p * bits + low)) & mask] as number;
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

export const mmaTable: Table = { mma };
