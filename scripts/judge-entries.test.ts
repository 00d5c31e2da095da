import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { root } from "./lib/files.ts";

// The ways to the emulator from elsewhere: the GitHub action's script and the Python package, both on the sources' command line.

const folder = mkdtempSync(join(tmpdir(), "tilewright-entries-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const words = [
  process.execPath,
  "--conditions=@tilewright/source",
  "--no-warnings",
  join(root, "packages/cli/src/bin.ts"),
];
const has = (program: string): boolean => spawnSync(program, ["--version"]).error === undefined;

describe.skipIf(!has("bash"))("action.yml", () => {
  const text = readFileSync(join(root, "action.yml"), "utf8");
  const script = (/^ {6}run: \|\n((?: {8}.*\n|\n)+)/m.exec(text)?.[1] ?? "").replace(/^ {8}/gm, "");
  const kernel = (body: string): string =>
    `.version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 out)\n{\n.reg .b32 %r<3>; .reg .b64 %d<2>;\nld.param.u64 %d1, [out];\nmov.u32 %r1, %ctaid.x;\n${body}\nret;\n}\n`;
  const launch = JSON.stringify({
    ...{ entry: "k", grid: 2, block: 32, params: [{ buffer: "out" }] },
    buffers: { out: { dtype: "u32", shape: [64], fill: "zeros" } },
  });

  beforeAll(() => {
    const bin = join(folder, "temp/tilewright/node_modules/.bin");
    mkdirSync(bin, { recursive: true });
    writeFileSync(
      join(bin, "tilewright"),
      `#!/bin/sh\nexec ${words.map((word) => `'${word}'`).join(" ")} "$@"\n`,
    );
    chmodSync(join(bin, "tilewright"), 0o755);
    for (const [name, body] of [
      ["right", "red.global.add.u32 [%d1], 1;"],
      ["racy", "st.global.u32 [%d1], %r1;"],
    ] as const) {
      mkdirSync(join(folder, name));
      writeFileSync(join(folder, name, "a b.ptx"), kernel(body));
      writeFileSync(join(folder, name, "a b.launch.json"), launch);
    }
    mkdirSync(join(folder, "empty"));
  });

  const run = (kernels: string, flags = "") => {
    const inputs = { KERNELS: kernels, SEEDS: "2", PROFILE: "strict", FLAGS: flags, SARIF: "sarif" };
    const env = { ...process.env, ...inputs, RUNNER_TEMP: join(folder, "temp") };
    // As GitHub runs `shell: bash`.
    return spawnSync("bash", ["--noprofile", "--norc", "-eo", "pipefail", "-c", script], {
      ...{ cwd: folder, env, encoding: "utf8" },
    });
  };

  test("a right kernel passes, a wrong one fails with its place", () => {
    expect(run("right")).toMatchObject({ status: 0, stdout: expect.stringContaining("1 kernels, 0 failed") });
    const wrong = run("racy");
    expect(wrong.status).toBe(1);
    expect(wrong.stdout).toContain("::error file=racy/a b.ptx::");
    expect(wrong.stderr).toContain("H094");
    const log = JSON.parse(readFileSync(join(folder, "sarif/1.sarif"), "utf8"));
    expect(log.runs[0].results[0].ruleId).toBe("H094");
    // Several logs of one tool are told apart by this.
    expect(log.runs[0].automationDetails.id).toBe("tilewright/racy/a%20b.ptx/");
  });

  test("flags are handed on; no kernel is a failure", () => {
    expect(run("racy", "--suppress H094,TW7063").status).toBe(0);
    expect(run("empty")).toMatchObject({ status: 1, stdout: expect.stringContaining("no NAME.launch.json") });
  });
});

test.skipIf(!has("python3"))("the Python package", () => {
  const env = {
    ...process.env,
    TILEWRIGHT: words.map((word) => `'${word}'`).join(" "),
    PYTHONDONTWRITEBYTECODE: "1",
  };
  const { status, stderr } = spawnSync("python3", ["-m", "unittest", "-q", "test_tilewright"], {
    ...{ cwd: join(root, "python"), env, encoding: "utf8" },
  });
  expect({ status, stderr: status === 0 ? "" : stderr }).toEqual({ status: 0, stderr: "" });
});
