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

/** Buffers by the names of the pointer parameters: `a`, `b`, `c`, `d`, `workspace`, `epilogueI`. */
export type KernelBuffers = Readonly<Record<string, DeviceBuffer>>;

export type KernelLaunchOptions = Pick<
  LaunchRequest,
  "order" | "seed" | "checks" | "fuel" | "trace" | "progress"
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
  spec: KernelSpec,
  request: LaunchRequest,
  knobs: Omit<KernelLaunchOptions, "constraints">,
): Checked<LaunchResult> {
  const kernel = module.kernel(spec.entry);
  return kernel.ok ? kernel.value.launch({ ...request, ...knobs }) : kernel;
}

/** How a device makes its tensor maps: `device.encodeTensorMap`. */
export type TensorMapEncoder = (spec: TensorMapSpec) => Checked<Uint8Array>;

/** The request that a manifest amounts to for given values. */
export function launchRequest(
  spec: KernelSpec,
  env: LaunchEnvironment,
  buffers: KernelBuffers,
  encode: TensorMapEncoder,
): Checked<LaunchRequest> {
  const geometry = resolveLaunch(spec, env);
  const problems: Diagnostic[] = geometry.ok ? [] : [...geometry.error];
  // Arguments are positional; offsets give the order, whatever order the manifest lists them in.
  const params = [...spec.params].sort((a, b) => a.offset - b.offset);
  const args = params.map((param): LaunchArgument => {
    const argument = argumentOf(spec.entry, param, env, buffers, encode);
    if (argument.ok) return argument.value;
    problems.push(...argument.error);
    return 0;
  });
  if (!geometry.ok || problems.length > 0) return err(problems);
  const { grid, block, cluster, dynamicSmem } = geometry.value;
  const { cooperative, programmatic = false } = spec.launch;
  return ok({ grid, block, cluster, dynamicSmem, cooperative, programmatic, args });
}

function argumentOf(
  entry: string,
  param: ParamSpec,
  env: LaunchEnvironment,
  buffers: KernelBuffers,
  encode: TensorMapEncoder,
): Checked<LaunchArgument> {
  const at = `${entry}.${param.name}`;
  switch (param.kind) {
    case "pointer": {
      const buffer = buffers[param.name];
      if (buffer === undefined) {
        return fail(
          "operand",
          at,
          `the kernel needs a buffer for ${param.name}`,
          `pass buffers.${param.name}`,
        );
      }
      if (buffer.address % BigInt(param.align) === 0n) return ok(buffer);
      return fail(
        "operand",
        at,
        `the address of ${param.name} is not a multiple of ${param.align} B`,
        "align it",
      );
    }
    case "scalar": {
      const value = evaluateLaunchExpr(param.value, env);
      // What is no integer stays a number, and is then refused where the type is known.
      const wide = param.dtype === "u64" && value.ok && Number.isSafeInteger(value.value);
      return wide ? ok(BigInt(value.value)) : value;
    }
    case "tensorMap":
      return tensorMapArgument(at, param.tensorMap, env, buffers, encode);
    default:
      return param satisfies never;
  }
}

/** The 128 bytes of a recipe, over the buffer of its operand. */
function tensorMapArgument(
  at: string,
  recipe: TensorMapRecipe,
  env: LaunchEnvironment,
  buffers: KernelBuffers,
  encode: TensorMapEncoder,
): Checked<LaunchArgument> {
  const buffer = buffers[recipe.operand];
  if (buffer === undefined) {
    const hint = `pass buffers.${recipe.operand}`;
    return fail("operand", at, `the kernel needs a buffer for ${recipe.operand}, for its tensor map`, hint);
  }
  const spec = tensorMapOf(recipe, env, buffer.address);
  if (!spec.ok) return spec;
  const reach = reachOf(spec.value);
  if (reach > buffer.size) {
    return fail(
      "tensorMap",
      at,
      `the tensor map reaches over ${reach} B, and the buffer of ${recipe.operand} has ${buffer.size} B`,
      "its dims and strides must be those of the operand",
    );
  }
  return encode(spec.value);
}

/** Bytes from the first element to the end of the last one. */
function reachOf({ dtype, dims, strides }: TensorMapSpec): number {
  const inner = Math.ceil(((dims[0] ?? 0) * tensorMapTypes[dtype].bits) / 8);
  return strides.reduce((sum, stride, index) => sum + ((dims[index + 1] ?? 1) - 1) * stride, inner);
}
