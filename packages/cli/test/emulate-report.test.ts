/** What `emulate` says of its runs: seeds, single rules, integers of all widths, counters by instruction, SARIF. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type ElementType, elementTypes, encodeElements, npyOf } from "../src/launch/elements.ts";
import { launchSchema } from "../src/launch/schema.ts";
import { cli, type Outcome } from "./harness.ts";
import { scratch } from "./scratch.ts";

interface Setup {
  readonly ptx: string;
  readonly launch: object;
  readonly flags?: string;
  readonly files?: Readonly<Record<string, Uint8Array>>;
}

async function emulate(
  { ptx, launch, flags = "", files = {} }: Setup,
  then?: (folder: string) => void,
): Promise<Outcome> {
  using folder = scratch();
  writeFileSync(join(folder.path, "k.ptx"), ptx);
  writeFileSync(join(folder.path, "l.json"), JSON.stringify(launch));
  for (const [name, data] of Object.entries(files)) writeFileSync(join(folder.path, name), data);
  const outcome = await cli(`emulate k.ptx --launch l.json ${flags}`, { cwd: folder.path });
  then?.(folder.path);
  return outcome;
}

/** `body` sees the parameters' values in %rd1 (buffer), %r1 is %tid.x, %rd3 the address of the thread's 4 bytes. */
const kernel = (body: string) => `.version 6.0
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
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
${body}
  ret;
}
`;
const launch = {
  entry: "k",
  grid: 1,
  block: 64,
  buffers: { out: { dtype: "u32", shape: [64] } },
  params: [{ buffer: "out" }],
};

/** Warp 1 reads what warp 0 has written (line 19), without a barrier, and words that nobody has written. */
const racy = kernel(`  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, tile;
  add.s32 %r4, %r3, %r2;
  setp.lt.u32 %p1, %r1, 32;
  @%p1 st.shared.u32 [%r4], %r1;
  @!%p1 ld.shared.u32 %r7, [%r4+-128];
  @!%p1 ld.shared.u32 %r8, [%r4+1024];
  st.global.u32 [%rd3], %r1;`);

/** Two copies of a warp's words at a stride of 32 words, then a barrier. */
const conflicted = kernel(`  shl.b32 %r2, %r1, 7;
  and.b32 %r2, %r2, 4095;
  mov.u32 %r3, tile;
  add.s32 %r4, %r3, %r2;
  setp.gt.u32 %p1, %r1, 31;
  @%p1 bra SKIP;
  st.shared.u32 [%r4], %r1;
SKIP:
  bar.sync 0;
  shl.b32 %r5, %r1, 2;
  st.global.u32 [%rd3], %r5;`);

describe("runs", () => {
  test("--seeds: random orders from --seed on; eager and lazy once", async () => {
    const ptx = kernel("  st.global.u32 [%rd3], %r1;");
    const orders = async (flags: string) =>
      JSON.parse((await emulate({ ptx, launch, flags: `--json ${flags}` })).stdout).runs.map(
        ({ order, seed }: { order: string; seed: number }) => `${order} ${seed}`,
      );
    expect(await orders("--seeds 3 --seed 7")).toEqual(["random 7", "random 8", "random 9"]);
    expect(await orders("--order all --seeds 2")).toEqual(["eager 1", "lazy 1", "random 1", "random 2"]);
    expect(await orders("--order lazy --seeds 2")).toEqual(["lazy 1"]);
  });

  test("module variables start anew in each run", async () => {
    const counting = kernel(`  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra DONE;
  atom.global.add.u32 %r2, [count], 1;
  st.global.u32 [%rd3], %r2;
DONE:`).replace(".visible", ".global .u32 count = 5;\n.visible");
    const { stdout, code } = await emulate({
      ptx: counting,
      launch: { ...launch, outputs: { out: "out.npy" } },
      flags: "--seeds 3 --json",
    });
    expect([code, JSON.parse(stdout).differing]).toEqual([0, []]);
  });

  test("results that depend on the order are named", async () => {
    const last = kernel("  st.global.u32 [%rd1], %r1;");
    const buffers = { out: { dtype: "u32", shape: [1] } };
    const outcome = await emulate({
      ptx: last,
      launch: { ...launch, block: 96, buffers, outputs: { out: "out.npy" } },
      flags: "--order all --json",
    });
    expect(JSON.parse(outcome.stdout).differing).toEqual(["out"]);
    expect(outcome.stderr).toContain("TW7063 (check) at out: the result depends on the order");
  });

  test("--fuel goes before the launch file's", async () => {
    const ptx = kernel("LOOP:\n  bra LOOP;");
    const { stderr } = await emulate({ ptx, launch: { ...launch, fuel: 9000 }, flags: "--fuel 300" });
    expect(stderr).toContain("H031: 300 warp-instructions were allowed");
  });
});

describe("--disable", () => {
  test.each([
    ["", 5, ["H006", "H009"]],
    ["--disable H009", 5, ["H006"]],
    ["--disable H006,race-read-after-write", 0, []],
    ["--disable race,uninitialised", 0, []],
    ["--check race --disable h009", 0, []],
  ])("%s", async (flags, code, found) => {
    const outcome = await emulate({ ptx: racy, launch, flags: `--json ${flags}` });
    const { findings } = JSON.parse(outcome.stdout);
    expect([...new Set(findings.map(({ rule }: { rule: string }) => rule))].sort()).toEqual(found);
    expect(outcome.code).toBe(code);
  });

  test("an access that faults is skipped when its rule is off", async () => {
    const buffers = { out: { dtype: "u32", shape: [16] } };
    const ptx = kernel("  st.global.u32 [%rd3], %r1;");
    const run = (flags: string) => emulate({ ptx, launch: { ...launch, buffers }, flags });
    expect((await run("")).stderr).toContain("H001");
    expect(await run("--disable H001")).toMatchObject({ code: 0, stderr: "" });
  });
});

describe("counters", () => {
  test("bank conflicts by instruction: average, best and worst, with the line", async () => {
    const { stdout, code } = await emulate({ ptx: conflicted, launch, flags: "--json" });
    expect(code).toBe(0);
    const { counters } = JSON.parse(stdout).runs[0];
    expect(counters.sharedAccesses).toEqual([
      {
        instruction: expect.stringContaining("st.shared.u32"),
        location: { line: 20, column: 3 },
        samples: 1,
        wavefronts: 32,
        conflicts: 31,
        worst: 32,
      },
    ]);
    expect([counters.sharedWavefronts, counters.sharedConflicts]).toEqual([32, 31]);
  });

  test("waits by instruction: two warps come, the first has to stay", async () => {
    const { stdout } = await emulate({ ptx: conflicted, launch, flags: "--json" });
    expect(JSON.parse(stdout).runs[0].counters.waits).toEqual([
      {
        instruction: expect.stringContaining("bar.sync"),
        location: { line: 22, column: 3 },
        executions: 2,
        blocked: 1,
        polls: expect.any(Number),
      },
    ]);
  });

  test("as tables", async () => {
    const { stdout } = await emulate({ ptx: conflicted, launch });
    expect(stdout).toMatch(/^instruction +warps +share$/m);
    expect(stdout).toMatch(/^global +0 +256$/m);
    expect(stdout).toMatch(/^shared +0 +128$/m);
    expect(stdout).toMatch(/^bank conflicts +31 of 32 wavefronts sampled, in 1 of 1 instructions$/m);
    expect(stdout).toMatch(/^ +20 +32 +1 +32 +st\.shared\.u32/m);
    expect(stdout).toMatch(/^ +22 +2 +1 +\d+ +bar\.sync 0/m);
  });
});

describe("buffers of every type", () => {
  test.each(elementTypes.filter((type) => !type.includes("f4") && type !== "mxf8"))(
    "%s: values in, a .npy out, equal to the bit",
    async (type: ElementType) => {
      const ptx = kernel("");
      // An integer of 4 bits has no 100.
      const values = [0, 1, 2, 3, 4, type === "s4" ? -8 : 100, 7, 5];
      const bytes = encodeElements(type, values);
      const setup = (exact: boolean) => ({
        ptx,
        launch: {
          ...launch,
          buffers: { out: { dtype: type, shape: [2, 4], fill: { values } } },
          outputs: { out: "out.npy" },
          expected: { out: { file: "want.npy", exact } },
        },
        files: { "want.npy": npyOf(type, [8], bytes) },
      });
      // NumPy lacks bf16 and fp8: their files hold float32, whose bits are others.
      const same =
        npyOf(type, [2, 4], bytes).length - bytes.length === 128 && !/^(bf16|e4m3|e5m2)$/.test(type);
      let written: Uint8Array | undefined;
      expect(
        await emulate(setup(same), (folder) => {
          written = readFileSync(join(folder, "out.npy"));
        }),
      ).toMatchObject({ code: 0, stderr: "" });
      expect(Buffer.compare(written ?? new Uint8Array(), npyOf(type, [2, 4], bytes))).toBe(0);
    },
  );

  test("64-bit integers are compared beyond 2^53, in decimal", async () => {
    const value = "9007199254740993";
    const { code, stderr } = await emulate({
      ptx: kernel(""),
      launch: {
        ...launch,
        buffers: { out: { dtype: "s64", shape: [1], fill: { constant: value } } },
        expected: { out: { file: "want.npy" } },
      },
      files: { "want.npy": npyOf("s64", [1], encodeElements("s64", [9007199254740992n])) },
    });
    expect(code).toBe(5);
    expect(stderr).toContain("off by up to 1");
    expect(stderr).toContain("is 9007199254740993 where 9007199254740992 is expected");
  });

  test.each([
    [{ ulp: 2 }, 0],
    [{ ulp: 1 }, 5],
    [{ abs: 2.5e-7 }, 0],
    [{ rel: 1e-8 }, 5],
    [{ exact: true }, 5],
    [{}, 5],
  ])("tolerance %j", async (tolerance, code) => {
    const outcome = await emulate({
      ptx: kernel(""),
      launch: {
        ...launch,
        buffers: { out: { dtype: "f32", shape: [2], fill: { values: [1, 1 + 2 ** -22] } } },
        expected: { out: { file: "want.npy", ...tolerance } },
      },
      files: { "want.npy": npyOf("f32", [2], encodeElements("f32", [1, 1])) },
    });
    expect(outcome.code).toBe(code);
    if (code === 5)
      expect(outcome.stderr).toContain("1 of 2 elements are off by up to 2.38e-7 (relative 2.38e-7, 2 ulp)");
  });

  test("exact tells -0 from 0", async () => {
    const run = (exact: boolean) =>
      emulate({
        ptx: kernel(""),
        launch: {
          ...launch,
          buffers: { out: { dtype: "f32", shape: [1], fill: { values: [0] } } },
          expected: { out: { file: "want.npy", exact } },
        },
        files: { "want.npy": npyOf("f32", [1], encodeElements("f32", [-0])) },
      });
    expect((await run(false)).code).toBe(0);
    expect((await run(true)).code).toBe(5);
  });
});

describe("SARIF", () => {
  /** The essentials of the SARIF 2.1.0 schema: required properties, and the form of those that are used. */
  // biome-ignore lint/suspicious/noExplicitAny: a parsed JSON document
  function validate(log: any): void {
    expect(log.version).toBe("2.1.0");
    expect(log.$schema).toMatch(/^https:.*sarif.*2\.1\.0.*\.json$/);
    expect(log.runs).toHaveLength(1);
    const [run] = log.runs;
    const { driver } = run.tool;
    expect(driver.name).toBe("tilewright");
    const ids = driver.rules.map(({ id }: { id: string }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    for (const rule of driver.rules) {
      expect(rule.shortDescription.text.length).toBeGreaterThan(0);
      expect(rule.help.text.length).toBeGreaterThan(0);
      expect(URL.canParse(rule.helpUri)).toBe(true);
      expect(["none", "note", "warning", "error"]).toContain(rule.defaultConfiguration.level);
    }
    for (const result of run.results) {
      expect(ids[result.ruleIndex]).toBe(result.ruleId);
      expect(["none", "note", "warning", "error"]).toContain(result.level);
      expect(result.message.text.length).toBeGreaterThan(0);
      for (const { physicalLocation } of result.locations) {
        expect(physicalLocation.artifactLocation.uri).toMatch(/^[^\\ ]+$/);
        const { region } = physicalLocation;
        if (region !== undefined) expect(region.startLine >= 1 && region.startColumn >= 1).toBe(true);
      }
    }
    for (const invocation of run.invocations) expect(typeof invocation.executionSuccessful).toBe("boolean");
  }

  const logOf = async (setup: Setup) => {
    let text = "";
    const outcome = await emulate(
      { ...setup, flags: `--sarif found.sarif ${setup.flags ?? ""}` },
      (folder) => {
        text = readFileSync(join(folder, "found.sarif"), "utf8");
      },
    );
    const log = JSON.parse(text);
    validate(log);
    return { outcome, run: log.runs[0] };
  };

  test("a race: rule, line and column, block, warp, and the run that shows it again", async () => {
    const { outcome, run } = await logOf({
      ptx: racy,
      launch,
      flags: "--check race --seed 3",
    });
    expect(outcome.code).toBe(5);
    expect(run.results).toEqual([
      expect.objectContaining({
        ruleId: "H009",
        level: "error",
        locations: [
          {
            physicalLocation: {
              artifactLocation: { uri: "k.ptx" },
              region: {
                startLine: 19,
                startColumn: 3,
                snippet: { text: expect.stringContaining("ld.shared") },
              },
            },
          },
        ],
        properties: expect.objectContaining({
          block: [0, 0, 0],
          warp: expect.any(Number),
          order: "eager",
          seed: 3,
        }),
      }),
    ]);
    const rule = run.tool.driver.rules[run.results[0].ruleIndex];
    expect(rule.name).toBe("RaceReadAfterWrite");
    expect(rule.helpUri).toMatch(/docs\/hazards\/README\.md#h009-race-read-after-write$/);
    expect(run.invocations).toEqual([{ executionSuccessful: true, exitCode: 5 }]);
  });

  test("nothing found", async () => {
    const { outcome, run } = await logOf({ ptx: kernel("  st.global.u32 [%rd3], %r1;"), launch });
    expect([outcome.code, run.results]).toEqual([0, []]);
  });

  test("wrong numbers, and text that does not parse", async () => {
    const numbers = await logOf({
      ptx: kernel("  st.global.u32 [%rd3], %r1;"),
      launch: { ...launch, expected: { out: { file: "want.npy" } } },
      files: { "want.npy": npyOf("u32", [64], new Uint8Array(256)) },
    });
    expect(numbers.run.results.map(({ ruleId }: { ruleId: string }) => ruleId)).toEqual(["TW7060"]);
    const syntax = await logOf({ ptx: kernel("  mov.u32 %r1 %r2;"), launch });
    expect(syntax.outcome.code).toBe(2);
    expect(syntax.run.results).toEqual([
      expect.objectContaining({
        ruleId: "TW4001",
        locations: [
          {
            physicalLocation: {
              artifactLocation: { uri: "k.ptx" },
              region: { startLine: 14, startColumn: expect.any(Number) },
            },
          },
        ],
      }),
    ]);
  });
});

test("the schema of launch files is JSON Schema, and knows what the README shows", async () => {
  const { stdout } = await cli("schema launch");
  const schema = JSON.parse(stdout);
  expect(schema.$schema).toBe("https://json-schema.org/draft/2020-12/schema");
  expect(Object.keys(schema.properties)).toEqual(
    expect.arrayContaining(["tensorMaps", "buffers", "expected"]),
  );
  const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
  const example = /## emulate[\s\S]*?```json\n([\s\S]*?)```/.exec(readme)?.[1] ?? "";
  expect(launchSchema.safeParse(JSON.parse(example)).success).toBe(true);
});
