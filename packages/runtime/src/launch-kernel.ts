/** Launch a kernel by its manifest: grid and scalars from expressions, parameters in their order, constraints checked. */
import {
  type Checked,
  type Constraint,
  type Diagnostic,
  err,
  type KernelSpec,
  ok,
  type ParamSpec,
} from "@tilewright/ir";
import type {
  Device,
  DeviceBuffer,
  DeviceModule,
  LaunchArgument,
  LaunchRequest,
  LaunchResult,
} from "./device.ts";
import { diagnose } from "./diagnostics.ts";
import { checkConstraints, evaluate, type LaunchEnv } from "./launch-expr.ts";

export type KernelBuffers = Readonly<Partial<Record<"a" | "b" | "c" | "d" | "workspace", DeviceBuffer>>>;

export type KernelLaunchOptions = Pick<LaunchRequest, "order" | "seed" | "checks" | "fuel"> & {
  /** Conditions of the manifest, checked before anything is launched. */
  readonly constraints?: readonly Constraint[];
};

/**
 * Launch `spec` on `device` and wait.
 * `image`: its PTX or cubin (loaded and unloaded here), or a module that is already loaded. `env`: values of the names in the manifest's
 * expressions; `numSms` is the device's unless given. `buffers`: one for each pointer parameter.
 * Errors: everything that is missing or does not fit, at once; then what the device says.
 */
export function launchKernel(
  device: Device,
  spec: KernelSpec,
  image: string | Uint8Array | DeviceModule,
  env: LaunchEnv,
  buffers: KernelBuffers,
  options: KernelLaunchOptions = {},
): Checked<LaunchResult> {
  const { constraints = [], ...knobs } = options;
  const values: LaunchEnv = { numSms: device.numSms, ...env };
  const request = launchRequest(spec, values, buffers);
  const violated = checkConstraints(constraints, values);
  if (!request.ok || violated.length > 0) return err([...violated, ...(request.ok ? [] : request.error)]);

  const owned = typeof image === "string" || image instanceof Uint8Array ? device.load(image) : null;
  if (owned !== null && !owned.ok) return owned;
  const module = owned === null ? (image as DeviceModule) : owned.value;
  try {
    const kernel = module.kernel(spec.entry);
    return kernel.ok ? kernel.value.launch({ ...request.value, ...knobs }) : kernel;
  } finally {
    owned?.value.unload();
  }
}

/** The request that a manifest amounts to for given values. */
function launchRequest(spec: KernelSpec, env: LaunchEnv, buffers: KernelBuffers): Checked<LaunchRequest> {
  const problems: Diagnostic[] = [];
  const take = <T>(checked: Checked<T>, otherwise: T): T => {
    if (checked.ok) return checked.value;
    problems.push(...checked.error);
    return otherwise;
  };
  const { launch } = spec;
  const [x, y, z] = launch.grid;
  const extent = (axis: string, expr: typeof x): number =>
    take(evaluate(`${spec.entry}.grid.${axis}`, expr, env), 1);
  const request: LaunchRequest = {
    grid: [extent("x", x), extent("y", y), extent("z", z)],
    block: launch.block,
    cluster: launch.cluster,
    dynamicSmem: launch.dynamicSmem,
    cooperative: launch.cooperative,
    // Arguments are positional; offsets give the order, whatever order the manifest lists them in.
    args: [...spec.params]
      .sort((a, b) => a.offset - b.offset)
      .map((param) => take(argumentOf(spec.entry, param, env, buffers), 0n)),
  };
  return problems.length > 0 ? err(problems) : ok(request);
}

function argumentOf(
  entry: string,
  param: ParamSpec,
  env: LaunchEnv,
  buffers: KernelBuffers,
): Checked<LaunchArgument> {
  const at = `${entry}.${param.name}`;
  switch (param.kind) {
    case "pointer": {
      const buffer = buffers[param.name];
      if (buffer === undefined) {
        return err([
          diagnose(
            "operand",
            at,
            `the kernel needs a buffer for ${param.name}`,
            `pass buffers.${param.name}`,
          ),
        ]);
      }
      if (buffer.address % BigInt(param.align) === 0n) return ok(buffer);
      return err([
        diagnose(
          "operand",
          at,
          `the address of ${param.name} is not a multiple of ${param.align} B`,
          "align the buffer",
        ),
      ]);
    }
    case "scalar": {
      const value = evaluate(at, param.value, env);
      return value.ok && param.dtype === "u64" ? ok(BigInt(value.value)) : value;
    }
    case "tensorMap":
      return err([
        diagnose(
          "parameter",
          at,
          "the kernel takes a tensor map, which this version of the runtime does not encode",
          "choose a schedule without TMA",
        ),
      ]);
    default:
      return param satisfies never;
  }
}
