/** A launch that is checked and packed: made again and again for a few microseconds each, without allocating. */
import { type Checked, err, ok } from "@tilewright/core";
import { encodeArguments } from "../arguments.ts";
import type { LaunchArgument } from "../device.ts";
import { fail } from "../diagnostics.ts";
import type { ParamInfo } from "../ptx-header.ts";
import { bufferProblem, CudaBuffer } from "./buffer.ts";
import type { CudaContext } from "./context.ts";
import type { CudaPreparedLaunch } from "./driver.ts";

/** One object for every success. */
const done: Checked<true> = ok(true);

export class PreparedKernel {
  readonly entry: string;
  readonly #context: CudaContext;
  readonly #module: { readonly unloaded: boolean };
  readonly #packed: CudaPreparedLaunch;
  /** By argument; null where it is no buffer. Held, so that none is collected while it may be launched with. */
  readonly #buffers: (CudaBuffer | null)[];
  readonly #params: readonly ParamInfo[] | null;

  constructor(
    context: CudaContext,
    entry: string,
    module: { readonly unloaded: boolean },
    packed: CudaPreparedLaunch,
    args: readonly LaunchArgument[],
    params: readonly ParamInfo[] | null,
  ) {
    this.#context = context;
    this.entry = entry;
    this.#module = module;
    this.#packed = packed;
    this.#buffers = args.map((argument) => (argument instanceof CudaBuffer ? argument : null));
    this.#params = params;
  }

  /** Queue it; does not wait. A fault shows at a later call. */
  launch(): Checked<true> {
    const refusal = this.#refusal();
    if (refusal !== null) return refusal;
    const current = this.#context.enter();
    const status = current === 0 ? this.#packed.launch() : current;
    return status === 0 ? done : this.#context.failed(`${this.entry}.launch`, status);
  }

  /** Another argument from the next launch on, of the same type. */
  set(index: number, argument: LaunchArgument): Checked<true> {
    const at = `${this.entry}.args[${index}]`;
    const target = this.#packed.params[index];
    if (target === undefined) {
      const count = this.#packed.params.length;
      return fail("args", at, `there is no argument ${index}`, `the entry takes ${count}`);
    }
    const problem = bufferProblem(this.#context, at, argument);
    if (problem !== null) return err([problem]);
    const param = this.#params?.[index];
    const encoded = encodeArguments(this.entry, param === undefined ? null : [param], [argument]);
    if (!encoded.ok) return encoded;
    const bytes = encoded.value[0] ?? new Uint8Array();
    if (bytes.byteLength !== target.byteLength)
      return fail("args", at, `${bytes.byteLength} bytes do not fit`, `it takes ${target.byteLength} bytes`);
    target.set(bytes);
    this.#buffers[index] = argument instanceof CudaBuffer ? argument : null;
    return done;
  }

  #refusal() {
    const unusable = this.#context.unusable("kernel.launch");
    if (unusable !== null) return err([unusable]);
    if (this.#module.unloaded)
      return fail("closed", "kernel.launch", "the kernel's module is unloaded", "load it again");
    for (let index = 0; index < this.#buffers.length; index++) {
      if (this.#buffers[index]?.freed === true)
        return fail("buffer", `${this.entry}.args[${index}]`, "the buffer is freed");
    }
    return null;
  }
}
