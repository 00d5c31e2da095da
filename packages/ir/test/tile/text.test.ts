import { type Diagnostic, formatDiagnostic } from "@tilewright/core";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseProgram, parseProgramWithLocations, printProgram, stages } from "../../src/index.ts";
import { edit, fixture, parse } from "./support/fixtures.ts";
import { programs } from "./support/programs.ts";

describe("the text of tile programs", () => {
  it("parses back to an equal program", () => {
    fc.assert(
      fc.property(programs, (program) => {
        const text = printProgram(program);
        const parsed = parseProgram(text);
        if (!parsed.ok) throw new Error(`${parsed.error.map(formatDiagnostic).join("\n")}\n${text}`);
        expect(parsed.value).toEqual(program);
        expect(printProgram(parsed.value)).toBe(text);
      }),
      { numRuns: 300 },
    );
  });

  it("is the same whatever the blanks, comments and order of attributes", () => {
    const text = fixture("bound");
    const program = parse(text);
    const loose = text
      .replaceAll("\n", "  // a comment\n\n")
      .replaceAll(" = ", "=")
      .replaceAll("alpha 1 beta 2 guard(rows, cols) vector 2", "vector 2 guard(cols,rows) beta 2 alpha 1");
    expect(loose).not.toBe(text);
    expect(parse(loose)).toEqual(program);
  });

  it("says where each statement and buffer begins", () => {
    const text = fixture("staged");
    const parsed = parseProgramWithLocations(text);
    if (!parsed.ok) throw new Error("the fixture parses");
    const { program, locations } = parsed.value;
    const lines = text.split("\n");
    for (const buffer of program.buffers) {
      const at = locations.get(buffer);
      expect(lines[(at?.line ?? 0) - 1]?.slice((at?.column ?? 0) - 1)).toMatch(`%${buffer.name}`);
    }
    const tiles = locations.get(program.body[0] ?? {});
    expect(lines[(tiles?.line ?? 0) - 1]?.slice((tiles?.column ?? 0) - 1)).toMatch(/^tiles/);
  });
});

interface Broken {
  readonly what: string;
  readonly edits: readonly (readonly [string, string])[];
  /** Line, column and code of every error. */
  readonly errors: readonly {
    readonly code: Diagnostic["code"];
    readonly message: string;
    readonly hint?: string;
  }[];
}

const broken: readonly Broken[] = [
  {
    what: "misspelt directive",
    edits: [["directive walk order", "directive wakl order"]],
    errors: [{ code: "TW3002", message: "'wakl' is no directive", hint: "did you mean 'walk'?" }],
  },
  {
    what: "misspelt, unfit and repeated arguments of directives, all of them",
    edits: [
      ["directive walk order=snake-rows", "directive walk ordr=rows swap=2 lines=up lines=up"],
      ["ring slots=3 registerPrefetch=0", "ring slots=1000000 registerPrefetch"],
    ],
    errors: [
      { code: "TW3004", message: "'1000000' does not fit slots=1..64", hint: "nearest legal: slots=64" },
      { code: "TW3004", message: "'' does not fit registerPrefetch=0|1" },
      { code: "TW3002", message: "directive 'walk' has no argument 'ordr'", hint: "did you mean 'order'?" },
      { code: "TW3004", message: "'2' does not fit swap=0|1" },
      { code: "TW3005", message: "directive 'walk' says 'lines' twice", hint: "keep one" },
    ],
  },
  {
    what: "repeated directive",
    edits: [["directive walk", "directive guards\n  directive walk"]],
    errors: [{ code: "TW3005", message: "directive 'guards' is given twice", hint: "keep one" }],
  },
  {
    what: "misspelt statement",
    edits: [["fill %acc", "fil %acc"]],
    errors: [{ code: "TW3002", message: "'fil' begins no statement", hint: "did you mean 'fill'?" }],
  },
  {
    what: "misspelt attribute",
    edits: [["walk rows", "wlak rows"]],
    errors: [{ code: "TW3002", message: "mma has no attribute 'wlak'", hint: "did you mean 'walk'?" }],
  },
  {
    what: "misspelt value",
    edits: [["walk rows", "walk snake-row"]],
    errors: [{ code: "TW3002", message: "'snake-row' is no walk", hint: "did you mean 'snake-rows'?" }],
  },
  {
    what: "missing attribute",
    edits: [[" walk rows", ""]],
    errors: [
      { code: "TW3001", message: "mma lacks 'walk'", hint: "add: walk rows|cols|snake-rows|snake-cols" },
    ],
  },
  {
    what: "repeated attribute",
    edits: [["walk rows", "walk rows walk cols"]],
    errors: [{ code: "TW3005", message: "mma says 'walk' twice", hint: "keep one" }],
  },
  {
    what: "unknown buffer",
    edits: [["copy %fA <- %sA", "copy %fA <- %sAA"]],
    errors: [{ code: "TW3003", message: "no buffer is called %sAA" }],
  },
  {
    what: "unknown loop variable",
    edits: [["%kk : 1]", "%kkk : 1]"]],
    errors: [{ code: "TW3003", message: "no loop variable %kkk is in scope", hint: "did you mean '%kk'?" }],
  },
  {
    what: "product of variables",
    edits: [["%kt * 4 : 4]", "%kt * %mt : 4]"]],
    errors: [
      {
        code: "TW3004",
        message: "one side of '*' must be a constant",
        hint: "indices are affine: write variable * constant",
      },
    ],
  },
  {
    what: "division by zero",
    edits: [["%kt * 4 : 4]", "%kt / 0 : 4]"]],
    errors: [{ code: "TW3004", message: "the divisor must be an integer of at least 1, found 0" }],
  },
  {
    what: "fractional extent",
    edits: [["%kk : 1]", "%kk : 1.5]"]],
    errors: [
      { code: "TW3004", message: "the number of columns must be an integer of at least 1, found 1.5" },
    ],
  },
  {
    what: "unbalanced brace",
    edits: [["  }\n}", "  }"]],
    errors: [{ code: "TW3001", message: "expected '}' to close the program, found the end of the text" }],
  },
  {
    what: "missing brace, one error only",
    edits: [["for %kt = 0 .. 6 {", "for %kt = 0 6 {"]],
    errors: [{ code: "TW3001", message: "expected '..' before the end of the loop, found '6'" }],
  },
  {
    what: "two statements on a line",
    edits: [["fill %acc = 0", "fill %acc = 0 fill %acc = 1"]],
    errors: [{ code: "TW3002", message: "fill has no attribute 'fill'" }],
  },
  {
    what: "declaration among statements",
    edits: [["    fill %acc = 0", "    ring %r slots 2 buffers(%sA) transport direct\n    fill %acc = 0"]],
    errors: [
      {
        code: "TW3002",
        message: "'ring' begins no statement",
        hint: "declarations come before the first statement",
      },
    ],
  },
  {
    what: "buffer declared twice",
    edits: [
      [
        "  shared %sB f32[4, 16] align 16",
        "  shared %sB f32[4, 16] align 16\n  shared %sB f32[4, 16] align 16",
      ],
    ],
    errors: [{ code: "TW3005", message: "two buffers are called %sB", hint: "rename one" }],
  },
  {
    what: "unknown stage and dtype at once",
    edits: [
      ["register %fA f32", "register %fA fp32"],
      ["register %fB f32", "register %fB float"],
    ],
    errors: [
      { code: "TW3002", message: "'fp32' is no dtype" },
      { code: "TW3002", message: "'float' is no dtype" },
    ],
  },
  {
    what: "incomplete nest",
    edits: [["  nest k (block 6, register 4)\n", ""]],
    errors: [
      { code: "TW3001", message: "the nest lacks axis k", hint: "add: nest k (…), or remove the other axes" },
    ],
  },
  {
    what: "malformed layout",
    edits: [["layout (20,21):(21,1)", "layout (20,21):(21)"]],
    errors: [{ code: "TW3004", message: "2 extents but 1 strides", hint: "give one stride for each extent" }],
  },
  {
    what: "swizzle in round brackets",
    edits: [["layout (20,21):(21,1)", "layout (20,21):(21,1) swizzle(3, 4, 3)"]],
    errors: [
      {
        code: "TW3004",
        message: "'(20,21):(21,1) swizzle(3, 4, 3)' is not a layout",
        hint: "write (rows,columns):(stride,stride), e.g. (128,8):(1,132) swizzle<3,4,3>",
      },
    ],
  },
  {
    what: "misspelt stage, and a fault of the body",
    edits: [
      ["stage staged", "stage stagd"],
      ["fill %acc", "fil %acc"],
    ],
    errors: [
      { code: "TW3002", message: "'stagd' is no stage", hint: "did you mean 'staged'?" },
      { code: "TW3002", message: "'fil' begins no statement", hint: "did you mean 'fill'?" },
    ],
  },
  {
    what: "misspelt first word",
    edits: [["tile.kernel", "tile.kernl"]],
    errors: [
      {
        code: "TW3001",
        message: "expected 'tile.kernel' at the start of a program, found 'tile.kernl'",
        hint: "did you mean 'tile.kernel'?",
      },
    ],
  },
  {
    what: "missing name",
    edits: [["tile.kernel @", "tile.kernel "]],
    errors: [{ code: "TW3001", message: "expected the kernel's name, found 'gemm'", hint: "write @name" }],
  },
  {
    what: "missing brace of the kernel",
    edits: [[" {\n  problem", "\n  problem"]],
    errors: [{ code: "TW3001", message: "expected '{' before the program, found 'problem'" }],
  },
  {
    what: "foreign character",
    edits: [["fill %acc = 0", "fill %acc = €"]],
    errors: [{ code: "TW3001", message: "expected a number for the value, found '€'" }],
  },
  {
    what: "three independent errors",
    edits: [
      ["fill %acc = 0", "fill = 0"],
      ["atom fma", "atm fma"],
      ["alpha 1", "alpha x"],
    ],
    errors: [
      { code: "TW3001", message: "expected a buffer, written %name, found '='" },
      { code: "TW3002", message: "mma has no attribute 'atm'", hint: "did you mean 'atom'?" },
      { code: "TW3001", message: "expected a number for 'alpha', found 'x'" },
    ],
  },
];

describe("errors in the text", () => {
  it.each(broken)("$what", ({ edits, errors }) => {
    const text = edits.reduce((t, [from, to]) => edit(t, from, to), fixture("staged"));
    const parsed = parseProgram(text);
    expect(parsed.ok).toBe(false);
    if (parsed.ok) return;
    expect(parsed.error.map((d) => ({ code: d.code, message: d.message }))).toEqual(
      errors.map(({ code, message }) => ({ code, message })),
    );
    for (const [i, { hint }] of errors.entries()) {
      if (hint !== undefined) expect(parsed.error[i]?.hint).toBe(hint);
      // The column points at what the message speaks of, or at what stands in its place.
      expect(parsed.error[i]?.location?.line).toBeGreaterThan(0);
    }
  });

  it("point at line and column", () => {
    const text = edit(fixture("nest"), "walk rows", "walk row");
    const parsed = parseProgram(text);
    if (parsed.ok) throw new Error("should not parse");
    const lines = text.split("\n");
    const line = lines.findIndex((l) => l.includes("walk row"));
    expect(parsed.error[0]?.location).toEqual({
      line: line + 1,
      column: (lines[line] ?? "").indexOf("walk row") + "walk ".length + 1,
    });
  });

  it.each([
    [
      "none",
      "",
      "the text has no version line, and this release reads version 6; since version 2 texts begin",
      1,
    ],
    [
      "an older one",
      "// kept\ntile.ir 1\n",
      "the text is of version 1, and this release reads version 6; since version 2",
      2,
    ],
    ["a newer one", "tile.ir 7\n", "the text is of version 7, and this release reads version 6", 1],
  ])("of the version are the only ones: %s", (_what, line, message, at) => {
    const text = edit(fixture("nest"), "tile.ir 6\n", line).replace("fill %acc", "fil %acc");
    const parsed = parseProgram(text);
    if (parsed.ok) throw new Error("should not parse");
    expect(parsed.error).toHaveLength(1);
    expect(parsed.error[0]?.code).toBe("TW3006");
    expect(parsed.error[0]?.message).toContain(message);
    expect(parsed.error[0]?.location?.line).toBe(at);
    expect(parsed.error[0]?.hint).toContain(
      line.includes("7") ? "print it again" : "write 'tile.ir 6' on a line before",
    );
  });

  it("of a text that is none ask for the version", () => {
    const parsed = parseProgram("hello");
    if (parsed.ok) throw new Error("should not parse");
    expect(parsed.error.map((d) => d.message)).toEqual([
      "expected 'tile.ir' at the start of a text, found 'hello'",
    ]);
  });

  it("of the problem line carry its place and its own codes", () => {
    const parsed = parseProgram(edit(fixture("nest"), "m=20", "m=0"));
    if (parsed.ok) throw new Error("should not parse");
    expect(parsed.error.map((d) => [d.at, d.location?.line])).toEqual([["m", 3]]);
  });

  it("end at what is nested too deep, in a moment", () => {
    const deep = 20_000;
    const loops = Array.from({ length: deep }, (_, i) => `for %i${i} = 0 .. 2 {`).join("\n");
    const texts = [
      edit(fixture("nest"), "fill %acc = 0", `${loops}\n${"}\n".repeat(deep)}`),
      edit(fixture("nest"), "0 .. 6", `0 .. ${"(".repeat(deep)}6${")".repeat(deep)}`),
      edit(fixture("nest"), "0 .. 6", `0 .. 6${" + 0".repeat(deep)}`),
    ];
    const start = process.cpuUsage().user;
    expect(
      texts.map((text) => {
        const parsed = parseProgram(text);
        return parsed.ok ? [] : parsed.error.map(({ code, message }) => `${code} ${message}`);
      }),
    ).toEqual([
      ["TW3004 blocks within each other are at most 64"],
      ["TW3004 parentheses within each other are at most 64"],
      ["TW3004 an expression has at most 64 terms, and as many factors"],
    ]);
    expect((process.cpuUsage().user - start) / 1e6).toBeLessThan(2);
  });

  it("are at most a hundred, found in time that grows with the text", () => {
    const lines = `${"fil %acc = 0\n".repeat(200_000)}`;
    const parsed = parseProgram(edit(fixture("nest"), "fill %acc = 0", lines));
    if (parsed.ok) throw new Error("should not parse");
    expect(parsed.error).toHaveLength(100);
    expect(parsed.error.at(-1)?.message).toContain("the errors after 100 are not told");
    const long = parseProgram(edit(fixture("nest"), "fill %acc = 0", "fill %acc = 0\n".repeat(50_000)));
    expect(long.ok).toBe(true);
  });

  it.each([
    [
      "for %kt = 0 .. 6",
      "for %kt = 0 .. 99999999999999",
      "'99999999999999'",
      "an index must be an integer of at most 2147483647",
    ],
    [
      "threads=64",
      "threads=1048576",
      "'1048576'",
      "the number of threads must be an integer of at most 1024",
    ],
    ["cluster=1x1", "cluster=1x1025", "'x1025'", "a cluster has two extents, of 1 to 1024 blocks"],
    [
      "nest m (grid 2",
      "nest m (grid 999999999999",
      "'999999999999'",
      "the extent must be an integer of at most 2147483647",
    ],
  ])("of numbers beyond what a kernel counts: %s as %s", (from, to, at, message) => {
    const parsed = parseProgram(edit(fixture("nest"), from, to));
    if (parsed.ok) throw new Error("should not parse");
    expect(parsed.error.map((d) => [d.code, d.at])).toEqual([["TW3004", at]]);
    expect(parsed.error[0]?.message).toContain(message);
  });

  it("never throw, whatever is cut out of a program", () => {
    const text = stages.map((s) => fixture(s)).join("\n");
    fc.assert(
      fc.property(fc.nat(text.length), fc.nat(40), fc.string({ maxLength: 5 }), (at, length, insert) => {
        const cut = text.slice(0, at) + insert + text.slice(at + length);
        for (const part of cut.split(/(?=tile\.ir)/)) {
          const parsed = parseProgram(part);
          if (!parsed.ok) expect(parsed.error.length).toBeGreaterThan(0);
        }
      }),
      { numRuns: 200 },
    );
  });
});
