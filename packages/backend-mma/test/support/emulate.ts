/** Running a lowered kernel on the emulator. */
import { createEmulator, type LaunchReport, type Order } from "@tilewright/emulator";
import {
  bytesOfStorage,
  formatDiagnostic,
  type KernelSpec,
  type LoweredKernel,
  type Problem,
  type Storage,
  storageBytes,
  storageFromBytes,
} from "@tilewright/ir";
import type { CaseData } from "./data.ts";

const unwrap = <T>(
  result:
    | { readonly ok: true; readonly value: T }
    | { readonly ok: false; readonly error: readonly Parameters<typeof formatDiagnostic>[0][] },
): T => {
  if (!result.ok) throw new Error(result.error.map(formatDiagnostic).join("\n"));
  return result.value;
};

/** Load a kernel once; each call launches it on fresh inputs. D starts uninitialised. */
export function emulated(
  problem: Problem,
  lowered: LoweredKernel,
): (data: CaseData, order: Order, seed: number) => { readonly d: Storage; readonly report: LaunchReport } {
  const emulator = createEmulator();
  const module = unwrap(emulator.load(lowered.ptx));
  const { entry, launch, params, workspaceBytes }: KernelSpec = lowered.kernel;
  // Zero once: the kernel itself leaves its counters as the next launch wants them.
  const workspace = workspaceBytes === 0 ? null : unwrap(emulator.alloc(Number(workspaceBytes)));
  if (workspace !== null) emulator.write(workspace, new Uint8Array(Number(workspaceBytes)));
  return (data, order, seed) => {
    const put = (values: Storage): bigint => {
      const bytes = bytesOfStorage(values);
      const pointer = unwrap(emulator.alloc(bytes.byteLength));
      emulator.write(pointer, bytes);
      return pointer;
    };
    const size = storageBytes(problem.d.dtype, data.elements);
    const d = unwrap(emulator.alloc(size));
    const pointers: Readonly<Record<string, bigint>> = {
      a: put(data.a),
      b: put(data.b),
      d,
      ...(data.c ? { c: put(data.c) } : {}),
    };
    const report = unwrap(
      emulator.launch(module, entry, {
        grid: launch.grid.map(Number) as [number, number, number],
        block: launch.block,
        dynamicSmem: launch.dynamicSmem,
        params: params.map((p) => {
          if (p.kind === "pointer") return (p.name === "workspace" ? workspace : pointers[p.name]) ?? 0n;
          return p.name === "alpha" ? data.alpha : data.beta;
        }),
        order,
        seed,
      }),
    );
    const out = emulator.read(d, size);
    for (const pointer of Object.values(pointers)) emulator.free(pointer);
    return { d: storageFromBytes(problem.d.dtype, out, data.elements), report };
  };
}
