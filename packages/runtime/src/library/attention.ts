/** Attention of a kernel library: its tensors decide which kernel serves. */
import {
  type CallerTensor,
  type Checked,
  callerTensors,
  type DType,
  type Manifest,
  ok,
} from "@tilewright/core";
import { fail } from "../diagnostics.ts";
import type { KernelBuffers } from "../launch-kernel.ts";

/** What is known of a tensor; strides in elements, packed where they are left out. */
export interface LibraryTensor {
  readonly dtype?: DType;
  readonly shape: readonly number[];
  readonly strides?: readonly number[];
}

/** Arguments of an attention operation: tensors by the labels that `callerTensors` gives them. What is left out is what the first kernel was made for. */
export interface AttentionArguments {
  readonly tensors?: Readonly<Record<string, LibraryTensor>>;
}

const packed = (shape: readonly number[]): readonly number[] =>
  shape.map((_, i) => shape.slice(i + 1).reduce((all, size) => all * size, 1));
const list = (values: readonly number[]): string => `[${values.join(", ")}]`;

/** What keeps a tensor from being a kernel's own, and how near it comes: strides are nearer than shapes; null where it is. */
function unlike(wanted: CallerTensor, seen: LibraryTensor): { text: string; weight: number } | null {
  const { label, shape } = wanted;
  const strides = seen.strides ?? packed(seen.shape);
  if (seen.shape.join() !== shape.join())
    return { text: `${label} of ${list(shape)}, and it is ${list(seen.shape)}`, weight: 2 };
  if (shape.every((extent, i) => extent === 1 || strides[i] === wanted.strides[i])) return null;
  return { text: `${label} with strides ${list(wanted.strides)}, and they are ${list(strides)}`, weight: 1 };
}

/** The number of the first of an operation's kernels that serves these tensors. Errors: what a tensor is not; what the nearest kernel wants. */
export function pickAttention(
  operation: string,
  kernels: readonly { readonly artefact: number; readonly manifest: Manifest }[],
  { tensors = {} }: AttentionArguments,
  arch: string,
): Checked<number> {
  const rows = callerTensors(kernels[0]?.manifest.tensors ?? []);
  for (const [name, { dtype, shape }] of Object.entries(tensors)) {
    const wanted = rows.find(({ label }) => label === name);
    const at = `${operation}.${name}`;
    if (kernels.length > 0 && wanted === undefined)
      return fail(
        "operand",
        at,
        `${operation} has no tensor '${name}'`,
        `it has ${rows.map(({ label }) => label).join(", ")}`,
      );
    if (wanted === undefined) continue;
    if (dtype !== undefined && dtype !== wanted.dtype)
      return fail("operand", at, `${name} is ${dtype}, and the kernels take ${wanted.dtype}`);
    if (shape.length !== wanted.shape.length)
      return fail(
        "operand",
        at,
        `${name} has shape ${list(shape)}, and the kernels take [${wanted.axes.join(", ")}]`,
      );
  }
  let nearest = { text: "its kernels are for other GPUs", weight: Number.POSITIVE_INFINITY };
  for (const { artefact, manifest } of kernels) {
    const wants = callerTensors(manifest.tensors ?? []).flatMap((wanted) => {
      const seen = tensors[wanted.label];
      return (seen && unlike(wanted, seen)) ?? [];
    });
    if (wants.length === 0) return ok(artefact);
    const weight = wants.reduce((sum, each) => sum + each.weight, 0);
    if (weight < nearest.weight)
      nearest = { text: `the nearest wants ${wants.map(({ text }) => text).join(" and ")}`, weight };
  }
  const message = `${operation} has no kernel for these tensors on ${arch}: ${nearest.text}`;
  return fail("noKernel", "launch", message, "compile the library for these sizes and this GPU");
}

/** Buffers by the names of a kernel's operands, of which callers know tensors by their labels; each tensor has to have one. */
export function attentionBuffers(
  operation: string,
  { tensors = [] }: Manifest,
  buffers: KernelBuffers,
): Checked<KernelBuffers> {
  const rows = callerTensors(tensors);
  const missing = rows.find(({ label, operand }) => !buffers[label] && !buffers[operand]);
  if (missing !== undefined) {
    const { label } = missing;
    const message = `${operation} needs a buffer for ${label}`;
    return fail("operand", `${operation}.${label}`, message, `pass buffers.${label}`);
  }
  const operands = new Map<string, string>(rows.map(({ label, operand }) => [label, operand]));
  return ok(
    Object.fromEntries(Object.entries(buffers).map(([name, buffer]) => [operands.get(name) ?? name, buffer])),
  );
}
