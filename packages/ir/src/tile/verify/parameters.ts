/** Kernels of a program of stage `machine`, as its launch declares them. */

import type { LaunchExpr, ParamSpec } from "@tilewright/core";
import { symbolicSizes } from "@tilewright/core";
import type { KernelDeclaration } from "../types.ts";
import type { Fault, Subject, Verifier } from "./verifier.ts";

/** Names that expressions of every launch may use (`launchEnvironment`). */
const launchNames: ReadonlySet<string> = new Set([
  ..."m n k batch lda ldb ldc ldd strideA strideB strideC strideD numSms alpha beta".split(" "),
]);

/** Tensor maps lie at multiples of 64 bytes (PTX ISA, tensor maps). */
const MAP_ALIGN = 64;

/** Most elements of a box along a dimension (cuTensorMapEncodeTiled). */
const MOST_BOX = 256;

export const parameters: Verifier = {
  name: "parameters",
  code: "TW3139",
  property:
    "one kernel is the program's own, with its name and threads; parameters lie where PTX places them and have names of their own; boxes of tensor maps have at most 256 elements along a dimension; expressions use sizes that a launch has",
  from: "machine",
  waivable: true,
  *check(subject) {
    const { program } = subject;
    const kernels = program.machine?.launches?.kernels;
    if (kernels === undefined) return;
    const own = kernels.filter(({ role }) => role === "main");
    if (own.length !== 1)
      yield { at: own[1] ?? "kernel", message: `${own.length} kernels are main`, hint: "one is" };
    for (const kernel of kernels) {
      if (
        kernel.role === "main" &&
        (kernel.name !== program.name || kernel.threads !== program.launch.threads)
      )
        yield {
          at: kernel,
          message: `@${kernel.name} of ${kernel.threads} threads, and the program is @${program.name} of ${program.launch.threads}`,
          hint: "the first line and 'launch' say so, too",
        };
      yield* unknownNames(subject, kernel, [...kernel.grid, kernel.workspace], kernel);
      yield* placesOf(subject, kernel);
    }
  },
};

function* placesOf(subject: Subject, kernel: KernelDeclaration): Iterable<Fault> {
  let end = 0;
  const names = new Set<string>();
  for (const param of kernel.params) {
    const align = param.kind === "tensorMap" ? MAP_ALIGN : param.size;
    const place = Math.ceil(end / align) * align;
    // So PTX places them, in the order of the entry (PTX ISA, .param).
    if (param.offset !== place)
      yield { at: param, message: `at ${param.offset}, and it comes to lie at ${place}`, hint: `@${place}` };
    if (names.has(param.name))
      yield { at: param, message: `two parameters are called %${param.name}`, hint: "rename one" };
    names.add(param.name);
    end = param.offset + param.size;
    yield* mapOf(param);
    yield* unknownNames(subject, param, valuesOf(param), kernel);
  }
}

function* mapOf(param: ParamSpec): Iterable<Fault> {
  if (param.kind !== "tensorMap") return;
  const { box, dims, strides } = param.tensorMap;
  const wide = box.find((extent) => extent > MOST_BOX);
  if (wide !== undefined)
    yield { at: param, message: `a box of ${wide} elements along a dimension`, hint: `at most ${MOST_BOX}` };
  if (box.length !== dims.length || strides.length !== dims.length - 1)
    yield {
      at: param,
      message: `${dims.length} dimensions, ${strides.length} strides and a box of ${box.length}`,
      hint: "a box has an extent for each dimension, and every dimension but the first a stride",
    };
}

const valuesOf = (param: ParamSpec): readonly LaunchExpr[] =>
  param.kind === "scalar"
    ? [param.value]
    : param.kind === "tensorMap"
      ? [...param.tensorMap.dims, ...param.tensorMap.strides]
      : [];

const namesIn = (e: LaunchExpr): readonly string[] =>
  typeof e === "string" ? [e] : typeof e === "number" ? [] : [...namesIn(e[1]), ...namesIn(e[2])];

function* unknownNames(
  { program }: Subject,
  at: KernelDeclaration | ParamSpec,
  values: readonly LaunchExpr[],
  kernel: KernelDeclaration,
): Iterable<Fault> {
  const sizes: readonly string[] = symbolicSizes(program.problem);
  const known = (name: string): boolean =>
    launchNames.has(name) || sizes.includes(name) || /^(?:ld)?epilogue\d+$/.test(name);
  const unknown = values.flatMap(namesIn).find((name) => !known(name));
  if (unknown !== undefined)
    yield {
      at,
      message: `'${unknown}' is nothing that a launch of @${kernel.name} knows`,
      hint: `one of: ${[...launchNames].join(", ")}`,
    };
}
