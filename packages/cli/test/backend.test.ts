/** Backends from outside: examples/backend-fixed through the command line and the API, and what is none. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { defineProblem, findTarget } from "@tilewright/core";
import { type Backend, createCompiler } from "@tilewright/ir";
import { describe, expect, test } from "vitest";
import { backends } from "../src/backends.ts";
import { cli } from "./harness.ts";
import { scratch } from "./scratch.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const module = "./examples/backend-fixed/index.js";
const problem = ["--arch", "sm_80", "-m", "70", "-n", "50", "-k", "41"];
const run = (command: string, flags: readonly string[] = [], name = module) =>
  cli([command, "--backend", name, ...problem, ...flags], { cwd: root });

describe("a backend of one file", () => {
  test.each([16, 32, 64])("run: right numbers with its own schedule, size=%d", async (size) => {
    const { code, stdout } = await run("run", [
      "--schedule",
      `size=${size}`,
      "--device",
      "emulator",
      "--json",
    ]);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ ok: true, schedule: `size=${size}`, hazards: [] });
  });

  test("compile: its manifest names it; plan: its verdict stands beside the others'", async () => {
    const compiled = await run("compile", ["--emit", "manifest", "-o", "-"]);
    expect(JSON.parse(compiled.stdout)).toMatchObject({
      generator: { backend: "fixed" },
      plan: { schedule: "size=32", fields: { size: 32 } },
    });
    const planned = await run("plan", ["--json"]);
    const [{ backends: verdicts }] = JSON.parse(planned.stdout).plans;
    expect(verdicts.map(({ backend }: { backend: string }) => backend)).toEqual([
      "fixed",
      ...backends.map(({ id }) => id),
    ]);
  });

  test("its refusals are shown as its own", async () => {
    const { code, stderr } = await run("compile", ["--schedule", "size=48", "-o", "-"]);
    expect(code).toBe(3);
    expect(stderr).toContain(
      "TW2999 (unsupported) at schedule.size: size=48 is not built\n  hint: sizes: 16, 32, 64",
    );
  });

  test("through the API", async () => {
    const { default: fixed } = (await import(join(root, module))) as { default: Backend };
    const square = defineProblem({ m: 20, n: 20, k: 20 });
    const target = findTarget("sm_80");
    if (!square.ok || !target.ok) throw new Error("these are fine");
    const compiler = createCompiler({ backends: [fixed, ...backends] });
    const compiled = compiler.compile({ problem: square.value, target: target.value, backend: "fixed" });
    expect(compiled).toMatchObject({ ok: true, value: { backend: "fixed", schedule: "size=16" } });
  });
});

describe("what is no backend: TW7081, every reason, exit code 2", () => {
  const load = async (text: string) => {
    using folder = scratch();
    writeFileSync(join(folder.path, "my.mjs"), text);
    const { code, stderr } = await cli(["compile", "--backend", "./my.mjs", ...problem], {
      cwd: folder.path,
    });
    expect(code).toBe(2);
    expect(folder.list()).toEqual(["my.mjs"]);
    return stderr;
  };

  test("no module, a syntax error, a module that throws", async () => {
    const { code, stderr } = await run("compile", [], "./no-such-backend.js");
    expect([code, stderr]).toEqual([
      2,
      expect.stringContaining("./no-such-backend.js does not load: Cannot find module"),
    ]);
    const scoped = await run("compile", [], "@acme/no-such-backend");
    expect(scoped.stderr).toContain("TW7081 (invalid) at @acme/no-such-backend");
    expect(await load("export default {")).toContain(
      "TW7081 (invalid) at ./my.mjs: ./my.mjs does not load: ",
    );
    expect(await load('throw new Error("not today")')).toContain("./my.mjs does not load: not today");
  });

  test("no default export, a wrong one", async () => {
    expect(await load("export const backend = {};")).toContain(
      "no backend as its default export: that is missing",
    );
    expect(await load("export default 5;")).toContain("no backend as its default export: that is number 5");
  });

  test("everything that is missing, at once; and an id that is taken", async () => {
    const stderr = await load(
      'export default { id: "simt", summary: 5, schedule: { fields: [{}] }, passes: [{}], check() {} };',
    );
    const reasons = stderr.split("\n").filter((line) => line.includes("TW7081"));
    const named = reasons.map((line) =>
      /the backend's (\w+)|there is a backend '(\w+)'/.exec(line)?.slice(1).find(Boolean),
    );
    expect(named).toEqual([
      "summary",
      "schedule",
      "showcase",
      "supports",
      "accepts",
      "schedules",
      "tile",
      "passes",
      "lower",
      "simt",
    ]);
  });
});
