/** The side that asks: parts of launches to the threads, and their replies. */
import { InternalError } from "@tilewright/core";
import type { LaunchPort, RangeReply, RangeRequest, RangeResult } from "./ports.ts";

export class LaunchThreads {
  readonly #ports: readonly LaunchPort[];
  readonly #waiting = new Map<number, (reply: RangeReply) => void>();
  #next = 0;

  constructor(ports: readonly LaunchPort[]) {
    this.#ports = ports;
    for (const port of ports)
      port.onmessage = ({ data }) => {
        const reply = data as RangeReply;
        this.#waiting.get(reply.id)?.(reply);
        this.#waiting.delete(reply.id);
      };
  }

  get count(): number {
    return this.#ports.length;
  }

  /** The parts of one launch, one per thread; an element is null where that part cannot stand for itself. */
  run(
    parts: number,
    request: Omit<RangeRequest, "id" | "part" | "parts">,
  ): Promise<readonly (RangeResult | null)[]> {
    return Promise.all(
      Array.from({ length: parts }, (_, part) => {
        const port = this.#ports[part];
        if (port === undefined) throw new InternalError("more parts than threads");
        this.#next += 1;
        const id = this.#next;
        return new Promise<RangeResult | null>((resolve) => {
          this.#waiting.set(id, ({ result }) => resolve(result));
          port.postMessage({ ...request, id, part, parts } satisfies RangeRequest);
        });
      }),
    );
  }
}
