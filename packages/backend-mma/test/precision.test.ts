/** f32 by three products of tf32 parts: as near to float64 as SGEMM is, on a K over which sums of tensor cores alone would not be. */
import { caseData, problemOf, Session, scheduleOf, targetOf } from "@tilewright/conformance";
import { decodeArray, formatDiagnostic, gemmBound, type Problem, referenceGemm } from "@tilewright/core";
import { createCompiler } from "@tilewright/ir";
import { openDevice } from "@tilewright/runtime";
import { expect, test } from "vitest";
import { mma } from "../src/backend.ts";

const [m, n, k] = [16, 16, 2048];
const arch = "sm_80";
const problem = problemOf({ m, n, k, b: { layout: "col" }, precision: "3xtf32" });
const data = caseData(problem, "normal", 5);
const [a, b] = [decodeArray("f32", data.a), decodeArray("f32", data.b)];

/** Root of the mean square of the errors against float64. */
function errorOf(d: ArrayLike<number>): number {
  let sum = 0;
  for (let row = 0; row < m; row++)
    for (let col = 0; col < n; col++) {
      let exact = 0;
      for (let i = 0; i < k; i++) exact += (a[row * k + i] ?? 0) * (b[col * k + i] ?? 0);
      sum += ((d[row * n + col] ?? 0) - exact) ** 2;
    }
  return Math.sqrt(sum / (m * n));
}

/** Fused multiply-adds in the order of k, as SGEMM has them; the product of two f32 is exact in float64. */
function sgemm(): Float32Array {
  const d = new Float32Array(m * n);
  for (let row = 0; row < m; row++)
    for (let col = 0; col < n; col++) {
      let sum = 0;
      for (let i = 0; i < k; i++) sum = Math.fround(sum + (a[row * k + i] ?? 0) * (b[col * k + i] ?? 0));
      d[row * n + col] = sum;
    }
  return d;
}

async function multiplied(of: Problem, fields = "", inputs = data): Promise<ArrayLike<number>> {
  const schedule = scheduleOf(mma, `tile=16x16x32 warp=16x16 stages=2 ${fields}`);
  const made = createCompiler({ backends: [mma] }).compile({ problem: of, target: targetOf(arch), schedule });
  const device = await openDevice({ kind: "emulator", arch });
  if (!made.ok || !device.ok)
    throw new Error([made, device].flatMap((x) => (x.ok ? [] : x.error.map(formatDiagnostic))).join("\n"));
  const session = new Session(device.value, made.value);
  const run = session.run(inputs);
  session.close();
  device.value.close();
  expect(run.faults).toEqual([]);
  return decodeArray("f32", run.d);
}

test("is no further from float64 than SGEMM, and far nearer than tf32", async () => {
  const inParts = errorOf(await multiplied(problem));
  const inLongSums = errorOf(await multiplied(problem, "firstLevelK=32 frag=1"));
  const inF32 = errorOf(sgemm());
  const rounded = errorOf(await multiplied(problemOf({ m, n, k, dtype: "tf32", b: { layout: "col" } })));
  expect(inF32).toBeGreaterThan(0);
  expect(inParts).toBeLessThanOrEqual(inF32);
  expect(inLongSums).toBeLessThanOrEqual(inF32);
  expect(rounded).toBeGreaterThan(100 * inParts);
});

test("a single product loses no more than its parts leave out", async () => {
  const single = problemOf({ m: 128, n: 128, k: 1, b: { layout: "col" }, precision: "3xtf32" });
  const inputs = caseData(single, "normal", 7);
  const { d } = referenceGemm(single, inputs);
  const found = await multiplied(single, "", inputs);
  const errors = Array.from(d.values, (exact, i) => Math.abs((found[i] ?? Number.NaN) - exact));
  expect(errors.filter((error, i) => !(error <= (d.bounds[i] ?? 0)))).toEqual([]);
  // The bound of f32 alone would not hold.
  expect(errors.some((error, i) => error > gemmBound(1, Math.abs(d.values[i] ?? 0)))).toBe(true);
});

test("infinities, NaN and the largest numbers come out as f32 has them", async () => {
  const [row0, row1, row2, row3] = [0, k, 2 * k, 3 * k];
  const special = Float32Array.from(a);
  special[row0 + 3] = Number.POSITIVE_INFINITY;
  special[row1 + 5] = Number.NaN;
  special.fill(0, row2, row2 + 2 * k);
  special[row2 + 7] = 3.4e38;
  special[row3 + 9] = -3.402e38;
  const ones = Float32Array.from(b, (x) => Math.sign(x) || 1);
  const of = { ...data, a: special, b: ones };
  const made = createCompiler({ backends: [mma] }).compile({
    problem,
    target: targetOf(arch),
    schedule: scheduleOf(mma, "tile=16x16x32 warp=16x16 stages=2"),
  });
  const device = await openDevice({ kind: "emulator", arch });
  if (!made.ok || !device.ok) throw new Error("no kernel");
  const session = new Session(device.value, made.value);
  const d = decodeArray("f32", session.run(of).d);
  session.close();
  device.value.close();
  for (let col = 0; col < n; col++) {
    const sign = (at: number): number => ones[col * k + at] ?? 0;
    expect(d[col]).toBe(Number.POSITIVE_INFINITY * sign(3));
    expect(d[n + col]).toBeNaN();
    expect(d[2 * n + col]).toBe(Math.fround(3.4e38) * sign(7));
    // Near the largest f32 the nearest tf32 would be infinite.
    const ratio = (d[3 * n + col] ?? 0) / (Math.fround(-3.402e38) * sign(9));
    expect(Math.abs(ratio - 1)).toBeLessThan(2 ** -21);
  }
});
