/** A model as data that a host of any language launches: one arena, kernels, and launches whose addresses are offsets into it. */
import { type Lifetime, planArena } from "@tilewright/core";
import type { PlannedLaunch } from "@tilewright/runtime";
import { type Goal, Kernels } from "./kernels.ts";
import { type Lowered, lower, type Step } from "./lower.ts";
import type { Graph } from "./onnx.ts";
import type { Storage, View } from "./views.ts";

/** A launch of one of `Plan.images`. */
export type Launch = PlannedLaunch & { readonly image: number };

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

const viewsOf = (step: Step): readonly View[] =>
  step.kind === "product" ? [step.a, step.b, ...step.operands, step.d] : [step.x, ...step.vectors, step.d];

/** From the first to the last step that touches each storage; all steps for constants, and for what whoever runs the model reads and writes. */
function lifetimesOf({ steps, inputs, outputs }: Lowered): ReadonlyMap<Storage, Lifetime> {
  const lives = new Map<Storage, Lifetime>();
  const touch = (storage: Storage, step: number): void => {
    const { first, last } = lives.get(storage) ?? { first: step, last: step };
    lives.set(storage, { bytes: bytesOf(storage), first: Math.min(first, step), last: Math.max(last, step) });
  };
  for (const { storage } of [...inputs.values(), ...outputs.values()]) touch(storage, steps.length);
  for (const { storage } of inputs.values()) touch(storage, -1);
  for (const [i, step] of steps.entries())
    for (const { storage } of viewsOf(step))
      for (const at of storage.constant === null ? [i] : [-1, steps.length]) touch(storage, at);
  return lives;
}

export function compileModel(graph: Graph, goal: Goal): Plan {
  const lowered = lower(graph);
  const kernels = new Kernels(goal);
  const made = lowered.steps.map((step) => kernels.of(step));
  const lives = lifetimesOf(lowered);
  const workspaceBytes = Math.max(...made.map(({ workspace }) => workspace.bytes));
  const always = { bytes: workspaceBytes, first: -1, last: made.length };
  const { offsets, bytes: arena } = planArena([...lives.values(), always]);
  const places = new Map([...lives.keys()].map((storage, i) => [storage, offsets[i] ?? 0]));
  const workspace = { at: offsets.at(-1) ?? 0, bytes: workspaceBytes };
  const addressOf = ({ storage, offset }: View): number =>
    (places.get(storage) ?? 0) + bytesOf({ ...storage, elements: offset });
  const placed = ({ storage, offset }: View) => ({
    address: BigInt(addressOf({ storage, offset, shape: [], strides: [] })),
    size: bytesOf({ ...storage, elements: storage.elements - offset }),
  });
  const named = (views: ReadonlyMap<string, View>) =>
    Object.fromEntries(
      [...views].map(([name, view]): [string, Place] => {
        const { dtype } = view.storage;
        return [name, { at: addressOf(view), bytes: bytesOf(view.storage), dtype, shape: view.shape }];
      }),
    );
  return {
    ...{ arch: goal.target.arch, arena, workspace, images: kernels.images },
    unshared: planArena([...lives.values(), always].map(({ bytes }) => ({ ...always, bytes }))).bytes,
    inputs: named(lowered.inputs),
    outputs: named(lowered.outputs),
    constants: [...places].flatMap(([storage, at]) => {
      const { constant: from, dtype, elements } = storage;
      return from === null ? [] : [{ at, bytes: bytesOf(storage), dtype, shape: [elements], from }];
    }),
    launches: made.flatMap((kernel): Plan["launches"] => {
      const { bytes, clear } = kernel.workspace;
      const operands = Object.fromEntries([...kernel.operands].map(([name, view]) => [name, placed(view)]));
      const space = { address: BigInt(workspace.at), size: workspace.bytes };
      return [
        ...(clear && bytes > 0 ? [{ zero: workspace.at, bytes }] : []),
        ...kernels.launches(kernel, { ...operands, workspace: space }),
      ];
    }),
  };
}
