/** Reductions of work tiles in texts of stage machine: each edit is convicted by rule and line, and with `unproven` it is what the kernel does. */
import { plainProblem } from "@tilewright/conformance";
import { findTarget, formatDiagnostic } from "@tilewright/core";
import { createCompiler, interpret, parseProgram, unifiedDiff } from "@tilewright/ir";
import { describe, expect, test } from "vitest";
import { mma } from "../src/backend.ts";

const compiler = createCompiler({ backends: [mma] });
const target = (() => {
  const found = findTarget("sm_90");
  if (!found.ok) throw new Error("sm_90 is a target");
  return found.value;
})();

const fields = "tile=32x32x16 warp=16x16 stages=2 frag=1";

function compiled(schedule: string): { readonly text: string; readonly ptx: string } {
  const made = compiler.compile({
    problem: plainProblem(64, 64, 256, "f16"),
    target,
    schedule: `${fields} ${schedule}`,
  });
  if (!made.ok) throw new Error(made.error.map(formatDiagnostic).join("\n"));
  return { text: made.value.textAt("machine") ?? "", ptx: made.value.ptx };
}

/** Lines of the reduction, without what is around. */
const reduction = (text: string): readonly string[] => {
  const lines = text.split("\n").map((line) => line.trim());
  const from = lines.findIndex((line) => line.startsWith("reduction"));
  return lines.slice(from, lines.indexOf("}", from));
};

test("the last of four CTAs reads what the others have published", () => {
  expect(reduction(compiled("split=4").text)).toEqual([
    "reduction {",
    "partial.store %acc",
    "fence gpu",
    "barrier 0",
    "counter.add 1",
    "counter.leave unless 4 barrier 0",
    "fence gpu",
    "counter.clear",
    "partial.load %acc",
    "partial.add %acc partials 3",
  ]);
});

test("stream-K counts K chunks, and goes past where a CTA has them all", () => {
  const lines = reduction(compiled("streamk=3").text);
  expect(lines[0]).toBe("reduction unless %kn == 16 {");
  expect(lines).toContain("counter.add %kn");
  expect(lines).toContain("counter.leave unless 16 barrier 0");
  expect(lines).toContain("partial.add %acc");
});

test("a second kernel has as many partial tiles as its statements add", () => {
  const { text } = compiled("split=4 reduction=kernel");
  const ones = new Float32Array(64 * 256).fill(1);
  const sums = [3, 2, 1].map((partials) => {
    const made = parseProgram(
      text.replace("partial.add %acc partials 3", `partial.add %acc partials ${partials}`),
    );
    const run = made.ok ? interpret(made.value, { a: ones, b: ones }) : made;
    return run.ok ? new Set(run.value.d) : run.error.map(formatDiagnostic);
  });
  expect(sums).toEqual([new Set([256]), new Set([192]), new Set([128])]);
});

const partials = "region %partials at 128 stride 4096 each 4 threads 128 count 4 bytes 65536";
const inFour = "split=4";
/** D of inputs that tell elements apart, by the definition. */
const sums = Array.from({ length: 64 * 64 }, (_, i) => {
  const [row, col] = [Math.floor(i / 64), i % 64];
  let sum = 0;
  for (let k = 0; k < 256; k++) sum += ((row * 256 + k) % 5) * ((k * 64 + col) % 3);
  return sum;
}).join();
const shared = "streamk=3";
const atomic = "split=4 reduction=atomics";

test.each([
  ["as it is", inFour, "", "", "right"],
  ["the same, in shares", shared, "", "", "right"],
  ["the same, added in place", atomic, "", "", "right"],
  ["the same, in slices", "split=4 reduction=slices", "", "", "right"],
  ["partial tiles on counters", inFour, partials, partials.replace("at 128", "at 0"), "TW3304"],
  ["partial tiles on each other", inFour, partials, partials.replace("4096", "2048"), "TW3304"],
  ["those of work tiles on each other", inFour, partials, partials.replace("each 4", "each 2"), "TW3304"],
  ["partial tiles beyond the workspace", inFour, partials, partials.replace("at 128", "at 256"), "TW3302"],
  ["an odd place", inFour, partials, partials.replace("at 128", "at 129"), "TW3302"],
  [
    "threads whose registers lie on others'",
    inFour,
    partials,
    partials.replace("threads 128", "threads 64"),
    "wrong",
  ],
  ["counters on each other", inFour, "at 0 stride 4 ", "at 0 stride 0 ", "TW3304"],
  ["no region", inFour, partials, "", "TW3304"],
  ["a workspace of anything", inFour, "workspace init zeroOnce", "workspace init none", "TW3303"],
  ["a counter that nobody clears", inFour, "counter.clear", "", "TW3304"],
  ["one that is cleared before each launch", inFour, "counter.clear|zeroOnce", "|zeroEach", "right"],
  ["a sum that nobody clears", atomic, "partial.clear %acc", "", "TW3304"],
  [
    "one part more than there are",
    inFour,
    "partial.add %acc partials 3",
    "partial.add %acc partials 4",
    "TW3303|TW3304",
  ],
  [
    "shares that begin elsewhere",
    shared,
    "reduction unless %kn == 16",
    "reduction unless %kn == 15",
    "TW330[34]",
  ],
  ["CTAs too few", inFour, "grid(4, 1, 4)", "grid(3, 1, 4)", "TW3307"],
  ["CTAs too few of a tile", inFour, "grid(4, 1, 4)", "grid(4, 1, 3)", "TW3307"],
  [
    "rows of D that lie too close",
    inFour,
    "array %d f16 strides(64, 1)",
    "array %d f16 strides(32, 1)",
    "TW3307",
  ],
  [
    "rows of A twice as far apart",
    inFour,
    "array %a f16 strides(256, 1)",
    "array %a f16 strides(512, 1)",
    "TW3301",
  ],
])("the interpreter works in the workspace that is declared: %s", (_, schedule, from, to, expected) => {
  const [into, changes] = [to.split("|"), from.split("|")];
  const { text } = compiled(schedule);
  const edited = changes.reduce((now, line, i) => {
    expect(now).toContain(line);
    return now.replace(line, into[i] ?? "");
  }, text);
  const a = Float32Array.from({ length: 64 * 256 }, (_, i) => i % 5);
  const b = Float32Array.from({ length: 64 * 256 }, (_, i) => i % 3);
  const run = (source: string): string => {
    const parsed = parseProgram(source);
    const ran = parsed.ok ? interpret(parsed.value, { a, b }) : parsed;
    return ran.ok ? ran.value.d.join() : ran.error.map(formatDiagnostic).join();
  };
  const found = run(edited);
  expect(found === sums ? "right" : (/TW\d+/.exec(found)?.[0] ?? "wrong")).toMatch(
    new RegExp(`^(${expected})$`),
  );
});

interface Edit {
  readonly what: string;
  /** The line that changes, the `nth` such (0), and what is there instead; "": nothing. */
  readonly from: string;
  readonly nth?: number;
  readonly to: string;
  /** Rule that convicts it, the reduction's unless given; what is said, and of which line of the edited text. */
  readonly code?: string;
  readonly says: RegExp;
  readonly line: string;
  /** Each changed line of PTX; null where there is no such kernel. */
  readonly ptx: RegExp | null;
}

const edits: readonly (readonly [schedule: string, edits: readonly Edit[]])[] = [
  [
    "split=4",
    [
      {
        what: "a count without a fence",
        from: "fence gpu",
        to: "",
        says: /no fence has published/,
        line: "counter.add 1",
        ptx: /fence\.acq_rel\.gpu/,
      },
      {
        what: "a count that threads do not wait for",
        from: "barrier 0",
        nth: -1,
        to: "",
        says: /others may still store/,
        line: "counter.add 1",
        ptx: /bar\.sync/,
      },
      {
        what: "a read without a fence",
        from: "fence gpu",
        nth: 1,
        to: "",
        says: /without a fence behind the count/,
        line: "partial.load %acc",
        ptx: /fence\.acq_rel\.gpu/,
      },
      {
        what: "nobody who waits for the others",
        from: "counter.leave unless 4 barrier 0",
        to: "",
        says: /before all CTAs are counted|while others have to count/,
        line: "counter.clear",
        ptx: /bar\.red|setp|bra|reg|parts_end/,
      },
      {
        what: "a CTA too few",
        from: "counter.leave unless 4 barrier 0",
        to: "counter.leave unless 3 barrier 0",
        says: /too early/,
        line: "counter.leave unless 3 barrier 0",
        ptx: /setp\.ne\.u32/,
      },
      {
        what: "a CTA that counts twice",
        from: "counter.add 1",
        to: "counter.add 2",
        says: /not the CTA's own part/,
        line: "counter.add 2",
        ptx: /atom\.relaxed\.gpu|setp\.ne/,
      },
      {
        what: "a partial tile too few",
        from: "partial.add %acc partials 3",
        to: "partial.add %acc partials 2",
        says: /adds 2 partial tiles, and the tile has 3/,
        line: "partial.add %acc partials 2",
        ptx: /add\.u32/,
      },
      {
        what: "a counter left as it is",
        from: "counter.clear",
        to: "",
        says: /not 0 for the next launch/,
        line: "reduce %acc {",
        ptx: /st\.global\.u32/,
      },
      {
        what: "the barrier of another role",
        from: "barrier 0",
        nth: -1,
        to: "barrier 11",
        says: /no barrier of the whole block/,
        line: "barrier 11",
        ptx: /bar\.sync/,
      },
      {
        what: "partial tiles on the counters",
        from: "region %partials at 128 stride 4096 each 4 threads 128 count 4 bytes 65536",
        to: "region %partials at 64 stride 4096 each 4 threads 128 count 4 bytes 65536",
        code: "TW3139",
        says: /lies on %counters, which ends at byte 128/,
        line: "region %partials at 64 stride 4096 each 4 threads 128 count 4 bytes 65536",
        ptx: /add\.s64 %\w+, %\w+, (128|64);/,
      },
      {
        what: "partial tiles behind the workspace",
        from: "region %partials at 128 stride 4096 each 4 threads 128 count 4 bytes 65536",
        to: "region %partials at 256 stride 4096 each 4 threads 128 count 4 bytes 65536",
        code: "TW3139",
        says: /ends at byte 65792, behind the workspace/,
        line: "region %partials at 256 stride 4096 each 4 threads 128 count 4 bytes 65536",
        ptx: /add\.s64 %\w+, %\w+, (128|256);/,
      },
      {
        what: "partial tiles too close",
        from: "region %partials at 128 stride 4096 each 4 threads 128 count 4 bytes 65536",
        to: "region %partials at 128 stride 2048 each 4 threads 128 count 4 bytes 65536",
        code: "TW3139",
        says: /the statements take region %partials at 128 stride 4096/,
        line: "region %partials at 128 stride 2048 each 4 threads 128 count 4 bytes 65536",
        ptx: /ld\.global\.f32 %sum|(mad\.wide\.u32|add\.s64) .*, (2048|4096|8192|16384|32768)\b/,
      },
    ],
  ],
  [
    "split=4 reduction=atomics",
    [
      {
        what: "a sum left as it is",
        from: "partial.clear %acc",
        to: "",
        says: /the sum is not 0/,
        line: "reduce %acc by atomics {",
        ptx: /st\.global/,
      },
      {
        what: "a partial tile that is stored, not added",
        from: "partial.reduce %acc by atomics",
        to: "partial.store %acc",
        says: /is not how tiles are combined by atomics/,
        line: "partial.store %acc",
        // Additions of vectors need a newer PTX ISA than stores.
        ptx: /red\.relaxed|st\.global|^.\.version/,
      },
    ],
  ],
  [
    "split=4 reduction=slices",
    [
      {
        what: "a count without a fence",
        from: "fence gpu",
        to: "",
        says: /no fence has published/,
        line: "slices barrier 0 {",
        ptx: /fence\.acq_rel\.gpu/,
      },
    ],
  ],
  [
    "split=4 reduction=cluster",
    [
      {
        what: "stores to CTAs that may not run",
        from: "cluster.wait any",
        to: "",
        says: /may not have begun/,
        line: "dsmem.send %acc into %sum",
        ptx: /barrier\.cluster\.wait/,
      },
      {
        what: "bytes of a slice too few",
        from: "dsmem.expect 6144",
        to: "dsmem.expect 4096",
        says: /tells of 4096 bytes, and 3 CTAs send 6144/,
        line: "dsmem.expect 4096",
        ptx: /expect_tx/,
      },
      {
        what: "CTAs that wait for slices that nobody sends them",
        from: "dsmem.leave slices 2",
        to: "dsmem.leave slices 3",
        says: /3 CTAs wait for slices, and there are 2/,
        line: "dsmem.expect 6144",
        ptx: /setp\.ge/,
      },
      {
        what: "an addition that waits for nothing",
        from: "dsmem.wait",
        to: "",
        says: /may not have come/,
        line: "dsmem.add %sum partials 4",
        ptx: /try_wait|wait|not\.pred|bra|mov\.u32|reg/,
      },
      {
        what: "a slice too few",
        from: "dsmem.add %sum partials 4",
        to: "dsmem.add %sum partials 3",
        says: /adds 3 slices, and 4 CTAs/,
        line: "dsmem.add %sum partials 3",
        ptx: /ld\.shared|add\.|reg/,
      },
    ],
  ],
  [
    "streamk=3",
    [
      {
        what: "a whole tile that waits for others",
        from: "reduction unless %kn == 16 {",
        to: "reduction {",
        says: /does not go by whether the CTA has its whole tile/,
        line: "reduction {",
        ptx: /setp\.eq|bra|reg/,
      },
      {
        what: "a count of CTAs where chunks are counted",
        from: "counter.add %kn",
        to: "counter.add 1",
        says: /not the CTA's own part/,
        line: "counter.add 1",
        ptx: /atom|sub\.u32|setp|reg/,
      },
    ],
  ],
];

/** Registers by their kind: where one is no more, those behind it have other numbers. */
const unnumbered = (ptx: string): string => ptx.replace(/%([a-z_]+)\d+/g, "%$1");

describe.each(edits)("%s", (schedule, list) => {
  const original = compiled(schedule);
  test.each(list)("$what", ({ from, nth = 0, to, code: rule = "TW3162", says, line, ptx }) => {
    const lines = original.text.split("\n");
    const at = lines.flatMap((each, i) => (each.trim() === from ? [i] : []));
    const index = at.at(nth) ?? -1;
    expect(index).toBeGreaterThanOrEqual(0);
    const edited = lines
      .flatMap((each, i) => (i !== index ? [each] : to === "" ? [] : [each.replace(from, to)]))
      .join("\n");
    const found = compiler.compile({ from: edited, target });
    const faults = found.ok ? [] : found.error;
    expect(faults.map(({ code }) => code)).toEqual([rule]);
    expect(faults[0]?.message).toMatch(says);
    const said = faults[0]?.location?.line ?? 0;
    expect(edited.split("\n")[said - 1]?.trim()).toBe(line);
    const made = compiler.compile({ from: edited, target, unproven: true });
    expect(made.ok).toBe(ptx !== null);
    if (!made.ok || ptx === null) return;
    const changed = unifiedDiff(unnumbered(original.ptx), unnumbered(made.value.ptx))
      .split("\n")
      .filter((each) => /^[+-]/.test(each));
    expect(changed.length).toBeGreaterThan(0);
    expect(changed.filter((each) => !ptx.test(each))).toEqual([]);
  });
});
