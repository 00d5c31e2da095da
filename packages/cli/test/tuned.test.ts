/** The schedule store: what goes before the model's choice, what is said of it, and `tilewright tuned`. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tunedSchema } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { sha256 } from "../src/files/hash.ts";
import { cli } from "./harness.ts";
import { scratch } from "./scratch.ts";

const problem = "--arch sm_80 -m 256 -n 256 -k 256 --dtype f16";
const schedule = "tile=64x64x64 warp=32x32 stages=2";
const entry = {
  kind: "tilewright-tuned",
  version: 1,
  gpu: "L4",
  arch: "sm_80",
  problem: { m: 256, n: 256, k: 256, dtype: "f16" },
  backend: "mma",
  schedule,
  us: { median: 9.5, low: 9.4, high: 9.6, runs: 300 },
  peer: { name: "cublas", us: 10, ratio: 1.05 },
  date: "2026-11-20",
};
const lines = (...entries: readonly object[]): string =>
  entries.map((each) => `${JSON.stringify(each)}\n`).join("");

/** A folder with these entries as the user's store, and the command line in it. */
function withStore(...entries: readonly object[]) {
  const folder = scratch();
  const store = join(folder.path, "config/tilewright/tuned.jsonl");
  mkdirSync(join(folder.path, "config/tilewright"), { recursive: true });
  writeFileSync(store, lines(...entries));
  const env = { XDG_CONFIG_HOME: join(folder.path, "config") };
  return {
    ...folder,
    store,
    [Symbol.dispose]: () => folder[Symbol.dispose](),
    run: (line: string | readonly string[], more: Record<string, string> = {}) =>
      cli(line, { cwd: folder.path, env: { ...env, ...more } }),
    entries: () =>
      readFileSync(store, "utf8")
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => tunedSchema.parse(JSON.parse(line))),
  };
}

interface Made {
  readonly backend: string;
  readonly schedule: string;
  readonly choice: { readonly from: string; readonly gpu?: string };
  readonly files: readonly [{ readonly text: string }];
}
const madeBy = async (run: Promise<{ readonly stdout: string }>): Promise<Made> =>
  JSON.parse((await run).stdout).kernels[0];

describe("what a store says goes before the model", () => {
  test("compile takes the entry, and says so; --tuned none gives the bytes of no store", async () => {
    using folder = withStore(entry);
    const line = `compile ${problem} -o - --json`;
    const tuned = await madeBy(folder.run(line));
    expect(tuned.schedule).toMatch(/^tile=64x64x64 warp=32x32 stages=2 /);
    expect(tuned.choice).toEqual({
      from: "tuned",
      gpu: "L4",
      arch: "sm_80",
      date: "2026-11-20",
      us: 9.5,
      peer: entry.peer,
    });
    const none = await madeBy(folder.run(`${line} --tuned none`));
    expect(none.choice).toEqual({ from: "model" });
    expect(none.files[0].text).not.toBe(tuned.files[0].text);
    expect(none).toEqual(await madeBy(cli(line)));
    expect(await madeBy(folder.run(line, { TILEWRIGHT_TUNED: "none" }))).toEqual(none);
    expect(await madeBy(folder.run(line))).toEqual(tuned);
  });

  test.each([
    ["another size", { problem: { ...entry.problem, m: 255 } }, ""],
    ["another layout", { problem: { ...entry.problem, b: { layout: "col" } } }, ""],
    ["another target", { arch: "sm_89" }, ""],
    ["another backend than is asked for", { backend: "simt" }, "--backend mma"],
    ["another GPU than is named", {}, "--gpu A10"],
    ["a schedule that is given", {}, "--schedule stages=4"],
  ])("but not of %s", async (_, change, flags) => {
    using folder = withStore({ ...entry, ...change });
    const made = await madeBy(folder.run(`compile ${problem} -o - --json ${flags}`));
    expect(made.choice.from).toBe(flags.includes("--schedule") ? "given" : "model");
  });

  test("of two GPUs that which is named, and without a name the usual one", async () => {
    using folder = withStore(entry, { ...entry, gpu: "H200", schedule: "tile=64x64x64 warp=32x32 stages=3" });
    const of = async (flags: string) =>
      (await madeBy(folder.run(`compile ${problem} -o - --json ${flags}`))).choice.gpu;
    expect(await of("--gpu L4")).toBe("L4");
    expect(await of("--gpu H200")).toBe("H200");
    expect(await of("")).toBe("H200");
  });

  test("an entry that is illegal today does not count, and why is said", async () => {
    using folder = withStore({ ...entry, schedule: "tile=64x64x64 warp=32x32 stages=99" });
    const { stderr, stdout } = await folder.run(`compile ${problem} -o - --json`);
    expect(JSON.parse(stdout).kernels[0].choice).toEqual({ from: "model" });
    expect(stderr).toMatch(/the schedule tuned on L4 \(2026-11-20\) does not count for sm_80: TW\d+ /);
  });

  test("a kernel that is not the one that was timed is said to be another", async () => {
    using folder = withStore({ ...entry, compiler: "0.0.9", ptxSha256: "0".repeat(64) });
    const { stderr, stdout } = await folder.run(`compile ${problem} -o - --json`);
    const [made] = JSON.parse(stdout).kernels;
    expect(made.choice.from).toBe("tuned");
    expect(stderr).toContain("tilewright 0.0.9 timed this schedule on L4, and ");
    using same = withStore({
      ...entry,
      ptxSha256: sha256(
        (await cli(`compile ${problem} -o - --bare --schedule ${schedule.replaceAll(" ", "\t")}`)).stdout,
      ),
    });
    expect((await same.run(`compile ${problem} -o - --json`)).stderr).toBe("");
  });

  test("run, plan and a library use it, too; shipped entries are named as such", async () => {
    using folder = withStore({ ...entry, problem: { m: 64, n: 64, k: 64, dtype: "f16" } });
    const small = "--arch sm_80 -m 64 -n 64 -k 64 --dtype f16";
    const ran = await folder.run(`run ${small} --device emulator`);
    expect(ran.stdout).toContain("(tuned on L4, 2026-11-20: 1.05 of cublas)");
    const planned = JSON.parse((await folder.run(`plan ${small} --json`)).stdout).plans[0];
    expect(planned.choice).toMatchObject({ from: "tuned", gpu: "L4" });
    const library = JSON.parse((await folder.run(`compile --library out ${small} --json`)).stdout);
    expect(library.operations[0].kernels[0].choice.from).toBe("tuned");
    const shipped = await cli("plan --arch sm_90a -m 4096 -n 4096 -k 4096 --dtype bf16 --b-layout col");
    expect(shipped.stdout).toMatch(/from +shipped, tuned on H200, 2026-11-\d\d: 1.033 of cublas/);
  });

  test("a broken line is an error with its place, and --tuned none goes on", async () => {
    using folder = withStore(entry);
    writeFileSync(folder.store, `${lines(entry)}{"kind":1}\n`);
    const { code, stderr } = await folder.run(`compile ${problem} -o -`);
    expect(code).toBe(2);
    expect(stderr).toMatch(
      /^error \S+tuned.jsonl:2:1: TW1701 \(invalid\) at kind: 1 is not one of tilewright-tuned\n/,
    );
    expect(stderr.match(/TW1701/g)).toHaveLength(1);
    expect((await folder.run(`compile ${problem} -o - --tuned none`)).code).toBe(0);
  });
});

describe("tilewright tuned", () => {
  test("list shows the user's and the shipped entries, by GPU and problem", async () => {
    using folder = withStore(entry);
    const own = await folder.run("tuned list --gpu L4");
    expect(own.stdout).toMatch(
      /^from .*\ntuned +L4 +sm_80 +256x256x256 +f16 +9.50 +1.05 cublas +2026-11-20 +mma: /,
    );
    expect(own.stdout.trim().split("\n")).toHaveLength(2);
    const { stdout } = await folder.run("tuned list --gpu h200 --dtype e4m3 -m 4096 --json");
    const listed: readonly { origin: string; problem: { m: number; dtype: string } }[] =
      JSON.parse(stdout).entries;
    expect(listed.length).toBeGreaterThan(3);
    for (const { origin, problem: of } of listed)
      expect([origin, of.m, of.dtype]).toEqual(["shipped", 4096, "e4m3"]);
    expect((await folder.run("tuned list --gpu T4")).stdout).toBe("no entries\n");
  });

  test("merge keeps the faster of two, and makes a store where there is none", async () => {
    using folder = withStore(entry);
    const faster = { ...entry, schedule: "stages=3", us: { ...entry.us, median: 9 } };
    writeFileSync(
      join(folder.path, "theirs.jsonl"),
      lines(faster, { ...entry, gpu: "H200" }, { ...entry, gpu: "A10" }),
    );
    const merged = await folder.run("tuned merge theirs.jsonl --json");
    expect(JSON.parse(merged.stdout)).toMatchObject({ ok: true, entries: 3, merged: 3 });
    expect(folder.entries().map(({ gpu, schedule: text }) => [gpu, text])).toEqual([
      ["L4", "stages=3"],
      ["H200", schedule],
      ["A10", schedule],
    ]);
    const fresh = await folder.run("tuned merge theirs.jsonl --gpu A10 --tuned fresh.jsonl");
    expect(fresh.stdout).toBe("fresh.jsonl: 1 entry, 1 of them from theirs.jsonl\n");
  });

  test("prune removes what this compiler refuses or makes another kernel of", async () => {
    const illegal = { ...entry, gpu: "A10", schedule: "tile=64x64x64 warp=32x32 stages=99" };
    const changed = { ...entry, gpu: "H200", ptxSha256: "0".repeat(64) };
    const foreign = { ...entry, gpu: "T4", backend: "nobody" };
    using folder = withStore(entry, illegal, changed, foreign);
    const { stdout } = await folder.run("tuned prune --json");
    const { removed, entries } = JSON.parse(stdout);
    expect(entries).toBe(1);
    expect(removed.map(({ gpu }: { gpu: string }) => gpu)).toEqual(["A10", "H200", "T4"]);
    expect(folder.entries()).toEqual([entry]);
    const before = readFileSync(folder.store, "utf8");
    expect((await folder.run("tuned prune")).stdout).toMatch(/1 entry, 0 removed\n$/);
    expect(readFileSync(folder.store, "utf8")).toBe(before);
  });

  test("export writes lines that merge reads", async () => {
    using folder = withStore(entry);
    expect((await folder.run("tuned export")).stdout).toBe(lines(entry));
    const all = await folder.run("tuned export --shipped -o all.jsonl --json");
    expect(JSON.parse(all.stdout).entries).toBeGreaterThan(100);
    const merged = await folder.run("tuned merge all.jsonl --tuned new.jsonl --json");
    expect(JSON.parse(merged.stdout).entries).toBe(JSON.parse(all.stdout).entries);
  });
});
