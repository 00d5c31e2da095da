import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readManifest } from "@tilewright/core";
import { parseProgram, printProgram, stages } from "@tilewright/ir";
import { parseModule } from "@tilewright/ptx";
import { describe, expect, test } from "vitest";
import { cli } from "./harness.ts";
import { scratch } from "./scratch.ts";

const problem = "--arch sm_70 -m 65 -n 48 -k 40";
const entry = "gemm_f32_nn_65x48x40";
const sha256 = (data: string | Uint8Array) => createHash("sha256").update(data).digest("hex");
const hasPtxas = spawnSync("ptxas", ["--version"]).status === 0;

describe("files", () => {
  test("PTX and a manifest that fits it, and a table that names them", async () => {
    using folder = scratch();
    const { code, stdout, stderr } = await cli(`compile ${problem} -o out`, { cwd: folder.path });
    expect([code, stderr]).toEqual([0, ""]);
    expect(folder.list()).toEqual([
      "out",
      ...["gemm.json", "machine.tile", "ptx"].map((ending) => `out/${entry}.${ending}`),
    ]);
    for (const file of folder.list().slice(1)) expect(stdout).toContain(file);
    const ptx = readFileSync(join(folder.path, `out/${entry}.ptx`), "utf8");
    expect(parseModule(ptx).ok).toBe(true);
    const manifest = readManifest(
      JSON.parse(readFileSync(join(folder.path, `out/${entry}.gemm.json`), "utf8")),
    );
    expect(manifest).toMatchObject({
      ok: true,
      value: {
        images: [{ format: "ptx", path: `${entry}.ptx`, sha256: sha256(ptx) }],
        request: { m: 65, n: 48, k: 40 },
        kernels: [{ entry }],
      },
    });
  });

  test("the same request gives the same bytes", async () => {
    const [one, two] = [await cli(`compile ${problem} -o -`), await cli(`compile ${problem} -o -`)];
    expect(one.stdout).toMatch(/^\.version /);
    expect(two.stdout).toBe(one.stdout);
  });

  test("--deterministic: parts are added in their order, or there is no kernel", async () => {
    const skinny = "--arch sm_80 --backend simt -m 1 -n 4096 -k 4096";
    const plans = await Promise.all(
      ["", "--deterministic"].map(async (flag) => {
        const { stdout } = await cli(`plan ${skinny} ${flag} --json`);
        const [plan] = JSON.parse(stdout).plans;
        return [plan.deterministic, /reduction=\w+/.exec(plan.schedule)?.[0]];
      }),
    );
    expect(plans).toEqual([
      [false, "reduction=atomics"],
      [true, "reduction=last"],
    ]);
    expect((await cli(`plan ${skinny}`)).stdout).toContain("differ from run to run");
    const refused = await cli([
      ...`compile ${problem} --deterministic -o -`.split(" "),
      ...["--epilogue", "reduce(amax,n,f16)|reduce(sum,n,f16)", "--schedule", "split=2 reduction=atomics"],
    ]);
    expect(refused.code).toBe(2);
    expect(refused.stderr.match(/TW1905 \(\w+\) at [\w.[\]]+/g)).toEqual([
      "TW1905 (unsupported) at problem.epilogue[1]",
      "TW1905 (invalid) at schedule.reduction",
    ]);
  });

  test("several architectures: their files do not meet", async () => {
    using folder = scratch();
    const argv = "compile --arch sm_70,sm_80 -m 65 -n 48 -k 40 --emit ptx --bare --json";
    const { code, stdout } = await cli(argv, { cwd: folder.path });
    const result = JSON.parse(stdout);
    expect(code).toBe(0);
    expect(folder.list()).toEqual([`${entry}.sm_70.ptx`, `${entry}.sm_80.ptx`]);
    expect(result).toMatchObject({
      ok: true,
      kernels: [{ arch: "sm_70", backend: "simt", entry }, { arch: "sm_80" }],
    });
    for (const { files } of result.kernels)
      for (const { path, bytes, sha256: hash } of files) {
        const data = readFileSync(join(folder.path, path));
        expect([data.byteLength, sha256(data)]).toEqual([bytes, hash]);
      }
  });

  test("--emit ir writes one text a stage, and each parses back", async () => {
    using folder = scratch();
    await cli(`compile ${problem} --emit ir`, { cwd: folder.path });
    expect(folder.list()).toEqual(stages.map((stage) => `${entry}.${stage}.tile`).sort());
    for (const file of folder.list()) {
      const text = readFileSync(join(folder.path, file), "utf8");
      const parsed = parseProgram(text);
      expect(parsed.ok && printProgram(parsed.value)).toBe(text);
    }
  });

  test.skipIf(!hasPtxas)("--emit cubin assembles, and the manifest says with what", async () => {
    using folder = scratch();
    const { code } = await cli("compile --arch sm_80 -m 65 -n 48 -k 40 --emit cubin,manifest", {
      cwd: folder.path,
    });
    expect(code).toBe(0);
    const cubin = readFileSync(join(folder.path, `${entry}.cubin`));
    expect(cubin.subarray(1, 4).toString()).toBe("ELF");
    const manifest = JSON.parse(readFileSync(join(folder.path, `${entry}.gemm.json`), "utf8"));
    expect(manifest.images).toEqual([
      expect.objectContaining({
        format: "cubin",
        path: `${entry}.cubin`,
        sha256: sha256(cubin),
        flags: ["-arch=sm_80"],
      }),
    ]);
    expect(manifest.resources).toMatchObject({
      by: expect.stringMatching(/^ptxas \d+\.\d+/),
      kernels: [{ entry, arch: "sm_80", spillBytes: 0 }],
    });
    const [{ registers, blocksPerSm }] = manifest.resources.kernels;
    expect(registers).toBeGreaterThan(16);
    expect(blocksPerSm).toBeGreaterThan(0);
  });

  test.skipIf(!hasPtxas)(
    "--cubins assembles one text for several GPUs, and the manifest tells them apart",
    async () => {
      using folder = scratch();
      const argv = "compile --arch sm_80 -m 65 -n 48 -k 40 --cubins sm_80,sm_86";
      expect((await cli(argv, { cwd: folder.path })).code).toBe(0);
      const manifest = JSON.parse(readFileSync(join(folder.path, `${entry}.gemm.json`), "utf8"));
      const images = manifest.images.map(({ format, arch, path }: Record<string, string>) => [
        format,
        arch,
        path,
      ]);
      expect(images).toEqual([
        ["ptx", "sm_80", `${entry}.ptx`],
        ["cubin", "sm_80", `${entry}.for-sm_80.cubin`],
        ["cubin", "sm_86", `${entry}.for-sm_86.cubin`],
      ]);
      for (const { path, sha256: hash } of manifest.images)
        expect(sha256(readFileSync(join(folder.path, path)))).toBe(hash);
      expect(manifest.resources.kernels.map(({ arch }: { arch: string }) => arch)).toEqual([
        "sm_80",
        "sm_86",
      ]);
      expect(readManifest(manifest).ok).toBe(true);
    },
  );

  test("--cubins of GPUs that the text does not run on: all of them named, and no file", async () => {
    using folder = scratch();
    const { code, stderr } = await cli(
      `compile ${problem.replace("70", "90a")} --cubins sm_80,sm_999,sm_100a`,
      {
        cwd: folder.path,
      },
    );
    expect(code).toBe(2);
    expect(stderr).toContain("TW7003 (invalid) at --cubins: text for sm_90a does not run on sm_80");
    expect(stderr).toContain("sm_999");
    expect(stderr).toContain("text for sm_90a does not run on sm_100a");
    expect(folder.list()).toEqual([]);
  });

  test("without ptxas: exit code 4, how to get it, and no file", async () => {
    using folder = scratch();
    const env = { TILEWRIGHT_PTXAS: join(folder.path, "no-such-ptxas") };
    const { code, stderr } = await cli(`compile ${problem} --emit ptx,cubin`, { cwd: folder.path, env });
    expect(code).toBe(4);
    expect(stderr).toContain("TW7050 (toolchain) at ptxas");
    expect(stderr).toContain("hint: install the CUDA toolkit");
    expect(folder.list()).toEqual([]);
  });

  test.skipIf(!hasPtxas || process.platform === "win32")(
    "an assembler that does not know the target: exit code 4, and why",
    async () => {
      using folder = scratch();
      // What ptxas 13 says of sm_70, whatever is installed here.
      const fake = join(folder.path, "ptxas");
      const says = "ptxas fatal   : Value 'sm_70' is not defined for option 'gpu-name'";
      writeFileSync(
        fake,
        `#!/bin/sh\n[ "$1" = --version ] && echo "Cuda compilation tools, release 13.0, V13.0.88" && exit 0\necho "${says}" >&2\nexit 255\n`,
        { mode: 0o755 },
      );
      const { code, stderr } = await cli(`compile ${problem} --emit cubin -o out`, {
        cwd: folder.path,
        env: { TILEWRIGHT_PTXAS: fake },
      });
      expect(code).toBe(4);
      expect(stderr).toContain("TW7051 (toolchain) at ptxas: ptxas 13.0 makes no code for sm_70");
      expect(stderr).toContain("CUDA 13 dropped sm_70");
      expect(folder.list()).toEqual(["ptxas"]);
    },
  );
});

describe("looking inside", () => {
  test.each(stages)("--ir %s prints a program of that stage and writes nothing", async (stage) => {
    using folder = scratch();
    const { code, stdout } = await cli(`compile ${problem} --ir ${stage}`, { cwd: folder.path });
    const parsed = parseProgram(stdout);
    expect(code).toBe(0);
    expect(parsed).toMatchObject({ ok: true, value: { stage, problem: { m: 65 } } });
    expect(folder.list()).toEqual([]);
  });

  test("--print-passes: applying every diff to the first text gives the last one", async () => {
    const argv = [
      "compile",
      ...problem.split(" "),
      "--print-passes",
      "--schedule",
      "sharedLayout=plain walk=rows",
    ];
    const { stdout } = await cli(argv);
    const first = (await cli([...argv.slice(0, -3), "--ir", "nest", ...argv.slice(-2)])).stdout;
    const last = (await cli([...argv.slice(0, -3), "--ir", "machine", ...argv.slice(-2)])).stdout;
    expect(stdout).toContain("stageOperands (nest -> staged): ");
    // Optimisations that are off have nothing to do.
    expect(stdout).toMatch(/orderWalk .*\n\(unchanged\)\n/);
    let text = first.split("\n");
    for (const section of stdout.split(/^(?=\w+ \()/m)) text = applyDiff(text, section.split("\n").slice(1));
    expect(text.join("\n")).toBe(last);
  });

  test("--print-passes --json holds the same diffs", async () => {
    const { stdout } = await cli(`compile ${problem} --print-passes --json`);
    const [kernel] = JSON.parse(stdout).kernels;
    // Of the passes before it none has anything to do.
    expect(kernel.passes.find(({ diff }: { diff: string }) => diff !== "")).toMatchObject({
      pass: "stageOperands",
      from: "nest",
      to: "staged",
      diff: expect.stringMatching(/^@@ /),
    });
  });

  test("both at once", async () => {
    expect((await cli(`compile ${problem} --ir nest --print-passes`)).code).toBe(2);
  });
});

/** Apply a unified diff; hunks are in order, their counts are trusted, their context is checked. */
function applyDiff(text: readonly string[], diff: readonly string[]): string[] {
  const out: string[] = [];
  let at = 0;
  for (const line of diff) {
    const hunk = /^@@ -(\d+),(\d+) /.exec(line);
    if (hunk) {
      const start = Number(hunk[1]) - (Number(hunk[2]) > 0 ? 1 : 0);
      out.push(...text.slice(at, start));
      at = start;
    } else if (line.startsWith("+")) out.push(line.slice(1));
    else if (line.startsWith("-") || line.startsWith(" ")) {
      expect(text[at]).toBe(line.slice(1));
      if (line.startsWith(" ")) out.push(line.slice(1));
      at++;
    }
  }
  return [...out, ...text.slice(at)];
}

describe("--from", () => {
  test.each(stages)("an unedited text of stage %s gives the kernel that the request gives", async (stage) => {
    using folder = scratch();
    const { stdout: text } = await cli(`compile ${problem} --ir ${stage}`);
    writeFileSync(join(folder.path, "kernel.tile"), text);
    const [again, direct] = [
      await cli("compile --from kernel.tile -o -", { cwd: folder.path }),
      await cli(`compile ${problem} -o -`),
    ];
    expect(again.stderr).toBe("");
    expect(again.stdout).toBe(direct.stdout);
  });

  test("--unproven compiles a text whose places are convicted, and only with --from", async () => {
    using folder = scratch();
    const { stdout: text } = await cli(`compile ${problem} --ir machine`);
    const edited = text.replace(/(shared %sB) @\d+/, "$1 @0");
    expect(edited).not.toBe(text);
    writeFileSync(join(folder.path, "kernel.tile"), edited);
    const at = { cwd: folder.path };
    const refused = await cli("compile --from kernel.tile -o -", at);
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining("TW3134")]);
    const made = await cli("compile --from kernel.tile --unproven -o -", at);
    const direct = await cli(`compile ${problem} -o -`);
    expect([made.code, made.stderr]).toEqual([0, ""]);
    expect(made.stdout).not.toBe(direct.stdout);
    // The emulator sees what the verifier saw.
    expect((await cli("run --from kernel.tile --unproven --device emulator", at)).code).toBe(5);
    expect((await cli(`compile ${problem} --unproven -o -`)).code).toBe(2);
  });

  test("an edited text gives the edited kernel, from standard input too", async () => {
    const argv = ["compile", ...problem.split(" "), "--schedule"];
    const schedule = "tile=32x32x8 thread=4x2 strip=4x2 walk=snake-rows";
    const { stdout: text } = await cli([...argv, schedule, "--ir", "nest"]);
    // The same kernel without its directive is the one whose schedule has this optimisation off.
    const edited = text.replace(/^ *directive walk .*\n/m, "");
    expect(edited).not.toBe(text);
    const off = await cli([...argv, schedule.replace("snake-rows", "rows"), "-o", "-"]);
    const on = await cli([...argv, schedule, "-o", "-"]);
    const { code, stdout } = await cli("compile --from - -o -", { stdin: edited });
    expect([code, stdout === off.stdout, stdout === on.stdout]).toEqual([0, true, false]);
  });
});

describe("--request", () => {
  test("a JSON request, with flags on top", async () => {
    const request = {
      arch: "sm_70",
      problem: { m: 65, n: 48, k: 99, b: { layout: "col" } },
      schedule: "sharedLayout=plain",
    };
    const { code, stdout } = await cli("compile --request - -k 40 --json --ir nest", {
      stdin: JSON.stringify(request),
    });
    expect(code).toBe(0);
    expect(JSON.parse(stdout).kernels).toEqual([
      expect.objectContaining({
        problem: expect.objectContaining({
          m: 65,
          k: 40,
          b: expect.objectContaining({ layout: "col", ld: 40 }),
        }),
        schedule: expect.stringContaining("sharedLayout=plain"),
      }),
    ]);
  });

  test("the schedule as fields", async () => {
    const request = {
      arch: "sm_70",
      problem: { m: 65, n: 48, k: 40 },
      schedule: { tile: [32, 32, 8], thread: [4, 2], strip: [4, 2] },
    };
    const { stdout } = await cli("compile --request - --json --ir nest", { stdin: JSON.stringify(request) });
    expect(JSON.parse(stdout).kernels[0].schedule).toMatch(/^tile=32x32x8 thread=4x2 lanes=4x8 strip=4x2 /);
  });
});
