/** A model as data that a host of any language launches: one arena, kernels, and launches whose addresses are offsets into it. */
import type { Dim3, PlannedArgument } from "@tilewright/runtime";
import { type Goal, Kernels } from "./kernels.ts";
import { type Lowered, lower, type Step } from "./lower.ts";
import type { Graph } from "./onnx.ts";
import type { Storage, View } from "./views.ts";

/** Bytes; what cudaMalloc aligns to. */
const ALIGN = 256;

export type Argument =
  | { readonly pointer: number }
  | { readonly scalar: number; readonly dtype: string }
  /** `address` is an offset. */
  | { readonly map: Readonly<Record<string, unknown>> };

export interface Launch {
  /** Index of `Plan.images`. */
  readonly image: number;
  readonly entry: string;
  readonly grid: Dim3;
  readonly block: Dim3;
  readonly cluster: Dim3;
  readonly dynamicSmem: number;
  readonly args: readonly Argument[];
}

export interface Place {
  readonly at: number;
  readonly bytes: number;
  readonly dtype: Storage["dtype"];
  readonly shape: readonly number[];
}

export interface Plan {
  readonly arch: string;
  /** Bytes of memory in all, and what activations would take without sharing. */
  readonly arena: number;
  readonly unshared: number;
  readonly inputs: Readonly<Record<string, Place>>;
  readonly outputs: Readonly<Record<string, Place>>;
  /** Initializers, one behind the other, rounded to the dtype. */
  readonly constants: readonly (Place & { readonly from: readonly string[] })[];
  /** To be zero before the first run. */
  readonly workspace: { readonly at: number; readonly bytes: number };
  readonly images: readonly string[];
  /** Launches, and bytes to set to zero. */
  readonly launches: readonly (Launch | { readonly zero: number; readonly bytes: number })[];
}

const bytesOf = ({ dtype, elements }: Storage): number => elements * (dtype === "f32" ? 4 : 2);
const aligned = (bytes: number): number => Math.ceil(bytes / ALIGN) * ALIGN;

const viewsOf = (step: Step): readonly View[] =>
  step.kind === "product" ? [step.a, step.b, ...step.operands, step.d] : [step.x, ...step.vectors, step.d];

/** Where each storage lies from `start` on: those that live at the same time lie apart, the largest first, each as low as it can. */
function placed(
  lowered: Lowered,
  start: number,
): { readonly places: Map<Storage, number>; readonly end: number } {
  const lives = new Map<Storage, [first: number, last: number]>();
  const touch = (storage: Storage, step: number): void => {
    if (storage.constant !== null) return;
    const [first, last] = lives.get(storage) ?? [step, step];
    lives.set(storage, [Math.min(first, step), Math.max(last, step)]);
  };
  // Inputs and outputs stay: a second run needs the first ones, and whoever reads the others does so behind the last step.
  for (const { storage } of lowered.inputs.values()) lives.set(storage, [-1, lowered.steps.length]);
  for (const [i, step] of lowered.steps.entries()) for (const { storage } of viewsOf(step)) touch(storage, i);
  for (const { storage } of lowered.outputs.values()) touch(storage, lowered.steps.length);
  const places = new Map<Storage, number>();
  let end = start;
  for (const [storage, [first, last]] of [...lives].sort(([x], [y]) => bytesOf(y) - bytesOf(x))) {
    const beside = [...places]
      .filter(([other]) => {
        const [from, to] = lives.get(other) ?? [0, 0];
        return from <= last && first <= to;
      })
      .map(([other, at]) => [at, at + aligned(bytesOf(other))] as const)
      .sort(([x], [y]) => x - y);
    let at = start;
    for (const [from, to] of beside) if (from < at + bytesOf(storage)) at = Math.max(at, to);
    places.set(storage, at);
    end = Math.max(end, at + aligned(bytesOf(storage)));
  }
  return { places, end };
}

export function compileModel(graph: Graph, goal: Goal): Plan {
  const lowered = lower(graph);
  const kernels = new Kernels(goal);
  const made = lowered.steps.map((step) => kernels.of(step));
  let end = 0;
  const take = (bytes: number): number => {
    const at = end;
    end += aligned(bytes);
    return at;
  };
  const constants = new Map<Storage, number>();
  for (const { storage } of lowered.steps.flatMap(viewsOf))
    if (storage.constant !== null && !constants.has(storage)) constants.set(storage, take(bytesOf(storage)));
  const spaces = made.map((kernel) => kernels.workspace(kernel));
  const most = Math.max(...spaces.map(({ bytes }) => bytes));
  const workspace = { at: take(most), bytes: most };
  const { places, end: arena } = placed(lowered, end);
  const addressOf = ({ storage, offset }: View): number =>
    (constants.get(storage) ?? places.get(storage) ?? 0) + bytesOf({ ...storage, elements: offset });
  const placeOf = (view: View): Place => {
    const { dtype } = view.storage;
    return { at: addressOf(view), bytes: bytesOf(view.storage), dtype, shape: view.shape };
  };
  const launches = made.flatMap((kernel, i): Plan["launches"] => {
    const at = Object.fromEntries(
      [...kernel.operands].map(([name, view]) => {
        const size = bytesOf({ ...view.storage, elements: view.storage.elements - view.offset });
        return [name, { address: BigInt(addressOf(view)), size }];
      }),
    );
    const space = { address: BigInt(workspace.at), size: workspace.bytes };
    const { bytes = 0, clear = false } = spaces[i] ?? {};
    return [
      ...(clear && bytes > 0 ? [{ zero: workspace.at, bytes }] : []),
      ...kernels
        .launches(kernel, { ...at, workspace: space })
        .map(({ args, entry, grid, block, cluster, dynamicSmem }) => ({
          ...{ image: kernel.image, entry, grid, block, cluster, dynamicSmem },
          args: args.map(argumentOf),
        })),
    ];
  });
  const named = (views: ReadonlyMap<string, View>) =>
    Object.fromEntries([...views].map(([name, view]) => [name, placeOf(view)]));
  return {
    arch: goal.target.arch,
    arena,
    unshared: [...places.keys()].reduce((sum, storage) => sum + aligned(bytesOf(storage)), 0) + end,
    inputs: named(lowered.inputs),
    outputs: named(lowered.outputs),
    constants: [...constants].map(([storage, at]) => ({
      ...{
        at,
        bytes: bytesOf(storage),
        dtype: storage.dtype,
        shape: [storage.elements],
        from: storage.constant ?? [],
      },
    })),
    ...{ workspace, images: kernels.images, launches },
  };
}

function argumentOf(argument: PlannedArgument): Argument {
  switch (argument.kind) {
    case "pointer":
      return { pointer: Number(argument.address) };
    case "scalar":
      return { scalar: argument.value, dtype: argument.dtype };
    case "tensorMap":
      return { map: { ...argument.spec, address: Number(argument.spec.address) } };
  }
}
