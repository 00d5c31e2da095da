/** Bad input: the message and the exit code of each case, and that nothing else happens: no stack trace, no file. */
import { chmodSync, copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { cli, type Outcome, traceLines } from "./harness.ts";
import { scratch } from "./scratch.ts";

const fixtures = fileURLToPath(new URL("fixtures", import.meta.url));
const problem = "--arch sm_70 -m 64 -n 48 -k 40";

/** Run in a folder that holds the fixtures named, and check what every refusal has in common. */
async function refused(
  argv: string | readonly string[],
  code: number,
  messages: readonly string[],
  options: {
    readonly files?: readonly string[];
    readonly texts?: Readonly<Record<string, string | Uint8Array>>;
  } = {},
): Promise<Outcome> {
  using folder = scratch();
  for (const name of options.files ?? []) copyFileSync(join(fixtures, name), join(folder.path, name));
  for (const [name, text] of Object.entries(options.texts ?? {}))
    writeFileSync(join(folder.path, name), text);
  const before = folder.list();
  const outcome = await cli(argv, { cwd: folder.path });
  expect(outcome.stderr.split("\n").filter((line) => line.startsWith("error "))).toEqual(
    messages.map((message) => expect.stringContaining(message)),
  );
  expect(outcome.code).toBe(code);
  expect(traceLines(outcome.stderr)).toEqual([]);
  expect(outcome.stdout).toBe("");
  expect(folder.list()).toEqual(before);
  return outcome;
}

describe.each(["compile", "run", "plan"])("%s: sizes", (command) => {
  test.each([
    ["-m 0 -n 48 -k 40", ["TW1001 (invalid) at m: must be a positive integer, not 0"]],
    ["-m -64 -n 48 -k 40", ["TW1001 (invalid) at m: must be a positive integer, not -64"]],
    ["-m 64 -n 2.5 -k 40", ["TW1001 (invalid) at n: must be a positive integer, not 2.5"]],
    ["-m 2147483647 -n 48 -k 2147483647", ["TW1009 (invalid) at a: 2147483647 x 2147483647 elements of f32"]],
    [
      "-m 0 -n -1 -k 0.5",
      [
        "at m: must be a positive integer, not 0",
        "at n: must be a positive integer, not -1",
        "at k: must be a positive integer, not 0.5",
      ],
    ],
    ["-m sixty -n 48 -k 40", ["TW7003 (invalid) at -m: 'sixty' is not a finite number"]],
    [
      "-n 48",
      ["TW7004 (invalid) at -m: -m is needed: rows of A and D", "TW7004 (invalid) at -k: -k is needed"],
    ],
  ])("%s", async (sizes, messages) => {
    await refused(`${command} --arch sm_70 ${sizes}`, 2, messages);
  });
});

test("a size beyond 32 bits", async () => {
  const { code, stderr } = await cli("compile --arch sm_70 -m 64 -n 48 -k 1e12");
  expect(code).toBe(2);
  expect(stderr).toContain("TW1002 (invalid) at k: 1000000000000 is too large");
  expect(stderr).toContain("hint: use at most 2147483647");
});

describe("architectures, dtypes, backends", () => {
  test("an unknown architecture names the nearest", async () => {
    const { stderr } = await refused("compile --arch sm_71 -m 64 -n 48 -k 40", 2, [
      "TW1101 (invalid) at arch: there is no target 'sm_71'",
    ]);
    expect(stderr).toContain("hint: did you mean sm_70 or sm_75?");
  });

  test("several architectures, each with its own complaint", async () => {
    await refused("compile --arch sm_91,sm_7000 -m 64 -n 48 -k 40", 2, [
      "there is no target 'sm_91'",
      "there is no target 'sm_7000'",
    ]);
  });

  test("no architecture", async () => {
    await refused("compile -m 64 -n 48 -k 40", 2, ["TW7004 (invalid) at --arch: --arch is needed"]);
  });

  test.each(["compile", "run"])(
    "%s with a dtype that no backend has is unsupported, with what would work",
    async (command) => {
      const { stderr } = await refused(`${command} ${problem} --dtype e4m3`, 3, [
        "TW1821 (unsupported) at target.arch: wgmma: the wgmma backend needs sm_90a, not sm_70",
        "TW1831 (unsupported) at target.arch: tcgen05: the tcgen05 backend needs tensor memory, which sm_70 has not",
        "TW1811 (unsupported) at target.arch: mma: the mma backend needs sm_75 or later, not sm_70",
        "TW1802 (unsupported) at problem.a.dtype: simt: A of the simt backend is f32, f16, bf16, not e4m3",
        "TW1802 (unsupported) at problem.b.dtype: simt: B of the simt backend is f32, f16, bf16, not e4m3",
      ]);
      expect(stderr).toContain("hint: use --dtype f32");
    },
  );

  test("a dtype that does not exist", async () => {
    const { stderr } = await refused(`compile ${problem} --dtype fp32`, 2, [
      "TW1007 (invalid) at dtype: there is no dtype 'fp32'",
    ]);
    expect(stderr).toContain("did you mean f32?");
  });

  test("a backend that does not exist", async () => {
    const { stderr } = await refused(`compile ${problem} --backend simd`, 2, [
      "TW1901 (invalid) at backend: there is no backend 'simd'",
    ]);
    expect(stderr).toContain("did you mean simt?");
  });

  test("a GPU that does not run the code", async () => {
    await refused(["plan", "--arch", "sm_90a", "-m", "64", "-n", "48", "-k", "40", "--gpu", "V100"], 2, [
      "TW7005 (invalid) at --gpu: V100 SXM2 is sm_70 and does not run code for sm_90a",
    ]);
  });
});

describe("schedules", () => {
  test("values that do not parse: all at once, each with the nearest legal one", async () => {
    const argv = ["compile", ...problem.split(" "), "--schedule", "tiel=3 stages=900 frag=3"];
    const { stderr } = await refused(argv, 2, [
      "TW2001 (invalid) at schedule.tiel: there is no field 'tiel'",
      "TW2002 (invalid) at schedule.stages: '900' does not fit 1..64",
      "TW2002 (invalid) at schedule.frag: '3' does not fit 1..2",
    ]);
    for (const hint of ["did you mean tile?", "nearest legal: stages=64", "nearest legal: frag=2"])
      expect(stderr).toContain(hint);
  });

  test("illegal in several ways: all reasons", async () => {
    const argv = [
      "compile",
      ...problem.split(" "),
      "--schedule",
      "tile=100x128x7 thread=16x8 lanes=5x8 stages=64 copy=cp.async",
    ];
    const { stderr } = await refused(argv, 2, [
      "TW2101",
      "TW2102",
      "TW2107",
      "TW2109",
      "TW2112",
      "TW2113",
      "TW1906",
    ]);
    expect(stderr).toContain("5x8 is 40 lanes; a warp has 32");
    expect(stderr).toContain("sm_70 has no cp.async");
    expect(stderr.match(/nearest legal/g)?.length).toBeGreaterThanOrEqual(5);
  });

  test("fields of one backend: its reasons alone, and the nearest schedule that it takes", async () => {
    const argv = "compile --arch sm_90a --dtype bf16 --b-layout col -m 4096 -n 4096 -k 4096 --schedule".split(
      " ",
    );
    const { stderr } = await refused([...argv, "warpgroups=3x1 cluster=4x4 stages=5"], 2, [
      "TW2301 (invalid) at schedule.tile: wgmma: tile m 128 is no multiple of the 64 rows of each of 3 warpgroups",
      "TW2305",
      "TW2306 (invalid) at schedule.tile: wgmma: an instruction of 256 columns needs 154 registers",
      "TW2310",
      "TW1906 (invalid) at schedule: wgmma: as a whole it is not legal for this problem on sm_90a",
    ]);
    const [, text = ""] = /nearest legal schedule: (.*)/.exec(stderr) ?? [];
    expect((await cli([...argv, text, "-o", "-", "--emit", "ptx"])).code).toBe(0);
  });

  test("legal elsewhere only: unsupported", async () => {
    await refused(["compile", ...problem.split(" "), "--schedule", "copy=cp.async registerPrefetch=off"], 3, [
      "TW2109 (unsupported) at schedule.copy: sm_70 has no cp.async",
      "TW1906 (unsupported) at schedule: as a whole it is not legal for this problem on sm_70",
    ]);
  });
});

describe("matrices", () => {
  test.each([
    ["big_endian.npy", "TW7023 (invalid) at big_endian.npy: big_endian.npy is big-endian (dtype >f4)"],
    [
      "rank3.npy",
      "TW7024 (invalid) at rank3.npy: rank3.npy has shape (2, 3, 4), which is rank 3; a matrix has rank 2",
    ],
    ["i64.npy", "TW7022 (invalid) at i64.npy: i64.npy holds int64 (i8), which is not read"],
    ["structured.npy", "TW7020 (invalid) at structured.npy: structured.npy is not a .npy file of numbers"],
    ["empty.npy", "TW7024 (invalid) at empty.npy: empty.npy has shape (0, 4): it holds no elements"],
  ])("%s", async (file, message) => {
    await refused(`run --a ${file} --b f32_c.npy --out D.npy`, 2, [message], { files: [file, "f32_c.npy"] });
  });

  test("both files are complained about", async () => {
    await refused("run --a rank3.npy --b big_endian.npy", 2, ["TW7024", "TW7023"], {
      files: ["rank3.npy", "big_endian.npy"],
    });
  });

  test.each([
    ["in the header", 40, "TW7021 (invalid) at cut.npy: cut.npy is truncated"],
    [
      "in the data",
      160,
      "TW7021 (invalid) at cut.npy: cut.npy holds 8 elements where its shape (3, 4) needs 12: it is truncated",
    ],
  ])("a file truncated %s", async (_where, length, message) => {
    const whole = readFileSync(join(fixtures, "f32_c.npy"));
    const texts = { "cut.npy": whole.subarray(0, length) };
    await refused("run --a cut.npy -n 5 --out D.npy", 2, [message], { texts });
  });

  test("float64, which f32 would round", async () => {
    const messages = ["TW7033 (invalid) at --a: f64.npy holds f64, and as f32 its values would be rounded"];
    const { stderr } = await refused("run --arch sm_70 --a f64.npy -n 5 --out D.npy", 2, messages, {
      files: ["f64.npy"],
    });
    expect(stderr).toContain("hint: store it as f32 first");
  });

  test("C without beta", async () => {
    await refused(
      "run --a f32_c.npy -n 4 --c f32_c.npy",
      2,
      ["TW1005 (invalid) at c: C is given but beta is 0"],
      {
        files: ["f32_c.npy"],
      },
    );
  });

  test("a batch, which a file does not hold", async () => {
    await refused(
      "run --a f32_c.npy -n 4 --batch 2",
      2,
      ["TW7005 (invalid) at --batch: a file holds one matrix, not a batch"],
      {
        files: ["f32_c.npy"],
      },
    );
  });

  test("files that are not there, and formats that are not known", async () => {
    await refused("run --a A.npy --b B.csv", 2, [
      "TW7010 (invalid) at A.npy: cannot read A.npy: there is no such file",
      "TW7013 (invalid) at B.csv: B.csv is in no format that is read",
    ]);
    await refused(`run ${problem} --out D.csv`, 2, [
      "TW7013 (invalid) at --out: D.csv is in no format that is written",
    ]);
  });

  test("shapes that do not fit each other", async () => {
    await refused(
      "run --a f32_c.npy --b f32_c.npy",
      2,
      [
        "TW7034 (invalid) at --b: k is 3 by the rows of f32_c.npy (3, 4), but 4 by the columns of f32_c.npy (3, 4)",
      ],
      { files: ["f32_c.npy"] },
    );
  });

  test("flags that contradict a file", async () => {
    await refused(
      "run --a f32_c.npy -m 300 -n 5 -k 4",
      2,
      ["TW7034 (invalid) at -m: m is 300 by -m, but 3 by the rows of f32_c.npy (3, 4)"],
      { files: ["f32_c.npy"] },
    );
  });
});

describe("outputs", () => {
  test("a folder whose path goes through a file", async () => {
    const messages = ["TW7011 (invalid) at taken/out/gemm_f32_nn_64x48x40.ptx: cannot write"];
    const { stderr } = await refused(`compile ${problem} -o taken/out`, 2, messages, {
      texts: { taken: "" },
    });
    expect(stderr).toContain("a file is where a folder is needed");
    expect(stderr).toContain("hint: name a folder that you can write to");
  });

  test("a folder where the file should go", async () => {
    using folder = scratch();
    mkdirSync(join(folder.path, "gemm_f32_nn_64x48x40.gemm.json"));
    const { code, stderr } = await cli(`compile ${problem}`, { cwd: folder.path });
    expect(code).toBe(2);
    expect(stderr).toContain("a folder is where the file should go");
    // The PTX was ready to go, and is not left behind either.
    expect(folder.list()).toEqual(["gemm_f32_nn_64x48x40.gemm.json"]);
  });

  // The superuser may write anywhere.
  test.skipIf(process.getuid?.() === 0 || process.platform === "win32")(
    "a folder without permission",
    async () => {
      using folder = scratch();
      chmodSync(folder.path, 0o500);
      const { code, stderr } = await cli(`compile ${problem} -o ${folder.path}/out`);
      chmodSync(folder.path, 0o700);
      expect([code, folder.list()]).toEqual([2, []]);
      expect(stderr).toContain("no permission to write there");
    },
  );

  test("D where it cannot be written", async () => {
    await refused(
      `run ${problem} --device emulator --out taken/D.npy`,
      2,
      ["TW7011 (invalid) at taken/D.npy: cannot write taken/D.npy"],
      {
        texts: { taken: "" },
      },
    );
  });

  test("two results for one pipe", async () => {
    await refused(`compile ${problem} --emit ptx,manifest -o -`, 2, [
      "TW7005 (invalid) at -o: -o - takes one result",
    ]);
  });
});

describe("edited tile programs", () => {
  /** The text of a stage after `edit`, compiled. */
  async function edited(
    stage: string,
    edit: (text: string) => string,
    messages: readonly string[],
  ): Promise<Outcome> {
    const { stdout } = await cli(`compile ${problem} --ir ${stage}`);
    const text = edit(stdout);
    expect(text).not.toBe(stdout);
    return refused("compile --from edited.tile -o out", 2, messages, { texts: { "edited.tile": text } });
  }

  test("a syntax error, at its line and column", async () => {
    const { stderr } = await edited("staged", (text) => text.replace("copy %sA", "coopy %sA"), [
      "TW3002 (invalid) at 'coopy': 'coopy' begins no statement",
    ]);
    expect(stderr).toMatch(/error edited\.tile:\d+:\d+: TW3002/);
    expect(stderr).toContain("did you mean 'copy'?");
  });

  test("a type error: tiles of shapes that do not multiply", async () => {
    const { stderr } = await edited(
      "staged",
      (text) => text.replace(/register %fA f32\[(\d+), 1\]/, "register %fA f32[$1, 3]"),
      ["TW3102 (invalid) at tiles/for %kt/for %kk/copy %fA: copies %sA", "multiplies %fA"],
    );
    expect(stderr).toMatch(/error edited\.tile:\d+:\d+: TW3102/);
    expect(stderr).toMatch(/into %fA \(\d+ x 3\)/);
  });

  test("a protocol error: a chunk that is never waited for", async () => {
    const { stderr } = await edited("bound", (text) => text.replaceAll(/^ *wait .*\n/gm, ""), [
      "TW3117 (invalid) at tiles/copy %fA: block reads ring %ring without being one of its consumers",
    ]);
    expect(stderr).toMatch(/error edited\.tile:\d+:\d+: TW3117/);
    expect(stderr).toContain("hint: wait first");
  });

  test("a problem beside it", async () => {
    await refused(`compile ${problem} --from x.tile`, 2, [
      "TW7005 (invalid) at --from: a tile program states its problem, target and schedule; m, n, k, arch would contradict it",
    ]);
  });
});

describe("emulate", () => {
  const launch = JSON.stringify({ entry: "f", grid: 1, block: 32 });
  const ptx = (body: string) =>
    `.version 6.0\n.target sm_70\n.address_size 64\n.visible .entry f()\n{\n${body}\n}\n`;

  test("PTX with an unknown instruction, by name and line", async () => {
    const { stderr } = await refused(
      "emulate kernel.ptx --launch launch.json",
      3,
      ["TW4002 (unsupported) at line 6: unknown instruction frobnicate.b32"],
      {
        texts: { "kernel.ptx": ptx("  frobnicate.b32 %r1, %r2;\n  ret;"), "launch.json": launch },
      },
    );
    expect(stderr).toMatch(/kernel\.ptx:6:\d+: TW4/);
  });

  test("a launch file that does not parse, or does not fit", async () => {
    const texts = {
      "kernel.ptx": ptx("  ret;"),
      "broken.json": '{"entry": ',
      "odd.json": JSON.stringify({ entry: "f", gird: 1, block: -1 }),
    };
    await refused(
      "emulate kernel.ptx --launch broken.json",
      2,
      ["TW7012 (invalid) at broken.json: broken.json is not JSON"],
      { texts },
    );
    await refused(
      "emulate kernel.ptx --launch odd.json",
      2,
      ["TW7012 (invalid) at grid", "TW7012 (invalid) at block", "gird"],
      { texts },
    );
  });

  test("an entry that the module lacks", async () => {
    await refused("emulate kernel.ptx --launch launch.json", 2, ["TW6012"], {
      texts: { "kernel.ptx": ptx("  ret;"), "launch.json": launch.replace('"f"', '"g"') },
    });
  });

  test("buffers that are not declared, and fills without a type", async () => {
    const texts = {
      "kernel.ptx": ptx("  ret;"),
      "launch.json": JSON.stringify({
        entry: "f",
        grid: 1,
        block: 32,
        buffers: { x: { bytes: 64, fill: { normal: {} } }, y: {} },
        params: [{ buffer: "z" }],
        outputs: { w: "w.npy" },
      }),
    };
    await refused(
      "emulate kernel.ptx --launch launch.json",
      2,
      [
        "at buffers.x.fill: numbers need a dtype",
        "at buffers.y: its size is not given",
        "at params[0]: there is no buffer 'z'",
        "at outputs.w: there is no buffer 'w'",
      ],
      { texts },
    );
  });

  test("no launch file", async () => {
    await refused("emulate kernel.ptx", 2, [
      "TW7010 (invalid) at kernel.ptx: cannot read kernel.ptx: there is no such file",
    ]);
  });
});

describe("the command line itself", () => {
  test("an unknown command names the nearest", async () => {
    const { stderr } = await refused("compil", 2, [
      "TW7001 (invalid) at compil: there is no command 'compil'",
    ]);
    expect(stderr).toContain("did you mean compile?");
  });

  test("unknown flags, missing values and stray words, all at once", async () => {
    const { stderr } = await refused("compile --arhc sm_70 -m 5 -n --k 3 stray", 2, [
      "TW7002 (invalid) at --arhc: there is no flag --arhc",
      "TW7003 (invalid) at -n: -n needs a value: -n N",
      "TW7006 (invalid) at stray: unexpected argument 'stray'",
    ]);
    expect(stderr).toContain("did you mean --arch?");
  });

  test("words out of place", async () => {
    await refused("run --device gpu --order sideways --seed -1 --hazards race,speed", 2, [
      "at --device: 'gpu' is none of auto, cuda, emulator",
      "at --hazards: 'speed': none of all, none, bounds, alignment, uninitialised, race, barrier, async",
      "at --order: 'sideways' is none of eager, lazy, random, all",
      "at --seed: '-1' is not an integer from 0 to 4294967295",
      ...["-m", "-n", "-k"].map((flag) => `TW7004 (invalid) at ${flag}: ${flag} is needed`),
    ]);
  });

  test("--json says it as an object, too", async () => {
    const { code, stdout } = await cli("compile --arch sm_70 -m 0 -n 1 -k 1 --json");
    expect([code, JSON.parse(stdout)]).toEqual([
      2,
      { ok: false, diagnostics: [expect.objectContaining({ code: "TW1001", kind: "invalid", at: "m" })] },
    ]);
  });

  test("a request file that does not fit", async () => {
    const texts = {
      "r.json": JSON.stringify({ arch: "sm_70", problem: { m: 0, n: 4, k: 4, dtyp: "f32" }, shedule: "x" }),
      "l.json": "[1]",
    };
    await refused("compile --request r.json", 2, ["TW7012 (invalid) at shedule"], { texts });
    await refused("compile --request l.json", 2, ["TW7012 (invalid) at l.json"], { texts });
    await refused("compile --request none.json", 2, ["TW7010 (invalid) at none.json"]);
    const beside = { "p.json": '{"m": 8, "n": 8, "k": 8, "dtype": "f16"}' };
    const { stderr } = await refused(
      "compile --arch sm_80 --request p.json",
      2,
      ["TW7012 (invalid) at p.json: the problem's fields stand beside those of the request"],
      { texts: beside },
    );
    expect(stderr).toContain('put them under "problem"');
    const grouped = {
      "g.json": '{"problem": {"m": 8, "n": 8, "k": 8, "batch": {"kind": "grouped", "count": 2}}}',
    };
    for (const command of ["run", "bench", "ladder sgemm"])
      await refused(
        `${command} --arch sm_80 --request g.json`,
        3,
        ["TW7040 (unsupported) at problem.batch"],
        {
          texts: grouped,
        },
      );
  });
});
