/** What surrounds the commands: completion, the manual page, the user's defaults, forms of JSON and CSV. */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { commands } from "../src/commands/index.ts";
import { toCsv } from "../src/output/csv.ts";
import { cli } from "./harness.ts";
import { scratch } from "./scratch.ts";

const has = (program: string): boolean => spawnSync(program, ["--version"]).error === undefined;

describe("completion", () => {
  /** What bash offers for the last word of a line. */
  async function offered(line: string): Promise<readonly string[]> {
    const { stdout } = await cli("completion bash");
    const words = line.split(" ");
    const script = `${stdout}\nCOMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${words.length - 1}; _tilewright; printf '%s\\n' "\${COMPREPLY[@]}"`;
    return execFileSync("bash", ["-c", script], { encoding: "utf8" }).split("\n").filter(Boolean);
  }

  test.skipIf(!has("bash"))("bash: commands, flags and values", async () => {
    expect(await offered("tilewright co")).toEqual(["compile", "completion"]);
    expect(await offered("tilewright run --dev")).toEqual(["--device"]);
    expect(await offered("tilewright run --device e")).toEqual(["emulator"]);
    expect(await offered("tilewright plan --arch sm_9")).toEqual(["sm_90", "sm_90a"]);
    expect(await offered("tilewright run --no-c")).toEqual(["--no-check"]);
  });

  test("every shell: every command, and fish every flag with what it is for", async () => {
    for (const shell of ["bash", "zsh", "fish"]) {
      const { code, stdout } = await cli(`completion ${shell}`);
      expect(code).toBe(0);
      for (const { name } of commands) expect(stdout).toContain(name);
    }
    const { stdout } = await cli("completion fish");
    expect(stdout).toContain("-l device -x -a 'auto cuda emulator' -d 'where to run:");
    expect((await cli("completion tcsh")).stderr).toContain("'tcsh' is none of bash, zsh, fish");
  });

  /** What a shell says of a script of ours that it gets as a file. */
  async function told(shell: string, script: string): Promise<string> {
    using folder = scratch();
    const path = join(folder.path, "tilewright");
    writeFileSync(path, (await cli(`completion ${shell}`)).stdout);
    const { stdout, stderr } = spawnSync(shell, ["-c", script, path], {
      encoding: "utf8",
      env: { ...process.env, SCRIPT: path, HOME: folder.path },
    });
    return `${stdout}${stderr}`;
  }

  test.skipIf(!has("fish"))("fish: commands, flags and values", async () => {
    const lines = ["co", "run --dev", "plan --arch sm_9"].map((line) => `complete -C 'tilewright ${line}'`);
    const offers = (await told("fish", `source $SCRIPT; ${lines.join("; ")}`)).trim().split("\n");
    expect(offers.map((line) => line.split("\t")[0])).toEqual([
      ...["compile", "completion", "--device"],
      ...["sm_90", "sm_90a"],
    ]);
  });

  test.skipIf(!has("zsh"))("zsh reads it", async () => {
    expect(await told("zsh", "zsh -n $SCRIPT")).toBe("");
  });
});

test("man: every command and flag; man(1) finds no fault with it", async () => {
  const { code, stdout } = await cli("man");
  expect(code).toBe(0);
  for (const { name, slots } of commands) {
    expect(stdout).toContain(`.SS ${name}\n`);
    for (const slot of slots.filter(({ names }) => names.length > 0))
      expect(stdout).toContain((slot.names.at(0) ?? "").replaceAll("-", "\\-"));
  }
  if (!has("groff")) return;
  const { stderr } = spawnSync("groff", ["-man", "-Tutf8", "-ww"], { input: stdout, encoding: "utf8" });
  expect(stderr).toBe("");
});

describe("the user's defaults", () => {
  function folderWith(config: string) {
    const folder = scratch();
    mkdirSync(join(folder.path, "tilewright"));
    writeFileSync(join(folder.path, "tilewright/config.json"), config);
    return { folder, env: { XDG_CONFIG_HOME: folder.path } };
  }

  test("are taken where nothing else is said, and flags and files go before them", async () => {
    const { folder, env } = folderWith('{"arch": "sm_80", "device": "emulator"}');
    using _ = folder;
    const archOf = async (line: string): Promise<string> =>
      JSON.parse((await cli(`${line} --json`, { env, cwd: folder.path })).stdout).kernels[0].arch;
    expect(await archOf("compile -m 64 -n 48 -k 40 -o out")).toBe("sm_80");
    expect(await archOf("compile -m 64 -n 48 -k 40 -o out --arch sm_70")).toBe("sm_70");
    const request = { arch: "sm_75", problem: { m: 64, n: 48, k: 40 } };
    writeFileSync(join(folder.path, "request.json"), JSON.stringify(request));
    expect(await archOf("compile --request request.json -o out")).toBe("sm_75");
  });

  test("a file that is none is told with its place; TILEWRIGHT_CONFIG names another, or none", async () => {
    const { folder, env } = folderWith('{\n  "arhc": "sm_80"\n}');
    using _ = folder;
    const wrong = await cli("targets", { env });
    expect([wrong.code, wrong.stdout]).toEqual([2, ""]);
    expect(wrong.stderr).toContain("config.json:2:3: TW7012 (invalid) at arhc: there is no field 'arhc'");
    expect(wrong.stderr).toContain("did you mean arch?");
    expect((await cli("targets", { env: { ...env, TILEWRIGHT_CONFIG: "" } })).code).toBe(0);
    expect((await cli("targets", { env: { TILEWRIGHT_CONFIG: "/nowhere.json" } })).stderr).toContain(
      "cannot read /nowhere.json: there is no such file",
    );
  });
});

describe("JSON and CSV", () => {
  test("--json before the command, on one line, and of --version", async () => {
    const { stdout } = await cli("--json=line targets");
    expect(stdout.trimEnd().split("\n")).toHaveLength(1);
    expect(stdout).toBe(`${JSON.stringify(JSON.parse((await cli("targets --json")).stdout))}\n`);
    expect(JSON.parse((await cli("--version --json")).stdout)).toEqual({ version: expect.any(String) });
    const lines = await Promise.all(
      ["--help --json=line", "schema launch --json=line"].map((line) => cli(line)),
    );
    for (const { code, stdout: line } of lines) {
      expect(code).toBe(0);
      expect(line).toBe(`${JSON.stringify(JSON.parse(line))}\n`);
    }
    const failed = await cli("--json=line compile -m 0");
    expect(JSON.parse(failed.stdout)).toMatchObject({ ok: false });
    expect(failed.stdout.trimEnd()).not.toContain("\n");
    const odd = await cli("targets --json=lines");
    expect(odd.stderr).toContain("--json is a switch and takes no value 'lines'");
    expect(odd.stderr).toContain("hint: --json, or --json=line");
  });

  test("CSV: leaves by their paths, quotes where they are needed, one width", () => {
    expect(
      toCsv([
        { name: 'a "b", c', us: { median: 1.5 }, ring: null },
        { name: "d", us: { median: 2 }, ring: { slots: 4 } },
      ]),
    ).toBe('name,us.median,ring.slots\r\n"a ""b"", c",1.5,\r\nd,2,4\r\n');
  });

  test("a ladder as CSV: a line a step", async () => {
    const { code, stdout } = await cli("ladder sgemm --arch sm_70 --device emulator -m 64 -n 64 -k 16 --csv");
    expect(code).toBe(0);
    const [head = "", ...rows] = stdout.trimEnd().split("\r\n");
    expect(head.split(",").slice(0, 8)).toEqual("arch,deviceName,ladder,backend,m,n,k,name".split(","));
    expect(head).toContain("counted.warpInstructions");
    expect(rows.length).toBeGreaterThan(3);
    expect(rows[0]?.startsWith("sm_70,emulator (sm_70),sgemm,simt,64,64,16,")).toBe(true);
  });
});
