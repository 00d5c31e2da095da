/** Streams, events, copies in order with them, and graphs of the fake driver. */
import { err, ok } from "@tilewright/core";
import type { CudaDriver, CudaResult } from "../../../src/cuda/driver.ts";
import { type FakeCallName, FakeCore, type FakeGraph, type FakeWork } from "./core.ts";
import { status } from "./rules.ts";

export class FakeStreams extends FakeCore {
  streamCreate = () => this.inContext("streamCreate", [], () => ok(this.make("stream", { capture: null })));
  streamPriorities = () => this.inContext("streamPriorities", [], () => ok([0, -5] as const));
  streamCreateWithPriority = (blocking: boolean, priority: number) =>
    this.inContext("streamCreateWithPriority", [blocking, priority], () =>
      ok(this.make("stream", { capture: null })),
    );
  streamDestroy = (stream: bigint) => this.destroy("streamDestroy", "stream", stream);
  streamSynchronize = (stream: bigint) =>
    this.inContext("streamSynchronize", [stream], () =>
      this.stream(stream) === null ? err(status.invalidHandle) : this.surface(),
    );
  streamQuery = (stream: bigint): CudaResult<boolean> =>
    this.inContext("streamQuery", [stream], () => {
      if (this.stream(stream) === null) return err(status.invalidHandle);
      const idle = this.idle();
      // Time passes between two questions.
      const surfaced = this.surface();
      return surfaced.ok ? ok(idle) : surfaced;
    });
  streamWaitEvent = (stream: bigint, event: bigint) =>
    this.inContext("streamWaitEvent", [stream, event], () =>
      this.stream(stream) === null || this.event(event) === null
        ? err(status.invalidHandle)
        : ok(true as const),
    );

  eventCreate = () =>
    this.inContext("eventCreate", [], () => ok(this.make("event", { state: "new", at: 0 })));
  eventDestroy = (event: bigint) => this.destroy("eventDestroy", "event", event);
  eventRecord = (event: bigint, stream: bigint) =>
    this.inContext("eventRecord", [event, stream], () => {
      const found = this.event(event);
      if (found === null) return err(status.invalidHandle);
      found.state = "recorded";
      return this.enqueue(stream, {
        what: "event",
        run: () => {
          found.state = "done";
          found.at = this.clock;
        },
      });
    });
  eventSynchronize = (event: bigint) =>
    this.inContext("eventSynchronize", [event], () =>
      this.event(event) === null ? err(status.invalidHandle) : this.surface(),
    );
  eventQuery = (event: bigint): CudaResult<boolean> =>
    this.inContext("eventQuery", [event], () => {
      const found = this.event(event);
      if (found === null) return err(status.invalidHandle);
      const done = found.state !== "recorded";
      const surfaced = this.surface();
      return surfaced.ok ? ok(done) : surfaced;
    });
  eventElapsedTime = (start: bigint, end: bigint) =>
    this.inContext("eventElapsedTime", [start, end], () => {
      const from = this.event(start);
      const to = this.event(end);
      if (from === null || to === null || from.state === "new" || to.state === "new")
        return err(status.invalidHandle);
      return from.state === "done" && to.state === "done" ? ok(to.at - from.at) : err(status.notReady);
    });

  memcpyHtoDAsync: CudaDriver["memcpyHtoDAsync"] = (target, source, stream) =>
    this.#copy(
      "memcpyHtoDAsync",
      [target, source.byteLength, stream],
      stream,
      source,
      () => {
        this.memory.at(target, source.byteLength)?.set(source);
      },
      this.memory.at(target, source.byteLength),
    );
  memcpyDtoHAsync: CudaDriver["memcpyDtoHAsync"] = (target, source, stream) =>
    this.#copy(
      "memcpyDtoHAsync",
      [target.byteLength, source, stream],
      stream,
      target,
      () => {
        const bytes = this.memory.at(source, target.byteLength);
        if (bytes !== null) target.set(bytes);
      },
      this.memory.at(source, target.byteLength),
    );
  memcpyDtoDAsync: CudaDriver["memcpyDtoDAsync"] = (target, source, size, stream) =>
    this.#between("memcpyDtoDAsync", [target, source, size, stream], target, source, size, stream);
  memcpyPeerAsync: CudaDriver["memcpyPeerAsync"] = (target, source, size, stream) =>
    this.#between(
      "memcpyPeerAsync",
      [target, source, size, stream],
      target.address,
      source.address,
      size,
      stream,
    );
  memsetD8Async: CudaDriver["memsetD8Async"] = (address, byte, size, stream) =>
    this.inContext("memsetD8Async", [address, byte, size, stream], () => {
      if (this.memory.at(address, size) === null) return this.#outside("memset", address, size);
      return this.enqueue(stream, {
        what: "memset",
        run: () => this.memory.at(address, size)?.fill(byte),
      });
    });

  streamBeginCapture: CudaDriver["streamBeginCapture"] = (stream, mode) =>
    this.inContext("streamBeginCapture", [stream, mode], () => {
      const found = this.stream(stream);
      if (found === null) return err(status.invalidHandle);
      if (found.capture !== null) return err(status.illegalState);
      found.capture = { work: [], mode };
      return ok(true as const);
    });
  streamEndCapture = (stream: bigint) =>
    this.inContext("streamEndCapture", [stream], () => {
      const found = this.stream(stream);
      if (found === null) return err(status.invalidHandle);
      if (found.capture === null) return err(status.illegalState);
      const { work } = found.capture;
      found.capture = null;
      return ok(this.make("graph", { work }));
    });
  graphNodeCount = (graph: bigint) =>
    this.inContext("graphNodeCount", [graph], () => {
      const found = this.#graph("graph", graph);
      return found === null ? err(status.invalidHandle) : ok(found.work.length);
    });
  graphInstantiate = (graph: bigint) =>
    this.inContext("graphInstantiate", [graph], () => {
      const found = this.#graph("graph", graph);
      return found === null ? err(status.invalidHandle) : ok(this.make("exec", { work: found.work }));
    });
  graphLaunch = (exec: bigint, stream: bigint) =>
    this.inContext("graphLaunch", [exec, stream], () => {
      const found = this.#graph("exec", exec);
      if (found === null) return err(status.invalidHandle);
      const { work } = found;
      for (const piece of work) {
        const queued = this.enqueue(stream, piece);
        if (!queued.ok) return queued;
      }
      return ok(true as const);
    });
  graphExecUpdate = (exec: bigint, graph: bigint) =>
    this.inContext("graphExecUpdate", [exec, graph], () => {
      const [old, now] = [this.#graph("exec", exec), this.#graph("graph", graph)];
      if (old === null || now === null) return err(status.invalidHandle);
      const shape = (work: readonly FakeWork[]) => work.map(({ what }) => what).join();
      if (shape(old.work) !== shape(now.work)) return err(status.graphUpdateFailed);
      old.work = now.work;
      return ok(true as const);
    });
  graphExecDestroy = (exec: bigint) => this.destroy("graphExecDestroy", "exec", exec);
  graphDestroy = (graph: bigint) => this.destroy("graphDestroy", "graph", graph);

  #graph(kind: "graph" | "exec", handle: bigint): FakeGraph | null {
    const found = this.get(kind, handle);
    return found === null ? null : (found.value as FakeGraph);
  }

  #outside(what: string, address: bigint, size: number): CudaResult<true> {
    this.misuse.push(`${what} of ${size} B at ${address}, which is not allocated`);
    return err(status.invalidValue);
  }

  #copy(
    name: FakeCallName,
    args: readonly unknown[],
    stream: bigint,
    host: Uint8Array,
    run: () => void,
    device: Uint8Array | null,
  ): CudaResult<true> {
    return this.inContext(name, args, () => {
      if (device === null) return this.#outside(name, 0n, host.byteLength);
      // The real driver would copy at once, and stall: whoever asks for a copy beside other work wants to know.
      if (!this.host.holds(host)) this.misuse.push(`${name} with host memory that is not pinned`);
      return this.enqueue(stream, { what: name, host, run });
    });
  }

  #between(
    name: FakeCallName,
    args: readonly unknown[],
    target: bigint,
    source: bigint,
    size: number,
    stream: bigint,
  ): CudaResult<true> {
    return this.inContext(name, args, () => {
      if (this.memory.at(target, size) === null) return this.#outside(name, target, size);
      if (this.memory.at(source, size) === null) return this.#outside(name, source, size);
      return this.enqueue(stream, {
        what: name,
        run: () => {
          const bytes = this.memory.at(source, size);
          if (bytes !== null) this.memory.at(target, size)?.set(bytes);
        },
      });
    });
  }
}
