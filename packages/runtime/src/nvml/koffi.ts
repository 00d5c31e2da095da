/** NVML through koffi. The library comes with the driver. */
import { type Checked, err, ok } from "@tilewright/core";
import { bindFunctions, type ForeignFunctions } from "../cuda/foreign.ts";
import { loadKoffi } from "../cuda/koffi.ts";
import { textOf } from "../cuda/layout.ts";
import { type NvmlFunction, nvmlPrototypes } from "../cuda/prototypes.ts";
import { measuringFailure } from "../timing/diagnostics.ts";
import { clockType, type Nvml, type NvmlResult } from "./nvml.ts";

/** `.so.1` is what drivers install; the plain name belongs to the toolkit's stub. WSL keeps its own place. */
const libraryNames: Readonly<Partial<Record<string, readonly string[]>>> = {
  linux: [
    "libnvidia-ml.so.1",
    "/usr/lib/wsl/lib/libnvidia-ml.so.1",
    "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
  ],
  win32: ["nvml.dll"],
};

/** `NVML_TEMPERATURE_GPU`. */
const gpuSensor = 0;

/** Longest text that NVML writes (`NVML_DEVICE_UUID_V2_BUFFER_SIZE` and its like are 96). */
const textBytes = 96;

export interface KoffiNvmlOptions {
  /** Only this library instead of the usual places. */
  readonly library?: string;
  readonly platform?: string;
}

/** Load NVML. Does not call `nvmlInit`. Errors: TW6001 without koffi, TW6044 without the library or a function. */
export async function openKoffiNvml(options: KoffiNvmlOptions = {}): Promise<Checked<Nvml>> {
  const names =
    options.library === undefined
      ? (libraryNames[options.platform ?? process.platform] ?? [])
      : [options.library];
  const koffi = await loadKoffi();
  if (!koffi.ok) return koffi;
  for (const name of names) {
    let library: ReturnType<typeof koffi.value.load>;
    try {
      library = koffi.value.load(name);
    } catch {
      continue;
    }
    const bound = bindFunctions<NvmlFunction>(library, nvmlPrototypes);
    if (bound.missing.length === 0) return ok(new KoffiNvml(bound.functions, name));
    return measuringFailure("nvml", "nvml", `${name} has no ${bound.missing.join(", ")}`);
  }
  return measuringFailure(
    "nvml",
    "nvml",
    `no NVML library was found (${names[0] ?? "none for this platform"})`,
  );
}

class KoffiNvml implements Nvml {
  readonly library: string;
  readonly #fn: ForeignFunctions<NvmlFunction>;

  constructor(functions: ForeignFunctions<NvmlFunction>, library: string) {
    this.#fn = functions;
    this.library = library;
  }

  init = () => done(this.#fn.init());
  shutdown = () => done(this.#fn.shutdown());
  driverVersion = () => text((room) => this.#fn.driverVersion(room, textBytes));
  deviceByBusId = (busId: string) => word((out) => this.#fn.deviceByBusId(busId, out));
  deviceByIndex = (index: number) => word((out) => this.#fn.deviceByIndex(index, out));
  name = (device: bigint) => text((room) => this.#fn.name(device, room, textBytes));
  uuid = (device: bigint) => text((room) => this.#fn.uuid(device, room, textBytes));
  clock: Nvml["clock"] = (device, type) => number((out) => this.#fn.clock(device, clockType[type], out));
  maxClock: Nvml["maxClock"] = (device, type) =>
    number((out) => this.#fn.maxClock(device, clockType[type], out));
  power = (device: bigint) => number((out) => this.#fn.power(device, out));
  powerLimit = (device: bigint) => number((out) => this.#fn.powerLimit(device, out));
  temperature = (device: bigint) => number((out) => this.#fn.temperature(device, gpuSensor, out));
  reasons = (device: bigint) => word((out) => this.#fn.reasons(device, out));
  errorString = (status: number) => String(this.#fn.errorString(status));
}

type Out = unknown[];
const done = (status: unknown): NvmlResult<true> => (status === 0 ? ok(true) : err(Number(status)));

function word(call: (out: Out) => unknown): NvmlResult<bigint> {
  const out: Out = [0];
  const status = Number(call(out));
  return status === 0 ? ok(BigInt(out[0] as number | bigint)) : err(status);
}

function number(call: (out: Out) => unknown): NvmlResult<number> {
  const value = word(call);
  return value.ok ? ok(Number(value.value)) : value;
}

function text(call: (room: Uint8Array) => unknown): NvmlResult<string> {
  const room = new Uint8Array(new ArrayBuffer(textBytes));
  const status = Number(call(room));
  return status === 0 ? ok(textOf(room)) : err(status);
}
