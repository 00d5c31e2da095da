/**
 * Work that the machine does on its own time: copies and, later, tensor operations. An engine posts an event at issue; the
 * launch's order decides when it runs between there and the wait that needs it:
 * eager at once, lazy only when nothing else can go on, random anywhere.
 */
import type { Order } from "../api.ts";
import type { Random } from "./random.ts";

export interface AsyncEvent {
  /** False while an order constraint holds the event back. */
  ready(): boolean;
  run(): void;
}

export class EventQueue {
  readonly #order: Order;
  readonly #random: Random;
  #events: AsyncEvent[] = [];

  constructor(order: Order, random: Random) {
    this.#order = order;
    this.#random = random;
  }

  get size(): number {
    return this.#events.length;
  }

  post(event: AsyncEvent): void {
    this.#events.push(event);
    if (this.#order === "eager") this.#runReady();
  }

  /** Called between steps of warps; returns whether an event ran. */
  idle(): boolean {
    if (this.#events.length === 0 || this.#order === "lazy") return false;
    if (this.#order === "eager") return this.#runReady();
    return this.#random.next() < 0.5 && this.#runOne();
  }

  /** Called when no warp can go on: runs one event that is ready. False when there is none. */
  force(): boolean {
    return this.#runOne();
  }

  #runReady(): boolean {
    let ran = false;
    for (let k = 0; k < this.#events.length; ) {
      const event = this.#events[k];
      if (event?.ready() === true) {
        this.#events.splice(k, 1);
        event.run();
        ran = true;
      } else k += 1;
    }
    return ran;
  }

  #runOne(): boolean {
    const at = this.#order === "random" ? this.#anyReady() : this.#events.findIndex((event) => event.ready());
    if (at < 0) return false;
    const [event] = this.#events.splice(at, 1);
    event?.run();
    return true;
  }

  /** Index of one of those that are ready, each as likely as the others; -1 where none is. */
  #anyReady(): number {
    const ready: number[] = [];
    for (const [k, event] of this.#events.entries()) if (event.ready()) ready.push(k);
    return ready.length === 0 ? -1 : (ready[Math.floor(this.#random.next() * ready.length)] ?? 0);
  }
}
