/** NVML of a GPU that exists only in memory, for tests. */
import { err, ok } from "@tilewright/core";
import type { Nvml, NvmlResult } from "../../src/nvml/nvml.ts";

export interface FakeNvmlOptions {
  /** PCI addresses, in NVML's order. */
  readonly busIds?: readonly string[];
  /** What a reading gives; functions are asked each time. */
  readonly smMHz?: () => number;
  readonly milliwatts?: () => number;
  readonly reasons?: () => bigint;
  /** Functions that answer with this status. */
  readonly failing?: Readonly<Partial<Record<keyof Nvml, number>>>;
}

const firstDevice = 0x9000n;

export class FakeNvml implements Nvml {
  readonly library = "fake";
  /** Times that it was started and not yet shut down. */
  open = 0;
  readonly calls: string[] = [];
  readonly #options: FakeNvmlOptions;

  constructor(options: FakeNvmlOptions = {}) {
    this.#options = options;
  }

  init = () =>
    this.#answer("init", () => {
      this.open++;
      return ok(true as const);
    });
  shutdown = () =>
    this.#answer("shutdown", () => {
      this.open--;
      return ok(true as const);
    });
  driverVersion = () => this.#answer("driverVersion", () => ok("580.159.04"));
  deviceByBusId = (busId: string) =>
    this.#answer("deviceByBusId", () => {
      const index = this.#busIds().indexOf(busId);
      return index < 0 ? err(6) : ok(firstDevice + BigInt(index));
    });
  deviceByIndex = (index: number) =>
    this.#answer("deviceByIndex", () =>
      index < this.#busIds().length ? ok(firstDevice + BigInt(index)) : err(2),
    );
  name = () => this.#answer("name", () => ok("NVIDIA H200"));
  uuid = () => this.#answer("uuid", () => ok("GPU-00000000-1111-2222-3333-444444444444"));
  clock: Nvml["clock"] = (_device, type) =>
    this.#answer("clock", () => ok(type === "memory" ? 3201 : (this.#options.smMHz?.() ?? 1980)));
  maxClock: Nvml["maxClock"] = (_device, type) =>
    this.#answer("maxClock", () => ok(type === "memory" ? 3201 : 1980));
  power = () => this.#answer("power", () => ok(this.#options.milliwatts?.() ?? 330_000));
  powerLimit = () => this.#answer("powerLimit", () => ok(700_000));
  temperature = () => this.#answer("temperature", () => ok(41));
  reasons = () => this.#answer("reasons", () => ok(this.#options.reasons?.() ?? 0n));
  errorString = (status: number) => `error ${status} of the fake`;

  #busIds(): readonly string[] {
    return this.#options.busIds ?? ["0000:17:00.0"];
  }

  #answer<T>(name: keyof Nvml, run: () => NvmlResult<T>): NvmlResult<T> {
    this.calls.push(name);
    const status = this.#options.failing?.[name];
    return status === undefined ? run() : err(status);
  }
}
