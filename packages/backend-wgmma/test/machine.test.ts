/** What a text of stage machine declares is what the kernel has: each edit is convicted by name and line, and compiles to just that with `unproven`. */
import { plainProblem } from "@tilewright/conformance";
import { createCompiler, findTarget, formatDiagnostic, parseSchedule, unifiedDiff } from "@tilewright/ir";
import { expect, test } from "vitest";
import { wgmma } from "../src/backend.ts";
import { blockBytes } from "../src/nest.ts";
import { readSchedule } from "../src/schedule.ts";

const compiler = createCompiler({ backends: [wgmma] });
const target = (() => {
  const found = findTarget("sm_90a");
  if (!found.ok) throw new Error("sm_90a is a target");
  return found.value;
})();

const original = (() => {
  const made = compiler.compile({
    problem: plainProblem(512, 512, 512, "bf16"),
    target,
    schedule: "tile=128x128x64 warpgroups=2x1 stages=3 sched=persistent epi=tma",
  });
  if (!made.ok) throw new Error(made.error.map(formatDiagnostic).join("\n"));
  return { text: made.value.textAt("machine") ?? "", ptx: made.value.ptx };
})();

/** Changed lines of the PTX, without their signs' counts. */
const changes = (ptx: string): readonly string[] =>
  unifiedDiff(original.ptx, ptx)
    .split("\n")
    .filter((line) => /^[+-]/.test(line));

interface Edit {
  readonly what: string;
  readonly from: string;
  readonly to: string;
  readonly code: string;
  readonly at: string;
  /** Each changed line of PTX matches; null where there is no kernel without what is missing. */
  readonly ptx: RegExp | null;
}

const edits: readonly Edit[] = [
  {
    what: "a count too high",
    from: "%ring_empty @131096 slots 3 count 2",
    to: "%ring_empty @131096 slots 3 count 3",
    code: "TW3132",
    at: "mbar %ring_empty",
    ptx: /mbarrier\.init/,
  },
  {
    what: "an mbarrier too few",
    from: "%ring_full @131072 slots 3",
    to: "%ring_full @131072 slots 2",
    code: "TW3132",
    at: "mbar %ring_full",
    ptx: /mbarrier\.init/,
  },
  {
    what: "an mbarrier that is not aligned",
    from: "%ring_empty @131096",
    to: "%ring_empty @131092",
    code: "TW3133",
    at: "mbar %ring_empty",
    ptx: /mbarrier/,
  },
  {
    what: "an mbarrier beyond the end",
    from: "%ring_empty @131096",
    to: "%ring_empty @131104",
    code: "TW3133",
    at: "mbar %ring_empty",
    ptx: /mbarrier/,
  },
  {
    what: "mbarriers in each other's place",
    from: "%ring_empty @131096",
    to: "%ring_empty @131088",
    code: "TW3134",
    at: "mbar %ring_empty",
    ptx: /mbarrier/,
  },
  {
    what: "an mbarrier in a tile",
    from: "%ring_full @131072",
    to: "%ring_full @131064",
    code: "TW3134",
    at: "mbar %ring_full",
    ptx: /mbarrier|cp\.async\.bulk/,
  },
  {
    what: "a tile across its swizzle's period",
    from: "%sD @98304",
    to: "%sD @97792",
    code: "TW3133",
    at: "shared %sD",
    ptx: /./,
  },
  {
    what: "slots that reach into each other",
    from: "(1,64) swizzle<3,4,3> align 128 every 32768",
    to: "(1,64) swizzle<3,4,3> align 128 every 15360",
    code: "TW3133",
    at: "shared %sB",
    ptx: /./,
  },
  {
    what: "a tile in the ring",
    from: "%sD @98304",
    to: "%sD @97280",
    code: "TW3134",
    at: "shared %sD",
    ptx: /./,
  },
  { what: "B over A", from: "%sB @16384", to: "%sB @8192", code: "TW3134", at: "shared %sB", ptx: /./ },
  { what: "no place", from: "%sD @98304 ", to: "%sD ", code: "TW3132", at: "shared %sD", ptx: null },
  {
    what: "a parameter elsewhere than PTX has it",
    from: "%tma_b @320 map",
    to: "%tma_b @384 map",
    code: "TW3139",
    at: "param %tma_b",
    ptx: /^$/,
  },
  {
    what: "a box of too many elements",
    from: "box(64, 128)",
    to: "box(64, 512)",
    code: "TW3139",
    at: "box(64, 512)",
    ptx: /^$/,
  },
  {
    what: "a grid by a size that no launch has",
    from: "numSms",
    to: "numSm",
    code: "TW3139",
    at: "kernel main",
    ptx: /^$/,
  },
  {
    what: "other threads than the launch's",
    from: "threads 288",
    to: "threads 256",
    code: "TW3139",
    at: "kernel main",
    ptx: /maxntid|reqntid/,
  },
];

test.each(edits)("$what: $code", ({ from, to, code, at, ptx }) => {
  const text = original.text.replace(from, to);
  expect(text).not.toBe(original.text);
  const line = text.split("\n").findIndex((l) => l.includes(at)) + 1;
  const refused = compiler.compile({ from: text, target });
  expect(refused.ok ? [] : refused.error.map((d) => [d.code, d.location?.line])).toEqual([[code, line]]);
  const made = compiler.compile({ from: text, target, unproven: true });
  if (ptx === null) {
    expect(made.ok ? [] : made.error.map((d) => d.code)).toEqual(["TW3901"]);
    return;
  }
  if (!made.ok) throw new Error(made.error.map(formatDiagnostic).join("\n"));
  const changed = changes(made.value.ptx);
  // What the launch alone knows is in the manifest.
  if (ptx.source !== "^$") expect(changed.length).toBeGreaterThan(0);
  for (const one of changed) expect(one).toMatch(ptx);
});

test.each([
  "tile=128x256x64 warpgroups=2x1 stages=4 sched=persistent epi=tma",
  "tile=128x128x64 warpgroups=2x1 stages=5 sched=atomic epi=tma",
  "tile=64x64x128 warpgroups=1x1 stages=3 sched=tiles split=4 reduction=cluster epi=tma",
  "tile=128x128x64 warpgroups=2x1 stages=4 sched=tiles split=2 reduction=bulk epi=direct",
  "tile=64x32x128 warpgroups=1x1 stages=1 sched=tiles epi=tma",
])("legality counts the bytes that allocate gives: %s", (text) => {
  const problem = plainProblem(512, 512, 1024, "bf16");
  const made = compiler.compile({ problem, target, schedule: text });
  if (!made.ok) throw new Error(made.error.map(formatDiagnostic).join("\n"));
  const schedule = parseSchedule(wgmma.schedule, text);
  if (!schedule.ok) throw new Error(schedule.error.map(formatDiagnostic).join("\n"));
  expect(blockBytes(problem, readSchedule(schedule.value), target.limits.maxSmemPerBlock)).toBe(
    made.value.program.machine?.memory.shared,
  );
});
