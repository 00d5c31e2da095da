/** The measuring loop's stream on a GPU: events for markers, a sleeping kernel for pauses, stream capture for replays. */
import { type Checked, err, ok } from "@tilewright/core";
import { statusDiagnostic } from "../cuda/call.ts";
import type { CudaContext } from "../cuda/context.ts";
import type { CudaResult } from "../cuda/driver.ts";
import { pauseEntry, pausePtx } from "./pause.ts";
import type { Replay, TimingStream } from "./stream.ts";

/** Milliseconds of a monotonic host clock. */
const hostNow = (): number => performance.now();

export class CudaTimingStream implements TimingStream {
  readonly #context: CudaContext;
  readonly #pause: bigint;
  readonly #module: bigint;
  readonly #now: () => number;
  readonly #events: bigint[] = [];

  private constructor(context: CudaContext, module: bigint, pause: bigint, now: () => number) {
    this.#context = context;
    this.#module = module;
    this.#pause = pause;
    this.#now = now;
  }

  /** On the stream of `context`. `now`: host clock, for tests. */
  static open(context: CudaContext, now: () => number = hostNow): Checked<CudaTimingStream> {
    const text = new TextEncoder().encode(`${pausePtx}\0`);
    const module = context.call("bench.pause", (driver) => driver.moduleLoadData(text).result);
    if (!module.ok) return module;
    const fn = context.call("bench.pause", (driver) => driver.moduleGetFunction(module.value, pauseEntry));
    if (fn.ok) return ok(new CudaTimingStream(context, module.value, fn.value, now));
    context.release((driver) => driver.moduleUnload(module.value));
    return fn;
  }

  now(): number {
    return this.#now();
  }

  mark(slot: number): Checked<true> {
    const event = this.#event(slot);
    if (!event.ok) return event;
    return this.#done("bench.mark", this.#context.driver.eventRecord(event.value, this.#context.stream));
  }

  pause(us: number): Checked<true> {
    const ns = new Uint8Array(8);
    new DataView(ns.buffer).setBigUint64(0, BigInt(Math.round(1000 * us)), true);
    const config = {
      grid: [1, 1, 1],
      block: [1, 1, 1],
      cluster: null,
      cooperative: false,
      dynamicSmem: 0,
      stream: this.#context.stream,
    } as const;
    return this.#done("bench.pause", this.#context.driver.launchKernel(config, this.#pause, [ns]));
  }

  wait(): Checked<true> {
    return this.#context.call("bench.wait", (driver) => driver.streamSynchronize(this.#context.stream));
  }

  between(from: number, to: number): Checked<number> {
    const [start, end] = [this.#event(from), this.#event(to)];
    if (!start.ok) return start;
    if (!end.ok) return end;
    const ms = this.#context.call("bench.between", (driver) =>
      driver.eventElapsedTime(start.value, end.value),
    );
    return ms.ok ? ok(1000 * ms.value) : ms;
  }

  record(queue: () => Checked<true>): Checked<Replay | null> {
    const context = this.#context;
    const begun = context.call("bench.graph", (driver) =>
      driver.streamBeginCapture(context.stream, "relaxed"),
    );
    if (!begun.ok) return begun;
    const queued = queue();
    // Capture must end in any case, or the stream stays unusable.
    const graph = context.call("bench.graph", (driver) => driver.streamEndCapture(context.stream));
    if (!queued.ok) {
      if (graph.ok) context.release((driver) => driver.graphDestroy(graph.value));
      return queued;
    }
    if (!graph.ok) return graph;
    const exec = context.call("bench.graph", (driver) => driver.graphInstantiate(graph.value));
    context.release((driver) => driver.graphDestroy(graph.value));
    if (!exec.ok) return exec;
    return ok({
      launch: () => this.#done("bench.graph", context.driver.graphLaunch(exec.value, context.stream)),
      destroy: () => context.release((driver) => driver.graphExecDestroy(exec.value)),
    });
  }

  /** Give events and the pause kernel back. */
  close(): void {
    const events = this.#events.splice(0);
    this.#context.release((driver) => {
      for (const event of events) driver.eventDestroy(event);
      return driver.moduleUnload(this.#module);
    });
  }

  #event(slot: number): Checked<bigint> {
    const known = this.#events[slot];
    if (known !== undefined) return ok(known);
    const made = this.#context.call("bench.mark", (driver) => driver.eventCreate());
    if (made.ok) this.#events[slot] = made.value;
    return made;
  }

  /** Of calls while the device is busy: the context is current already, and setting it again would cost a call for each. */
  #done(at: string, result: CudaResult<true>): Checked<true> {
    return result.ok ? result : err([statusDiagnostic(this.#context.driver, at, result.error)]);
  }
}
