/** A compiled artefact as a contender: every kernel of it packed once for each buffer set. */
import {
  type Checked,
  evaluateConstraints,
  type LaunchEnvironment,
  launchEnvironment,
  ok,
  workspaceBytes,
} from "@tilewright/core";
import { CudaBuffer } from "../cuda/buffer.ts";
import type { CudaContext } from "../cuda/context.ts";
import { CudaKernel } from "../cuda/kernel.ts";
import { CudaModule } from "../cuda/module.ts";
import type { PreparedKernel } from "../cuda/prepared.ts";
import { encodeTensorMap } from "../cuda/tensor-map.ts";
import type { KernelAttributes } from "../device.ts";
import type { GemmArtifact } from "../gemm.ts";
import { launchRequest } from "../launch-kernel.ts";
import type { BufferSet } from "./buffers.ts";
import type { Contender } from "./stream.ts";

export interface LoadedKernel {
  readonly contender: Contender;
  /** Of the first kernel. */
  readonly attributes: KernelAttributes;
  free(): void;
}

/** Values that launches pass for what the problem leaves to them. */
export const launchScalars = { alpha: 1, beta: 1, step: 0.5 } as const;

/** Load `artifact` and pack its launches for every set. A workspace is one for all sets, since launches follow each other. */
export function loadKernel(
  context: CudaContext,
  name: string,
  artifact: GemmArtifact,
  sets: readonly BufferSet[],
): Checked<LoadedKernel> {
  const undo: (() => void)[] = [];
  const loaded = load(context, name, artifact, sets, undo);
  if (!loaded.ok) for (const release of undo.reverse()) release();
  return loaded;
}

function load(
  context: CudaContext,
  name: string,
  { ptx, manifest }: GemmArtifact,
  sets: readonly BufferSet[],
  undo: (() => void)[],
): Checked<LoadedKernel> {
  const problem = manifest.request;
  const module = CudaModule.load(context, ptx);
  if (!module.ok) return module;
  undo.push(() => module.value.unload());
  const env: LaunchEnvironment = {
    ...launchEnvironment(problem, context.info, launchScalars),
    ...Object.fromEntries(problem.epilogue.map((_, index) => [`epilogue${index}`, launchScalars.step])),
  };
  const met = evaluateConstraints(manifest.constraints ?? [], env);
  if (!met.ok) return met;
  const workspace = makeWorkspace(context, manifest, env);
  if (!workspace.ok) return workspace;
  const shared = workspace.value;
  if (shared !== null) undo.push(() => shared.free());

  let attributes: KernelAttributes | null = null;
  const launches: PreparedKernel[][] = sets.map(() => []);
  for (const spec of manifest.kernels) {
    const kernel = module.value.kernel(spec.entry);
    if (!kernel.ok) return kernel;
    if (attributes === null || spec.role === "main") attributes = kernel.value.attributes;
    if (!(kernel.value instanceof CudaKernel))
      throw new TypeError("a module of a GPU gives kernels of a GPU");
    for (const [index, set] of sets.entries()) {
      const buffers = shared === null ? set : { ...set, workspace: shared };
      const request = launchRequest(spec, env, buffers, (map) => encodeTensorMap(context, map));
      if (!request.ok) return request;
      const prepared = kernel.value.prepare(request.value);
      if (!prepared.ok) return prepared;
      launches[index]?.push(prepared.value);
    }
  }
  if (attributes === null) throw new TypeError("an artefact has a kernel");
  const zeroed = shared !== null && (manifest.workspace?.init ?? "zeroEach") === "zeroEach" ? shared : null;
  return ok({
    contender: {
      name,
      launch(set) {
        if (zeroed !== null) {
          // Part of what the kernel needs done each time, so part of its time.
          const cleared = context.call("bench.workspace", (driver) =>
            driver.memsetD8Async(zeroed.address, 0, zeroed.size, context.stream),
          );
          if (!cleared.ok) return cleared;
        }
        for (const launch of launches[set] ?? []) {
          const queued = launch.launch();
          if (!queued.ok) return queued;
        }
        return ok(true);
      },
    },
    attributes,
    free() {
      for (const release of undo.splice(0).reverse()) release();
    },
  });
}

/** The largest workspace that any kernel wants, zeroed; null where none does. */
function makeWorkspace(
  context: CudaContext,
  manifest: GemmArtifact["manifest"],
  env: LaunchEnvironment,
): Checked<CudaBuffer | null> {
  const bytes = workspaceBytes(manifest, env);
  if (!bytes.ok) return bytes;
  if (bytes.value === 0) return ok(null);
  const buffer = CudaBuffer.alloc(context, bytes.value);
  if (!buffer.ok) return buffer;
  const cleared = buffer.value.fill(0);
  return cleared.ok ? buffer : cleared;
}
