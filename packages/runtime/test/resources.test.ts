/** Nothing leaks, also when nobody frees. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { openCudaDevice } from "../src/cuda/device.ts";
import { disposeSymbol } from "../src/dispose.ts";
import { Resources } from "../src/resources.ts";
import { must } from "./device-conformance.ts";
import { createFakeDriver, type FakeDriver } from "./fake/cuda/index.ts";
import { axpyPtx } from "./kernels.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

/** Collect until `done`, or give up after some rounds of 20 ms. */
async function collectUntil(done: () => boolean, rounds = 200): Promise<void> {
  for (let round = 0; round < rounds && !done(); round++) {
    collect();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

test("each resource is given back once, youngest first", () => {
  const log: string[] = [];
  const resources = new Resources();
  const ids = ["a", "b", "c"].map((name) => resources.add(null, name, () => log.push(name)));
  resources.release(ids[1] ?? -1);
  resources.release(ids[1] ?? -1);
  expect(resources.alive()).toEqual(["a", "c"]);
  resources.releaseAll();
  resources.releaseAll();
  expect(log).toEqual(["b", "c", "a"]);
});

test("closing a device frees what was forgotten", () => {
  const driver = createFakeDriver();
  const device = must(openCudaDevice(driver));
  for (let i = 0; i < 10; i++) must(device.alloc(16));
  must(device.load(axpyPtx));
  expect(driver.alive()).toHaveLength(1 + 1 + 2 + 10 + 1);
  device.close();
  expect(driver.alive()).toEqual([]);
});

test("a collected buffer or module is freed while its device lives on", async () => {
  const driver = createFakeDriver();
  const device = must(openCudaDevice(driver));
  const before = driver.alive().length;
  (() => {
    for (let i = 0; i < 5; i++) must(device.alloc(16));
    must(device.load(axpyPtx));
  })();
  await collectUntil(() => driver.alive().length === before);
  expect(driver.alive()).toHaveLength(before);
  must(device.synchronize());
  device.close();
  expect(driver.alive()).toEqual([]);
});

test("a collected device goes too, with all that was on it", async () => {
  const driver: FakeDriver = createFakeDriver();
  (() => {
    const device = must(openCudaDevice(driver));
    must(device.alloc(16));
    must(device.load(axpyPtx));
  })();
  await collectUntil(() => driver.alive().length === 0);
  expect(driver.alive()).toEqual([]);
});

test("a buffer keeps its device's context alive", async () => {
  const driver = createFakeDriver();
  const buffer = (() => must(must(openCudaDevice(driver)).alloc(4)))();
  await collectUntil(() => driver.alive().length === 0, 10);
  must(buffer.fill(3));
  expect(must(buffer.read())).toEqual(new Uint8Array([3, 3, 3, 3]));
  buffer.free();
});

test("the disposer has a name that `using` finds", () => {
  expect(typeof disposeSymbol).toBe("symbol");
  if (Symbol.dispose !== undefined) expect(disposeSymbol).toBe(Symbol.dispose);
});
