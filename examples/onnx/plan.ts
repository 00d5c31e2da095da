/** A model as data that a host of any language launches: one arena, kernels, and launches whose addresses are offsets into it. */
import { defineProblem, matrixLayout, type Target, unwrap } from "@tilewright/core";
import type { Artifact } from "@tilewright/ir";
import { planSequence, type Sequence, storageBytes } from "@tilewright/runtime";
import { compiler } from "tilewright";
import { lower, type Step, type Storage, type View } from "./lower.ts";
import type { Graph } from "./onnx.ts";

/** What the kernels are made for; multiprocessors decide the grids of persistent kernels. */
export interface Goal {
  readonly target: Target;
  readonly numSms: number;
}

export interface Place {
  readonly at: number;
  readonly bytes: number;
  readonly dtype: Storage["dtype"];
  readonly shape: readonly number[];
}

export interface Plan extends Omit<Sequence<Storage>, "places"> {
  readonly arch: string;
  readonly inputs: Readonly<Record<string, Place>>;
  readonly outputs: Readonly<Record<string, Place>>;
  /** Initializers, one behind the other, rounded to the dtype. */
  readonly constants: readonly (Place & { readonly from: readonly string[] })[];
}

/** The problem of a step that is a product. */
function requestOf({ epilogue, operands }: Step) {
  const { a, b, d } = operands;
  if (a === undefined || b === undefined || d === undefined) throw new TypeError("a product has a, b and d");
  const operand = (view: View) => ({ dtype: view.storage.dtype, ...matrixLayout(view) });
  const [m = 1, k = 1] = a.shape;
  const sizes = { m, n: d.shape[1] ?? 1, k };
  return { ...sizes, a: operand(a), b: operand(b), d: operand(d), ...(epilogue !== "acc" && { epilogue }) };
}

export function compileModel(graph: Graph, { target, numSms }: Goal): Plan {
  const { steps, inputs, outputs } = lower(graph);
  // One kernel for all steps that are alike.
  const known = new Map<string, Artifact>();
  const compiled = (step: Step): Artifact => {
    const key = step.program ?? JSON.stringify(requestOf(step));
    const input =
      step.program === null ? { problem: unwrap(defineProblem(requestOf(step))) } : { from: step.program };
    const made = known.get(key) ?? unwrap(compiler.compile({ ...input, target }));
    known.set(key, made);
    return made;
  };
  const storages = (views: Iterable<View>) => [...views].map(({ storage }) => storage);
  const constant = steps.flatMap(({ operands }) =>
    storages(Object.values(operands)).filter((each) => each.constant),
  );
  const { places, ...sequence } = unwrap(
    planSequence(
      steps.map((step) => ({ artifact: compiled(step), operands: step.operands })),
      { numSms, given: [...constant, ...storages(inputs.values())], results: storages(outputs.values()) },
    ),
  );
  const placeOf = ({ storage, shape }: Pick<View, "storage" | "shape">): Place => {
    const { dtype } = storage;
    return { at: places.get(storage) ?? 0, bytes: storageBytes(storage), dtype, shape };
  };
  const named = (views: ReadonlyMap<string, View>) =>
    Object.fromEntries([...views].map(([name, view]) => [name, placeOf(view)] as const));
  return {
    ...{ arch: target.arch, ...sequence, inputs: named(inputs), outputs: named(outputs) },
    constants: [...new Set(constant)].map((storage) => ({
      ...placeOf({ storage, shape: [storage.elements] }),
      from: storage.constant ?? [],
    })),
  };
}
