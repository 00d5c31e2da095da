/** Compiled modules on disk: found again, bounded, healed, and never in the way. */
import { execFile } from "node:child_process";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, expect, test } from "vitest";
import { cacheFolder, ModuleCache } from "../src/cache/modules.ts";
import { FileStore } from "../src/cache/store.ts";
import { openCudaDevice } from "../src/cuda/device.ts";
import { codesOf, floatsOf, must } from "./device-conformance.ts";
import { createFakeDriver, fakeA100, fakeH200 } from "./fake/cuda/index.ts";
import { axpy, axpyPtx } from "./kernels.ts";

const folders: string[] = [];
const scratch = (): string => {
  const folder = mkdtempSync(join(tmpdir(), "tilewright-cache-"));
  folders.push(folder);
  return folder;
};
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

/** Load axpy on a fresh process's worth of driver, and run it. */
function useModule(folder: string, options: Parameters<typeof createFakeDriver>[0] = {}, text = axpyPtx) {
  const driver = createFakeDriver({ kernels: { axpy }, ...options });
  const cache = new ModuleCache(folder);
  using device = must(openCudaDevice(driver, 0, null, cache));
  const kernel = must(must(device.load(text)).kernel("axpy"));
  using buffer = must(device.alloc(16));
  must(buffer.fill(0));
  must(kernel.launch({ grid: [1, 1, 1], block: [32, 1, 1], args: [buffer, 4, 2] }));
  expect(floatsOf(must(buffer.read()))).toEqual([2, 2, 2, 2]);
  return { links: driver.callsOf("linkPtx").length, loads: driver.callsOf("moduleLoadData").length, cache };
}

test("the second process does not compile", () => {
  const folder = scratch();
  expect(useModule(folder)).toMatchObject({ links: 1, loads: 1 });
  const again = useModule(folder);
  expect(again).toMatchObject({ links: 0, loads: 1 });
  expect(again.cache.statistics).toMatchObject({ hits: 1, misses: 0, entries: 1 });
});

test("text, driver, capability and name each make another entry", () => {
  const folder = scratch();
  for (const { options, text } of [
    { options: {}, text: axpyPtx },
    { options: {}, text: `${axpyPtx}\n` },
    { options: { driverVersion: 12_080 }, text: axpyPtx },
    { options: { devices: [fakeA100] }, text: axpyPtx },
    { options: { devices: [{ ...fakeH200, name: "NVIDIA H100" }] }, text: axpyPtx },
  ])
    expect(useModule(folder, options, text).links).toBe(1);
  expect(readdirSync(folder)).toHaveLength(5);
});

test.each([
  ["cut short", (bytes: Buffer) => bytes.subarray(0, 60)],
  ["one bit wrong", (bytes: Buffer) => bytes.fill((bytes[99] ?? 0) ^ 1, 99, 100)],
  ["empty", () => Buffer.alloc(0)],
  [
    "something else",
    () => Buffer.from("no cache file at all, but as long as one needs to be to have a header"),
  ],
])("an entry that is %s is noticed and made again", (_, spoil) => {
  const folder = scratch();
  useModule(folder);
  const [name = ""] = readdirSync(folder);
  writeFileSync(join(folder, name), spoil(readFileSync(join(folder, name))));
  expect(useModule(folder).links).toBe(1);
  expect(useModule(folder).links).toBe(0);
});

test("an entry that the driver refuses is dropped and made again", () => {
  const folder = scratch();
  useModule(folder);
  const driver = createFakeDriver({ kernels: { axpy } });
  driver.failCall("moduleLoadData", 209, { times: 1 });
  using device = must(openCudaDevice(driver, 0, null, new ModuleCache(folder)));
  must(must(device.load(axpyPtx)).kernel("axpy"));
  expect(driver.callsOf("linkPtx")).toHaveLength(1);
});

test("a driver without a linker loads the text itself, and a wrong text has the JIT's log", () => {
  const folder = scratch();
  const driver = createFakeDriver();
  driver.failCall("linkPtx", 36);
  using device = must(openCudaDevice(driver, 0, null, new ModuleCache(folder)));
  must(device.load(axpyPtx));
  const outcome = device.load(axpyPtx.replace("add.f32", "not.an.instruction"));
  expect(codesOf(outcome)).toEqual(["TW6010"]);
  expect(outcome.ok ? "" : outcome.error[0]?.message).toContain("line 28");
});

test("what was used longest ago goes when it gets too much", () => {
  const folder = scratch();
  const store = new FileStore(folder, 1000);
  for (const [index, key] of ["a", "b", "c"].entries()) {
    store.put(key, new Uint8Array(250));
    utimesSync(join(folder, `${key}.bin`), index, index);
  }
  expect(store.get("a")).toHaveLength(250);
  store.put("d", new Uint8Array(250));
  expect(["a", "b", "c", "d"].map((key) => store.get(key) !== null)).toEqual([true, false, true, true]);
  expect(store.put("large", new Uint8Array(1000))).toBe(false);
  expect(store.statistics().bytes).toBeLessThanOrEqual(1000);
});

test("leftovers of a process that died are removed, those of a living one are not", () => {
  const folder = scratch();
  writeFileSync(join(folder, "x.bin.1-aa.tmp"), "old");
  utimesSync(join(folder, "x.bin.1-aa.tmp"), 1, 1);
  writeFileSync(join(folder, "x.bin.2-bb.tmp"), "new");
  new FileStore(folder, 1000).put("k", new Uint8Array(1));
  expect(readdirSync(folder).sort()).toEqual(["k.bin", "x.bin.2-bb.tmp"]);
});

test("a folder that cannot be written or made is no cache and no failure", () => {
  const folder = scratch();
  writeFileSync(join(folder, "file"), "");
  expect(useModule(join(folder, "file", "below")).links).toBe(1);
  mkdirSync(join(folder, "closed"));
  chmodSync(join(folder, "closed"), 0o500);
  useModule(join(folder, "closed"));
});

test("several processes write and read the same keys without ever seeing half a file", async () => {
  const folder = scratch();
  const script = `
    import { FileStore } from ${JSON.stringify(new URL("../src/cache/store.ts", import.meta.url).href)};
    const store = new FileStore(${JSON.stringify(folder)}, 300_000);
    let wrong = 0;
    for (let i = 0; i < 150; i++) {
      const key = "k" + (i % 7);
      store.put(key, new Uint8Array(50_000).fill(i % 7));
      const got = store.get("k" + ((i * 3) % 7));
      if (got !== null && (got.length !== 50_000 || got.some((byte) => byte !== (i * 3) % 7))) wrong++;
    }
    console.log("wrong", wrong);`;
  const run = promisify(execFile);
  const runs = await Promise.all(
    [1, 2, 3].map(() => run(process.execPath, ["--input-type=module", "-e", script])),
  );
  for (const { stdout } of runs) expect(stdout.trim()).toBe("wrong 0");
  const total = readdirSync(folder).filter((name) => name.endsWith(".tmp"));
  expect(total).toEqual([]);
}, 30_000);

test("the place follows the environment", () => {
  expect(cacheFolder({ TILEWRIGHT_CACHE_DIR: "/c" })).toBe("/c/modules");
  expect(cacheFolder({ XDG_CACHE_HOME: "/x" })).toBe("/x/tilewright/modules");
  expect(cacheFolder({ XDG_CACHE_HOME: "relative" })).toMatch(/\/\.cache\/tilewright\/modules$/);
  expect(cacheFolder({})).toMatch(/\/\.cache\/tilewright\/modules$/);
  for (const off of ["", "off"]) expect(cacheFolder({ TILEWRIGHT_CACHE_DIR: off })).toBeNull();
  expect(ModuleCache.open(false)).toBeNull();
  expect(ModuleCache.open({}, { TILEWRIGHT_CACHE_DIR: "off" })).toBeNull();
  expect(ModuleCache.open({ folder: "/f" }, { TILEWRIGHT_CACHE_DIR: "off" })?.folder).toBe("/f");
});
