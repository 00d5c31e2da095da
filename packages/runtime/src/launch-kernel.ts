/** Launch a kernel by its manifest: grid and scalars from expressions, parameters in their order, constraints checked. */
import {
  type Checked,
  type Constraint,
  type Diagnostic,
  err,
  evaluateConstraints,
  evaluateLaunchExpr,
  type KernelSpec,
  type LaunchEnvironment,
  ok,
  type ParamSpec,
  type ResolvedLaunch,
  resolveLaunch,
  type TensorMapRecipe,
  type TensorMapSpec,
  tensorMapOf,
  tensorMapTypes,
} from "@tilewright/core";
import type {
  Device,
  DeviceBuffer,
  DeviceModule,
  LaunchArgument,
  LaunchRequest,
  LaunchResult,
} from "./device.ts";
import { fail } from "./diagnostics.ts";

type ScalarParam = Extract<ParamSpec, { kind: "scalar" }>;

/** Buffers by the names of the pointer parameters: `a`, `b`, `c`, `d`, `workspace`, `epilogueI`. */
export type KernelBuffers = Readonly<Record<string, DeviceBuffer>>;

export type KernelLaunchOptions = Pick<
  LaunchRequest,
  "order" | "seed" | "checks" | "fuel" | "trace" | "progress" | "arithmetic"
> & {
  /** Conditions of the manifest, checked before anything is launched. */
  readonly constraints?: readonly Constraint[];
};

/**
 * Launch `spec` on `device` and wait.
 * `image`: its PTX or cubin (loaded and unloaded here), or a module that is already loaded. `env`: values of the names in the manifest's
 * expressions, as `launchEnvironment` makes them. `buffers`: one for each pointer parameter.
 * Errors: everything that is missing or does not fit, at once; then what the device says.
 */
export function launchKernel(
  device: Device,
  spec: KernelSpec,
  image: string | Uint8Array | DeviceModule,
  env: LaunchEnvironment,
  buffers: KernelBuffers,
  options: KernelLaunchOptions = {},
): Checked<LaunchResult> {
  const { constraints = [], ...knobs } = options;
  const met = evaluateConstraints(constraints, env);
  const request = launchRequest(spec, env, buffers, (map) => device.encodeTensorMap(map));
  if (!met.ok || !request.ok)
    return err([...(met.ok ? [] : met.error), ...(request.ok ? [] : request.error)]);

  if (typeof image !== "string" && !(image instanceof Uint8Array))
    return launchLoaded(image, spec, request.value, knobs);
  const module = device.load(image);
  if (!module.ok) return module;
  const result = launchLoaded(module.value, spec, request.value, knobs);
  module.value.unload();
  return result;
}

function launchLoaded(
  module: DeviceModule,
  spec: Pick<KernelSpec, "entry">,
  request: LaunchRequest,
  knobs: Omit<KernelLaunchOptions, "constraints">,
): Checked<LaunchResult> {
  const kernel = module.kernel(spec.entry);
  return kernel.ok ? kernel.value.launch({ ...request, ...knobs }) : kernel;
}

/** How a device makes its tensor maps: `device.encodeTensorMap`. */
export type TensorMapEncoder = (spec: TensorMapSpec) => Checked<Uint8Array>;

/** Where an operand lies: its address, and how many bytes there are. */
export type MemoryPlace = Pick<DeviceBuffer, "address" | "size">;

/** An argument as data. Pointers and tensor maps have the address of the operand's place. */
export type PlannedArgument =
  | { readonly kind: "pointer"; readonly name: string; readonly address: bigint }
  | { readonly kind: "scalar"; readonly dtype: ScalarParam["dtype"]; readonly value: number }
  | { readonly kind: "tensorMap"; readonly spec: TensorMapSpec };

/** A launch as data, for hosts that plan before they have a device: addresses may be offsets into memory that is theirs to allocate. */
export interface PlannedLaunch extends ResolvedLaunch {
  readonly entry: string;
  readonly programmatic: boolean;
  readonly cooperative: boolean;
  /** In the order of the entry's parameters. */
  readonly args: readonly PlannedArgument[];
}

/** The launch that a manifest's kernel amounts to, for values as `launchEnvironment` makes them and places by the names of its operands. */
export function planLaunch(
  spec: KernelSpec,
  env: LaunchEnvironment,
  places: Readonly<Record<string, MemoryPlace>>,
): Checked<PlannedLaunch> {
  const geometry = resolveLaunch(spec, env);
  const problems: Diagnostic[] = geometry.ok ? [] : [...geometry.error];
  // Arguments are positional; offsets give the order, whatever order the manifest lists them in.
  const params = [...spec.params].sort((a, b) => a.offset - b.offset);
  const args = params.flatMap((param): readonly PlannedArgument[] => {
    const argument = argumentOf(spec.entry, param, env, places);
    if (argument.ok) return [argument.value];
    problems.push(...argument.error);
    return [];
  });
  if (!geometry.ok || problems.length > 0) return err(problems);
  const { cooperative, programmatic = false } = spec.launch;
  return ok({ entry: spec.entry, ...geometry.value, cooperative, programmatic, args });
}

/** The request that a manifest amounts to for given values. */
export function launchRequest(
  spec: KernelSpec,
  env: LaunchEnvironment,
  buffers: KernelBuffers,
  encode: TensorMapEncoder,
): Checked<LaunchRequest> {
  const planned = planLaunch(spec, env, buffers);
  return planned.ok
    ? requestOf(planned.value, ({ name, address }) => buffers[name] ?? address, encode)
    : planned;
}

/**
 * Launch what {@link planLaunch} has planned with offsets for addresses: they count from `base`, where the host's memory begins. Errors: what the device says.
 */
export function launchPlanned(
  device: Device,
  module: DeviceModule,
  planned: PlannedLaunch,
  base: bigint,
  options: Omit<KernelLaunchOptions, "constraints"> = {},
): Checked<LaunchResult> {
  const encode = (spec: TensorMapSpec) => device.encodeTensorMap({ ...spec, address: base + spec.address });
  const request = requestOf(planned, ({ address }) => base + address, encode);
  return request.ok ? launchLoaded(module, planned, request.value, options) : request;
}

/** The request that a plan amounts to. */
function requestOf(
  planned: PlannedLaunch,
  pointer: (argument: Extract<PlannedArgument, { kind: "pointer" }>) => LaunchArgument,
  encode: TensorMapEncoder,
): Checked<LaunchRequest> {
  const { grid, block, cluster, dynamicSmem, cooperative, programmatic } = planned;
  const problems: Diagnostic[] = [];
  const args = planned.args.map((argument): LaunchArgument => {
    if (argument.kind === "pointer") return pointer(argument);
    // What is no integer stays a number, and is then refused where the type is known.
    if (argument.kind === "scalar")
      return argument.dtype === "u64" && Number.isSafeInteger(argument.value)
        ? BigInt(argument.value)
        : argument.value;
    const map = encode(argument.spec);
    if (map.ok) return map.value;
    problems.push(...map.error);
    return 0;
  });
  if (problems.length > 0) return err(problems);
  return ok({ grid, block, cluster, dynamicSmem, cooperative, programmatic, args });
}

function argumentOf(
  entry: string,
  param: ParamSpec,
  env: LaunchEnvironment,
  places: Readonly<Record<string, MemoryPlace>>,
): Checked<PlannedArgument> {
  const at = `${entry}.${param.name}`;
  switch (param.kind) {
    case "pointer": {
      const { name } = param;
      const place = places[name];
      if (place === undefined)
        return fail("operand", at, `the kernel needs a buffer for ${name}`, `pass buffers.${name}`);
      if (place.address % BigInt(param.align) === 0n)
        return ok({ kind: "pointer", name, address: place.address });
      return fail("operand", at, `the address of ${name} is not a multiple of ${param.align} B`, "align it");
    }
    case "scalar": {
      const value = evaluateLaunchExpr(param.value, env);
      return value.ok ? ok({ kind: "scalar", dtype: param.dtype, value: value.value }) : value;
    }
    case "tensorMap":
      return tensorMapArgument(at, param.tensorMap, env, places);
  }
}

/** The tensor map of a recipe, over the place of its operand. */
function tensorMapArgument(
  at: string,
  recipe: TensorMapRecipe,
  env: LaunchEnvironment,
  places: Readonly<Record<string, MemoryPlace>>,
): Checked<PlannedArgument> {
  const place = places[recipe.operand];
  if (place === undefined) {
    const hint = `pass buffers.${recipe.operand}`;
    return fail("operand", at, `the kernel needs a buffer for ${recipe.operand}, for its tensor map`, hint);
  }
  const spec = tensorMapOf(recipe, env, place.address);
  if (!spec.ok) return spec;
  const reach = (recipe.at ?? 0) + reachOf(spec.value);
  if (reach > place.size) {
    return fail(
      "tensorMap",
      at,
      `the tensor map reaches over ${reach} B, and the buffer of ${recipe.operand} has ${place.size} B`,
      "its dims and strides must be those of the operand",
    );
  }
  return ok({ kind: "tensorMap", spec: spec.value });
}

/** Bytes from the first element to the end of the last one. */
function reachOf({ dtype, dims, strides }: TensorMapSpec): number {
  const inner = Math.ceil(((dims[0] ?? 0) * tensorMapTypes[dtype].bits) / 8);
  return strides.reduce((sum, stride, index) => sum + ((dims[index + 1] ?? 1) - 1) * stride, inner);
}
