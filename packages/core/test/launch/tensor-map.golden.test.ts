/** `checkTensorMap` beside the verdicts of an H200's driver. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import {
  checkTensorMap,
  type TensorMapSpec,
  type TensorMapSwizzle,
  type TensorMapType,
  tensorMapInterleaves,
  tensorMapL2Promotions,
  tensorMapSwizzles,
  tensorMapTypes,
} from "../../src/launch/tensor-map.ts";
import { findTarget } from "../../src/targets/find.ts";

const lines = readFileSync(fileURLToPath(new URL("./tensor-maps-h200.txt", import.meta.url)), "utf8")
  .trim()
  .split("\n");
const types = Object.entries(tensorMapTypes)
  .sort(([, a], [, b]) => a.driver - b.driver)
  .map(([name]) => name as TensorMapType);
const swizzles = Object.keys(tensorMapSwizzles) as TensorMapSwizzle[];

/** A line: type, rank, address, dims, strides, box, element strides, interleave, swizzle, promotion, fill; null for numbers beyond the enumerations. */
function parse(line: string): TensorMapSpec | null {
  const numbers = line.split(" ").map(Number);
  let at = 0;
  const next = (): number => numbers[at++] ?? 0;
  const list = (n: number): number[] => Array.from({ length: Math.max(0, n) }, next);
  const dtype = types[next()];
  const rank = next();
  const address = BigInt(0x1_0000_0000 + next());
  const [dims, strides, box, elementStrides] = [list(rank), list(rank - 1), list(rank), list(rank)];
  const interleave = tensorMapInterleaves[next()];
  const swizzle = swizzles[next()];
  const l2 = tensorMapL2Promotions[next()];
  const fill = (["zero", "nan"] as const)[next()];
  if (!dtype || !interleave || !swizzle || !l2 || !fill) return null;
  return { dtype, address, dims, strides, box, elementStrides, interleave, swizzle, l2, fill };
}

test("the driver encodes what the check passes, and nothing else", () => {
  const target = findTarget("sm_90a");
  if (!target.ok) throw new Error("sm_90a");
  let compared = 0;
  const wrong = lines.filter((line) => {
    const spec = parse(line);
    if (spec === null) return false;
    // The header forbids other swizzles with interleave 32B; the driver lets them pass.
    if (spec.interleave === "32B" && spec.swizzle !== "32B") return false;
    compared += 1;
    return (checkTensorMap(spec, target.value).length === 0) !== line.endsWith("yes");
  });
  expect(wrong).toEqual([]);
  expect(compared).toBeGreaterThan(700);
});
