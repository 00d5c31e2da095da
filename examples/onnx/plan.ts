/** A model as data that a host of any language launches: one arena, kernels, and launches whose addresses are offsets into it. */
import {
  defineProblem,
  launchEnvironment,
  lifetimesOf,
  matrixLayout,
  planArena,
  type Target,
  unwrap,
  workspaceBytes,
} from "@tilewright/core";
import { type Artifact, operandNames } from "@tilewright/ir";
import { type PlannedLaunch, planLaunch } from "@tilewright/runtime";
import { compiler } from "tilewright";
import { type Lowered, lower, type Step, type Storage, type View } from "./lower.ts";
import type { Graph } from "./onnx.ts";

/** What the kernels are made for. */
export interface Goal {
  readonly target: Target;
  /** Multiprocessors: grids of persistent kernels have as many blocks. */
  readonly numSms: number;
}

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

/** The problem of a step that is a product. */
function requestOf({ epilogue, operands }: Step) {
  const { a, b, d } = operands;
  if (a === undefined || b === undefined || d === undefined) throw new TypeError("a product has a, b and d");
  const operand = (view: View) => ({ dtype: view.storage.dtype, ...matrixLayout(view) });
  const [m = 1, k = 1] = a.shape;
  const sizes = { m, n: d.shape[1] ?? 1, k };
  return { ...sizes, a: operand(a), b: operand(b), d: operand(d), ...(epilogue !== "acc" && { epilogue }) };
}

/** One kernel for all steps that are alike. */
function compiled(steps: readonly Step[], target: Target): readonly Artifact[] {
  const known = new Map<string, Artifact>();
  return steps.map((step) => {
    const key = step.program ?? JSON.stringify(requestOf(step));
    const input =
      step.program === null ? { problem: unwrap(defineProblem(requestOf(step))) } : { from: step.program };
    const made = known.get(key) ?? unwrap(compiler.compile({ ...input, target }));
    known.set(key, made);
    return made;
  });
}

/** What each step touches; before and behind all steps constants, and what whoever runs the model writes and reads. */
function usesOf({ steps, inputs, outputs }: Lowered): readonly (readonly Storage[])[] {
  const made = steps.map(({ operands }) => Object.values(operands).map(({ storage }) => storage));
  const given = [...made.flat().filter(({ constant }) => constant !== null), ...inputs.values()];
  const outside = given.map((each) => ("storage" in each ? each.storage : each));
  return [outside, ...made, [...outside, ...[...outputs.values()].map(({ storage }) => storage)]];
}

export function compileModel(graph: Graph, goal: Goal): Plan {
  const lowered = lower(graph);
  const artifacts = compiled(lowered.steps, goal.target);
  const images = [...new Set(artifacts.map(({ ptx }) => ptx))];
  const lives = lifetimesOf(usesOf(lowered), bytesOf);
  const env = (artifact: Artifact) => launchEnvironment(artifact.problem, goal);
  const needed = artifacts.map((artifact) => unwrap(workspaceBytes(artifact.manifest, env(artifact))));
  const always = { bytes: Math.max(...needed), first: 0, last: artifacts.length + 1 };
  const { offsets, bytes: arena } = planArena([...lives.values(), always]);
  const places = new Map([...lives.keys()].map((storage, i) => [storage, offsets[i] ?? 0]));
  const workspace = { at: offsets.at(-1) ?? 0, bytes: always.bytes };
  const placeOf = ({ storage, offset, shape }: View): Place => {
    const before = bytesOf({ ...storage, elements: offset });
    return {
      at: (places.get(storage) ?? 0) + before,
      bytes: bytesOf(storage) - before,
      dtype: storage.dtype,
      shape,
    };
  };
  const named = (views: ReadonlyMap<string, View>) =>
    Object.fromEntries([...views].map(([name, view]) => [name, placeOf(view)] as const));
  const launches = lowered.steps.flatMap(({ operands }, i): Plan["launches"] => {
    const [artifact, bytes = 0] = [artifacts[i] as Artifact, needed[i]];
    const memory = { workspace: { address: BigInt(workspace.at), size: workspace.bytes } };
    for (const [name, as] of operandNames(artifact)) {
      const { at, bytes: size } = placeOf(operands[name] as View);
      Object.assign(memory, { [as]: { address: BigInt(at), size } });
    }
    const image = images.indexOf(artifact.ptx);
    return [
      ...(artifact.manifest.workspace.init === "zeroEach" && bytes > 0
        ? [{ zero: workspace.at, bytes }]
        : []),
      ...artifact.manifest.kernels.map((spec) => ({
        image,
        ...unwrap(planLaunch(spec, env(artifact), memory)),
      })),
    ];
  });
  return {
    ...{ arch: goal.target.arch, arena, workspace, images, launches },
    unshared: planArena([...lives.values(), always].map(({ bytes }) => ({ ...always, bytes }))).bytes,
    inputs: named(lowered.inputs),
    outputs: named(lowered.outputs),
    constants: [...places].flatMap(([storage, at]) => {
      const { constant: from, dtype, elements } = storage;
      return from === null ? [] : [{ at, bytes: bytesOf(storage), dtype, shape: [elements], from }];
    }),
  };
}
