/** Calls to a worker: a table of functions on its side, a promise for each call on the page's. */

interface Request {
  readonly id: number;
  readonly name: string;
  readonly argument: unknown;
}

type Reply =
  | { readonly id: number; readonly kind: "done"; readonly value: unknown }
  | { readonly id: number; readonly kind: "failed"; readonly message: string }
  | { readonly id: number; readonly kind: "progress"; readonly value: unknown };

/** What a worker's thread has, beside a page's; the type library of pages says otherwise of `postMessage`. */
interface Port {
  onmessage: ((event: MessageEvent<Request>) => void) | null;
  postMessage(message: Reply): void;
}

/** Serve calls in a worker, one after the other. A function's second argument reports progress of its call. */
export function serve(
  handlers: Readonly<Record<string, (argument: never, progress: (value: unknown) => void) => unknown>>,
): void {
  const port = globalThis as unknown as Port;
  port.onmessage = async ({ data: { id, name, argument } }) => {
    try {
      const handler = handlers[name];
      if (handler === undefined) throw new TypeError(`the worker serves no '${name}'`);
      const value = await handler(argument as never, (step) =>
        port.postMessage({ id, kind: "progress", value: step }),
      );
      port.postMessage({ id, kind: "done", value });
    } catch (failure) {
      const message = failure instanceof Error ? (failure.stack ?? failure.message) : String(failure);
      port.postMessage({ id, kind: "failed", message });
    }
  };
}

interface Pending {
  readonly resolve: (value: unknown) => void;
  readonly reject: (reason: Error) => void;
  readonly progress: (value: unknown) => void;
}

/** A worker that can be called, and given up with all of its calls. */
export class Remote<H> {
  readonly #make: () => Worker;
  readonly #pending = new Map<number, Pending>();
  #worker: Worker | null = null;
  #next = 0;

  /** `make` is called when the first call comes, and again after `stop`. */
  constructor(make: () => Worker) {
    this.#make = make;
  }

  #start(): Worker {
    const worker = this.#make();
    worker.onmessage = ({ data }: MessageEvent<Reply>) => {
      const pending = this.#pending.get(data.id);
      if (pending === undefined) return;
      if (data.kind === "progress") {
        pending.progress(data.value);
        return;
      }
      this.#pending.delete(data.id);
      if (data.kind === "done") pending.resolve(data.value);
      else pending.reject(new Error(data.message));
    };
    worker.onerror = (event) => {
      const reason = new Error(event.message);
      for (const { reject } of this.#pending.values()) reject(reason);
      this.#pending.clear();
    };
    return worker;
  }

  /** Start the worker without a call, so that the first one finds it loaded. */
  warm(): void {
    this.#worker ??= this.#start();
  }

  call<K extends keyof H & string>(
    name: K,
    argument: H[K] extends (argument: infer A, ...rest: never[]) => unknown ? A : never,
    progress: (value: unknown) => void = () => {},
  ): Promise<H[K] extends (...all: never[]) => infer R ? Awaited<R> : never> {
    this.warm();
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve: resolve as (value: unknown) => void, reject, progress });
      this.#worker?.postMessage({ id, name, argument } satisfies Request);
    });
  }

  /** End the worker; its calls are rejected with `Stopped`. */
  stop(): void {
    this.#worker?.terminate();
    this.#worker = null;
    for (const { reject } of this.#pending.values()) reject(new Stopped());
    this.#pending.clear();
  }
}

export class Stopped extends Error {
  override readonly name = "Stopped";
}
