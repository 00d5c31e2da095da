// Installs the packages as npm would publish them into an empty folder, and uses them there on the user's Node and on 20, 22 and 24:
// what works only inside the workspace (undeclared dependencies, files left out of a package, newer Node) fails here.
// Needs the build; `npm test -- --packed` runs it. The last line is `N passed, N failed`; out/test/packed.json has the counts
// as vitest would write them, for scripts/test.mjs.

import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { root, systemNode, toolNode } from "./lib/workspace.mjs";

/** Majors of Node that the packages are used on, besides the user's own: the floor, and what is maintained. */
const MAJORS = [20, 22, 24];

const scratch = mkdtempSync(join(tmpdir(), "tilewright-smoke-"));
const project = join(scratch, "project");
const own = systemNode();
/** For npm, which is to run on the user's Node. */
const env = { ...process.env, PATH: `${dirname(own)}:${process.env.PATH}` };

/** What npm would publish. @type {{ name: string, private?: boolean, dependencies?: Record<string, string> }[]} */
const manifests = readdirSync(join(root, "packages"))
  .map((folder) => JSON.parse(readFileSync(join(root, "packages", folder, "package.json"), "utf8")))
  .filter((manifest) => manifest.private !== true);

/** @type {{ fullName: string, status: "passed" | "failed" | "pending" }[]} */
const results = [];

/** @param {string} name @param {() => void} body throws when the check fails */
function check(name, body) {
  try {
    body();
    results.push({ fullName: name, status: "passed" });
    console.log(`ok: ${name}`);
  } catch (error) {
    results.push({ fullName: name, status: "failed" });
    console.log(`FAILED: ${name}\n${error instanceof Error ? error.message : error}`);
  }
}

/**
 * Runs Node in the project and returns its stdout; anything but exit code 0 is an error.
 * @param {string} node @param {string[]} args
 */
function run(node, ...args) {
  const paths = { ...process.env, PATH: `${dirname(node)}:${process.env.PATH}` };
  const { status, stdout, stderr } = spawnSync(node, args, { cwd: project, env: paths, encoding: "utf8" });
  if (status !== 0) throw new Error(`exit code ${status}\n${stdout}${stderr}`);
  return stdout;
}

/** @param {string} node its version: `v20.20.2` */
const versionOf = (node) => execFileSync(node, ["--version"], { encoding: "utf8" }).trim();

/**
 * The Nodes to try: the user's, and one of each major, from the npm registry where it is not the user's already.
 * What cannot be had is said and left out. @returns {string[]} paths
 */
function nodes() {
  const found = [own];
  for (const major of MAJORS) {
    if (versionOf(own).startsWith(`v${major}.`)) continue;
    const folder = join(scratch, `node-${major}`);
    const name = `node-${process.platform === "win32" ? "win" : process.platform}-${process.arch}`;
    mkdirSync(folder);
    writeFileSync(join(folder, "package.json"), '{"private":true}');
    const got = spawnSync(
      "npm",
      ["install", `${name}@${major}`, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"],
      { cwd: folder, env, encoding: "utf8", shell: process.platform === "win32", timeout: 120_000 },
    );
    const node = join(folder, "node_modules", name, "bin", "node");
    if (got.status === 0 && spawnSync(node, ["--version"]).status === 0) found.push(node);
    else {
      results.push({ fullName: `Node ${major}`, status: "pending" });
      console.log(`skipped: Node ${major}, which the npm registry did not give (${name}@${major})`);
    }
  }
  return found;
}

/** @param {unknown} holds @param {string} text */
function expect(holds, text) {
  if (!holds) throw new Error(text);
}

/** All that the packages are used for, on one Node. @param {string} node */
function useOn(node) {
  const version = versionOf(node);
  for (const { name } of manifests) {
    check(`${version}: import ${name}`, () => {
      const count = run(
        node,
        "--input-type=module",
        "-e",
        `console.log(Object.keys(await import("${name}")).length)`,
      );
      expect(Number(count) > 0, "exports nothing");
    });
  }
  const bin = "node_modules/tilewright/dist/bin.js";
  const size = ["-m", "33", "-n", "17", "-k", "9", "--dtype", "f32"];
  check(`${version}: tilewright --version`, () =>
    expect(/^\D*\d+\.\d+\.\d+/.test(run(node, bin, "--version")), "no version"),
  );
  check(`${version}: tilewright targets --json`, () =>
    expect(run(node, bin, "targets", "--json").includes("sm_70"), "no sm_70"),
  );
  check(`${version}: tilewright run, on the emulator`, () => {
    const text = run(node, bin, "run", "--arch", "sm_70", ...size, "--device", "emulator", "--json");
    const result = JSON.parse(text);
    expect(result.ok === true && result.error.boundRatio <= 1 && result.hazards.length === 0, text);
  });
  check(`${version}: the one-call example, right and wrong in ten ways`, () => {
    const lines = run(node, "call.js").trim().split("\n");
    expect(lines.join(" ") === ["121", ...Array(10).fill("told")].join(" "), lines.join("\n"));
  });
  check(`${version}: a kernel library, and its launcher on the emulator`, () => {
    run(node, bin, "compile", "--library", "library", "--arch", "sm_70", ...size);
    writeFileSync(join(project, "launch.mjs"), LAUNCH);
    expect(run(node, "launch.mjs") === "27\n", "wrong numbers");
  });
}

/** The one-call example of the README, and ten calls that are wrong: each has to be told by the name of its argument. */
const CALL = `
import { type GemmCall, gemm, pack, unpack } from "tilewright";
const [m, n, k] = [24, 16, 20];
const [a, b, bias] = [pack("bf16", Array(m * k).fill(2)), pack("bf16", Array(k * n).fill(3)), new Float32Array(n).fill(1)];
const right: GemmCall = { m, n, k, a, b, bias, dtype: "bf16", epilogue: "relu", arch: "sm_80", device: "emulator" };
const answer = await gemm(right);
if (!answer.ok) throw new Error(JSON.stringify(answer.error));
console.log([...new Set(unpack("bf16", answer.value.d))].join(" "));
const wrong: readonly [object, string][] = [
  [{ a: a.subarray(1) }, "a"], [{ b: new Float32Array(k * n) }, "b"], [{ bias: [1] }, "bias"], [{ m: -1 }, "m"], [{ n: "16" }, "n"],
  [{ dtype: "bf17" }, "dtype"], [{ arch: "sm_8" }, "arch"], [{ epilogue: "rulu" }, "epilogue[0]"], [{ bais: bias }, "bais"], [{ device: "gpu" }, "device"],
];
for (const [change, at] of wrong) {
  const told = await gemm({ ...right, ...change } as GemmCall);
  console.log(told.ok ? "taken" : told.error[0]?.at === at ? "told" : JSON.stringify(told.error));
}
`;

/** Lines that do not type-check, behind those that do. */
const MISTYPED = [
  "gemm({ m: 1, n: 1, k: 1, a: [1] });",
  'gemm({ m: 1, n: 1, k: 1, a: [1], b: [1], arch: "sm_71" });',
  "defineProblem({ mm: 1 });",
  'defineProblem({ m: 1, n: 1, k: 1, dtype: "float" });',
];

/** Type-checks a text in the project. @param {string} text @returns {string} what it says */
function typeCheck(text) {
  writeFileSync(join(project, "call.ts"), text);
  return compile("call.ts", ".");
}

/**
 * Files of the project to JavaScript beside them, by the workspace's TypeScript.
 * @param {string} file @param {string} folder @param {string[]} more flags @returns {string} what it says
 */
function compile(file, folder, ...more) {
  const flags = [
    "--module",
    "nodenext",
    "--target",
    "es2022",
    "--strict",
    "--lib",
    "es2024,esnext.disposable,dom",
    "--outDir",
    folder,
    ...more,
  ];
  const { stdout } = spawnSync(toolNode(), [join(root, "node_modules/typescript/bin/tsc"), ...flags, file], {
    cwd: project,
    encoding: "utf8",
  });
  return stdout.trim();
}

/** D of ones (A) and threes (B), through the generated module: 9 x 3 everywhere. */
const LAUNCH = `
import { openDevice } from "@tilewright/runtime";
import { gemm, open } from "./library/kernels.js";
const must = (result) => { if (!result.ok) throw new Error(JSON.stringify(result.error)); return result.value; };
const device = must(await openDevice({ kind: "emulator", arch: "sm_70" }));
const upload = (length, value) => {
  const buffer = must(device.alloc(4 * length));
  must(buffer.write(new Uint8Array(new Float32Array(length).fill(value).buffer)));
  return buffer;
};
const [a, b, d] = [upload(33 * 9, 1), upload(9 * 17, 3), must(device.alloc(4 * 33 * 17))];
must(gemm(must(open(device)), { m: 33, n: 17, k: 9 }, { a, b, d }));
console.log([...new Set(new Float32Array(must(d.read()).buffer))].join(" "));
`;

try {
  mkdirSync(project);
  const packed = execFileSync(
    "npm",
    [
      "pack",
      ...manifests.map(({ name }) => `--workspace=${name}`),
      ...["--json", "--ignore-scripts", "--loglevel=error", "--pack-destination", scratch],
    ],
    { cwd: root, env, encoding: "utf8" },
  );
  /** @type {{ name: string, filename: string }[]} */
  const tarballs = Object.values(JSON.parse(packed));
  const dependencies = Object.fromEntries(
    tarballs.map(({ name, filename }) => [name, `file:../${filename}`]),
  );
  writeFileSync(
    join(project, "package.json"),
    // overrides: the packages' ranges on each other mean these tarballs, not a registry's.
    JSON.stringify({ name: "smoke", private: true, type: "module", dependencies, overrides: dependencies }),
  );

  check("npm install of the tarballs", () => {
    execFileSync("npm", ["install", "--loglevel=error", "--no-audit", "--no-fund"], {
      cwd: project,
      env,
      stdio: "pipe",
    });
  });
  check("the one-call example and its mistakes, typed", () => {
    for (const line of MISTYPED)
      expect(
        typeCheck(
          `import { defineProblem } from "@tilewright/core";\nimport { gemm } from "tilewright";\n${line}`,
        ).startsWith("call.ts(3,"),
        `this type-checks: ${line}`,
      );
    const said = typeCheck(CALL);
    expect(said === "", said);
  });
  check("examples/onnx: type-checks, and runs its model", () => {
    cpSync(join(root, "examples/onnx"), join(project, "onnx"), { recursive: true });
    const types = [join(root, "node_modules/@types"), "--types", "node"];
    const said = compile(
      "onnx/main.ts",
      "onnx",
      "--rewriteRelativeImportExtensions",
      "--typeRoots",
      ...types,
    );
    expect(said === "", said);
    const text = run(own, "onnx/main.js", "run", "onnx/tiny.onnx", "--device", "emulator");
    // Rounding to bf16 between kernels: it differs, by little.
    const error = Number(/14 launches of 6 kernels.*, at most (\S+) from onnxruntime/s.exec(text)?.[1]);
    expect(error > 1e-3 && error < 0.03, text);
  });
  for (const node of nodes()) useOn(node);
} catch (error) {
  results.push({ fullName: "preparation", status: "failed" });
  console.log(`FAILED: preparation\n${error instanceof Error ? error.message : error}`);
} finally {
  rmSync(scratch, { recursive: true, force: true });
}

const count = (/** @type {string} */ status) => results.filter((one) => one.status === status).length;
const [passed, failed, skipped] = [count("passed"), count("failed"), count("pending")];
const report = {
  numPassedTests: passed,
  numFailedTests: failed,
  numPendingTests: skipped,
  numTodoTests: 0,
  testResults: [{ name: "packed", status: failed > 0 ? "failed" : "passed", assertionResults: results }],
};
mkdirSync(join(root, "out/test"), { recursive: true });
writeFileSync(join(root, "out/test/packed.json"), JSON.stringify(report));
console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`);
process.exitCode = failed > 0 ? 1 : 0;
