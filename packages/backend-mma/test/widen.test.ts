/** e4m3 beside 16 bits: every finite element keeps its value, whether its fragments' pairs are neighbours in memory or not. */
import { problemOf, targetOf } from "@tilewright/conformance";
import { bytesOfStorage, decodeArray, encodeArray, storageFromBytes } from "@tilewright/core";
import { createCompiler } from "@tilewright/ir";
import { openDevice, runGemm } from "@tilewright/runtime";
import { expect, test } from "vitest";
import { mma } from "../src/index.ts";

/** NaN is the one code that is no number. */
const codes = Uint8Array.from({ length: 256 }, (_, code) => ((code & 0x7f) === 0x7f ? 0 : code));
const unit = Array.from({ length: 256 }, (_, i) => (i % 17 === 0 ? 1 : 0));

test.each(
  (["f16", "bf16"] as const).flatMap((wide) =>
    (["a", "b"] as const).flatMap((narrow) =>
      (["row", "col"] as const).map((layout) => [wide, narrow, layout] as const),
    ),
  ),
)("%s beside %s of e4m3 by %s", async (wide, narrow, layout) => {
  using device = await emulator();
  const other = narrow === "a" ? "b" : "a";
  const operands = { [narrow]: { dtype: "e4m3", layout }, [other]: { dtype: wide, layout: "row" } };
  const problem = problemOf({ m: 16, n: 16, k: 16, ...operands, d: { dtype: "f32", layout } });
  const artifact = createCompiler({ backends: [mma] }).compile({ problem, target: targetOf("sm_80") });
  if (!artifact.ok) throw new Error(JSON.stringify(artifact.error));
  const units = bytesOfStorage(encodeArray(wide, unit));
  const [a, b] = narrow === "a" ? [codes, units] : [units, codes];
  const ran = await runGemm(device, artifact.value, { a, b });
  if (!ran.ok) throw new Error(JSON.stringify(ran.error));
  const d = decodeArray("f32", storageFromBytes("f32", ran.value.d, 256));
  // Sums begin with a 0 that is positive.
  expect([...d]).toEqual([...decodeArray("e4m3", codes)].map((value) => value + 0));
});

async function emulator() {
  const device = await openDevice({ kind: "emulator", arch: "sm_80" });
  if (!device.ok) throw new Error("no emulator");
  return device.value;
}
