import { InternalError } from "@tilewright/core";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Pass, runPasses, stages, type TileProgram, unifiedDiff } from "../../src/index.ts";
import { edit, fixture, parse } from "../tile/support/fixtures.ts";
import { passes, target } from "../tile/support/pipelines.ts";

const sm80 = target("sm_80");

describe("runPasses", () => {
  it.each(stages)("takes a program of stage %s to the same machine program", (stage) => {
    const done = runPasses(parse(fixture(stage)), sm80, passes);
    expect(done).toEqual({ ok: true, value: parse(fixture("machine")) });
  });

  it("skips passes of earlier stages and says which of the others changed something", () => {
    const seen: string[] = [];
    runPasses(parse(fixture("specialised", "direct")), sm80, passes, {
      after: (pass, before, after, changed) => {
        expect(changed).toBe(before !== after);
        seen.push(`${pass.name}${changed ? "" : " (unchanged)"}`);
      },
    });
    expect(seen[0]).toMatch(/^bindOwnership/);
    expect(seen).toContain("bindRaster (unchanged)");
    expect(seen.at(-1)).toBe("allocate");
  });

  it("gives the faults of the program it is given as diagnostics", () => {
    const wrong = parse(edit(fixture("nest"), "threads=64", "threads=65"));
    const done = runPasses(wrong, sm80, passes);
    expect(done.ok ? [] : done.error.map((d) => d.code)).toEqual(["TW3110"]);
  });

  const pass = (run: Pass["run"], to: Pass["to"] = "nest"): Pass => ({
    name: "broken",
    summary: "",
    from: "nest",
    to,
    run,
  });
  const program = parse(fixture("nest"));

  it.each([
    [
      "an invalid program",
      pass((p) => ({ ...p, launch: { ...p.launch, threads: 65 } })),
      "pass broken made an invalid program\nTW3110",
    ],
    [
      "another stage than it declares",
      pass((p) => p, "staged"),
      "pass broken returned stage 'nest' where it declares 'staged'",
    ],
    [
      "nothing to a pass that wants a later stage",
      { ...pass((p) => p), from: "bound", to: "bound" } satisfies Pass,
      "pass broken takes programs of stage 'bound', and the one before it left 'nest'",
    ],
  ] as const)("blames the pass that returns %s", (_what, broken, message) => {
    expect(() => runPasses(program, sm80, [broken])).toThrow(InternalError);
    expect(() => runPasses(program, sm80, [broken])).toThrow(message);
  });

  const careless: Pass = {
    ...pass((p: TileProgram) => p),
    name: "careless",
    from: "pipelined",
    to: "pipelined",
    run: () => parse(edit(edit(fixture("pipelined"), " when %pt < 6", ""), " when %pt < 6", "")),
  };

  it("blames a pass whose ring is right for the number of chunks at hand only", () => {
    expect(() => runPasses(parse(fixture("pipelined")), sm80, [careless])).toThrow(
      "with 1 K chunks: chunk 1 of %ring",
    );
    expect(runPasses(parse(fixture("pipelined")), sm80, [careless], { verify: "none" }).ok).toBe(true);
  });

  it("`ends` verifies the last program only, and still names the pass that broke it", () => {
    const idle: Pass = { ...careless, name: "idle", run: (p) => p };
    const seenBy = (verify: "ends" | "each"): readonly string[] => {
      const seen: string[] = [];
      expect(() =>
        runPasses(parse(fixture("pipelined")), sm80, [careless, idle], {
          verify,
          after: (done) => void seen.push(done.name),
        }),
      ).toThrow("pass careless made an invalid program");
      return seen;
    };
    expect(seenBy("ends")).toEqual(["careless", "idle"]);
    expect(seenBy("each")).toEqual([]);
  });
});

/** Apply a unified diff: the inverse that proves it complete. */
function patch(before: string, diff: string): string {
  const source = before.split("\n");
  const out: string[] = [];
  let at = 0;
  for (const line of diff.split("\n")) {
    const hunk = /^@@ -(\d+),(\d+) \+\d+,\d+ @@$/.exec(line);
    if (hunk) {
      const start = Number(hunk[1]) - (hunk[2] === "0" ? 0 : 1);
      out.push(...source.slice(at, start));
      at = start;
    } else if (line.startsWith("+")) out.push(line.slice(1));
    else if (line.startsWith(" ") || line.startsWith("-")) {
      if (source[at] !== line.slice(1))
        throw new Error(`the diff says '${line}' where the text says '${source[at]}'`);
      if (line.startsWith(" ")) out.push(line.slice(1));
      at++;
    }
  }
  return [...out, ...source.slice(at)].join("\n");
}

describe("unifiedDiff", () => {
  const text = fc
    .array(fc.constantFrom("a", "b", "c", "d"), { maxLength: 30 })
    .map((lines) => lines.map((l) => `${l}\n`).join(""));

  it("turns one text into the other, and is empty exactly for equal ones", () => {
    fc.assert(
      fc.property(text, text, fc.nat(3), (before, after, context) => {
        const diff = unifiedDiff(before, after, { context });
        expect(diff === "").toBe(before === after);
        if (diff !== "") expect(patch(before, diff)).toBe(after);
      }),
      { numRuns: 500 },
    );
  });

  it("shows labels, line numbers and three lines of context", () => {
    const lines = Array.from({ length: 12 }, (_, i) => `line ${i + 1}`);
    const changed = lines.map((line) => (line === "line 6" ? "line six" : line));
    expect(unifiedDiff(lines.join("\n"), changed.join("\n"), { labels: ["before", "after"] })).toBe(
      [
        "--- before",
        "+++ after",
        "@@ -3,7 +3,7 @@",
        " line 3",
        " line 4",
        " line 5",
        "-line 6",
        "+line six",
        " line 7",
        " line 8",
        " line 9",
        "",
      ].join("\n"),
    );
  });
});
