/** The compiling worker: kernels, plans, pictures and ladders. Keeps the last kernel, of which plans and pictures are asked. */
import { candidatesOf } from "./candidates.ts";
import type { Ask, AttentionAsk, Candidate, Compiled, LadderReport, Pictures } from "./compiling.ts";
import { gpuOf } from "./gpus.ts";
import { type Current, compileAsk } from "./kernel.ts";
import { attentionLadderOf, ladderOf } from "./ladders.ts";
import { picturesOf } from "./pictures.ts";
import { serve } from "./rpc.ts";

let current: Current | null = null;

const handlers = {
  compile(ask: Ask): Compiled {
    const { compiled, current: made } = compileAsk(ask);
    if (made !== null) current = made;
    return compiled;
  },
  pictures({ gpu }: { readonly gpu: string }): Pictures | null {
    return current === null ? null : picturesOf(current.artifact, gpuOf(gpu, current.artifact.target.arch));
  },
  candidates({ gpu, count }: { readonly gpu: string; readonly count: number }): readonly Candidate[] {
    return current === null
      ? []
      : candidatesOf(current.artifact, gpuOf(gpu, current.artifact.target.arch), count);
  },
  ladder({ backend, name }: { readonly backend: string; readonly name: string }): LadderReport {
    return ladderOf(backend, name);
  },
  attentionLadder(ask: AttentionAsk): LadderReport {
    return attentionLadderOf(ask);
  },
};

export type CompileWorker = typeof handlers;

serve(handlers);
