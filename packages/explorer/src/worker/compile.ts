/** The compiling worker: kernels, plans, pictures and ladders. Keeps the last kernel, of which plans and pictures are asked. */
import { dtypeNames, gpus, targets } from "@tilewright/core";
import { stages } from "@tilewright/ir";
import { compiler, version } from "tilewright";
import { candidatesOf, ladderOf, ladderTarget } from "./candidates.ts";
import type { Ask, Candidate, Compiled, Pictures, RungReport, World } from "./compiling.ts";
import { gpuOf } from "./gpus.ts";
import { type Current, compileAsk } from "./kernel.ts";
import { picturesOf } from "./pictures.ts";
import { serve } from "./rpc.ts";

let current: Current | null = null;

const world = (): World => ({
  version,
  stages,
  targets: targets.map(({ arch }) => arch),
  gpus: gpus.map(({ name, arch }) => ({ name, arch })),
  dtypes: dtypeNames,
  backends: compiler.backends.map(({ id, summary, schedule }) => ({
    id,
    summary,
    fields: schedule.fields.map((field) => ({
      name: field.name,
      summary: field.summary,
      syntax: field.syntax,
      default: field.print(field.default),
      off: field.off === null ? null : field.print(field.off),
    })),
  })),
  ladders: compiler.backends.flatMap((backend) =>
    (backend.ladders ?? []).map((ladder) => ({
      ...{ backend: backend.id, arch: ladderTarget(backend, ladder)?.arch ?? backend.showcase.arch },
      ...{ name: ladder.name, summary: ladder.summary },
      steps: ladder.steps.map((step) => ({ ...step })),
    })),
  ),
});

const handlers = {
  world,
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
  ladder({ backend, name }: { readonly backend: string; readonly name: string }): readonly RungReport[] {
    return ladderOf(backend, name, (arch) => gpuOf("", arch));
  },
};

export type CompileWorker = typeof handlers;

serve(handlers);
