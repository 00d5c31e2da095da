/** What there is to choose from, read from the compiler. */
import { dtypeNames, gpus, targets } from "@tilewright/core";
import { stages } from "@tilewright/ir";
import { attentionLadder, compiler, version } from "tilewright";
import type { World } from "./compiling.ts";
import { ladderTarget } from "./ladders.ts";

/** What the compiler offers. */
export const world = (): World => ({
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
  ladders: [
    ...compiler.backends.flatMap((backend) =>
      (backend.ladders ?? []).map((ladder) => ({
        ...{ backend: backend.id, arch: ladderTarget(backend, ladder)?.arch ?? backend.showcase.arch },
        ...{ name: ladder.name, summary: ladder.summary },
      })),
    ),
    { backend: null, arch: null, ...attentionLadder },
  ],
});
