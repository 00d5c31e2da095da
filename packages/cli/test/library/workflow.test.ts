/** The workflow that other repositories call: its commands are commands of this version, and do what it says. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { cli } from "../harness.ts";
import { scratch } from "../scratch.ts";

const root = new URL("../../../../", import.meta.url);
const path = (name: string) => fileURLToPath(new URL(name, root));
const workflow = readFileSync(path(".github/workflows/kernels.yml"), "utf8");

/** What the caller and the matrix give. */
const given: Readonly<Record<string, string>> = {
  ...{ kernels: path("examples/library.json"), arch: "sm_80", shapes: "64x64x64", records: ".", bench: "" },
};

const commands = [...workflow.matchAll(/npx tilewright (.*)$/gm)].map(([, line = ""]) =>
  line
    .replaceAll(/"?\$\{\{ (?:inputs|matrix)\.(\w+) \}\}"?/g, (_, name: string) => given[name] ?? name)
    .trim()
    .split(" "),
);

test("it compiles and certifies on the emulator, and both jobs by the same command", async () => {
  const [emulator, gpu] = commands.filter(([command]) => command === "compile");
  expect(emulator).toEqual(gpu);
  using folder = scratch();
  const { code, stderr } = await cli(emulator ?? [], { cwd: folder.path });
  expect([code, stderr]).toEqual([0, ""]);
  expect(folder.list()).toContain("out/demo-0.1.0-py3-none-any.whl");
  const manifests = folder.list().filter((name) => name.endsWith(".gemm.json"));
  expect(manifests.length).toBeGreaterThan(0);
  for (const name of manifests)
    expect(JSON.parse(readFileSync(`${folder.path}/${name}`, "utf8"))).toHaveProperty(
      "certificate.boundRatio",
    );
});

test("its measurements are commands that this version knows: what fails is the missing GPU and the missing files", async () => {
  const [times, compare] = commands.filter(([command]) => command === "bench");
  using folder = scratch();
  const compared = await cli(compare ?? [], { cwd: folder.path });
  expect([compared.code, compared.stderr]).toEqual([2, expect.stringContaining("sm_80.jsonl")]);
  expect(times).toEqual(["bench", "--arch", "sm_80", "--shapes", "64x64x64", "--out", "times.jsonl"]);
});
