/** Where parts of a tile that products read from registers are made, and schedules for programs of several products. */
import { must, targetOf } from "@tilewright/conformance";
import type { AttentionRequest } from "@tilewright/core";
import {
  anchorOf,
  attentionText,
  createCompiler,
  parseAxisProgram,
  printSchedule,
  readAttention,
  usualMachine,
} from "@tilewright/ir";
import { describe, expect, test } from "vitest";
import { mma } from "../src/backend.ts";

type Fields = Omit<AttentionRequest, "op">;

const target = targetOf("sm_80");
const base = { queries: 128, keys: 384, headDim: 64, dtype: "bf16" } as const;
const textOf = (fields: Partial<Fields>): string =>
  attentionText(must(readAttention({ op: "attention", ...base, ...fields })));
const bodyOf = (schedule: string, fields: Partial<Fields> = {}): readonly string[] => {
  const compiler = createCompiler({ backends: [mma] });
  const made = must(compiler.compile({ from: textOf(fields), schedule, target }));
  return (made.trace.at(-1)?.text() ?? "").split("\n").map((line) => line.trim());
};
const tall = "tile=64x64x64 warp=32x64 stages=2 frag=1 chainTile=64x64 conditionalRescale=on spreadMaps";

describe("spreadMaps", () => {
  const step = "[0 : 64, %stt * 64 + %kk * 16 : 16]";
  test("each step makes its columns, and sums of rows stand behind the loop", () => {
    const body = bodyOf(`${tall}=on`);
    const [scores, weights, product, sum] = ["map %S[", "map %P[", "mma %acc", "reduce.row %y"].map((begin) =>
      body.findIndex((line) => line.startsWith(begin)),
    );
    expect(body[scores ?? 0]).toBe(`map %S${step} = exp2(fma(%S${step},0.18033688011112042,%w))`);
    expect(body[weights ?? 0]).toBe(`map %P${step} = %S${step}`);
    expect([scores, weights, product, sum]).toEqual(
      [scores, weights, product, sum].toSorted((x, y) => (x ?? 0) - (y ?? 0)),
    );
    expect(bodyOf(`${tall}=off`)).toContain("map %P = %S");
  });
  test("weights behind the last key are 0 as their scores are -inf, and no condition stands between the maps", () => {
    const body = bodyOf(`${tall}=on`, { keys: 390 });
    expect(body).toContain(`map %P${step} = %S${step}`);
    expect(body.filter((line) => line.includes("select(col"))).toEqual([
      "map %S = select(col[%st * 64],390,%S,(-inf))",
    ]);
  });
  test("a tile in memory, which other warps read, stays whole", () => {
    const schedule = "tile=64x64x64 warp=32x32 stages=2 frag=1 spreadMaps";
    expect(bodyOf(`${schedule}=on`)).toEqual(bodyOf(`${schedule}=off`));
  });
});

describe("chains", () => {
  const first = (fields: Partial<Fields>, arch = "sm_80"): string | null => {
    const anchor = must(anchorOf(must(parseAxisProgram(textOf({ queries: 8192, keys: 8192, ...fields })))));
    const on = targetOf(arch);
    const machine = usualMachine(on);
    const [schedule] = mma.chains?.(anchor.problem, on, machine, anchor) ?? [];
    return schedule === undefined ? null : printSchedule(mma.schedule, schedule);
  };
  const wide = { headDim: 128, heads: 16 };
  test("warps of 32 rows where tiles are enough, parts of 64 beside 128 columns and of 128 beside 64", () => {
    expect(first(wide)).toMatch(
      /^tile=128x128x128 warp=32x128 .*chainTile=64x64 .*conditionalRescale=on spreadMaps=on/,
    );
    expect(first({ heads: 32 })).toMatch(/chainTile=128x128 .*conditionalRescale=off spreadMaps=on/);
    expect(first({ ...wide, heads: 1 })).toBeNull();
    expect(first({ ...wide, headDim: 192 })).toBeNull();
  });
  test("beside caps and what maps read narrow parts, and of many columns maps in one place", () => {
    for (const more of [{ softCap: 30 }, { bias: "hqs" }, { alibi: true }] as const) {
      expect(first({ ...wide, ...more })).toContain("spreadMaps=off");
      expect(first({ heads: 32, ...more })).toMatch(/chainTile=64x64 .*spreadMaps=on/);
    }
  });
  test("in shared memory of 99 KiB, beside bulk copies and for runs of rows, too", () => {
    for (const arch of ["sm_86", "sm_89", "sm_90", "sm_120a"]) expect(first(wide, arch)).toBe(first(wide));
    expect(first({ ...wide, offsets: "both", batch: 2 })).toBe(first(wide));
  });
});
