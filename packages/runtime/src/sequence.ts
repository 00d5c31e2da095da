/** Kernels that run one after the other over one arena, as data: for hosts that compile a whole model and launch it, here or from another language. */
import {
  type Checked,
  type DType,
  dtypes,
  err,
  launchEnvironment,
  lifetimesOf,
  type Manifest,
  ok,
  operandNames,
  planArena,
  type StridedView,
  workspaceBytes,
} from "@tilewright/core";
import type { Device, DeviceBuffer, DeviceModule, LaunchResult } from "./device.ts";
import { fail } from "./diagnostics.ts";
import type { GemmArtifact } from "./gemm.ts";
import { launchPlanned, type MemoryPlace, type PlannedLaunch, planLaunch } from "./launch-kernel.ts";

/** A run of memory that steps read and write; its identity is the object's. */
export interface SequenceStorage {
  readonly dtype: DType;
  readonly elements: number;
}

/** One artefact with its operands, by the names of its source: parameters of a program over axes, or matrices and named epilogue steps of a problem. */
export interface SequenceStep<S extends SequenceStorage> {
  readonly artifact: {
    readonly ptx: string;
    readonly manifest: GemmArtifact["manifest"] & Pick<Manifest, "tensors">;
  };
  readonly operands: Readonly<Record<string, StridedView<S>>>;
}

export interface SequenceOptions<S> {
  /** Multiprocessors of the GPU: grids of persistent kernels have as many blocks. */
  readonly numSms: number;
  /** Written before the first step, and to be there for the next run: constants and inputs. */
  readonly given: Iterable<S>;
  /** Read behind the last step. */
  readonly results: Iterable<S>;
}

export interface Sequence<S> {
  /** Bytes of memory in all, and what they would be if no storages shared any. */
  readonly arena: number;
  readonly unshared: number;
  /** Offset of each storage, in bytes. */
  readonly places: ReadonlyMap<S, number>;
  /** To be zero before the first run. */
  readonly workspace: { readonly at: number; readonly bytes: number };
  /** PTX texts; kernels that are alike are one. */
  readonly images: readonly string[];
  /** Launches with offsets for addresses, and bytes to set to zero between them. */
  readonly launches: readonly (SequenceLaunch | { readonly zero: number; readonly bytes: number })[];
}

/** A launch of one of a sequence's images. */
export type SequenceLaunch = PlannedLaunch & { readonly image: number };

/** Bytes of a storage, or of so many of its elements. */
export const storageBytes = ({ dtype, elements }: SequenceStorage): number =>
  Math.ceil((elements * dtypes[dtype].bits) / 8);

/** Plan steps over one arena, in which storages that do not live at the same time share memory. Errors: those of the launches; an operand that a step lacks. */
export function planSequence<S extends SequenceStorage>(
  steps: readonly SequenceStep<S>[],
  { numSms, given, results }: SequenceOptions<S>,
): Checked<Sequence<S>> {
  const envs = steps.map(({ artifact }) => launchEnvironment(artifact.manifest.request, { numSms }));
  const needed = steps.map(({ artifact }, i) => workspaceBytes(artifact.manifest, envs[i] ?? {}));
  const faults = needed.flatMap((each) => (each.ok ? [] : each.error));
  if (faults.length > 0) return err(faults);
  const spaces = needed.map((each) => (each.ok ? each.value : 0));
  const outside = [...given];
  const touched = steps.map(({ operands }) => Object.values(operands).map(({ storage }) => storage));
  const lives = lifetimesOf([outside, ...touched, [...outside, ...results]], storageBytes);
  const always = { bytes: Math.max(0, ...spaces), first: 0, last: steps.length + 1 };
  const { offsets, bytes: arena } = planArena([...lives.values(), always]);
  const places = new Map([...lives.keys()].map((storage, i) => [storage, offsets[i] ?? 0]));
  const workspace = { at: offsets.at(-1) ?? 0, bytes: always.bytes };
  const images = [...new Set(steps.map(({ artifact }) => artifact.ptx))];
  const launches: Sequence<S>["launches"][number][] = [];
  for (const [i, { artifact, operands }] of steps.entries()) {
    const { kernels, workspace: { init = "zeroEach" } = {} } = artifact.manifest;
    const memory: Record<string, MemoryPlace> = {
      workspace: { address: BigInt(workspace.at), size: workspace.bytes },
    };
    for (const [name, as] of operandNames(artifact.manifest)) {
      const view = operands[name];
      if (view === undefined)
        return fail(
          "operand",
          `steps[${i}].${name}`,
          `${kernels[0]?.entry} reads or writes ${name}`,
          "name its view",
        );
      const before = storageBytes({ ...view.storage, elements: view.offset });
      const address = BigInt((places.get(view.storage) ?? 0) + before);
      memory[as] = { address, size: storageBytes(view.storage) - before };
    }
    const room = spaces[i] ?? 0;
    if (init === "zeroEach" && room > 0) launches.push({ zero: workspace.at, bytes: room });
    for (const spec of kernels) {
      const launch = planLaunch(spec, envs[i] ?? {}, memory);
      if (!launch.ok) return launch;
      launches.push({ image: images.indexOf(artifact.ptx), ...launch.value });
    }
  }
  const apart = planArena([...lives.values(), always].map(({ bytes }) => ({ ...always, bytes })));
  return ok({ arena, unshared: apart.bytes, places, workspace, images, launches });
}

/** Load the images, and launch a sequence over an arena that holds what is given: what the device says of each launch. Errors: the first of the device. */
export function launchSequence(
  device: Device,
  { images, launches, workspace }: Pick<Sequence<unknown>, "images" | "launches" | "workspace">,
  arena: DeviceBuffer,
): Checked<readonly LaunchResult[]> {
  const cleared = arena.write(new Uint8Array(workspace.bytes), workspace.at);
  if (!cleared.ok) return cleared;
  const modules: DeviceModule[] = [];
  try {
    for (const image of images) {
      const module = device.load(image);
      if (!module.ok) return module;
      modules.push(module.value);
    }
    const told: LaunchResult[] = [];
    for (const launch of launches) {
      if ("zero" in launch) {
        const zeroed = arena.write(new Uint8Array(launch.bytes), launch.zero);
        if (!zeroed.ok) return zeroed;
        continue;
      }
      const module = modules[launch.image];
      if (module === undefined) return fail("operand", launch.entry, `there is no image ${launch.image}`);
      const launched = launchPlanned(device, module, launch, arena.address);
      if (!launched.ok) return launched;
      told.push(launched.value);
    }
    return ok(told);
  } finally {
    for (const module of modules) module.unload();
  }
}
