/** `compile --library --certify`: what a manifest says of the runs that its kernel has passed. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { rules } from "@tilewright/emulator";
import { readLibraryIndex, readManifest } from "@tilewright/ir";
import { expect, test } from "vitest";
import { cli } from "../harness.ts";
import { scratch } from "../scratch.ts";

test("small kernels are run themselves, large ones at sizes within reach, both in every order under every rule", async () => {
  using folder = scratch();
  const problem = {
    dtype: "f16",
    b: { layout: "col" },
    epilogue: [{ kind: "bias", along: "n", dtype: "f16" }],
  };
  const library = {
    ...{ name: "lib", archs: ["sm_80"] },
    operations: [
      {
        ...{ name: "linear", problem },
        sizes: [
          { m: 33, n: 40, k: 24 },
          { m: 4100, n: 512, k: 2048 },
        ],
      },
    ],
  };
  const made = await cli("compile --library out --kernels - --certify", {
    cwd: folder.path,
    stdin: JSON.stringify(library),
  });
  expect([made.code, made.stderr]).toEqual([0, ""]);
  const read = (path: string) => JSON.parse(readFileSync(join(folder.path, "out", path), "utf8"));
  const index = readLibraryIndex(read("index.json"));
  if (!index.ok) throw new Error("the index reads back");
  const manifests = index.value.artefacts.map(({ manifest }) => readManifest(read(manifest)));
  const [small, large] = manifests.map((each) => (each.ok ? each.value : null));
  const emulator = { orders: ["eager", "lazy", "random"], seed: 1, rules: Object.keys(rules) };
  const image = small?.images.find(({ format }) => format === "ptx")?.sha256;
  expect(small?.certificate).toMatchObject({
    ...{ kernel: "own", sizes: { m: 33, n: 40, k: 24, batch: 1 }, ptx: image, emulator },
  });
  expect(large?.certificate).toMatchObject({ kernel: "smaller", emulator });
  const { m = 0, n = 0, k = 0 } = large?.certificate?.sizes ?? {};
  expect([m * n * k <= 2 ** 25, m % 128]).toEqual([true, 4]);
  for (const each of [small, large]) expect(each?.certificate?.boundRatio).toBeLessThanOrEqual(1);
  expect(small?.certificate?.d).not.toBe(large?.certificate?.d);
});

test("--certify is about a library", async () => {
  const { code, stderr } = await cli("compile --arch sm_70 -m 1 -n 1 -k 1 --certify");
  expect([code, stderr]).toEqual([2, expect.stringContaining("--certify belongs to a library")]);
});
