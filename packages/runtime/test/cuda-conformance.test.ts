import { afterEach, expect, test } from "vitest";
import { openCudaDevice } from "../src/cuda/device.ts";
import { deviceConformance, must } from "./device-conformance.ts";
import { createFakeDriver, type FakeDriver } from "./fake/cuda/index.ts";
import { axpy, gemm } from "./kernels.ts";

const drivers: FakeDriver[] = [];
const newDriver = () => {
  const driver = createFakeDriver({ kernels: { axpy, gemm } });
  drivers.push(driver);
  return driver;
};
// Every device of the suite is closed by now, so every test is a leak test too.
afterEach(() => {
  for (const driver of drivers.splice(0)) expect(driver.alive()).toEqual([]);
});

deviceConformance("cuda over the fake driver", async () => must(openCudaDevice(newDriver())));

test("two devices on one GPU share its primary context and leave nothing behind", () => {
  const driver = newDriver();
  const [first, second] = [must(openCudaDevice(driver)), must(openCudaDevice(driver))];
  must(first.alloc(16));
  const kept = must(second.alloc(16));
  first.close();
  must(kept.fill(1));
  second.close();
  expect(driver.alive()).toEqual([]);
});
