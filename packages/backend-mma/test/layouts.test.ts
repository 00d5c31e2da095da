/** Default schedules read and write shared memory without bank conflicts, for every dtype and pair of layouts: by the oracle, and as run. */
import { build, problemOf, targetOf } from "@tilewright/conformance";
import { bytesOfStorage, formatDiagnostic, operandElements, randomStorage, sizeOf } from "@tilewright/core";
import {
  type Artifact,
  bankConflicts,
  byteOffset,
  createCompiler,
  type TileProgram,
  tileAccesses,
} from "@tilewright/ir";
import { openDevice, runGemm } from "@tilewright/runtime";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { mma } from "../src/backend.ts";

const target = targetOf("sm_89");
const layouts = ["row", "col"] as const;
const dtypes = ["f16", "bf16", "tf32", "s8", "u8", "e4m3", "e5m2", "f64"] as const;
const pairs = dtypes.flatMap((dtype) => layouts.flatMap((a) => layouts.map((b) => [dtype, a, b] as const)));

/** Wavefronts beyond the fewest possible, by access. */
const excesses = (program: TileProgram): readonly string[] =>
  program.buffers.flatMap((buffer) => {
    const { layout, space, dtype, name } = buffer;
    if (space !== "shared" || layout === null) return [];
    return tileAccesses(program, name, sizeOf(dtype)).flatMap((access) => {
      const addresses = access.lanes.map((at) => at && byteOffset(layout, at, sizeOf(dtype)));
      const { excess, wavefronts, ideal } = bankConflicts({ width: access.width, addresses });
      return excess > 0 ? [`%${name} ${access.name}: ${wavefronts} of ${ideal}`] : [];
    });
  });

describe.each(pairs)("%s, A %s, B %s", (dtype, a, b) => {
  test("large problem: none by the oracle", () => {
    const problem = problemOf({ m: 2048, n: 2048, k: 2048, dtype, a: { layout: a }, b: { layout: b } });
    expect(excesses(build(mma, problem, target).program)).toEqual([]);
  });
});

describe("as run on the emulator", () => {
  const devices: { close(): void }[] = [];
  afterAll(() => {
    for (const device of devices) device.close();
  });
  let run: (artifact: Artifact) => number;
  beforeAll(async () => {
    const device = await openDevice({ kind: "emulator", arch: "sm_89" });
    if (!device.ok) throw new Error("no emulator");
    devices.push(device.value);
    run = (artifact) => {
      const matrix = (which: "a" | "b") =>
        bytesOfStorage(
          randomStorage(
            artifact.problem[which].dtype,
            operandElements(artifact.problem, which),
            { kind: "integers" },
            1,
          ),
        );
      const ran = runGemm(device.value, artifact, { a: matrix("a"), b: matrix("b") });
      if (!ran.ok) throw new Error(ran.error.map(formatDiagnostic).join("\n"));
      expect(ran.value.findings).toEqual([]);
      return ran.value.counters?.sharedConflicts ?? Number.NaN;
    };
  });
  test.each(pairs)("%s, A %s, B %s", (dtype, a, b) => {
    const problem = problemOf({ m: 64, n: 64, k: 128, dtype, a: { layout: a }, b: { layout: b } });
    const made = createCompiler({ backends: [mma] }).compile({ problem, target });
    if (!made.ok) throw new Error("does not compile");
    expect(run(made.value)).toBe(0);
  });
});
