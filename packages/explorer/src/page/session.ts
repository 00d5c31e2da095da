/** The page's state and the kernel that it stands for: one place that compiles, and tells whoever draws. */
import { prepared } from "virtual:prepared";
import { askOf } from "../model/ask.ts";
import { initialState, type State, toHash } from "../model/state.ts";
import type { CompileWorker } from "../worker/compile.ts";
import type { Compiled, Kernel, World } from "../worker/compiling.ts";
import { Remote } from "../worker/rpc.ts";
import type { RunWorker } from "../worker/run.ts";

/** A worker that does not answer is a bug, and is told where other reasons stand. */
const failed = (failure: unknown): Compiled => ({
  ms: 0,
  kernel: null,
  diagnostics: [
    {
      code: "TW9001",
      kind: "internal",
      at: "compiler",
      message: failure instanceof Error ? failure.message : String(failure),
      hint: "this is a bug: the address of this page shows it again",
    },
  ],
});

const asText = (state: State): string => JSON.stringify(askOf(state));

type Listener = (session: Session, what: "state" | "compiled") => void;

export class Session {
  readonly compiler = new Remote<CompileWorker>(
    () => new Worker(new URL("../worker/compile.ts", import.meta.url), { type: "module", name: "compile" }),
  );
  readonly runner = new Remote<RunWorker>(
    () => new Worker(new URL("../worker/run.ts", import.meta.url), { type: "module", name: "run" }),
  );
  readonly world: World = prepared.world;
  #state: State;
  #compiled: Compiled | null = null;
  /** The last kernel that there was: shown on while a request is not one. */
  #kernel: Kernel | null = null;
  readonly #listeners: Listener[] = [];
  /** The first kernel: the page came with it, or it is made while the page is drawn; null once it is taken. */
  #first: Compiled | Promise<Compiled> | null;
  /** The worker has not made the kernel that is shown. */
  #behind: boolean;
  #busy = false;
  #again = false;

  constructor(state: State) {
    this.#state = state;
    this.#behind = asText(state) === asText(initialState);
    this.#first = this.#behind ? prepared.first : this.#ask();
  }

  get state(): State {
    return this.#state;
  }

  /** What the last request came to. */
  get compiled(): Compiled | null {
    return this.#compiled;
  }

  get kernel(): Kernel | null {
    return this.#kernel;
  }

  /** What the request, or its edited text, comes to. */
  #ask(): Promise<Compiled> {
    this.#behind = false;
    return this.compiler.call("compile", askOf(this.#state)).catch(failed);
  }

  /** Have the worker make the kernel that is shown, if the page came with it. */
  #catchUp(): void {
    if (this.#behind) void this.#ask();
  }

  /** Ask the worker about the kernel that it made last. */
  about: Remote<CompileWorker>["call"] = (name, argument) => {
    this.#catchUp();
    return this.compiler.call(name, argument);
  };

  /** Start the workers, so that the first call finds them loaded. */
  warm(): void {
    this.#catchUp();
    this.runner.warm();
  }

  listen(listener: Listener): void {
    this.#listeners.push(listener);
  }

  #tell(what: "state" | "compiled"): void {
    for (const listener of this.#listeners) listener(this, what);
  }

  /** Change the state; what a kernel follows from is compiled anew. */
  set(patch: Partial<State>): void {
    const before = this.#state;
    const asked = ["arch", "gpu", "backend", "schedule", "problem", "edit", "unproven"] as const;
    // An edit belongs to the request that it was made of; for another GPU it is that kernel still, whatever would be chosen there.
    const regards = asked.some((key) => key !== "gpu" && key in patch);
    const edit = ("edit" in patch ? patch.edit : regards ? null : before.edit) ?? null;
    const pinned =
      edit !== null && "gpu" in patch && before.schedule === "" ? this.#kernel?.chosen : undefined;
    this.#state = { ...before, ...pinned, ...patch, edit };
    this.#tell("state");
    void this.#remember();
    if (asked.some((key) => this.#state[key] !== before[key])) void this.compile();
  }

  async #remember(): Promise<void> {
    const hash = `#${await toHash(this.#state)}`;
    if (hash !== location.hash) history.replaceState(null, "", hash);
  }

  /** Compile the state as it is. While the worker is at work the newest state waits, and those before it are left out. */
  async compile(): Promise<void> {
    if (this.#busy) {
      this.#again = true;
      return;
    }
    this.#busy = true;
    do {
      this.#again = false;
      const asked = this.#first ?? this.#ask();
      this.#first = null;
      const compiled = await asked;
      this.#compiled = compiled;
      this.#kernel = compiled.kernel ?? this.#kernel;
      this.#tell("compiled");
    } while (this.#again);
    this.#busy = false;
  }
}
