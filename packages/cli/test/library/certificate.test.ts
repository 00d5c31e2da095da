/** `compile --library --certify`: what a manifest says of the runs that its kernel has passed. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { readLibraryIndex, readManifest } from "@tilewright/core";
import { rules } from "@tilewright/emulator";
import { describe, expect, test, vi } from "vitest";
import type * as Devices from "../../src/run/device.ts";
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

test("kernels of a wheel have certificates of the emulator unless told otherwise, and libraries where asked", async () => {
  using folder = scratch();
  const operations = [{ name: "small", problem: {}, sizes: [{ m: 32, n: 32, k: 16 }] }];
  const stdin = JSON.stringify({ name: "lib", archs: ["sm_80"], operations });
  const certificates = async (flags: string) => {
    const { code, stderr } = await cli(`compile --library out --kernels - ${flags}`, {
      ...{ cwd: folder.path, stdin },
    });
    expect([code, stderr]).toEqual([0, ""]);
    const read = (path: string) => JSON.parse(readFileSync(join(folder.path, "out", path), "utf8"));
    return read("index.json").artefacts.map((each: { manifest: string }) => read(each.manifest).certificate);
  };
  const orders = ["eager", "lazy", "random"];
  expect(await certificates("--wheel")).toMatchObject([{ emulator: { orders, seed: 1 }, gpu: null }]);
  expect(await certificates("--wheel --no-certify")).toEqual([undefined]);
  expect(await certificates("")).toEqual([undefined]);
});

describe("with a GPU", () => {
  const library = {
    ...{ name: "lib", archs: ["sm_80"] },
    operations: [{ name: "scaled", problem: { alpha: "runtime" }, sizes: [{ m: 32, n: 32, k: 16 }] }],
  };

  /** The command on a machine whose GPU is the emulator, with one byte of each result changed. */
  async function certified(change: (byte: number) => number, cwd: string) {
    vi.resetModules();
    vi.doMock("../../src/run/device.ts", async (original) => {
      const devices = await original<typeof Devices>();
      const openRunDevice: typeof devices.openRunDevice = async (options) => {
        const opened = await devices.openRunDevice({ ...options, kind: "emulator" });
        if (!opened.ok || options.kind === "emulator") return opened;
        const { gemm, ...device } = opened.value;
        return {
          ok: true,
          value: {
            ...{ ...device, kind: "cuda", name: "a GPU" },
            gemm: async (artifact, inputs, knobs) => {
              const ran = await gemm(artifact, inputs, knobs);
              if (ran.ok) ran.value.d[3] = change(ran.value.d[3] ?? 0);
              return ran;
            },
          },
        };
      };
      return { ...devices, openRunDevice };
    });
    const faked = await import("../harness.ts");
    vi.doUnmock("../../src/run/device.ts");
    vi.resetModules();
    return faked.cli("compile --library out --kernels - --certify", { cwd, stdin: JSON.stringify(library) });
  }

  test("its bits stand in the certificate, with the factors that the launch has", async () => {
    using folder = scratch();
    expect((await certified((byte) => byte, folder.path)).code).toBe(0);
    const [manifest = ""] = folder.list().filter((file) => file.endsWith(".gemm.json"));
    expect(JSON.parse(readFileSync(join(folder.path, manifest), "utf8")).certificate.gpu).toMatchObject({
      ...{ name: "a GPU", bits: "equal" },
    });
  });

  test("wrong numbers of it are no library: exit code 5, the place, and no file", async () => {
    using folder = scratch();
    const { code, stderr } = await certified((byte) => byte ^ 0x40, folder.path);
    expect(code).toBe(5);
    expect(stderr).toMatch(/TW7060 .*operations\[0\].*sm_80: on a GPU: .*beyond the bound/);
    expect(folder.list()).toEqual([]);
  });
});

test("--certify is about a library", async () => {
  const { code, stderr } = await cli("compile --arch sm_70 -m 1 -n 1 -k 1 --certify");
  expect([code, stderr]).toEqual([2, expect.stringContaining("--certify belongs to a library")]);
});
