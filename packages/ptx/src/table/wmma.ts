/**
 * Matrices in fragments whose layout is the hardware's own: wmma (PTX ISA 9.0 §9.7.14.4). The rows are made from the table of
 * fragments; the builder has no types for them.
 */
import type { InstructionRow, Requirement } from "./row.ts";

interface Fragments extends Requirement {
  readonly shapes: readonly string[];
  /** Type of A's and B's elements, and the registers that hold them, by shape. */
  readonly type: string;
  readonly registers: string;
  readonly a: readonly number[];
  readonly b: readonly number[];
  /** Types of C and D, with the registers of each. */
  readonly sums: readonly (readonly [type: string, registers: string])[];
  /** Sub-byte elements stand by rows in A and by columns in B. */
  readonly fixed?: true;
}

const SQUARE = ["m16n16k16", "m8n32k16", "m32n8k16"];
const HALF_SUMS = [
  ["f16", "f16x2*4"],
  ["f32", "f32*8"],
] as const;
const SUMS = [["f32", "f32*8"]] as const;
const NARROW = { registers: "u32", a: [1], b: [1], sums: [["s32", "s32*2"]], fixed: true } as const;

/** Fragments of A and of B, by shape, in registers of one type. */
const held = (
  shapes: Fragments["shapes"],
  registers: string,
  a: readonly number[],
  b: readonly number[],
  sums: Fragments["sums"],
) => ({ shapes, registers, a, b, sums });
const INTEGER = held(SQUARE, "u32", [2, 1, 4], [2, 4, 1], [["s32", "s32*8"]]);

const fragments: readonly Fragments[] = [
  { ...held(SQUARE, "f16x2", [8, 8, 8], [8, 8, 8], HALF_SUMS), type: "f16", since: [6, 1, 70] },
  { ...held(SQUARE, "word", [4, 2, 8], [4, 8, 2], SUMS), type: "bf16", since: [7, 0, 80] },
  { ...INTEGER, type: "u8", since: [6, 3, 72] },
  { ...INTEGER, type: "s8", since: [6, 3, 72] },
  { ...held(["m16n16k8"], "word", [4], [4], SUMS), type: "tf32", since: [7, 0, 80] },
  { ...held(["m8n8k4"], "f64", [1], [1], [["f64", "f64*2"]]), type: "f64", since: [7, 0, 80] },
  { ...NARROW, shapes: ["m8n8k32"], type: "u4", since: [6, 3, 75] },
  { ...NARROW, shapes: ["m8n8k32"], type: "s4", since: [6, 3, 75] },
  { ...NARROW, shapes: ["m8n8k128"], type: "b1", since: [6, 3, 75] },
];

const SS = "global|shared|shared::cta?";
const NEEDS = { "shared::cta": { since: [7, 8, 70] }, and: { since: [7, 1, 80] } } as const;

function rowsOf(row: Fragments): readonly InstructionRow[] {
  const { type, registers, sums, fixed, since } = row;
  const common = { since, needs: NEEDS, effect: "collective" } as const;
  const [byRows, byColumns] = fixed ? ["row", "col"] : ["row|col", "row|col"];
  return row.shapes.flatMap((shape, k): readonly InstructionRow[] => {
    const [a, b] = [`${registers}*${row.a[k]}`, `${registers}*${row.b[k]}`];
    const load = (part: string, order: string, of: string, vector: string): InstructionRow => ({
      opcode: `wmma.load.${part}`,
      mods: `sync aligned ${order} ${shape} ${SS} ${of}`,
      args: [`=${vector}`, "[]", "u32?"],
      ...common,
    });
    const products = sums.flatMap(([dType, d]) =>
      sums.map(([cType, c]): InstructionRow => {
        const combined = type === "b1" ? "xor|and popc " : "";
        const rounding = type === "f64" ? " rn|rz|rm|rp?" : "";
        const types = type === "f16" ? `${dType} ${cType}` : `${dType} ${type} ${type} ${cType}`;
        const saturated = dType === "s32" && type !== "b1" ? " satfinite?" : "";
        return {
          opcode: "wmma.mma",
          mods: `${combined}sync aligned ${byRows} ${byColumns} ${shape}${rounding} ${types}${saturated}`,
          args: [`=${d}`, `r:${a}`, `r:${b}`, `r:${c}`],
          ...common,
        };
      }),
    );
    return [
      load("a", byRows ?? "", type, a),
      load("b", byColumns ?? "", type, b),
      ...sums.flatMap(([sum, vector]): readonly InstructionRow[] => [
        load("c", "row|col", sum, vector),
        {
          opcode: "wmma.store.d",
          mods: `sync aligned row|col ${shape} ${SS} ${sum}`,
          args: ["[]", `r:${vector}`, "u32?"],
          ...common,
        },
      ]),
      ...products,
    ];
  });
}

export const wmmaRows: readonly InstructionRow[] = fragments.flatMap(rowsOf);
