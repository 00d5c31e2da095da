/** Kernels of drawn problems: the compiler's first schedule, and others by the model and at random; assembled where ptxas is. */
import { execFile } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { createRandom, type Manifest, type Problem, type Target } from "@tilewright/core";
import { parseSchedule, predictionOf, rankCandidates, usualMachine } from "@tilewright/ir";
import { compiler } from "../../packages/cli/src/compiler.ts";
import { type Drawn, requestOf } from "./draw.ts";

/** What is asked for: the first schedule, these, or as many of the model's next ones and at random. */
export type Wanted =
  | { readonly kind: "first" }
  | { readonly kind: "given"; readonly schedules: readonly (readonly [backend: string, schedule: string])[] }
  | {
      readonly kind: "others";
      readonly next: number;
      readonly random: number;
      readonly among: number;
      readonly known: readonly string[];
    };

export interface Asked {
  readonly drawn: Drawn;
  readonly wanted: Wanted;
}

export interface Made {
  readonly backend: string;
  readonly schedule: string;
  /** Microseconds. */
  readonly predicted: number | null;
  readonly by: "first" | "given" | "next" | "random";
  readonly manifest: Pick<Manifest, "request" | "kernels" | "workspace" | "constraints">;
  readonly image: string | Uint8Array;
}

interface Named {
  readonly backend: string;
  readonly schedule: string | undefined;
  readonly by: Made["by"];
}

const run = promisify(execFile);
const folder = mkdtempSync(join(tmpdir(), "unseen-"));
let files = 0;

/** Machine code for the GPU that text of an older target runs on as well; the text where there is no assembler. */
async function assembled(ptx: string, arch: string): Promise<string | Uint8Array> {
  const [source, image] = [join(folder, `${files}.ptx`), join(folder, `${files++}.cubin`)];
  writeFileSync(source, ptx);
  try {
    await run("ptxas", [`-arch=${arch === "sm_90a" ? arch : "sm_90"}`, "-o", image, source]);
    return await readFile(image);
  } catch {
    return ptx;
  }
}

function namesOf(problem: Problem, target: Target, drawn: Drawn, wanted: Wanted): readonly Named[] {
  switch (wanted.kind) {
    case "first":
      return [{ backend: "", schedule: undefined, by: "first" }];
    case "given":
      return wanted.schedules.map(([backend, schedule]) => ({ backend, schedule, by: "given" }));
    case "others":
      return othersOf(problem, target, drawn.id, wanted);
  }
}

/** The model's next ones, each of another tile or another split, and some at random of those behind them. */
function othersOf(
  problem: Problem,
  target: Target,
  seed: number,
  { next, random: randoms, among, known }: Extract<Wanted, { kind: "others" }>,
): readonly Named[] {
  const found: Named[] = [];
  const rest: Named[] = [];
  const tiles = new Set<string>();
  let looked = 0;
  for (const { backend, schedule, text } of rankCandidates(compiler.backends, problem, target)) {
    if (looked++ >= among) break;
    const shape = `${backend.id} ${schedule.tile} ${schedule.split} ${schedule.swapAB}`;
    const named: Named = { backend: backend.id, schedule: text, by: "next" };
    if (known.includes(text)) tiles.add(shape);
    else if (found.length < next && !tiles.has(shape)) {
      tiles.add(shape);
      found.push(named);
    } else rest.push(named);
  }
  const random = createRandom(seed + 1);
  for (let i = 0; i < randoms && rest.length > 0; i++) {
    const [one] = rest.splice(random.integer(0, rest.length - 1), 1);
    if (one !== undefined) found.push({ ...one, by: "random" });
  }
  return found;
}

export async function make({ drawn, wanted }: Asked, assemble = assembled): Promise<readonly Made[]> {
  const { problem, target } = requestOf(drawn);
  const all: Made[] = [];
  for (const { backend, schedule, by } of namesOf(problem, target, drawn, wanted)) {
    const compiled = compiler.compile({
      problem,
      target,
      ...(schedule === undefined ? {} : { backend, schedule }),
    });
    if (!compiled.ok) continue;
    const { ptx, manifest, backend: used, schedule: text } = compiled.value;
    const owner = compiler.backends.find(({ id }) => id === used);
    const parsed = owner === undefined || text === null ? null : parseSchedule(owner.schedule, text);
    if (owner === undefined || text === null || !parsed?.ok) continue;
    const prediction = predictionOf(owner, problem, parsed.value, target, usualMachine(target));
    const { request, kernels, workspace, constraints } = manifest;
    all.push({
      backend: owner.id,
      schedule: text,
      predicted: prediction?.timeUs ?? null,
      by,
      manifest: { request, kernels, workspace, constraints },
      image: await assemble(ptx, target.arch),
    });
  }
  return all;
}
