/** The protocol proof on this backend's bound programs, that their text does what was proven, and the faults that the proof finds. */
import { machineProgram, plainProblem, plant, problemOf, targetOf } from "@tilewright/conformance";
import { ownProgram, parseProgram, printProgram, proveProtocol } from "@tilewright/ir";
import { describe, expect, it } from "vitest";
import { wgmma } from "../src/index.ts";

const arch = "sm_90a";
const target = targetOf(arch);
/** Forty K chunks: more than any ring goes round. */
const machine = (schedule: string) =>
  machineProgram(wgmma, arch, plainProblem(1024, 1024, 64 * 40, "bf16"), schedule);

describe("proven for all numbers of K chunks, and the text is what was proven", () => {
  it.each([
    "tile=64x128x64 warpgroups=1x1 stages=2 sched=tiles epi=direct",
    "tile=64x128x64 warpgroups=1x1 stages=1",
    "tile=128x128x64 stages=3 peel=off regs=24/240",
    "tile=128x256x64 stages=4",
    "tile=128x128x64 stages=2 cluster=1x2",
    "tile=128x128x64 warpgroups=1x1 pingPong=2 delayedRelease=on stages=6",
    "tile=64x64x64 warpgroups=1x2 pingPong=3 stages=4 epi=direct peel=off",
    "tile=128x64x64 warpgroups=2x1 delayedRelease=on stages=3",
    "tile=128x64x64 warpgroups=1x1 pingPong=2 delayedRelease=on stages=2 cluster=2x1",
    "tile=128x128x64 stages=3 cluster=2x1 sched=tiles",
    "tile=64x128x64 warpgroups=1x1 stages=1 sched=atomic schedulerStages=1",
    "tile=128x128x64 stages=3 cluster=2x1 sched=atomic regs=24/240",
    "tile=64x128x64 warpgroups=1x1 pingPong=2 stages=3 sched=atomic schedulerStages=2 delayedRelease=on",
    "tile=64x64x64 warpgroups=1x1 pingPong=3 stages=2 sched=atomic schedulerStages=1 cluster=2x1 epi=direct",
    "tile=128x128x64 stages=2 cluster=2x2 multicast=ab sched=tiles",
    "tile=128x128x64 stages=3 copy=cp.async",
    "tile=64x64x64 warpgroups=1x1 pingPong=2 delayedRelease=on stages=4 copy=cp.async regs=56/224",
  ])("%s", (schedule) => {
    const program = machine(schedule);
    expect(proveProtocol(program, target)).toEqual([]);
    expect(wgmma.lower(program, target).ok).toBe(true);
  });
});

const reading = problemOf({
  m: 1024,
  n: 1024,
  k: 64 * 40,
  dtype: "bf16",
  b: { layout: "col" },
  beta: 1,
  epilogue: [
    { kind: "bias", along: "n", dtype: "f32" },
    { kind: "residual", operand: { dtype: "bf16" } },
  ],
});

it.each([
  "tile=128x64x64 stages=2 epilogueLoad=tma",
  "tile=64x64x64 warpgroups=1x1 pingPong=2 delayedRelease=on stages=3 epilogueLoad=tma epi=direct",
  "tile=128x64x64 stages=2 cluster=2x1 sched=atomic epilogueLoad=tma regs=40/232",
])("what the epilogue reads comes through a ring: %s", (schedule) => {
  const program = machineProgram(wgmma, arch, reading, schedule);
  expect(printProgram(program)).toMatch(/inputs\(0 %sE0.*1 %sE1/);
  expect(parseProgram(printProgram(program))).toEqual({ ok: true, value: program });
  expect(proveProtocol(program, target)).toEqual([]);
  expect(wgmma.lower(program, target).ok).toBe(true);
});

/** Tiles of a list have different numbers of chunks: the sequences of the proof. */
it("sizes of the launch, and groups: the text is what was proven of the same program with sizes", () => {
  const free = { m: {}, n: { multiple: 8 }, k: { multiple: 8 } };
  for (const more of [
    { symbolic: free },
    { symbolic: free, batch: { kind: "grouped", count: 3 } },
  ] as const) {
    const problem = problemOf({ m: 1024, n: 1024, k: 2560, dtype: "bf16", b: { layout: "col" }, ...more });
    const program = machineProgram(wgmma, arch, problem, "tile=128x128x64 stages=3 epi=direct cluster=2x1");
    expect(printProgram(program)).toContain("persistent %vt by stride chunks (%k + 63) / 64");
    expect(parseProgram(printProgram(program))).toEqual({ ok: true, value: program });
    const own = ownProgram(program);
    expect(proveProtocol(own, target)).toEqual([]);
    expect(wgmma.lower(program, target).ok).toBe(true);
  }
});

/**
 * Two statements that have nothing to do with each other may stand in either order: declarations, copies into one slot, bytes that are expected behind the copies
 * which bring them, a pipeline that goes on behind what does not ask for it. The fence between proxies stands on either side of a meeting. Without a multicast each block copies all for itself.
 */
const harmless =
  /: (pipeline|copy|mbar\.expect|advance|mbar\.wait %ring\.full|barrier|fence (cta|async)).*, after what follows it$|, without multicast$/;

it("planted faults: none unseen", () => {
  const program = machine("tile=128x128x64 stages=2 cluster=2x1");
  const { count, unseen, rules } = plant(program, target);
  expect(count).toBeGreaterThan(40);
  expect(unseen.filter((name) => !harmless.test(name))).toEqual([]);
  expect(rules).toEqual([1, 2, 3, 4, 5, 6, 13, 16, 17]);
});

it("planted faults where a role's threads copy: none unseen", () => {
  const program = machine("tile=64x64x64 warpgroups=1x1 stages=2 copy=cp.async epi=direct");
  const { unseen } = plant(program, target);
  expect(unseen.filter((name) => !harmless.test(name))).toEqual([]);
});

it("planted faults of ping-pong roles: none unseen", () => {
  const program = machine("tile=64x64x64 warpgroups=1x1 pingPong=2 delayedRelease=on stages=2");
  const { unseen } = plant(program, target);
  expect(unseen.filter((name) => !harmless.test(name))).toEqual([]);
});

it("planted faults in what the epilogue reads: none unseen", () => {
  const program = machineProgram(
    wgmma,
    arch,
    reading,
    "tile=64x64x64 warpgroups=1x1 stages=1 epilogueLoad=tma epi=direct",
  );
  const { unseen } = plant(program, target);
  expect(unseen.filter((name) => !harmless.test(name))).toEqual([]);
});

/** What a counter's ring could do wrong; the copies' faults are those of the program above. */
it("planted faults in the hand-over of tiles: none unseen", () => {
  const program = machine(
    "tile=64x64x64 warpgroups=1x1 stages=1 cluster=2x1 sched=atomic schedulerStages=2 epi=direct",
  );
  const { unseen } = plant(program, target);
  expect(unseen.filter((name) => !harmless.test(name))).toEqual([]);
});
