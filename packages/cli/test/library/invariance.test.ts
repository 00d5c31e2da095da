/** `--batch-invariant`: kernels of one operation at different m give a row the same bits, wherever it stands and whatever is beside it. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  bytesOfStorage,
  type Manifest,
  randomStorage,
  readLibraryIndex,
  readManifest,
} from "@tilewright/core";
import { openDevice, runGemm } from "@tilewright/runtime";
import { expect, test } from "vitest";
import { cli } from "../harness.ts";
import { scratch } from "../scratch.ts";

const [n, k] = [64, 4096];
const rows = [1, 7, 70];
const normal = (count: number, seed: number) =>
  bytesOfStorage(randomStorage("bf16", count, { kind: "normal" }, seed));

/** The kernels of a library with one operation at those m. */
async function libraryOf(folder: string, arch: string, flags: string, more: object = {}) {
  const operation = {
    name: "linear",
    problem: { dtype: "bf16", b: { layout: "col" }, d: { dtype: "f32" } },
  };
  const file = {
    name: "demo",
    archs: [arch],
    operations: [{ ...operation, sizes: [{ m: rows, n, k }], ...more }],
  };
  writeFileSync(join(folder, "demo.json"), JSON.stringify(file));
  const made = await cli(`compile --library out --kernels demo.json --launchers esm --json ${flags}`, {
    cwd: folder,
  });
  const read = (path: string) => readFileSync(join(folder, "out", path), "utf8");
  const kernels = (): readonly { readonly manifest: Manifest; readonly ptx: string }[] => {
    const index = readLibraryIndex(JSON.parse(read("index.json")));
    if (!index.ok) throw new TypeError("an index");
    return index.value.artefacts.map(({ manifest: path }) => {
      const manifest = readManifest(JSON.parse(read(path)));
      if (!manifest.ok) throw new TypeError("a manifest");
      return { manifest: manifest.value, ptx: read(`kernels/${manifest.value.images[0]?.path}`) };
    });
  };
  return { made, kernels };
}

/** The first row of a product and the last, of each kernel: A's row is the same in both, its other rows are not. */
async function bits(arch: string, kernels: Awaited<ReturnType<typeof libraryOf>>["kernels"]) {
  const device = await openDevice({ kind: "emulator", arch });
  if (!device.ok) throw new TypeError("a device");
  const [row, b] = [normal(k, 1), normal(n * k, 2)];
  return kernels().flatMap(({ manifest, ptx }) => {
    const { m } = manifest.request;
    const a = normal(m * k, 3 + m);
    a.set(row, 0);
    a.set(row, (m - 1) * row.byteLength);
    const ran = runGemm(device.value, { manifest, ptx }, { a, b });
    if (!ran.ok) throw new TypeError("a run");
    const line = ran.value.d.byteLength / m;
    return [0, m - 1].map((at) => Buffer.from(ran.value.d.slice(at * line, (at + 1) * line)).toString("hex"));
  });
}

test.each(["sm_80", "sm_90a"])(
  "%s: the same bits at every m, in the first row and the last",
  async (arch) => {
    using folder = scratch();
    const { made, kernels } = await libraryOf(folder.path, arch, "--batch-invariant");
    expect(made).toMatchObject({ code: 0 });
    expect(new Set(await bits(arch, kernels)).size).toBe(1);
  },
);

test("without the flag few rows are split, and have other bits", async () => {
  using folder = scratch();
  const { kernels } = await libraryOf(folder.path, "sm_80", "");
  expect(new Set(await bits("sm_80", kernels)).size).toBeGreaterThan(1);
});

test("schedules that share no order, each named", async () => {
  using folder = scratch();
  const sizes = [
    { m: 64, n, k, schedule: "split=3" },
    { m: 1, n, k, schedule: "split=4" },
  ];
  const { made } = await libraryOf(folder.path, "sm_80", "--batch-invariant --backend mma", { sizes });
  expect(made.code).toBe(3);
  expect(made.stderr.match(/TW7086[^\n]*/g)).toEqual([
    expect.stringMatching(/m = 64 .*split 3/),
    expect.stringMatching(/m = 1 .*split 4/),
  ]);
});

test("an order is chosen by the time of all sizes: of a long K one that few rows would not take first", async () => {
  using folder = scratch();
  const sizes = [{ m: [1, 128, 2048], n: 4096, k: 14336 }];
  const { made, kernels } = await libraryOf(folder.path, "sm_90a", "--batch-invariant --tuned none", {
    sizes,
  });
  expect(made).toMatchObject({ code: 0 });
  // By mma 2048 rows take 1.4 times as long.
  expect(kernels().map(({ manifest }) => manifest.generator.backend)).toEqual(["wgmma", "wgmma", "wgmma"]);
});
