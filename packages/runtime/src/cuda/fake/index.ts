/** The fake driver. */
import { FakeDriver, type FakeDriverOptions } from "./driver.ts";

export { type FakeDevice, fakeA100, fakeH200, fakeV100 } from "./devices.ts";
export {
  type FakeCall,
  type FakeCallName,
  FakeDriver,
  type FakeDriverOptions,
  type FakeKernel,
  type FakeLaunch,
} from "./driver.ts";

/** A driver over GPUs that exist only in memory. */
export const createFakeDriver = (options: FakeDriverOptions = {}): FakeDriver => new FakeDriver(options);
