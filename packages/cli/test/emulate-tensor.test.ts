/** A kernel of TMA, mbarriers and wgmma through its launch file: an H200's 65 536 words, to the bit. */
import { copyFileSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { encodeArray } from "@tilewright/core";
import { expect, test } from "vitest";
import { encodeNpy } from "../src/files/npy.ts";
import { npyOf } from "../src/launch/elements.ts";
import { cli } from "./harness.ts";
import { scratch } from "./scratch.ts";

const golden = fileURLToPath(new URL("../../emulator/test/golden/", import.meta.url));
const corpus = fileURLToPath(new URL("../../ptx/test/corpus/", import.meta.url));
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
  copyFileSync(`${corpus}golden/wgmma_f16.ptx`, path("wgmma.ptx"));
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

/** Copies 32 words through the map at `%map`, which `address` makes, and stores the sum of each with the number `%r4`, by the thread of its place. */
const copying = (params: string, address: string): string => `.version 8.0
.target sm_90
.address_size 64
.visible .entry k(${params})
{
  .shared .align 128 .b8 tile[128];
  .shared .align 8 .b64 bar;
  .reg .pred %p<3>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>, %map, %out;
  ${address}
  mov.u32 %r1, %tid.x;
  setp.eq.u32 %p1, %r1, 0;
  mov.u32 %r2, bar;
  mov.u32 %r3, tile;
  @%p1 mbarrier.init.shared.b64 [%r2], 1;
  fence.mbarrier_init.release.cluster;
  bar.sync 0;
  @!%p1 bra WAIT;
  mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 128;
  cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r3], [%map, {0}], [%r2];
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0;
  @!%p2 bra WAIT;
  mad.lo.u32 %r3, %r1, 4, %r3;
  ld.shared.u32 %r5, [%r3];
  add.u32 %r5, %r5, %r4;
  mul.wide.u32 %rd1, %r1, 4;
  add.u64 %out, %out, %rd1;
  st.global.u32 [%out], %r5;
  ret;
}
`;

const fields = [
  { at: 0, tensorMap: "in" },
  { at: 128, buffer: "out", offset: 4 },
  { at: 136, value: 7, dtype: "u32" },
  { at: 140, bytes: "ff" },
];
const reading = "ld.param.u64 %out, [s+128]; ld.param.u32 %r4, [s+136];";
const sources = [
  {
    what: "a structure",
    ptx: copying(".param .align 64 .b8 s[192]", `mov.b64 %map, s; cvta.param.u64 %map, %map; ${reading}`),
    params: [{ size: 192, fields }],
    memory: {},
  },
  {
    what: "a buffer",
    ptx: copying(
      ".param .u64 s",
      "ld.param.u64 %map, [s]; ld.global.u64 %out, [%map+128]; ld.global.u32 %r4, [%map+136];",
    ),
    params: [{ buffer: "s" }],
    memory: { s: { bytes: 192, fill: "zeros", fields } },
  },
];

const launchOf = ({ params, memory }: Pick<(typeof sources)[number], "params" | "memory">): object => ({
  ...{ entry: "k", grid: 1, block: 32, params },
  buffers: {
    in: { dtype: "u32", shape: [32], fill: { values: Array.from({ length: 32 }, (_, i) => 3 * i) } },
    out: { dtype: "u32", shape: [33], fill: "zeros" },
    ...memory,
  },
  tensorMaps: { in: { buffer: "in", dtype: "u32", dims: [32], box: [32] } },
  outputs: { out: "out.npy" },
});

test.each(sources)("a tensor map, an address and a number in $what", async ({ ptx, ...rest }) => {
  using folder = scratch();
  writeFileSync(join(folder.path, "k.ptx"), ptx);
  writeFileSync(join(folder.path, "l.json"), JSON.stringify(launchOf(rest)));
  const outcome = await cli("emulate k.ptx --launch l.json --order all", { cwd: folder.path });
  expect([outcome.stderr, outcome.code]).toEqual(["", 0]);
  const data = (await readFile(join(folder.path, "out.npy"))).subarray(-33 * 4);
  const words = Array.from({ length: 33 }, (_, i) => data.readUInt32LE(4 * i));
  expect(words).toEqual([0, ...Array.from({ length: 32 }, (_, i) => 3 * i + 7)]);
});

test("fields that are beyond their structure, named wrongly, or no number of their type", async () => {
  using folder = scratch();
  writeFileSync(join(folder.path, "k.ptx"), sources[0]?.ptx ?? "");
  const wrong = [
    { at: 100, tensorMap: "in" },
    { at: 0, tensorMap: "on" },
    { at: 8, buffer: "oat" },
    { at: 0, value: -1, dtype: "u32" },
  ];
  const launch = launchOf({
    params: [{ size: 192, fields: wrong }],
    memory: { s: { bytes: 4, fields: wrong.slice(2, 3) } },
  } as never);
  writeFileSync(join(folder.path, "l.json"), JSON.stringify(launch));
  const { code, stderr } = await cli("emulate k.ptx --launch l.json", { cwd: folder.path });
  expect(code).toBe(2);
  for (const said of [
    "params[0].fields[0]: the field ends at byte 228 of 192",
    "params[0].fields[1]: there is no tensor map 'on'",
    "params[0].fields[2]: there is no buffer 'oat'",
    "params[0].fields[3]: -1 is no u32",
    "buffers.s.fields[0]: the field ends at byte 16 of 4",
  ])
    expect(stderr).toContain(said);
});
