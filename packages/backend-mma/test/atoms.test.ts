/** Matrix instructions as data: every fragment is a bijection, and is where the emulator's instruction has it. */

import {
  bytesOfStorage,
  type DType,
  dtypes,
  formatDiagnostic,
  isScaled,
  makeStorage,
  readElement,
  scaledTypes,
  sizeOf,
  storageFromBytes,
  writeElement,
} from "@tilewright/core";
import { createEmulator } from "@tilewright/emulator";
import {
  type Atom,
  atoms,
  elementsPerRegister,
  modeCoordinate,
  type Ownership,
  type OwnershipMode,
  ownedRegisters,
} from "@tilewright/ir";
import { describe, expect, test } from "vitest";

const LANES = 32;

/** Element (row, col) of each register of each lane. */
function fragment(own: Ownership): { lane: number; register: number; row: number; col: number }[] {
  return ownedRegisters(own).flatMap(({ register, row, col }) =>
    Array.from({ length: LANES }, (_, lane) => {
      const at = (factors: readonly OwnershipMode[]): number => modeCoordinate(factors, { thread: lane });
      return { lane, register, row: row + at(own.rows), col: col + at(own.cols) };
    }),
  );
}

/** Of an atom that takes f32 apart, the instruction's types. */
const multiplied = (atom: Atom, dtype: DType): DType => (atom.precision === null ? dtype : "tf32");

const operands = (atom: Atom) =>
  [
    ["a", multiplied(atom, atom.a), atom.m, atom.k],
    ["b", multiplied(atom, atom.b), atom.k, atom.n],
    ["acc", atom.acc, atom.m, atom.n],
  ] as const;

describe.each(atoms.map((atom) => [atom.name, atom] as const))("%s", (_name, atom) => {
  test.each(operands(atom))(
    "%s: each element belongs to one register of one lane",
    (which, _type, rows, cols) => {
      const places = fragment(atom.fragments[which]).map(({ row, col }) => row * cols + col);
      expect(places.sort((x, y) => x - y)).toEqual(Array.from({ length: rows * cols }, (_, i) => i));
    },
  );

  test("multiplies as the emulator does", () => {
    const value = (which: string, row: number, col: number): number =>
      atom.a === "u8" || atom.b === "u8"
        ? (row * 5 + col * 3 + which.length) % 4
        : ((row * 5 + col * 3 + which.length) % 7) - 3;
    const images = new Map(
      operands(atom).map(([which, dtype]) => [
        which,
        imageOf(atom.fragments[which], dtype, (r, c) => value(which, r, c)),
      ]),
    );
    const d = run(atom, images);
    for (const { lane, register, row, col } of fragment(atom.fragments.acc)) {
      let sum = value("acc", row, col);
      for (let k = 0; k < atom.k; k++) sum += value("a", row, k) * value("b", k, col);
      expect(readElement(atom.acc, d, lane * perLane(atom.fragments.acc) + register), `${row}, ${col}`).toBe(
        sum,
      );
    }
  });
});

const perLane = (own: Ownership): number => ownedRegisters(own).length;

/** A fragment as lanes hold it: all elements of lane 0 in the order of their numbers, then lane 1's. */
function imageOf(own: Ownership, dtype: DType, value: (row: number, col: number) => number): Uint8Array {
  const storage = makeStorage(dtype, LANES * perLane(own));
  for (const { lane, register, row, col } of fragment(own))
    writeElement(dtype, storage, lane * perLane(own) + register, value(row, col));
  return bytesOfStorage(storage);
}

/** Each lane loads its registers, multiplies, and stores what it holds of D. */
function run(atom: Atom, images: ReadonlyMap<string, Uint8Array>) {
  const type = (dtype: DType): string =>
    dtype === "f32" || dtype === "f64" || dtype === "s32" ? dtype : "b32";
  const lines: string[] = [];
  const names = new Map<string, readonly string[]>();
  for (const [which, dtype] of operands(atom)) {
    const own = atom.fragments[which];
    const count = perLane(own) / elementsPerRegister(dtype);
    const size = Math.max(4, sizeOf(dtype));
    names.set(
      which,
      Array.from({ length: count }, (_, i) => `%${which}${i}`),
    );
    lines.push(`.reg .${type(dtype)} %${which}<${count}>;`, `ld.param.u64 %p, [p_${which}];`);
    lines.push(`mad.wide.u32 %p, %t, ${count * size}, %p;`);
    for (let i = 0; i < count; i++) lines.push(`ld.global.${type(dtype)} %${which}${i}, [%p+${i * size}];`);
  }
  const list = (which: string, step = 0, steps = 1): string => {
    const all = names.get(which) ?? [];
    return `{${all.slice((step * all.length) / steps, ((step + 1) * all.length) / steps).join(", ")}}`;
  };
  const { scaledForm } = atom;
  const scale = isScaled(atom.a) ? scaledTypes[atom.a].scale : null;
  const types =
    scaledForm ?? `${atom.acc}.${multiplied(atom, atom.a)}.${multiplied(atom, atom.b)}.${atom.acc}`;
  const form = `mma.sync.aligned.${atom.shape}.row.col.${types}`;
  // Factors of 1, of all rows and columns.
  const factors = scale === null ? "" : ", {%one}, {0, 0}, {%one}, {0, 0}";
  lines.push(".reg .b32 %one;", `mov.b32 %one, ${scale === "ue4m3" ? 0x38383838 : 0x7f7f7f7f};`);
  for (let step = 0; step < atom.steps; step++)
    lines.push(
      `${form} ${list("acc")}, ${list("a", step, atom.steps)}, ${list("b", step, atom.steps)}, ${list("acc")}${factors};`,
    );
  const size = Math.max(4, sizeOf(atom.acc));
  for (const [i, name] of (names.get("acc") ?? []).entries())
    lines.push(`st.global.${type(atom.acc)} [%p+${i * size}], ${name};`);
  const ptx = `.version ${scale === null ? "8.4" : "8.7"}
.target ${scale === null ? "sm_89" : "sm_120a"}
.address_size 64
.visible .entry k(.param .u64 p_a, .param .u64 p_b, .param .u64 p_acc)
.maxntid 32
{
.reg .u64 %p;
.reg .u32 %t;
mov.u32 %t, %tid.x;
${lines.join("\n")}
ret;
}
`;
  const emulator = createEmulator();
  const module = emulator.load(ptx);
  if (!module.ok) throw new Error(module.error.map(formatDiagnostic).join("\n"));
  const pointers = operands(atom).map(([which]) => {
    const bytes = images.get(which) ?? new Uint8Array();
    const pointer = emulator.alloc(bytes.byteLength);
    if (!pointer.ok) throw new Error("no memory");
    emulator.write(pointer.value, bytes);
    return pointer.value;
  });
  const report = emulator.launch(module.value, "k", {
    grid: [1, 1, 1],
    block: [LANES, 1, 1],
    params: pointers,
  });
  expect(report.ok && report.value.findings).toEqual([]);
  const count = LANES * perLane(atom.fragments.acc);
  const bytes = emulator.read(pointers[2] ?? 0n, Math.ceil((count * dtypes[atom.acc].bits) / 8));
  return storageFromBytes(atom.acc, bytes, count);
}
