/** The lowering does what the plan says that its statements stand for: what is proven of the one holds for the other. */
import { boundProgram, plainProblem, planWords, targetOf, textWords } from "@tilewright/conformance";
import { type DType, parseProgram, printProgram, protocolPlan, readProblemRequest } from "@tilewright/ir";
import { expect, it } from "vitest";
import { tcgen05 } from "../src/index.ts";

const arch = "sm_100a";

function same(program: ReturnType<typeof boundProgram>): void {
  const plan = protocolPlan(program);
  const lowered = tcgen05.lower(program, targetOf(arch));
  if (plan === null || !lowered.ok) throw new TypeError("not lowered");
  const words = textWords(lowered.value.ptx);
  expect(words.length).toBeGreaterThan(20);
  expect(words).toEqual(planWords(plan));
}

it.each([
  ["bf16", "cta=1 tile=128x128x64 acc=1 sched=tiles stages=1"],
  ["bf16", "cta=1 tile=128x64x64 acc=2 sched=persistent stages=3 load=8"],
  ["bf16", "cta=1 tile=128x256x64 acc=2 sched=clc stages=3 ahead=1"],
  ["bf16", "cta=1 tile=128x128x64 acc=2 sched=atomic stages=2 ahead=1"],
  ["bf16", "cta=2 acc=1 sched=tiles stages=2"],
  ["bf16", "cta=2 acc=2 lap=32 sched=clc stages=2"],
  ["bf16", "cta=2 tile=256x128x64 acc=2 sched=persistent stages=3 epi=direct streamk=6"],
  ["bf16", "cta=2 acc=2 sched=atomic stages=3 ahead=2"],
  ["bf16", "cta=1 tile=128x128x64 acc=2 sched=atomic stages=2 ahead=1 cluster=2x1"],
  ["bf16", "cta=2 tile=256x128x64 acc=2 sched=clc stages=2 ahead=1 cluster=2x1"],
  ["tf32", "cta=2 tile=256x128x32 acc=2 sched=persistent stages=4 early=off"],
  ["nvf4", "cta=2 tile=256x128x256 acc=1 sched=clc stages=3 ahead=2"],
  ["mxf8", "cta=1 tile=128x256x128 acc=1 sched=persistent stages=3"],
  ["e4m3", "cta=2 tile=256x256x128 acc=2 sched=clc stages=5 ahead=2"],
  ["bf16", "cta=2 tile=512x128x64 acc=2 sched=persistent stages=3 load=16"],
  ["bf16", "cta=2 tile=32x128x64 swap=on acc=2 sched=clc stages=4 load=16"],
  ["f16", "cta=1 tile=64x32x64 acc=2 sched=persistent stages=4 staging=1 load=16"],
] as const satisfies readonly (readonly [DType, string])[])("%s %s", (dtype, schedule) => {
  same(boundProgram(tcgen05, arch, plainProblem(1024, 512, 64 * 40, dtype), schedule));
});

it.each([
  "cta=1 tile=128x64x64 acc=1 sched=tiles stages=2 addend=tma",
  "cta=2 tile=256x128x64 acc=2 sched=clc stages=2 addend=tma early=off",
])("C by a role of its own: %s", (schedule) => {
  const plain = plainProblem(1024, 512, 64 * 40, "bf16");
  const of = readProblemRequest({ ...plain, c: { dtype: "bf16" }, beta: 0.5 });
  if (!of.ok) throw new TypeError(JSON.stringify(of.error));
  same(boundProgram(tcgen05, arch, of.value, schedule));
});

it("a grid that overlaps the one before it waits for it before it touches memory, and its launch says so", () => {
  const program = boundProgram(
    tcgen05,
    arch,
    plainProblem(1024, 512, 512, "bf16"),
    "sched=atomic overlap=on",
  );
  const parsed = parseProgram(printProgram(program));
  expect(parsed).toMatchObject({ ok: true, value: { launch: { overlap: true } } });
  const lowered = tcgen05.lower(program, targetOf(arch));
  if (!lowered.ok) throw new TypeError(JSON.stringify(lowered.error));
  const { ptx, kernel } = lowered.value;
  expect(kernel.launch.programmatic).toBe(true);
  const [before = "", after = ""] = ptx.split("griddepcontrol.wait;");
  expect(before).not.toMatch(/cp\.async|ld\.global|st\.global|red\.|atom\./);
  expect(after).toMatch(/cp\.async/);
});
