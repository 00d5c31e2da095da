/** Launches and copies recorded once and replayed with a single call. */
import { type Checked, ok } from "@tilewright/core";
import { fail } from "../diagnostics.ts";
import type { CudaContext } from "./context.ts";
import { CudaResource } from "./resource.ts";
import type { StreamUse } from "./uses.ts";

/** Work that was recorded: no executable graph yet. */
export interface Recording {
  /** CUgraph; whoever has it destroys it. */
  readonly graph: bigint;
  /** Memory that the recorded work uses. */
  readonly uses: ReadonlySet<StreamUse>;
}

/** A stream, as far as recording goes. */
export interface Recorder {
  captured(queue: () => Checked<true>): Checked<Recording>;
}

export class CudaGraph extends CudaResource {
  /** Kernels, copies and markers in it. */
  readonly nodes: number;
  readonly #exec: bigint;
  #uses: ReadonlySet<StreamUse>;

  private constructor(context: CudaContext, exec: bigint, nodes: number, uses: ReadonlySet<StreamUse>) {
    super(context, "graph", (driver) => driver.graphExecDestroy(exec));
    this.nodes = nodes;
    this.#exec = exec;
    this.#uses = uses;
  }

  /** Takes over `recording.graph`, which is destroyed in any case. */
  static instantiate(context: CudaContext, recording: Recording): Checked<CudaGraph> {
    const at = "stream.capture";
    try {
      const nodes = context.call(at, (driver) => driver.graphNodeCount(recording.graph));
      if (!nodes.ok) return nodes;
      const exec = context.call(at, (driver) => driver.graphInstantiate(recording.graph));
      return exec.ok ? ok(new CudaGraph(context, exec.value, nodes.value, recording.uses)) : exec;
    } finally {
      context.release((driver) => driver.graphDestroy(recording.graph));
    }
  }

  /** Queue it on a stream (by handle; `stream.replay` is the usual way). */
  launch(stream: bigint): Checked<true> {
    const at = "graph.launch";
    if (this.givenBack) return fail("closed", at, "the graph is destroyed", "record it again");
    for (const use of this.#uses)
      if (use.freed) return fail("buffer", at, "memory that the graph uses is freed", "record it again");
    return this.context.call(at, (driver) => driver.graphLaunch(this.#exec, stream));
  }

  /** Give it the parameters of a new recording of the same work in the same order: other buffers, scalars, tensor maps. */
  update(stream: Recorder, queue: () => Checked<true>): Checked<true> {
    const at = "graph.update";
    if (this.givenBack) return fail("closed", at, "the graph is destroyed", "record it again");
    const recorded = stream.captured(queue);
    if (!recorded.ok) return recorded;
    const { graph, uses } = recorded.value;
    const updated = this.context.call(at, (driver) => driver.graphExecUpdate(this.#exec, graph));
    this.context.release((driver) => driver.graphDestroy(graph));
    if (updated.ok) this.#uses = uses;
    return updated;
  }

  destroy(): void {
    this.release();
  }
}
