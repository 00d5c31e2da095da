/** Kernels visit the tiles that hosts compute: the instructions of each raster, run, give what `rasterTile` gives. */
import { createEmulator } from "@tilewright/emulator";
import { type Raster, rasterTile } from "@tilewright/ir";
import { addr, imm, moduleBuilder, param, printModule, special, vec } from "@tilewright/ptx";
import { describe, expect, test } from "vitest";
import { Code } from "../src/code.ts";
import { rasterise } from "../src/raster.ts";
import { Values } from "../src/values.ts";

const THREADS = 128;

/** Row and column of every number, by a kernel in which each thread computes one. */
function visited(raster: Raster, rows: number, cols: number): readonly (readonly number[])[] {
  const m = moduleBuilder({ version: [7, 0], target: "sm_70" });
  const k = m.entry("visit", { params: [{ name: "p", type: "u64" }] });
  const code = new Code();
  const [index, block, row, col] = k.regs("u32", 4, "x");
  const out = k.reg("u64");
  if (!index || !block || !row || !col) throw new Error("four registers");
  code.emit(null, "mov.u32", index, special("%tid.x"));
  code.emit(null, "mov.u32", block, special("%ctaid.x"));
  code.emit(null, "mad.lo.u32", index, block, imm(THREADS), index);
  const at = rasterise(
    { values: new Values(k, code, { first: 0, warps: THREADS / 32 }) },
    raster,
    rows,
    cols,
    index,
  );
  for (const [d, place] of [
    [row, at[0]],
    [col, at[1]],
  ] as const)
    code.emit(null, "mov.u32", d, place ?? imm(0));
  code.emit(null, "ld.param.u64", out, param("p"));
  code.emit(null, "mad.wide.u32", out, index, imm(8), out);
  code.emit(null, "st.global.v2.u32", addr(out), vec(row, col));
  code.emit(null, "ret");
  code.replay(k);
  const emulator = createEmulator();
  const module = emulator.load(printModule(m.build()));
  const blocks = Math.ceil((rows * cols) / THREADS);
  const buffer = emulator.alloc(blocks * THREADS * 8);
  if (!module.ok || !buffer.ok) throw new Error(JSON.stringify(module));
  const report = emulator.launch(module.value, "visit", {
    grid: [blocks, 1, 1],
    block: [THREADS, 1, 1],
    params: [buffer.value],
  });
  expect(report.ok && report.value.findings).toEqual([]);
  const bytes = emulator.read(buffer.value, rows * cols * 8);
  const words = new Uint32Array(bytes.buffer, bytes.byteOffset, rows * cols * 2);
  return Array.from({ length: rows * cols }, (_, t) => [words[2 * t] ?? -1, words[2 * t + 1] ?? -1]);
}

const grids = [
  [1, 5],
  [5, 1],
  [2, 2],
  [7, 3],
  [16, 16],
  [19, 37],
  [33, 18],
  [40, 8],
] as const;
const rasters: readonly Raster[] = [
  { kind: "row" },
  { kind: "col" },
  { kind: "grouped", group: 3 },
  { kind: "grouped", group: 8 },
  { kind: "snake", group: 1 },
  { kind: "snake", group: 4 },
  { kind: "blocked", group: 16 },
  { kind: "hilbert" },
];

describe.each(rasters)("%o", (raster) => {
  test.each(grids)("%i x %i tiles", (rows, cols) => {
    const places = visited(raster, rows, cols);
    expect(places).toEqual(places.map((_, t) => rasterTile(raster, [rows, cols], t)));
  });
});
