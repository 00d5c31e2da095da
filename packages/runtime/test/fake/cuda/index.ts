/** The fake driver. */
import type { FakeDriverOptions } from "./core.ts";
import { FakeDriver } from "./driver.ts";

export type { FakeCallName, FakeDriverOptions, FakeKernel } from "./core.ts";
export { fakeA100, fakeH200, fakeV100 } from "./devices.ts";
export { FakeDriver } from "./driver.ts";
export { readFakeTensorMap } from "./tensor-map.ts";

/** A driver over GPUs that exist only in memory. */
export const createFakeDriver = (options: FakeDriverOptions = {}): FakeDriver => new FakeDriver(options);
