/** Arguments, help, colour, tables and progress. */
import { fc, test as property } from "@fast-check/vitest";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { exitCodeFor } from "../src/kit/exit.ts";
import { argument, choice, list, number, seed, switchOn, text, toggle } from "../src/kit/flags.ts";
import { renderHelp } from "../src/kit/help.ts";
import { parseArguments, slotsOf } from "../src/kit/parse.ts";
import { painterFor } from "../src/output/colour.ts";
import { formatBytes, formatTime, plural, trim } from "../src/output/format.ts";
import { toJson } from "../src/output/json.ts";
import { createProgress, tellerOf } from "../src/output/progress.ts";
import { renderPairs, renderTable } from "../src/output/table.ts";
import { fit } from "../src/output/wrap.ts";
import { contextIn } from "./harness.ts";

const own = z.strictObject({
  file: argument("a file", "FILE"),
  m: number("rows", { aliases: ["M"], hint: "M" }),
  aLayout: choice("layout of A", ["row", "col"]),
  a: text("matrix", { longLetters: true, hint: "FILE" }),
  check: switchOn("check"),
  emit: list("what", ["ptx", "ir"]),
  seed: seed("seed", 7),
});
const common = z.strictObject({ json: toggle("as JSON"), quiet: toggle("less", { aliases: ["q"] }) });
const parse = (line: string) => parseArguments(line.split(" "), own, common, ["file"]);

describe("arguments", () => {
  test.each([
    ["x -m 3", { file: "x", m: 3, check: true, seed: 7 }],
    ["-M 3 x", { file: "x", m: 3, check: true, seed: 7 }],
    ["x -m3", { file: "x", m: 3, check: true, seed: 7 }],
    ["x --m=-2.5e1", { file: "x", m: -25, check: true, seed: 7 }],
    ["x -m -4", { file: "x", m: -4, check: true, seed: 7 }],
    ["x --a-layout col --no-check", { file: "x", aLayout: "col", check: false, seed: 7 }],
    ["- --a A.npy", { file: "-", a: "A.npy", check: true, seed: 7 }],
    ["x --emit ir,ptx,ir --seed 0", { file: "x", emit: ["ir", "ptx"], check: true, seed: 0 }],
    ["-- --x", { file: "--x", check: true, seed: 7 }],
  ])("%s", (line, expected) => {
    expect(parse(line)).toEqual({
      ok: true,
      value: { own: expected, common: { json: false, quiet: false } },
    });
  });

  test("flags of all commands", () => {
    expect(parse("x --json -q")).toMatchObject({ value: { common: { json: true, quiet: true } } });
  });

  test.each([
    ["", ["FILE is needed: a file"]],
    ["x -m", ["-m needs a value: -m M"]],
    ["x -m --json", ["-m needs a value: -m M"]],
    ["x -m 1 -M 2", ["-m is given more than once"]],
    ["x --check=yes", ["--check is a switch and takes no value 'yes'"]],
    ["x --emit ptx,,asm", ["an empty entry, 'asm': none of ptx, ir"]],
    ["x --seed 1.5", ["'1.5' is not an integer from 0 to 4294967295"]],
    ["x --a-layout diagonal", ["'diagonal' is none of row, col"]],
    ["x y", ["unexpected argument 'y'"]],
    [
      "x --a --emmit ptx -m z",
      ["--a needs a value: --a FILE", "there is no flag --emmit", "'z' is not a finite number"],
    ],
  ])("%s is refused", (line, messages) => {
    const parsed = parseArguments(line === "" ? [] : line.split(" "), own, common, ["file"]);
    expect(parsed.ok ? [] : parsed.error.map((d) => d.message)).toEqual(messages);
  });

  property.prop([
    fc.array(fc.oneof(fc.string(), fc.constantFrom("-m", "--a", "--", "-", "--no-check", "--emit=", "-qm"))),
  ])("no words make it throw", (words) => {
    const parsed = parseArguments(words, own, common, ["file"]);
    if (!parsed.ok) expect(parsed.error.length).toBeGreaterThan(0);
  });
});

describe("help", () => {
  const source = {
    name: "do",
    summary: "does it",
    about: "At length.",
    examples: [{ what: "once", line: "do x" }],
    slots: slotsOf(own, ["file"]),
  };
  const plain = Object.assign((_style: string, words: string) => words, { width: Number.POSITIVE_INFINITY });

  test("short: examples first, then the names of the flags", () => {
    expect(renderHelp(source, plain, false)).toBe(
      "does it\n\nExamples\n  # once\n  tilewright do x\n\nUsage  tilewright do FILE [flags]\nFlags  -m --a-layout --a --check --emit --seed\n\ntilewright do --help explains them.\n",
    );
  });

  test("full: every flag with its spellings and what it takes", () => {
    const help = renderHelp(source, plain, true);
    for (const line of [
      "  FILE  a file",
      "  -m, -M M",
      "  --a FILE",
      "  --[no-]check",
      "  --emit A,B,…",
      "  --seed N",
      "seed (default 7)",
      "At length.",
    ])
      expect(help).toContain(line);
  });
});

describe("exit codes", () => {
  const of = (...kinds: readonly ("invalid" | "unsupported" | "toolchain" | "check" | "internal")[]) =>
    exitCodeFor(kinds.map((kind) => ({ code: "TW7000", kind, at: "", message: "" })));
  test("one kind each, and what decides among several", () => {
    expect([of("internal"), of("invalid"), of("unsupported"), of("toolchain"), of("check")]).toEqual([
      1, 2, 3, 4, 5,
    ]);
    expect([of("check", "invalid"), of("toolchain", "unsupported"), of("invalid", "internal"), of()]).toEqual(
      [2, 3, 1, 1],
    );
  });
});

describe("output", () => {
  const plain = Object.assign((_style: string, words: string) => words, { width: Number.POSITIVE_INFINITY });

  test("a table is as wide as its cells, without trailing spaces", () => {
    const table = renderTable(
      [{ head: "name" }, { head: "count", align: "right" }, { head: "note" }],
      [
        ["a", "10", ""],
        [{ text: "longer", style: "red" }, "9", "x"],
      ],
      plain,
    );
    expect(table).toBe("name    count  note\na          10\nlonger      9  x\n");
    expect(
      renderPairs(
        [
          ["a", "1"],
          ["bcd", "2"],
        ],
        "  ",
      ),
    ).toBe("  a    1\n  bcd  2\n");
    expect(renderPairs([])).toBe("");
  });

  test("styles do not shift columns", () => {
    const table = renderTable(
      [{ head: "n" }, { head: "m" }],
      [[{ text: "x", style: "red" }, "y"]],
      Object.assign((_style: string, words: string) => `<${words}>`, { width: Number.POSITIVE_INFINITY }),
    );
    expect(table).toBe("<n>  <m>\n<x>  y\n");
  });

  test.each([
    [{ mode: "always", tty: false, env: { NO_COLOR: "1" } }, true],
    [{ mode: "never", tty: true, env: { FORCE_COLOR: "1" } }, false],
    [{ mode: "auto", tty: true, env: {} }, true],
    [{ mode: "auto", tty: false, env: {} }, false],
    [{ mode: "auto", tty: true, env: { NO_COLOR: "1" } }, false],
    [{ mode: "auto", tty: true, env: { NO_COLOR: "" } }, true],
    [{ mode: "auto", tty: true, env: { TERM: "dumb" } }, false],
    [{ mode: "auto", tty: false, env: { FORCE_COLOR: "1" } }, true],
  ] as const)("colour: %o", ({ mode, tty, env }, coloured) => {
    const sink = { write() {}, isTTY: tty };
    const context = { ...contextIn("/"), env };
    expect(painterFor(context, sink, mode)("red", "x") !== "x").toBe(coloured);
  });

  test("numbers as people read them", () => {
    expect([
      formatBytes(0),
      formatBytes(1023),
      formatBytes(1024),
      formatBytes(232448),
      formatBytes(3 * 2 ** 30),
    ]).toEqual(["0 B", "1023 B", "1024 B (1 KiB)", "232448 B (227 KiB)", "3221225472 B (3 GiB)"]);
    expect([formatTime(0.5), formatTime(12.345), formatTime(4500)]).toEqual(["500 us", "12.3 ms", "4.5 s"]);
    expect([trim(0), trim(0.0001234), trim(99.96), trim(1234.5)]).toEqual(["0", "0.000123", "100", "1235"]);
    expect([plural(1, "hazard"), plural(2, "hazard")]).toEqual(["1 hazard", "2 hazards"]);
  });

  test("JSON holds what JSON lacks", () => {
    expect(
      JSON.parse(toJson({ address: 2n ** 60n, bad: Number.POSITIVE_INFINITY, worse: Number.NaN })),
    ).toEqual({
      address: "1152921504606846976",
      bad: "Infinity",
      worse: "NaN",
    });
  });
});

describe("progress", () => {
  /** A clock that the test moves, and what was written. */
  function fake(isTTY: boolean, columns?: number) {
    let time = 0;
    let tick: (() => void) | null = null;
    const written: string[] = [];
    const begin = createProgress(
      {
        ...{ isTTY, write: (data) => void written.push(String(data)) },
        ...(columns === undefined ? {} : { columns }),
      },
      {
        now: () => time,
        every: (_ms, callback) => {
          tick = callback;
          return () => {
            tick = null;
          };
        },
      },
    );
    const pass = (seconds: number) => {
      for (let i = 0; i < seconds; i++) {
        time += 1000;
        tick?.();
      }
    };
    return { begin, pass, written };
  }

  test("work under a second shows nothing", () => {
    const { begin, written } = fake(false);
    begin("emulating").end();
    expect(written).toEqual([]);
  });

  test("to a file: one line when it takes long, one at its end", () => {
    const { begin, pass, written } = fake(false);
    const done = begin("emulating");
    pass(3);
    done.end();
    pass(2);
    expect(written).toEqual(["emulating …\n", "emulating: done in 3 s\n"]);
  });

  test("work that Ctrl-C ends is not said to be done", () => {
    const { begin, pass, written } = fake(false);
    const work = begin("emulating");
    pass(3);
    work.end("interrupted");
    expect(written).toEqual(["emulating …\n", "emulating: interrupted after 3 s\n"]);
  });

  test("work that says how far it is: a line a minute to a file", () => {
    const { begin, pass, written } = fake(false);
    const work = begin("compiling 500 kernels");
    pass(1);
    for (let minute = 1; minute < 3; minute++) {
      work.at(`${minute * 100} of 500`);
      pass(60);
    }
    expect(written).toEqual([
      "compiling 500 kernels …\n",
      "compiling 500 kernels: 100 of 500 …\n",
      "compiling 500 kernels: 200 of 500 …\n",
    ]);
  });

  test("on a terminal: one line, rewritten, then wiped", () => {
    const { begin, pass, written } = fake(true);
    const done = begin("emulating");
    pass(2);
    done.end();
    expect(written).toEqual(["\r\u001b[Kemulating … 1 s", "\r\u001b[Kemulating … 2 s", "\r\u001b[K"]);
  });

  test("of a line that is too long, how far the work is stays", () => {
    const { begin, pass, written } = fake(true, 40);
    const work = begin("running on a device with a long name");
    work.at("7 %, about 9 s left");
    pass(1);
    expect(written).toEqual(["\r\u001b[Krunning on …: 7 %, about 9 s left … 1 s"]);
    expect(written[0]?.length).toBeLessThanOrEqual(40 + "\r\u001b[K".length);
  });

  test("runs of a kernel: percent of all of them and the time that is left, four times a second at most", () => {
    const said: string[] = [];
    let time = 0;
    const context = { ...contextIn("."), now: () => time, progressAt: (word: string) => said.push(word) };
    const tell = tellerOf(context, 2);
    for (let ended = 1; ended <= 100; ended++) {
      time += 100;
      tell(0)(ended, 100);
    }
    expect(said.length).toBe(33);
    expect(said.at(-1)).toBe("49 %, about 11 s left");
    time += 10_000;
    tell(1)(100, 100);
    expect(said.at(-1)).toMatch(/^100 %/);
  });
});

describe("a terminal's width", () => {
  const paint = (width: number) => Object.assign((_style: string, words: string) => words, { width });
  const columns = [{ head: "name" }, { head: "bytes", align: "right" as const }, { head: "what it is" }];
  const rows = [
    ["first", "1024", "a sentence of several words that explains the row"],
    ["second", "", "short"],
  ];

  test("a table that fits stays, its last column breaks, or every row becomes lines", () => {
    expect(renderTable(columns, rows, paint(80)).split("\n")[1]).toBe(
      "first    1024  a sentence of several words that explains the row",
    );
    expect(renderTable(columns, rows, paint(56))).toBe(
      [
        "name    bytes  what it is",
        "first    1024  a sentence of several words that explains",
        "               the row",
        "second         short\n",
      ].join("\n"),
    );
    expect(fit(renderTable(columns, rows, paint(40)), 40)).toBe(
      [
        "name        first",
        "bytes       1024",
        "what it is  a sentence of several words",
        "            that explains the row",
        "",
        "name        second",
        "what it is  short\n\n",
      ].join("\n"),
    );
  });

  test("a name that is too long for its column does not break the table, and stands as far to the left as it needs", () => {
    const name = `out/${"kernel".repeat(6)}.ptx`;
    const made = fit(renderTable(columns, [["first", "1024", name]], paint(50)), 50);
    expect(made).toBe(`name        first\nbytes       1024\nwhat it is\n      ${name}\n\n`);
    expect(made.split("\n").every((line) => line.length <= 50)).toBe(true);
  });

  test("columns without a value are left out, rows of one cell kept", () => {
    const sparse = [
      ["first", "", ""],
      ["second", "", "short"],
    ];
    expect(renderTable(columns, sparse, paint(80))).toBe("name    what it is\nfirst\nsecond  short\n");
    expect(renderTable(columns, [["first", "1", "x"], ["refused"]], paint(80)).split("\n")[2]).toBe(
      "refused",
    );
  });

  test("of --help: a flag that takes more than a third stands above what it does", () => {
    const spec = z.strictObject({
      act: choice("activation", ["silu", "gelu", "gelu_tanh", "relu"], {}),
      lda: text("leading dimension of A in elements, packed unless given", { hint: "N" }),
    });
    const source = { name: "do", summary: "does it", about: "", examples: [], slots: slotsOf(spec, []) };
    const help = renderHelp(
      source,
      Object.assign((_: string, words: string) => words, { width: 60 }),
      true,
    );
    expect(help).toContain(
      [
        "  --act silu|gelu|gelu_tanh|relu",
        "                        activation",
        "  --lda N               leading dimension of A in elements,",
        "                        packed unless given",
      ].join("\n"),
    );
  });

  property.prop([fc.array(fc.string({ minLength: 1, maxLength: 30 })), fc.integer({ min: 20, max: 120 })])(
    "words stay whole and in order, and lines within the width",
    (raw, width) => {
      const words = raw.map((word) => word.replace(/[\s\p{C}]/gu, "x"));
      const lines = fit(words.join(" "), width).split("\n");
      expect(lines.join(" ").split(" ").filter(Boolean)).toEqual(words);
      for (const line of lines) expect(line.length <= width || !line.trim().includes(" ")).toBe(true);
    },
  );
});
