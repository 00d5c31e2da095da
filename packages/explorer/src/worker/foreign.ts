/** Any PTX on the emulator, as a launch file says: what `tilewright emulate` does, without a file system. */

import { type Checked, type Diagnostic, err, findTarget, ok, targets } from "@tilewright/core";
import { createEmulator } from "@tilewright/emulator";
import { checkModule, parseModule } from "@tilewright/ptx";
import { EmulatorDevice, limitsOf } from "@tilewright/runtime";
import { type ArrayLoader, archOf, checkLaunch, Launcher, npyArray } from "tilewright";
import type { ForeignAsk, ForeignReport, ForeignRun } from "./running.ts";

const fault = (at: string, message: string, hint: string): Diagnostic => ({
  code: "TW7012",
  kind: "invalid",
  at,
  message,
  hint,
});

/** Arrays among the dropped files. */
const loaderOf =
  (files: ForeignAsk["files"]): ArrayLoader =>
  (source) => {
    const bytes = files[source];
    if (bytes === undefined || !source.endsWith(".npy"))
      return err([
        fault(source, "there is no such .npy file on this page", "drop it beside the launch file"),
      ]);
    return npyArray(
      { size: bytes.length, read: (offset, length) => bytes.slice(offset, offset + length) },
      source,
    );
  };

function readJson(text: string): Checked<unknown> {
  try {
    return ok(JSON.parse(text));
  } catch (failure) {
    return err([
      fault("launch", failure instanceof Error ? failure.message : "no JSON", "see tilewright schema launch"),
    ]);
  }
}

/** The device of a text: the architecture that it is for, else the newest. */
function deviceFor(ptx: string): EmulatorDevice {
  const found = findTarget(archOf(ptx));
  const target = found.ok ? found.value : targets.at(-1);
  if (target === undefined) throw new TypeError("there are targets");
  return new EmulatorDevice(createEmulator(), {
    arch: null,
    numSms: 8,
    limits: limitsOf(target),
    note: null,
  });
}

export function judgeForeign(ask: ForeignAsk, progress: (value: unknown) => void): ForeignReport {
  const started = performance.now();
  const refuse = (reasons: readonly Diagnostic[]): ForeignReport => ({
    reasons,
    runs: [],
    ms: performance.now() - started,
  });
  const parsed = parseModule(ask.ptx);
  const value = readJson(ask.launch);
  const launched = value.ok
    ? checkLaunch(value.value, loaderOf(ask.files), { path: "launch", arch: archOf(ask.ptx) })
    : value;
  const faults = parsed.ok ? checkModule(parsed.value) : parsed.error;
  if (!launched.ok || faults.length > 0) return refuse([...faults, ...(launched.ok ? [] : launched.error)]);
  const device = deviceFor(ask.ptx);
  const launcher = new Launcher(
    { ptx: ask.ptx, ...launched.value, arch: archOf(ask.ptx), device },
    { checks: "all", disable: [], fuel: undefined },
  );
  const runs: ForeignRun[] = [];
  for (const order of ask.orders) {
    progress(`order ${order}`);
    const run = launcher.run({ order, seed: ask.seed });
    if (!run.ok) return refuse(run.error);
    const { result, checks } = run.value;
    runs.push({
      order,
      completed: result.completed,
      timeMs: result.timeMs,
      findings: result.findings,
      checks,
    });
  }
  device.close();
  return { reasons: [], runs, ms: performance.now() - started };
}

/** What a Triton cache says of a kernel beside its text; other fields are of no use here. */
interface TritonMetadata {
  readonly name?: string;
  readonly num_warps?: number;
  readonly shared?: number;
  readonly cluster_dims?: readonly number[];
}

/** A launch file to begin with: block by the text or the metadata of a Triton cache, a buffer for each pointer. Empty where the text does not parse. */
export function launchTemplate({
  ptx,
  metadata,
}: {
  readonly ptx: string;
  readonly metadata: string;
}): string {
  const parsed = parseModule(ptx);
  if (!parsed.ok) return "";
  const said = metadata === "" ? ok({}) : readJson(metadata);
  const triton = (said.ok ? said.value : {}) as TritonMetadata;
  const entries = parsed.value.items.flatMap((item) =>
    item.kind === "function" && item.entry ? [item] : [],
  );
  const entry = entries.find(({ name }) => name === triton.name) ?? entries[0];
  if (entry === undefined) return "";
  const shape = entry.directives.find(({ name }) => name === "reqntid" || name === "maxntid");
  const block =
    triton.num_warps === undefined ? (shape?.values.map(Number) ?? [128]) : [32 * triton.num_warps];
  const pointers = entry.params.filter(
    ({ type, dims }) => (type === "u64" || type === "b64") && dims.length === 0,
  );
  const launch = {
    entry: entry.name,
    grid: [1],
    block,
    ...(triton.shared === undefined || triton.shared === 0 ? {} : { dynamicSmem: triton.shared }),
    buffers: Object.fromEntries(
      pointers.map(({ name }) => [name, { dtype: "f32", shape: [4096], fill: { normal: { seed: 1 } } }]),
    ),
    params: entry.params.map((param) => (pointers.includes(param) ? { buffer: param.name } : 64)),
  };
  return JSON.stringify(launch, null, 2);
}
