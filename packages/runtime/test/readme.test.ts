/** The examples of README.md run as they stand there: the first anywhere, the others with the fake driver in place of a GPU. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
const examples = [...readme.matchAll(/^```ts.*?\n(.*?)^```$/gms)].map(([, code = ""]) => code);
const here = (path: string): string => new URL(path, import.meta.url).href;

/** Run TypeScript where this package is installed; what it prints. */
function run(code: string): string {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ["--conditions=@tilewright/source", "--no-warnings", "--input-type=module-typescript", "-e", code],
    { cwd: fileURLToPath(new URL("..", import.meta.url)), encoding: "utf8", timeout: 60_000 },
  );
  expect(stderr).toBe("");
  expect(status).toBe(0);
  return stdout.trim();
}

/** `code` with `from` replaced, which must be there: else the README has moved on and this test has not. */
function replaced(code: string, from: string, to: string): string {
  expect(code).toContain(from);
  return code.replace(from, to);
}

const preamble = `
import { measureSurvivors, openCudaDevice, openIsolatedBench, IsolatedDevice } from "@tilewright/runtime";
import { createFakeDriver } from "${here("./fake/index.ts")}";
import { axpy, axpyPtx } from "${here("./kernels.ts")}";
import { gemmArtifact } from "${here("./artifact.ts")}";
import { benchJob } from "${here("./timing/bench-driver.ts")}";
const must = (checked: any) => { if (!checked.ok) throw new Error(JSON.stringify(checked.error)); return checked.value; };
const [n, grid, block] = [64, [1, 1, 1], [64, 1, 1]];
const driver = (name: string) => ({ module: "${here("./isolation-driver.ts")}", name });
`;

test("there are four, and the first prints what it says", () => {
  const [first = ""] = examples;
  expect(examples).toHaveLength(4);
  expect(run(first)).toBe("1.5");
});

test("streams, pinned memory, prepared launches and graphs", () => {
  const pinned = "using pinned = ";
  const code = replaced(
    replaced(examples[1] ?? "", "must(await openKoffiDriver())", "createFakeDriver({ kernels: { axpy } })"),
    pinned,
    `const [buffer, kernel] = [must(device.alloc(4 * n)), must(must(device.load(axpyPtx)).kernel("axpy"))];\n${pinned}`,
  );
  const sum = "console.log(new Float32Array(must(buffer.read()).buffer)[n - 1]);";
  // 100 launches and one replay add a half each to zeros.
  expect(run(`${preamble}${code}${sum}`)).toBe("50.5");
});

test("a process of its own", () => {
  const gemm = replaced(
    examples[2] ?? "",
    "timeout: 30 }",
    'timeout: 30, cache: false, driver: driver("source") }',
  );
  const setup = `
const artifact = gemmArtifact({ m: 1, n: 1, k: 2, alpha: 1 });
const [a, b] = [[2, 3], [5, 7]].map((values) => new Uint8Array(new Float32Array(values).buffer));
`;
  const show = "console.log(new Float32Array(must(result).d.slice().buffer)[0]);";
  expect(run(`${preamble}${setup}${gemm}${show}`)).toBe("31");
  const bench = replaced(
    examples[3] ?? "",
    "cublas: null }",
    'cublas: null, cache: false, driver: driver("bench") }',
  );
  const measured = `console.log(failures.length, outcome.regimes[0].regime); bench.close();`;
  expect(run(`${preamble}const job = benchJob({ cublas: null });\n${bench}${measured}`)).toBe("0 idle");
});
