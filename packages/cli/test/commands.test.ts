/** plan, targets, schema, doctor, demo, help, and internal errors. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { simt } from "@tilewright/backend-simt";
import { targets } from "@tilewright/core";
import { afterEach, describe, expect, test, vi } from "vitest";
import { commands } from "../src/commands/index.ts";
import { compiler } from "../src/compiler.ts";
import { bankMapsSvg } from "../src/plan/svg.ts";
import { cli, traceLines } from "./harness.ts";
import { scratch } from "./scratch.ts";

afterEach(() => vi.restoreAllMocks());

describe("plan", () => {
  test("as text, section by section, without a GPU", async () => {
    const { code, stdout, stderr } = await cli("plan --arch sm_70 -m 4096 -n 4096 -k 4096");
    expect([code, stderr]).toEqual([0, ""]);
    for (const title of [
      "Backends",
      "Schedule",
      "Next best",
      "Fit",
      "Roofline",
      "Prediction",
      "Shared memory",
      "Bank conflicts",
    ])
      expect(stdout).toMatch(new RegExp(`^${title}$`, "m"));
    expect(stdout).toContain("sm_70 on V100 SXM2");
    expect(stdout).toContain("bound by compute: at most 15.7 TFLOP/s");
  });

  test("as JSON: the numbers hang together", async () => {
    const { stdout } = await cli("plan --arch sm_70 -m 4096 -n 4000 -k 512 --json");
    const [plan] = JSON.parse(stdout).plans;
    const [tileM, tileN] = /^tile=(\d+)x(\d+)x/.exec(plan.schedule)?.slice(1).map(Number) ?? [];
    expect(plan.waves.blocks).toBe(Math.ceil(4096 / (tileM ?? 0)) * Math.ceil(4000 / (tileN ?? 0)));
    expect(plan.grid.reduce((a: number, b: number) => a * b, 1)).toBe(plan.waves.blocks);
    expect(plan.waves.perWave).toBe(plan.occupancy.blocksPerSm * plan.gpu.sms);
    expect(plan.alternatives).not.toContain(plan.schedule);
    expect(plan.alternatives.length).toBeGreaterThan(1);
    const tiles = plan.shared.tiles.reduce((sum: number, tile: { bytes: number }) => sum + tile.bytes, 0);
    expect(plan.shared.bytes).toBeGreaterThanOrEqual(tiles);
    expect(plan.shared.bytes).toBeLessThanOrEqual(plan.shared.limit);
    expect(plan.roofline.flops).toBe(2 * 4096 * 4000 * 512);
  });

  test("a prediction by the machine model, called one", async () => {
    const line = "plan --arch sm_80 -m 4096 -n 4096 -k 4096 --dtype f16 --gpu H200";
    const { stdout } = await cli(line);
    expect(stdout).toMatch(/TFLOP\/s: a prediction of docs\/perf\/model\.md, not a measurement/);
    const [plan] = JSON.parse((await cli(`${line} --json`)).stdout).plans;
    expect(plan.prediction.tflops).toBeLessThan(plan.roofline.attainableTflops);
    expect(plan.prediction.timeUs).toBeGreaterThan(plan.roofline.timeUs);
    expect(plan.prediction.watts).toBeLessThanOrEqual(700);
  });

  test("constants that a GPU's data file does not state are those of the GPU that it is like", async () => {
    const line = "plan --arch sm_80 -m 4096 -n 4096 -k 4096 --dtype f16";
    expect((await cli(`${line} --gpu L4`)).stdout).toMatch(
      /constants +of L4: \d+ derived, .*measured on H200/,
    );
    expect((await cli(`${line} --gpu H200`)).stdout).toMatch(/constants +of H200: .*\d+ measured/);
    expect((await cli(`${line} --gpu L4`)).stdout).toContain("power is not known");
  });

  test("what else was weighed: other schedules, and the first of every other backend, with what they lose by", async () => {
    const line = "plan --arch sm_90a -m 3000 -n 4000 -k 4104 --dtype bf16 --b-layout col --json";
    const [plan] = JSON.parse((await cli(line)).stdout).plans;
    expect(plan.backend).toBe("wgmma");
    const mma = plan.runnersUp.find(({ backend }: { backend: string }) => backend === "mma");
    expect(mma.timeUs).toBeGreaterThan(plan.prediction.timeUs);
    expect(mma.why).toMatch(/us for .*limited by/);
    expect(plan.constants.map(({ name }: { name: string }) => name)).toContain("unalignedRows");
  });

  test("the GPU that is named is ranked for: fewer SMs, other schedules", async () => {
    const schedule = async (gpu: string) => {
      const line = `plan --arch sm_80 -m 2048 -n 2560 -k 4096 --dtype f16 --gpu ${gpu} --json`;
      return JSON.parse((await cli(line)).stdout).plans[0].schedule;
    };
    expect(await schedule("L4")).not.toBe(await schedule("H200"));
    const text = async (gpu: string) =>
      (await cli(`compile --arch sm_80 -m 2048 -n 2560 -k 4096 --dtype f16 --gpu ${gpu} -o -`)).stdout;
    expect(await text("L4")).not.toBe(await text("H200"));
  });

  test("a GPU that nobody knows is refused", async () => {
    const { stderr, code } = await cli("compile --arch sm_80 -m 64 -n 64 -k 64 --gpu H201 -o -");
    expect(code).toBe(2);
    expect(stderr).toContain("TW1102");
  });

  test("padding takes bank conflicts away, as the oracle counts them", async () => {
    const excess = async (smem: string) => {
      const argv = [
        "plan",
        "--arch",
        "sm_70",
        "-m",
        "4096",
        "-n",
        "4096",
        "-k",
        "4096",
        "--json",
        "--schedule",
        `sharedLayout=${smem}`,
      ];
      const [plan] = JSON.parse((await cli(argv)).stdout).plans;
      return plan.banks.reduce(
        (sum: number, { wavefronts, ideal }: { wavefronts: number; ideal: number }) =>
          sum + wavefronts - ideal,
        0,
      );
    };
    const [plain, padded] = [await excess("plain"), await excess("pad")];
    expect(plain).toBeGreaterThan(0);
    expect(padded).toBeLessThan(plain);
  });

  test("the maps of lanes by banks show what padding does, as text, as data and as a picture", async () => {
    const line = "plan --arch sm_70 -m 4096 -n 4096 -k 4096 --smem";
    const { stdout } = await cli(line);
    expect(stdout).toContain("Bank maps");
    expect(stdout).toMatch(/^before {2}\(.*-way conflict$/m);
    expect(stdout).toMatch(/^ {3}0 {2}[.\w]{32} {2}[.\w]{32}$/m);
    const [plan] = JSON.parse((await cli(`${line} --json`)).stdout).plans;
    expect(plan.maps.map(({ after }: { after: object }) => after)).toMatchObject(
      plan.banks.map(({ wavefronts, ideal, ways }: Record<string, number>) => ({ wavefronts, ideal, ways })),
    );
    const svg = bankMapsSvg(plan.maps);
    const cells = plan.maps.reduce(
      (sum: number, { before, after }: Record<"before" | "after", { cells: unknown[] }>) =>
        sum + before.cells.length + after.cells.length,
      0,
    );
    expect(svg.match(/<title>/g)?.length).toBe(cells);
    expect(svg).not.toMatch(/<-/);
  });

  test("no backend: each one's reasons on stdout, exit code 3", async () => {
    const { code, stdout } = await cli("plan --arch sm_70 -m 64 -n 64 -k 64 --dtype e4m3");
    expect(code).toBe(3);
    expect(stdout).toMatch(
      /^sm_70\nbackend +serves +why\nwgmma +no +TW1821 .*\ntcgen05 +no +TW\d+ .*\nmma +no +TW1811 .*\nsimt +no +TW1802 /,
    );
  });

  test("a GPU by name, and a tile program", async () => {
    const named = await cli([
      "plan",
      "--arch",
      "sm_80",
      "-m",
      "64",
      "-n",
      "64",
      "-k",
      "64",
      "--gpu",
      "rtx 4090",
      "--json",
    ]);
    expect(JSON.parse(named.stdout).plans[0].gpu.name).toBe("RTX 4090");
    const { stdout: text } = await cli("compile --arch sm_70 -m 64 -n 64 -k 64 --ir staged");
    const edited = await cli("plan --from - --json", { stdin: text });
    expect(JSON.parse(edited.stdout).plans[0].schedule).toMatch(/^from=staged:/);
  });
});

describe("targets", () => {
  test("a row for each target, with what serves it", async () => {
    const { stdout } = await cli("targets");
    for (const { arch, limits } of targets)
      expect(stdout).toMatch(new RegExp(`^${arch} .* ${limits.maxSmemPerBlock} .*simt`, "m"));
    expect((await cli("targets --gpus")).stdout).toMatch(/^H100 SXM +sm_90a +132 /m);
  });

  test("--json holds all of the table", async () => {
    const { stdout } = await cli("targets --json");
    const parsed = JSON.parse(stdout);
    expect(parsed.targets).toEqual(
      targets.map((target) => ({
        ...target,
        backends: compiler.backends.filter(({ supports }) => supports(target).ok).map(({ id }) => id),
      })),
    );
    expect(parsed.gpus.length).toBeGreaterThan(5);
  });
});

describe("schema", () => {
  test("every schema that is listed prints as JSON Schema", async () => {
    const names = (await cli("schema")).stdout
      .trim()
      .split("\n")
      .map((line) => line.split(" ")[0] ?? "");
    expect(names).toEqual([
      "request",
      "problem",
      "manifest",
      "library",
      "tuned",
      "library-index",
      "schedule",
      "launch",
      "run",
      "ladder",
      "config",
      "shapes",
      "bench",
    ]);
    for (const name of names) {
      const { code, stdout } = await cli(`schema ${name}`);
      expect([name, code, JSON.parse(stdout).$schema]).toEqual([
        name,
        0,
        "https://json-schema.org/draft/2020-12/schema",
      ]);
    }
  });

  test("the schedule's schema has every field of every backend", async () => {
    const { oneOf } = JSON.parse((await cli("schema schedule")).stdout);
    expect(oneOf.map((each: { properties: object }) => Object.keys(each.properties))).toEqual(
      compiler.backends.map((backend) => backend.schedule.fields.map((field) => field.name)),
    );
  });

  test("an unknown one", async () => {
    const { code, stderr } = await cli("schema manifets");
    expect([code, stderr]).toEqual([2, expect.stringContaining("did you mean manifest?")]);
  });
});

describe("doctor", () => {
  test("says what is here and what to do", async () => {
    const { code, stdout } = await cli("doctor", { env: { TILEWRIGHT_PTXAS: "no-such-ptxas" } });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^Node +ok +\d+\.\d+/m);
    expect(stdout).toMatch(/^ptxas +optional +not found/m);
    expect(stdout).toContain("ptxas: install the CUDA toolkit");
    expect(stdout).toMatch(/^Next: tilewright run /m);
  });

  test("--json", async () => {
    const result = JSON.parse((await cli("doctor --json")).stdout);
    expect(result).toMatchObject({ ok: true, cuda: { devices: expect.any(Array) } });
    expect(result.findings.map(({ what }: { what: string }) => what)).toEqual([
      "tilewright",
      "Node",
      "backends",
      "targets",
      "emulator",
      "koffi",
      "CUDA driver",
      "GPU",
      "NVML",
      "cuBLASLt",
      "ptxas",
      "nvdisasm",
      "compute-sanitizer",
    ]);
  });

  test("what is missing says what to do; tools are looked for where the environment says", async () => {
    using folder = scratch();
    writeFileSync(
      join(folder.path, "compute-sanitizer"),
      "#!/bin/sh\necho NVIDIA Compute Sanitizer\necho Version 2025.3.1.0\n",
      { mode: 0o755 },
    );
    const env = { PATH: `${folder.path}:${process.env.PATH}`, TILEWRIGHT_CUBLASLT: "/none/libcublasLt.so" };
    const { code, stdout } = await cli("doctor", { env });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^compute-sanitizer +ok +2025\.3\.1\.0/m);
    expect(stdout).toMatch(/^cuBLASLt +optional +\/none\/libcublasLt\.so does not load: /m);
    expect(stdout).toMatch(/^ {2}cuBLASLt: name it with --cublaslt PATH/m);
    const findings = JSON.parse((await cli("doctor --json")).stdout).findings as {
      status: string;
      hint?: string;
    }[];
    for (const { status, hint } of findings) if (status !== "ok") expect(hint).toMatch(/\w{4}/);
  });
});

describe("demo", () => {
  test("one row a backend, files where it says, commands that parse", async () => {
    using folder = scratch();
    const { code, stdout, stderr } = await cli("demo", { cwd: folder.path });
    expect([code, stderr]).toEqual([0, ""]);
    const [head, ...rows] = stdout.split("\n");
    expect(head).toMatch(/^arch +problem +schedule +ran on +error\/bound +hazards +time +PTX and manifest$/);
    for (const [i, backend] of compiler.backends.entries()) {
      expect(rows[i]).toMatch(
        new RegExp(`^${backend.showcase.arch} +512 x 512 x 512 ${backend.showcase.dtype} `),
      );
      const files = rows[i]?.match(/\S+\.(ptx|gemm\.json)/g) ?? [];
      expect(files.length).toBe(2);
      for (const file of files)
        expect(readFileSync(join(folder.path, file), "utf8").length).toBeGreaterThan(500);
    }
    const next = [...stdout.matchAll(/^ {2}npx tilewright (.*)$/gm)].map((match) => match[1] ?? "");
    expect(next.length).toBeGreaterThanOrEqual(2);
    for (const line of next) expect([line, (await cli(line, { cwd: folder.path })).code]).toEqual([line, 0]);
  });
});

describe("help", () => {
  test.each(commands.map(({ name }) => name))(
    "%s --help fits terminals of 80 and 160 columns",
    async (name) => {
      for (const columns of [80, 160]) {
        const { stdout } = await cli(`${name} --help --color never`, { columns });
        // A flag stands beside what it does, or above it.
        const lines = stripVTControlCharacters(stdout).split("\n");
        expect(lines.filter((line) => line.length > columns)).toEqual([]);
      }
    },
  );

  test("the overview names every command", async () => {
    const { code, stdout } = await cli("");
    expect(code).toBe(0);
    for (const { name, summary } of commands)
      expect(stdout).toMatch(new RegExp(`^ {2}${name} +${summary.slice(0, 10)}`, "m"));
    for (const word of ["--help", "-h", "help"]) expect((await cli(word)).stdout).toBe(stdout);
  });

  test.each(commands.map(({ name }) => name))("%s: short and long, with examples first", async (name) => {
    const [short, long] = [await cli(`${name} -h`), await cli(`${name} --help`)];
    expect([short.code, long.code, short.stderr, long.stderr]).toEqual([0, 0, "", ""]);
    expect(short.stdout).toMatch(/^.+\n\nExamples\n {2}# /);
    expect(long.stdout.length).toBeGreaterThan(short.stdout.length);
    expect(long.stdout).toContain("--json");
    expect((await cli(`help ${name}`)).stdout).toBe(long.stdout);
  });

  test("--version", async () => {
    const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
    expect((await cli("--version")).stdout).toBe(`tilewright ${version}\n`);
  });
});

describe("a bug", () => {
  const provoke = () =>
    vi.spyOn(simt, "check").mockImplementation(() => {
      throw new RangeError("the impossible happened");
    });
  const argv = ["compile", "--arch", "sm_70", "-m", "8", "-n", "8", "-k", "8", "--schedule", "walk=rows"];

  test("message and how to report it, exit code 1, no trace", async () => {
    provoke();
    const { code, stderr, stdout } = await cli(argv);
    expect([code, stdout, traceLines(stderr)]).toEqual([1, "", []]);
    expect(stderr).toContain("error TW9001 (internal) at tilewright: the impossible happened");
    expect(stderr).toContain("this is a bug in tilewright; please report it");
  });

  test("the trace with TILEWRIGHT_DEBUG", async () => {
    provoke();
    const { stderr } = await cli(argv, { env: { TILEWRIGHT_DEBUG: "1" } });
    expect(traceLines(stderr).length).toBeGreaterThan(0);
  });
});
