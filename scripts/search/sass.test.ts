/** The decoder against loops whose PTX is known. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { simt } from "@tilewright/backend-simt";
import { firstOf, hasPtxas, scheduleOf } from "@tilewright/conformance";
import { defineProblem, findTarget, type Problem, type Schedule } from "@tilewright/core";
import { createCompiler } from "@tilewright/ir";
import { afterAll, expect, test } from "vitest";
import { scoreLoop } from "./sass.ts";

const folder = mkdtempSync(join(tmpdir(), "sass-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** A loop of n multiply-adds, each on its own sum, or straight code. */
function kernel(n: number, loop: boolean): Buffer {
  const sums = Array.from({ length: n }, (_, i) => i);
  const ptx = `.version 7.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 count)
{
  .reg .u64 %p; .reg .u32 %n; .reg .pred %q; .reg .f32 %s<${n}>, %x, %y;
  ld.param.u64 %p, [out]; ld.param.u32 %n, [count];
${sums.map((i) => `  ld.global.f32 %s${i}, [%p+${4 * i}];`).join("\n")}
LOOP:
  ld.volatile.global.f32 %x, [%p]; ld.volatile.global.f32 %y, [%p+4];
${sums.map((i) => `  fma.rn.f32 %s${i}, %x, %y, %s${i};`).join("\n")}
  sub.u32 %n, %n, 1; setp.ne.u32 %q, %n, 0;
  ${loop ? "@%q bra LOOP;" : ""}
${sums.map((i) => `  st.global.f32 [%p+${4 * i}], %s${i};`).join("\n")}
  ret;
}
`;
  return assembled(ptx);
}

function assembled(ptx: string): Buffer {
  const [source, image] = [join(folder, "k.ptx"), join(folder, "k.cubin")];
  writeFileSync(source, ptx);
  execFileSync("ptxas", ["-arch=sm_90", "-o", image, source]);
  return readFileSync(image);
}

test.skipIf(!hasPtxas)(
  "the main loop has the multiply-adds of its PTX, and a cost above one issue slot each",
  () => {
    const score = scoreLoop(kernel(24, true));
    // ptxas may unroll it, and keeps whole rounds.
    expect((score?.ffmas ?? 1) % 24).toBe(0);
    expect(score?.instructions).toBeGreaterThan(score?.ffmas ?? 0);
    expect(score?.cost).toBeGreaterThan(1.5);
    expect(score?.threeReads).toBeLessThan(0.5);
  },
);

test.skipIf(!hasPtxas)("straight code has no loop to score", () => {
  expect(scoreLoop(kernel(8, false))).toBeNull();
});

const target = findTarget("sm_80");

const problemWith = (epilogue: readonly object[]): Problem => {
  const problem = defineProblem({ m: 4096, n: 4096, k: 4096, dtype: "f32", epilogue } as never);
  if (!problem.ok) throw new Error(JSON.stringify(problem.error));
  return problem.value;
};

/** Share of the main loop's FFMAs that wait for a register bank. */
function conflicts(epilogue: readonly object[], choose: (problem: Problem) => Schedule): number {
  if (!target.ok) throw new Error("sm_80 is a target");
  const problem = problemWith(epilogue);
  const compiler = createCompiler({ backends: [simt] });
  const made = compiler.compile({ problem, target: target.value, schedule: choose(problem) });
  if (!made.ok) throw new Error(JSON.stringify(made.error));
  const score = scoreLoop(assembled(made.value.ptx));
  if (score === null) throw new Error("the kernel has a main loop");
  return score.threeReads + score.twoOfOneBank;
}

const fused = [
  { kind: "bias", along: "n", dtype: "f32" },
  { kind: "activation", fn: "gelu" },
] as const;
const byDefault = (problem: Problem): Schedule =>
  target.ok ? firstOf(simt, problem, target.value) : scheduleOf(simt, "");

test.skipIf(!hasPtxas)(
  "a fused epilogue costs the main loop of the default schedule no register bank",
  () => {
    const plain = conflicts([], byDefault);
    expect(conflicts(fused, byDefault)).toBeLessThanOrEqual(plain + 0.01);
    // What does: sums in consecutive registers, for vector stores.
    expect(conflicts([], (problem) => ({ ...byDefault(problem), storeElements: 2 }))).toBeGreaterThan(
      plain + 0.1,
    );
  },
);
