/** What counts of what `emulate` finds: buffers that depend on the order, the search and its schedules, suppressions and baselines, groups. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { instructionForm } from "../src/emulation/suppressions.ts";
import { cli, type Outcome } from "./harness.ts";
import { scratch } from "./scratch.ts";

/** `body` is run by the first lane of each warp: %rd1 is the buffer, %r1 the warp. */
const kernel = (body: string) => `.version 7.0
.target sm_70
.address_size 64
.visible .entry k(.param .u64 out)
{
  .shared .align 16 .b8 tile[4096];
  .reg .pred %p<4>;
  .reg .b32 %r<12>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  and.b32 %r2, %r1, 31;
  setp.ne.u32 %p1, %r2, 0;
  @%p1 bra DONE;
  shr.u32 %r1, %r1, 5;
${body}
DONE:
  ret;
}
`;
/** An update by a load and a store, each strong: no race, but updates get lost. */
const lossy = kernel(`  ld.relaxed.gpu.global.u32 %r3, [%rd1];
  add.u32 %r3, %r3, 1;
  st.relaxed.gpu.global.u32 [%rd1], %r3;`);
const exact = kernel(`  red.relaxed.gpu.global.add.u32 [%rd1], 1;
  red.relaxed.gpu.global.add.u32 [%rd1+4], 1;`);
/** 2^24 and two ones: the sum rounds in its order. */
const floating = kernel(`  setp.eq.u32 %p2, %r1, 0;
  selp.b32 %r3, 0x4b800000, 0x3f800000, %p2;
  red.relaxed.gpu.global.add.f32 [%rd1], %r3;`);
/** What the last warp makes of that sum: its order alone explains it, too. */
const derived = kernel(`  setp.eq.u32 %p2, %r1, 0;
  selp.b32 %r3, 0x4b800000, 0x3f800000, %p2;
  red.relaxed.gpu.global.add.f32 [%rd1], %r3;
  atom.acq_rel.gpu.global.inc.u32 %r4, [%rd1+4], 2;
  setp.ne.u32 %p3, %r4, 2;
  @%p3 bra DONE;
  ld.relaxed.gpu.global.u32 %r5, [%rd1];
  xor.b32 %r5, %r5, -1;
  st.global.u32 [%rd1+8], %r5;`);
/** Such a sum, and beside it updates that get lost. */
const mixed = floating.replace(
  "DONE:",
  `  ld.relaxed.gpu.global.u32 %r3, [%rd1+12];
  add.u32 %r3, %r3, 1;
  st.relaxed.gpu.global.u32 [%rd1+12], %r3;
DONE:`,
);
/** Warps write, with no barrier between them: the two stores (lines 18 and 19) are of one form. */
const racy = kernel(`  .loc 1 7 3
  st.shared.u32 [tile], %r1;
  st.shared.u32 [tile+4], %r1;
  .loc 1 9 3
  ld.shared.u32 %r4, [tile];
  ld.shared.u32 %r5, [tile+4];
  add.u32 %r4, %r4, %r5;`).replace(".visible", '.file 1 "kernel.py"\n.visible');

const launch = {
  entry: "k",
  grid: 1,
  block: 96,
  buffers: { out: { dtype: "u32", shape: [4], fill: "zeros" } },
  params: [{ buffer: "out" }],
};

/** Runs `emulate k.ptx` with each of the lines of flags, in one folder. */
async function runs(ptx: string, lines: readonly string[], files: Readonly<Record<string, string>> = {}) {
  using folder = scratch();
  writeFileSync(join(folder.path, "k.ptx"), ptx);
  writeFileSync(join(folder.path, "l.json"), JSON.stringify(launch));
  for (const [name, data] of Object.entries(files)) writeFileSync(join(folder.path, name), data);
  const outcomes: Outcome[] = [];
  for (const flags of lines)
    outcomes.push(await cli(`emulate k.ptx --launch l.json ${flags}`, { cwd: folder.path }));
  const read = Object.fromEntries(
    folder.list().map((name) => [name, readFileSync(join(folder.path, name), "utf8")] as const),
  );
  return { outcomes, files: read };
}

const one = async (ptx: string, flags: string): Promise<Outcome> =>
  (await runs(ptx, [flags])).outcomes[0] as Outcome;

describe("buffers of all runs", () => {
  test("a result that depends on the order is an error, in a buffer that nothing names", async () => {
    const { code, stderr, stdout } = await one(lossy, "--order all --seeds 20 --json");
    expect([code, JSON.parse(stdout).differing]).toEqual([5, ["out"]]);
    expect(stderr).toMatch(
      /^error TW7063 \(check\) at out: the result depends on the order: 1 of 16 bytes are not those of order eager, the first at byte 0 \(order random, seed \d+\)\n.*--suppress TW7063:out\n$/,
    );
    expect((await one(exact, "--order all --seeds 20")).code).toBe(0);
  });

  test("a note where sums by floating-point atomics explain it", async () => {
    const { code, stderr } = await one(floating, "--order all --seeds 5");
    expect(code).toBe(0);
    expect(stderr).toContain(
      "note: out differs in bits between the runs, as sums by red.relaxed.gpu.global.add.f32 may",
    );
  });

  test("a note where what is made of such a sum differs, and an error for other bytes of its buffer", async () => {
    const { code, stderr } = await one(derived, "--order all --seeds 9");
    expect([code, stderr]).toEqual([
      0,
      expect.stringContaining("note: out differs in bits between the runs"),
    ]);
    const both = await one(mixed, "--order all --seeds 30");
    expect(both.code).toBe(5);
    expect(both.stderr).toMatch(
      /depends on the order, without the rounding of sums by red\.relaxed\.gpu\.global\.add\.f32: 1 of 16 bytes are not those of order eager, the first at byte 12 /,
    );
  });

  test("suppressed by the buffer's name", async () => {
    const flags = "--order all --seeds 20 --suppress TW7063";
    expect((await one(lossy, `${flags}:out`)).code).toBe(0);
    expect((await one(lossy, `${flags}:in*`)).code).toBe(5);
  });
});

describe("--search", () => {
  test("the smallest schedule that fails, in words, as a file and replayed", async () => {
    const { outcomes, files } = await runs(lossy, [
      "--search --write-schedule s.json",
      "--replay s.json",
      "--search --json",
    ]);
    const [searched, replayed, json] = outcomes;
    expect(outcomes.map(({ code }) => code)).toEqual([5, 5, 5]);
    expect(searched?.stdout).toMatch(
      /^search: a failure after \d+ schedules, shown by 1 switch \(3 warps, 2 contended instructions\)\n {2}1\. warp 0 stops before st\.relaxed\.gpu\.global\.u32 \[%rd1\], %r3; \(line 18\); warp 1 goes on\n/m,
    );
    expect(JSON.parse(files["s.json"] ?? "")).toMatchObject({ entry: "k", switches: [{ warp: 1 }] });
    expect(replayed?.stderr).toContain(
      "not those of schedule of 0 switches, the first at byte 0 (schedule of 1 switch)",
    );
    const { search, runs: made } = JSON.parse(json?.stdout ?? "");
    expect(search.failure).toMatchObject({ differs: { buffer: "out", byte: 0 }, schedule: [{ warp: 1 }] });
    expect(made.map(({ schedule }: { schedule?: unknown[] }) => schedule?.length)).toEqual([undefined, 1]);
  });

  test("a right kernel: what was covered; the bounds are those that are asked for", async () => {
    const { code, stdout } = await one(exact, "--search --switches 1");
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^search: all schedules with at most 1 switch, \d+ in all \(3 warps, 2 contended instructions\)$/m,
    );
    expect((await one(exact, "--search --budget 1e-9")).stdout).toMatch(
      /^search: all schedules with at most 0 switches/m,
    );
  });

  test("a sum that may differ, and one that is said to, are no failure", async () => {
    expect((await one(floating, "--search --switches 1")).code).toBe(0);
    expect((await one(mixed, "--search --switches 1")).code).toBe(5);
    expect((await one(lossy, "--search --switches 1 --suppress TW7063:out")).code).toBe(0);
  });

  test("a schedule that is none, or another kernel's; flags that it leaves no choice", async () => {
    const wrong = {
      "a.json": '{"entry": "k"}',
      "b.json": '{"entry": "f", "order": "eager", "switches": []}',
    };
    const { outcomes } = await runs(
      lossy,
      ["--replay a.json", "--replay b.json", "--replay b.json --search"],
      wrong,
    );
    expect(outcomes.map(({ code }) => code)).toEqual([2, 2, 2]);
    expect(outcomes[0]?.stderr).toContain("TW7012");
    expect(outcomes[1]?.stderr).toContain("b.json is a schedule of f, not of k");
    expect(outcomes[2]?.stderr).toContain("--replay says which run: leave --search out");
  });
});

describe("--suppress", () => {
  test.each([
    ["H010,H011", 0],
    ["race", 0],
    ["race-write-after-read,H011", 0],
    ["H010", 5],
    ["H010:18,H010:19,H011", 0],
    ["H010:18,H011", 5],
    ["race:kernel.py:7", 0],
    ["race:kernel.py:70,H010", 5],
    ["race:*shared*[tile*", 0],
    ["race:ld.shared,H010", 5],
  ])("%s", async (what, code) => {
    const outcome = await one(racy, `--suppress ${what}`);
    expect(outcome.code).toBe(code);
    expect(outcome.stderr).toMatch(/note: \d findings? suppressed: --json lists them/);
  });

  test("a rule that is none", async () => {
    const { code, stderr } = await one(racy, "--suppress H0099");
    expect(code).toBe(2);
    expect(stderr).toContain("there is no rule 'H0099'; did you mean H009");
  });

  test("JSON and SARIF say that a finding is suppressed, and where it comes from", async () => {
    const { outcomes, files } = await runs(racy, ["--suppress H010 --json --sarif f.sarif"]);
    const { findings, ok } = JSON.parse(outcomes[0]?.stdout ?? "");
    expect(ok).toBe(false);
    for (const { rule, suppressed } of findings) expect(suppressed).toBe(rule === "H010" ? "flag" : null);
    const { results } = JSON.parse(files["f.sarif"] ?? "").runs[0];
    for (const { ruleId, suppressions, locations, relatedLocations } of results) {
      expect(suppressions).toEqual(ruleId === "H010" ? [{ kind: "external" }] : undefined);
      expect(locations[0].physicalLocation.artifactLocation.uri).toBe("kernel.py");
      expect(locations[0].physicalLocation.region.startLine).toBe(7);
      expect(relatedLocations[0].physicalLocation.artifactLocation.uri).toBe("k.ptx");
    }
  });
});

describe("baselines", () => {
  test("what was found once does not count again, at as many places; what is new does", async () => {
    const { outcomes, files } = await runs(racy, ["--write-baseline b.json", "--baseline b.json"]);
    expect(outcomes.map(({ code }) => code)).toEqual([0, 0]);
    const baseline = files["b.json"] ?? "";
    expect(JSON.parse(baseline).findings).toContainEqual({
      ...{ rule: "H010", instruction: "st.shared.u32 [tile], %r#", sites: 2 },
    });
    // Other registers and other lines are the same findings; one more load is not.
    const moved = racy
      .replaceAll("%r1;", "%r9;")
      .replace("shr.u32 %r1,", "shr.u32 %r9,")
      .replace("  shr", "\n  shr");
    const more = racy.replace("  .loc 1 9 3", "  st.shared.u32 [tile+8], %r1;");
    const again = await runs(moved, ["--baseline b.json"], { "b.json": baseline });
    expect(again.outcomes[0]?.code).toBe(0);
    const grown = (await runs(more, ["--baseline b.json"], { "b.json": baseline })).outcomes[0];
    expect(grown?.code).toBe(5);
    // It is overwritten by the next warp, and read by nobody.
    expect(grown?.stderr).toMatch(/\nerror k\.ptx:20:3: TW7061 \(check\) at H011/);
    expect(grown?.stderr.match(/TW7061/g)).toHaveLength(1);
  });

  test("a buffer that depends on the order does not count again either", async () => {
    const orders = "--order all --seeds 20";
    const { outcomes, files } = await runs(lossy, [
      `${orders} --write-baseline b.json`,
      `${orders} --baseline b.json`,
    ]);
    expect(outcomes.map(({ code }) => code)).toEqual([0, 0]);
    expect(JSON.parse(files["b.json"] ?? "").buffers).toEqual(["out"]);
  });

  test("a file that is none", async () => {
    const { outcomes } = await runs(racy, ["--baseline b.json"], {
      "b.json": '{"entry": "k", "findings": 1}',
    });
    expect([outcomes[0]?.code, outcomes[0]?.stderr.includes("TW7012")]).toEqual([2, true]);
  });
});

test("findings of one form from one line are one group", async () => {
  const unrolled = kernel(
    `.loc 1 7 3\n${Array.from({ length: 6 }, (_, k) => `  st.shared.u32 [tile+${4 * k}], %r1;`).join("\n")}`,
  ).replace(".visible", '.file 1 "kernel.py"\n.visible');
  const { stderr, stdout } = await one(unrolled, "--json");
  expect(stderr.match(/^error/gm)).toHaveLength(1);
  expect(stderr).toMatch(
    /first in block \(0, 0, 0\), warp \d.*\]; also at lines 19, 20, 21 and 2 more instructions\n.*tilewright explain H011/,
  );
  const { groups, findings } = JSON.parse(stdout);
  expect([groups, findings.length]).toEqual([[[0, 1, 2, 3, 4, 5]], 6]);
});

test("the form of an instruction: guards and operands without numbers, the mnemonic as it is", () => {
  expect(instructionForm("@%p12 st.shared.v4.f32 [%rd7+128], {%f1, %f2, %f3, %f4};")).toBe(
    "@%p# st.shared.v4.f32 [%rd#], {%f#, %f#, %f#, %f#}",
  );
  expect(instructionForm("bar.sync 0;")).toBe("bar.sync #");
  expect(instructionForm("ret;")).toBe("ret");
});
