/** A kernel of TMA, mbarriers and wgmma through its launch file: an H200's 65 536 words, to the bit. */
import { copyFileSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { encodeArray } from "@tilewright/ir";
import { expect, test } from "vitest";
import { encodeNpy } from "../src/files/npy.ts";
import { npyOf } from "../src/launch/elements.ts";
import { cli } from "./harness.ts";
import { scratch } from "./scratch.ts";

const golden = fileURLToPath(new URL("../../emulator/test/golden/", import.meta.url));
const [m, n, k] = [256, 256, 512];

/** The numbers that the golden data was made from. */
function halves(count: number, state: { g: number }) {
  const values = Float32Array.from({ length: count }, () => {
    state.g = (Math.imul(state.g, 1103515245) + 12345) | 0;
    return Math.fround(((state.g >>> 8) & 0xffffff) / 2 ** 24 - 0.5);
  });
  return encodeArray("f16", values);
}

test("tensor maps as parameters, exact bits, in all orders", async () => {
  using folder = scratch();
  const path = (name: string) => join(folder.path, name);
  const state = { g: 7 };
  writeFileSync(path("a.npy"), encodeNpy([m, k], "f16", halves(m * k, state)));
  writeFileSync(path("b.npy"), encodeNpy([n, k], "f16", halves(n * k, state)));
  writeFileSync(path("want.npy"), npyOf("f32", [m, n], await readFile(`${golden}wgmma_f16.f32`)));
  copyFileSync(`${golden}wgmma_f16.ptx`, path("wgmma.ptx"));
  const map = (buffer: string, rows: number) => ({
    buffer,
    dtype: "f16",
    dims: [k, rows],
    strides: [2 * k],
    box: [64, 128],
    swizzle: "128B",
  });
  const launch = {
    entry: "wgmma_f16",
    grid: [2, 2],
    block: 384,
    dynamicSmem: 132224,
    buffers: {
      a: { fill: { file: "a.npy" } },
      b: { fill: { file: "b.npy" } },
      c: { dtype: "f32", shape: [m, n] },
    },
    tensorMaps: { a: map("a", m), b: map("b", n) },
    params: [{ tensorMap: "a" }, { tensorMap: "b" }, { buffer: "c" }, m, n, k],
    expected: { c: { file: "want.npy", exact: true } },
  };
  writeFileSync(path("launch.json"), JSON.stringify(launch));
  const outcome = await cli("emulate wgmma.ptx --launch launch.json --order all --json", {
    cwd: folder.path,
  });
  expect(outcome.stderr).toBe("");
  expect(outcome.code).toBe(0);
  const { runs, differing } = JSON.parse(outcome.stdout);
  expect(differing).toEqual([]);
  for (const { checks } of runs)
    expect(checks).toMatchObject([{ buffer: "c", elements: m * n, failures: 0, maxUlp: 0 }]);
});
