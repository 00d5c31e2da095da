/** Kernels of candidates, made on threads beside the measuring: as many at a time as the machine has cores to spare. */
import { existsSync } from "node:fs";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { type Checked, findTarget, type Manifest, type Problem } from "@tilewright/core";
import type { Compiler } from "@tilewright/ir";

/** A kernel to make. */
export interface CompileAsk {
  readonly problem: Problem;
  /** A program over named axes, in place of a product of the problem. */
  readonly program?: string | undefined;
  readonly arch: string;
  readonly backend: string;
  readonly schedule: string;
}

/** What a launcher needs of it: plain data, which crosses from thread to thread. */
export interface CompiledKernel {
  readonly ptx: string;
  /** Canonical text. */
  readonly schedule: string;
  readonly manifest: Pick<Manifest, "request" | "kernels" | "workspace" | "constraints">;
}

export interface CompilePool {
  /** Errors: those of the compiler. */
  compile(ask: CompileAsk): Promise<Checked<CompiledKernel>>;
  close(): void;
}

/** One kernel, on this thread. */
export function compileHere(compiler: Compiler, ask: CompileAsk): Checked<CompiledKernel> {
  const target = findTarget(ask.arch);
  if (!target.ok) return target;
  const { problem, program, backend, schedule } = ask;
  const what = program === undefined ? { problem } : { from: program };
  const made = compiler.compile({ ...what, target: target.value, backend, schedule });
  if (!made.ok) return made;
  const { request, kernels, workspace, constraints, plan } = made.value.manifest;
  return {
    ok: true,
    value: {
      ptx: made.value.ptx,
      schedule: made.value.schedule ?? plan.schedule,
      manifest: { request, kernels, workspace, constraints },
    },
  };
}

/** On this thread: for compilers with backends of the user's own, which threads do not have. */
export const compilePoolHere = (compiler: Compiler): CompilePool => ({
  compile: (ask) => Promise.resolve(compileHere(compiler, ask)),
  close() {},
});

/** From the sources, from dist, and from the bundle. */
const places = ["./compile-worker.ts", "./tune/compile-worker.js", "./compile-worker.mjs"];

/** More threads than this only wait for the GPU. */
const MOST_THREADS = 8;

interface Waiting {
  readonly ask: CompileAsk;
  readonly done: (result: Checked<CompiledKernel>) => void;
  readonly failed: (error: Error) => void;
}

/** A pool of threads that start with the first kernels; null where a bundler has left their file out. */
export function compilePool(): CompilePool | null {
  const file = places
    .map((place) => fileURLToPath(new URL(place, import.meta.url)))
    .find((each) => existsSync(each));
  if (file === undefined) return null;
  const most = Math.min(MOST_THREADS, Math.max(1, availableParallelism() - 1));
  const queue: Waiting[] = [];
  const idle: Worker[] = [];
  const all = new Set<Worker>();
  const busy = new Map<Worker, Waiting>();
  const next = (worker: Worker): void => {
    const waiting = queue.shift();
    if (waiting === undefined) {
      idle.push(worker);
      return;
    }
    busy.set(worker, waiting);
    worker.postMessage(waiting.ask);
  };
  const start = (): void => {
    const worker = new Worker(file);
    all.add(worker);
    worker.unref();
    worker.on("message", (result: Checked<CompiledKernel>) => {
      busy.get(worker)?.done(result);
      busy.delete(worker);
      next(worker);
    });
    // A bug of the compiler: the kernel's promise carries it, and another thread takes the next.
    worker.on("error", (error: unknown) => {
      busy.get(worker)?.failed(error instanceof Error ? error : new Error(String(error)));
      busy.delete(worker);
      all.delete(worker);
      if (queue.length > 0) start();
    });
    next(worker);
  };
  return {
    compile: (ask) =>
      new Promise((done, failed) => {
        queue.push({ ask, done, failed });
        const worker = idle.pop();
        if (worker !== undefined) next(worker);
        else if (all.size < most) start();
      }),
    close() {
      for (const worker of all) void worker.terminate();
      all.clear();
    },
  };
}
