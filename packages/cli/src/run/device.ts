/** The device that a command runs GEMMs on: the emulator in this process, a GPU in one of its own unless told otherwise. */
import { type Checked, ok } from "@tilewright/core";
import {
  chooseDevice,
  type Device,
  type GemmArtifact,
  type GemmInputs,
  type GemmOptions,
  type GemmResult,
  IsolatedDevice,
  type OpenDeviceOptions,
  openDevice,
  runGemm,
} from "@tilewright/runtime";

export interface RunDevice extends Pick<Device, "kind" | "name" | "note"> {
  gemm(artifact: GemmArtifact, inputs: GemmInputs, options: GemmOptions): Promise<Checked<GemmResult>>;
  close(): void;
}

export interface RunDeviceOptions extends Pick<OpenDeviceOptions, "kind" | "arch"> {
  /** A process of its own for a GPU, so that a kernel that hangs or faults does not end this one. */
  readonly isolation: boolean;
  /** Seconds that a launch may take in that process, compiling included; the runtime's default unless given. */
  readonly timeout?: number | undefined;
}

export async function openRunDevice(options: RunDeviceOptions): Promise<Checked<RunDevice>> {
  const { kind, arch, isolation, timeout } = options;
  if (!isolation) return inProcess({ kind, arch }, null);
  const chosen = await chooseDevice({ kind, arch });
  if (!chosen.ok) return chosen;
  if (chosen.value.kind === "emulator") return inProcess({ kind: "emulator", arch }, chosen.value.note);
  const { index, note } = chosen.value;
  const opened = await IsolatedDevice.open({ index, ...(timeout === undefined ? {} : { timeout }) });
  if (!opened.ok) return opened;
  const device = opened.value;
  return ok({
    kind: "cuda",
    name: device.name,
    note,
    gemm: (artifact, inputs, knobs) => device.gemm(artifact, inputs, knobs),
    close: () => device.close(),
  });
}

async function inProcess(
  options: Pick<OpenDeviceOptions, "kind" | "arch">,
  note: string | null,
): Promise<Checked<RunDevice>> {
  const opened = await openDevice(options);
  if (!opened.ok) return opened;
  const device = opened.value;
  return ok({
    kind: device.kind,
    name: device.name,
    note: note ?? device.note,
    gemm: async (artifact, inputs, knobs) => runGemm(device, artifact, inputs, knobs),
    close: () => device.close(),
  });
}
