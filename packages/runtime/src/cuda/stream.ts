/** A queue of work on a GPU: copies, launches, graphs, in order. Nothing here waits, except `synchronize`. */
import { type Checked, err, ok } from "@tilewright/core";
import type { Kernel, LaunchRequest } from "../device.ts";
import { fail } from "../diagnostics.ts";
import { rangeProblem } from "../ranges.ts";
import { CudaBuffer } from "./buffer.ts";
import type { CudaContext } from "./context.ts";
import type { CudaDriver, CudaResult } from "./driver.ts";
import type { CudaEvent } from "./event.ts";
import { CudaGraph, type Recording } from "./graph.ts";
import { CudaKernel } from "./kernel.ts";
import type { PinnedMemory } from "./pinned.ts";
import { CudaResource } from "./resource.ts";
import type { StreamUse } from "./uses.ts";

export interface StreamOptions {
  /** Lower numbers go first; clamped to what the device has (on today's GPUs -5 to 0). 0 unless given. */
  readonly priority?: number;
  /** False: no order with `buffer.write` and `read`, which otherwise wait for this stream. True unless given. */
  readonly blocking?: boolean;
}

/** Which bytes of a copy; all offsets 0 and the shorter of both sizes unless given. */
export interface CopyRange {
  readonly targetOffset?: number;
  readonly sourceOffset?: number;
  readonly size?: number;
}

export class CudaStream extends CudaResource {
  readonly handle: bigint;
  /** In flight; given up when the stream is known to have come past. */
  #used = new Set<StreamUse>();

  private constructor(context: CudaContext, handle: bigint) {
    super(context, "stream", (driver) => driver.streamDestroy(handle));
    this.handle = handle;
  }

  static create(context: CudaContext, options: StreamOptions = {}): Checked<CudaStream> {
    const { priority, blocking = true } = options;
    const made = context.call("device.stream", (driver) =>
      priority === undefined && blocking
        ? driver.streamCreate()
        : driver.streamCreateWithPriority(blocking, priority ?? 0),
    );
    return made.ok ? ok(new CudaStream(context, made.value)) : made;
  }

  get destroyed(): boolean {
    return this.gone;
  }

  /** Host to device. Neither may be freed, nor the host's bytes changed, before the stream has come past; `free` waits for it. */
  upload(target: CudaBuffer, source: PinnedMemory, range: CopyRange = {}): Checked<true> {
    const at = "stream.upload";
    const bytes = source.bytes;
    return this.#copy(at, target, source, target.size, bytes.byteLength, range, (driver, to, from, size) =>
      driver.memcpyHtoDAsync(target.address + BigInt(to), bytes.subarray(from, from + size), this.handle),
    );
  }

  /** Device to host. The bytes are there once the stream has come past. */
  download(target: PinnedMemory, source: CudaBuffer, range: CopyRange = {}): Checked<true> {
    const at = "stream.download";
    const bytes = target.bytes;
    return this.#copy(at, target, source, bytes.byteLength, source.size, range, (driver, to, from, size) =>
      driver.memcpyDtoHAsync(bytes.subarray(to, to + size), source.address + BigInt(from), this.handle),
    );
  }

  /** Device to device, also between two GPUs; directly where they are peers, else through the host, as the driver decides. */
  copy(target: CudaBuffer, source: CudaBuffer, range: CopyRange = {}): Checked<true> {
    return this.#copy(
      "stream.copy",
      target,
      source,
      target.size,
      source.size,
      range,
      (driver, to, from, size) => {
        const [toAddress, fromAddress] = [target.address + BigInt(to), source.address + BigInt(from)];
        if (target.context === source.context)
          return driver.memcpyDtoDAsync(toAddress, fromAddress, size, this.handle);
        return driver.memcpyPeerAsync(
          { address: toAddress, context: target.context.handle },
          { address: fromAddress, context: source.context.handle },
          size,
          this.handle,
        );
      },
    );
  }

  /** Set every byte to `byte`. */
  fill(target: CudaBuffer, byte: number): Checked<true> {
    const refusal = this.#refusal("stream.fill", [target]);
    if (refusal !== null) return refusal;
    return this.#queue("stream.fill", [target], (driver) =>
      driver.memsetD8Async(target.address, byte & 0xff, target.size, this.handle),
    );
  }

  /** Queue a launch. A fault shows at a later call; {@link Kernel.launch} ties it to its kernel and waits. */
  launch(kernel: Kernel, request: LaunchRequest): Checked<true> {
    const refusal = this.#refusal("stream.launch", []);
    if (refusal !== null) return refusal;
    if (!(kernel instanceof CudaKernel) || kernel.context !== this.context)
      return fail("buffer", "stream.launch", "the kernel is of another device");
    const queued = kernel.enqueue(request, this.handle);
    if (!queued.ok) return queued;
    for (const argument of request.args) if (argument instanceof CudaBuffer) this.#hold(argument);
    return ok(true);
  }

  record(event: CudaEvent): Checked<true> {
    return this.#queue("stream.record", [], (driver) => driver.eventRecord(event.handle, this.handle));
  }

  /** What is queued from here on waits for the event's work, also of another stream. */
  wait(event: CudaEvent): Checked<true> {
    return this.#queue("stream.wait", [], (driver) => driver.streamWaitEvent(this.handle, event.handle));
  }

  /** Whether all that was queued is done. */
  done(): Checked<boolean> {
    const refusal = this.#refusal("stream.done", []);
    if (refusal !== null) return refusal;
    const done = this.context.call("stream.done", (driver) => driver.streamQuery(this.handle));
    if (done.ok && done.value) this.#letGo();
    return done;
  }

  /** Wait until all that was queued is done. */
  synchronize(): Checked<true> {
    const refusal = this.#refusal("stream.synchronize", []);
    if (refusal !== null) return refusal;
    const done = this.context.call("stream.synchronize", (driver) => driver.streamSynchronize(this.handle));
    // Also after a fault: nothing is in flight any more.
    this.#letGo();
    return done;
  }

  /** Record what `queue` queues on this stream instead of running it. Inside, nothing may wait, allocate or free. */
  capture(queue: () => Checked<true>): Checked<CudaGraph> {
    const recorded = this.captured(queue);
    return recorded.ok ? CudaGraph.instantiate(this.context, recorded.value) : recorded;
  }

  /** A recording that is no executable graph yet: for `graph.update`. The handle is the caller's to destroy. */
  captured(queue: () => Checked<true>): Checked<Recording> {
    const at = "stream.capture";
    const refusal = this.#refusal(at, []);
    if (refusal !== null) return refusal;
    const begun = this.context.call(at, (driver) => driver.streamBeginCapture(this.handle, "global"));
    if (!begun.ok) return begun;
    const outer = this.#used;
    this.#used = new Set();
    let queued: Checked<true>;
    try {
      queued = queue();
    } catch (error) {
      this.#abandonCapture();
      this.#used = outer;
      throw error;
    }
    const uses = this.#used;
    this.#used = outer;
    if (!queued.ok) {
      this.#abandonCapture();
      return queued;
    }
    const graph = this.context.call(at, (driver) => driver.streamEndCapture(this.handle));
    return graph.ok ? ok({ graph: graph.value, uses }) : graph;
  }

  /** Queue a graph. */
  replay(graph: CudaGraph): Checked<true> {
    const refusal = this.#refusal("stream.replay", []);
    return refusal ?? graph.launch(this.handle);
  }

  destroy(): void {
    this.release();
  }

  protected override settle(): void {
    // Pinned memory must not be given up under a copy, so whoever ends the stream waits for it.
    if (this.#used.size > 0 && !this.context.closed)
      this.context.release((driver) => driver.streamSynchronize(this.handle));
    this.#letGo();
  }

  /** End a capture that is not wanted; the graph, if there is one, with it. */
  #abandonCapture(): void {
    this.context.release((driver) => {
      const graph = driver.streamEndCapture(this.handle);
      return graph.ok ? driver.graphDestroy(graph.value) : graph;
    });
  }

  #hold(use: StreamUse): void {
    this.#used.add(use);
    if (!(use instanceof CudaBuffer)) use.usedBy(this, () => this.synchronize());
  }

  #letGo(): void {
    for (const use of this.#used) if (!(use instanceof CudaBuffer)) use.released(this);
    this.#used.clear();
  }

  #refusal(at: string, uses: readonly StreamUse[]) {
    if (this.givenBack) return fail("closed", at, "the stream is destroyed", "make another one");
    if (this.context.closed) return fail("closed", at, `the device ${this.context.name} is closed`);
    for (const use of uses) {
      if (use.freed) return fail("buffer", at, "the memory is freed");
    }
    return null;
  }

  #copy(
    at: string,
    target: StreamUse,
    source: StreamUse,
    targetSize: number,
    sourceSize: number,
    { targetOffset = 0, sourceOffset = 0, size }: CopyRange,
    run: (driver: CudaDriver, to: number, from: number, size: number) => CudaResult<true>,
  ): Checked<true> {
    const refusal = this.#refusal(at, [target, source]);
    if (refusal !== null) return refusal;
    const count = size ?? Math.min(targetSize - targetOffset, sourceSize - sourceOffset);
    const problems = [
      rangeProblem(at, targetOffset, count, targetSize),
      rangeProblem(at, sourceOffset, count, sourceSize),
    ].filter((problem) => problem !== null);
    if (problems.length > 0) return err(problems);
    if (count === 0) return ok(true);
    return this.#queue(at, [target, source], (driver) => run(driver, targetOffset, sourceOffset, count));
  }

  #queue(
    at: string,
    uses: readonly StreamUse[],
    run: (driver: CudaDriver) => CudaResult<true>,
  ): Checked<true> {
    const refusal = this.#refusal(at, []);
    if (refusal !== null) return refusal;
    const queued = this.context.call(at, run);
    if (queued.ok) for (const use of uses) this.#hold(use);
    return queued;
  }
}
