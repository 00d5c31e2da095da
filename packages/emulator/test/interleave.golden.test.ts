/** Copies of interleaved tensor maps, as an H100 does them: which bytes go where, what the driver refuses and what traps. */
import { sha256, type TensorMapSpec, tensorMapInterleaves } from "@tilewright/core";
import { expect, test } from "vitest";
import { createEmulator } from "../src/index.ts";
import { fixture, orders } from "./support.ts";
import { Replay } from "./tma-replay.ts";

interface Recorded {
  readonly op: "load" | "store" | "pixels";
  readonly dims: number[];
  readonly strides: number[];
  readonly box: number[];
  readonly at: number[];
  readonly interleave: number;
  readonly swizzle: number;
  readonly dtype?: TensorMapSpec["dtype"];
  readonly elementStrides?: number[];
  readonly nan?: number;
  readonly lower?: number[];
  readonly upper?: number[];
  /** That a barrier counts. */
  readonly bytes?: number;
  /** "refused", "trap", or a hash of where the numbers of what was copied lie. */
  readonly got: string;
}

/** Stretches of ascending numbers, or of zeros, as (place, first number, length). */
function stretches(words: Uint16Array): string {
  const runs: { at: number; first: number; count: number }[] = [];
  words.forEach((word, i) => {
    if (word === 0xffff) return;
    const last = runs.at(-1);
    const follows = last !== undefined && last.at + last.count === i;
    if (follows && (last.first + last.count === word || (word === 0 && last.first === 0))) last.count += 1;
    else runs.push({ at: i, first: word, count: 1 });
  });
  return runs.map(({ at, first, count }) => `${at},${first},${count}`).join(";");
}

test("170 copies of maps with slices of 16 and 32 bytes", () => {
  const replay = new Replay();
  const wrong: string[] = [];
  const lines = fixture("golden/interleave-h100.jsonl").trim().split("\n");
  lines.forEach((line, k) => {
    const c: Recorded = JSON.parse(line);
    const spec: TensorMapSpec = {
      dtype: c.dtype ?? "u16",
      address: 0n,
      ...{ dims: c.dims, strides: c.strides, box: c.box },
      elementStrides: c.elementStrides ?? c.dims.map(() => 1),
      interleave: tensorMapInterleaves[c.interleave] ?? "none",
      swizzle: (["none", "32B", "64B", "128B"] as const)[c.swizzle] ?? "none",
      l2: "none",
      fill: c.nan === 1 ? "nan" : "zero",
      ...(c.lower === undefined || c.upper === undefined
        ? {}
        : { im2col: { lower: c.lower, upper: c.upper } }),
    };
    if (c.got === "refused") {
      if (createEmulator().encodeTensorMap(spec).ok) wrong.push(`${line}: taken`);
      return;
    }
    const op = { load: 0, store: 1, pixels: 10 }[c.op];
    const { report, image } = replay.run(
      { op, spec, coordinates: c.at, offset: 0, bytes: c.bytes ?? 0, seeds: [0, 0], numbered: true },
      orders[k % orders.length] ?? "eager",
    );
    const rules = report.findings.map(({ rule, message }) => `${rule} ${message}`);
    if (c.got === "trap") {
      if (!rules[0]?.startsWith("H051")) wrong.push(`${line}: ${rules}`);
    } else if (rules.length > 0) wrong.push(`${line}: ${rules}`);
    else if (!sha256(stretches(new Uint16Array(image.slice().buffer))).startsWith(c.got))
      wrong.push(`${line}: ${stretches(new Uint16Array(image.slice().buffer)).slice(0, 80)}`);
  });
  expect(lines.length).toBe(170);
  expect(wrong).toEqual([]);
});
