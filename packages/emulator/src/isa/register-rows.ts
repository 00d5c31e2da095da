/** Operands of matrix instructions that lie in registers, as the bytes of their rows. */
import type { Register } from "../load/types.ts";
import type { Execution, Machine, Warp } from "../machine/state.ts";
import { fragmentDot, fragmentUnit, fragmentWord } from "../numerics/tensor-dot.ts";
import type { StepArithmetic } from "../numerics/tensorcore.ts";
import { laneZero } from "./aligned.ts";
import { elementTypes, type Form } from "./mma-forms.ts";

/**
 * Puts a warp's registers where their elements stand in rows, into `rows` from a word on. `index` numbers the elements by register, lane and part
 * (fragmentIndex); the `parts` of a register are neighbours in a row.
 */
export function rowsOfRegisters(
  machine: Machine,
  registers: readonly Register[],
  index: Int32Array,
  parts: number,
): (warp: Warp, rows: Int32Array, from: number) => void {
  const places = index.filter((_, k) => k % parts === 0).map((at) => at / parts);
  return (warp, rows, from) => {
    const { words } = machine.arena;
    let k = 0;
    for (const register of registers) {
      const base = laneZero(warp, register);
      for (let l = 0; l < 32; l++, k++) rows[from + (places[k] as number)] = words[base + l] as number;
    }
  };
}

/**
 * mma.sync in its usual form: a tile of 16 rows, elements of 16 bits, f32 accumulators, which the code takes as the registers have them. Null where the
 * form is another one, or the host has no such code.
 */
export function fragmentProduct(
  machine: Machine,
  form: Form,
  index: { readonly a: Int32Array; readonly b: Int32Array },
  arithmetic: StepArithmetic,
): ((by: Execution) => void) | null {
  const { m, n, k, tiles } = form.fragments;
  const { aType: aKind, bType: bKind } = form;
  const dense = form.sparsity === null && form.scales === null && tiles === 1 && !arithmetic.unpacked;
  const wide = form.cType === "f32" && form.dType === "f32" && m === 16;
  if (!dense || !wide || (aKind !== "f16" && aKind !== "bf16") || elementTypes[bKind].bits !== 16)
    return null;
  const unit = fragmentUnit(arithmetic, k);
  if (unit === null) return null;
  const shape = { aKind, bKind: aKind, m, n, k, accumulator: "f32" } as const;
  const operand = (registers: readonly Register[], numbers: Int32Array, count: number) => {
    const rows = new Int32Array(count / 2);
    const bytes = new Uint8Array(rows.buffer);
    const load = rowsOfRegisters(machine, registers, numbers, 2);
    return { load: (warp: Warp) => load(warp, rows, 0), elements: { bytes: () => bytes, negated: false } };
  };
  const [a, b] = [operand(form.a, index.a, m * k), operand(form.b, index.b, n * k)];
  return ({ warp }) => {
    const { words } = machine.arena;
    a.load(warp);
    b.load(warp);
    form.c.forEach((register, r) => {
      const [to, from] = [fragmentWord(r), laneZero(warp, register)];
      for (let l = 0; l < 32; l++) unit.words[to + l] = words[from + l] as number;
    });
    fragmentDot(unit, arithmetic, shape, a.elements, b.elements);
    form.d.forEach((register, r) => {
      const [to, from] = [laneZero(warp, register), fragmentWord(r)];
      for (let l = 0; l < 32; l++) words[to + l] = unit.words[from + l] as number;
    });
  };
}
