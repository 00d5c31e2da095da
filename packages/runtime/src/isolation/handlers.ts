/** What the worker does for each kind of job. */
import { type Checked, given, ok } from "@tilewright/core";
import type { CudaDevice } from "../cuda/device.ts";
import type { DeviceBuffer, LaunchArgument } from "../device.ts";
import { fail } from "../diagnostics.ts";
import type { DriverSource } from "../doctor.ts";
import { runGemm } from "../gemm.ts";
import { openBenchSession } from "../timing/open.ts";
import type { BenchStage } from "../timing/outcome.ts";
import type { BenchSession } from "../timing/session.ts";
import type { IsolatedArgument, IsolatedLaunch, IsolatedLaunchResult, JobKind, Jobs } from "./protocol.ts";

/** What the worker works with. */
export interface Workplace {
  readonly device: CudaDevice;
  readonly driver: DriverSource;
  readonly index: number;
  /** Made by the first benchmark, and again for another cuBLASLt. */
  bench: { readonly session: BenchSession; readonly cublas: string | null } | null;
}

type Handlers = {
  readonly [K in JobKind]: (
    place: Workplace,
    ask: Jobs[K]["ask"],
    tell: (stage: BenchStage) => void,
  ) => Checked<Jobs[K]["answer"]> | Promise<Checked<Jobs[K]["answer"]>>;
};

export const handlers: Handlers = {
  gemm: ({ device }, { artifact, inputs, options }) => runGemm(device, artifact, inputs, options),
  launch: ({ device }, ask) => launchOnce(device, ask),
  async bench(place, { job, cublas }, tell) {
    if (place.bench?.cublas !== cublas) {
      place.bench?.session.close();
      place.bench = null;
    }
    if (place.bench === null) {
      const { index, driver } = place;
      const opened = await openBenchSession({ index, cublas, driver });
      if (!opened.ok) return opened;
      place.bench = { session: opened.value, cublas };
    }
    return place.bench.session.run(job, tell);
  },
};

/** Allocate, fill, launch, read back, free. */
function launchOnce(device: CudaDevice, ask: IsolatedLaunch): Checked<IsolatedLaunchResult> {
  const owned: (() => void)[] = [];
  try {
    const buffers: Record<string, DeviceBuffer> = {};
    for (const [name, { size, data, fill = 0 }] of Object.entries(ask.buffers)) {
      const buffer = device.alloc(size);
      if (!buffer.ok) return buffer;
      owned.push(() => buffer.value.free());
      buffers[name] = buffer.value;
      const filled = data === undefined ? buffer.value.fill(fill) : buffer.value.write(data);
      if (!filled.ok) return filled;
    }
    const args: LaunchArgument[] = [];
    for (const [index, argument] of ask.args.entries()) {
      const made = argumentOf(device, buffers, argument, `${ask.entry}.args[${index}]`);
      if (!made.ok) return made;
      args.push(made.value);
    }
    const module = device.load(ask.image);
    if (!module.ok) return module;
    owned.push(() => module.value.unload());
    const kernel = module.value.kernel(ask.entry);
    if (!kernel.ok) return kernel;
    const { grid, block, cluster, dynamicSmem, cooperative } = ask;
    const launched = kernel.value.launch({
      grid,
      block,
      args,
      ...given({ cluster, dynamicSmem, cooperative }),
    });
    if (!launched.ok) return launched;
    const outputs: Record<string, Uint8Array> = {};
    for (const name of ask.outputs) {
      const buffer = buffers[name];
      if (buffer === undefined) return noBuffer(name, "outputs");
      const bytes = buffer.read();
      if (!bytes.ok) return bytes;
      outputs[name] = bytes.value;
    }
    return ok({ timeMs: launched.value.timeMs, outputs });
  } finally {
    for (const free of owned.reverse()) free();
  }
}

const noBuffer = (name: string, at: string) => fail("operand", at, `there is no buffer ${name}`);

function argumentOf(
  device: CudaDevice,
  buffers: Readonly<Record<string, DeviceBuffer>>,
  argument: IsolatedArgument,
  at: string,
): Checked<LaunchArgument> {
  if ("value" in argument) return ok(argument.value);
  if ("bytes" in argument) return ok(argument.bytes);
  if ("buffer" in argument) {
    const buffer = buffers[argument.buffer];
    if (buffer === undefined) return noBuffer(argument.buffer, at);
    return ok(argument.offset === undefined ? buffer : buffer.address + BigInt(argument.offset));
  }
  const { buffer: name, offset = 0, ...spec } = argument.tensorMap;
  const buffer = buffers[name];
  if (buffer === undefined) return noBuffer(name, at);
  return device.encodeTensorMap({ ...spec, address: buffer.address + BigInt(offset) });
}
