/** All mutants of the subjects, and what finds them. */
import type { Order } from "../../src/index.ts";
import { data } from "./data.ts";
import { bodyOf, parse, type Site, sitesOf, withBody } from "./edit.ts";
import { equivalent } from "./equivalent.ts";
import { type Launch, launcher, type Outcome } from "./launch.ts";
import { launchMutators } from "./launches.ts";
import type { FaultClass, Finder, Mutator } from "./mutator.ts";
import { signals } from "./signals.ts";
import { type Subject, subjects } from "./subjects.ts";
import { tensor } from "./tensor.ts";
import { waits } from "./waits.ts";

export const mutators: readonly Mutator[] = [...waits, ...signals, ...data, ...tensor];

export interface Mutant {
  /** `wgmma_f16: wgmma.fence dropped, 169:1`. */
  readonly name: string;
  readonly fault: string;
  readonly class: FaultClass;
  /** The instruction's opcode; null for faults of the launch. */
  readonly opcode: string | null;
  readonly subject: Subject;
  readonly finds: readonly Finder[];
  readonly text: () => string;
  readonly launch: Launch;
}

/** `most` of them, spread evenly from the first to the last. */
function spread<T>(list: readonly T[], most: number): readonly T[] {
  if (list.length <= most) return list;
  const places = new Set(
    Array.from({ length: most }, (_, k) =>
      most === 1 ? 0 : Math.round((k * (list.length - 1)) / (most - 1)),
    ),
  );
  return list.filter((_, k) => places.has(k));
}

const placeOf = ({ instruction }: Site): string =>
  instruction.location === null ? "?" : `${instruction.location.line}:${instruction.location.column}`;

/** The mutants of one subject: every mutator at up to `most` of the instructions that it fits. */
function mutantsOf(subject: Subject): readonly Mutant[] {
  const module = parse(subject.text);
  const sites = sitesOf(bodyOf(module));
  const inText = mutators.flatMap((mutator) => {
    const opcodes: readonly string[] = mutator.on;
    const fitting = sites.flatMap((site) => {
      const body = opcodes.includes(site.instruction.opcode) ? mutator.edit(site) : null;
      return body === null ? [] : [{ site, body }];
    });
    return spread(fitting, mutator.most ?? 2).map(
      ({ site, body }): Mutant => ({
        name: `${subject.name}: ${mutator.fault}, ${placeOf(site)}`,
        fault: mutator.fault,
        class: mutator.class,
        opcode: site.instruction.opcode,
        subject,
        finds: mutator.finds,
        text: () => withBody(module, body),
        launch: subject.launch,
      }),
    );
  });
  const inLaunch = launchMutators.flatMap((mutator) =>
    mutator.edits(subject.launch).map(
      ({ what, launch }): Mutant => ({
        name: `${subject.name}: ${mutator.fault}, ${what}`,
        fault: mutator.fault,
        class: mutator.class,
        opcode: null,
        subject,
        finds: mutator.finds,
        text: () => subject.text,
        launch,
      }),
    ),
  );
  return [...inText, ...inLaunch];
}

const right = new Set(equivalent.flatMap((x) => x.mutants));

/** Every mutant that is a wrong kernel. Throws where `equivalent` names one that does not exist. */
export function mutants(): readonly Mutant[] {
  const planted = subjects.flatMap(mutantsOf);
  const names = new Set(planted.map((m) => m.name));
  const unknown = [...right].filter((name) => !names.has(name));
  if (unknown.length > 0) throw new Error(`no such mutants: ${unknown.join("; ")}`);
  return planted.filter((m) => !right.has(m.name));
}

/** A number from a text, the same everywhere. */
const hash = (text: string): number =>
  [...text].reduce((h, c) => (Math.imul(h, 31) + (c.codePointAt(0) ?? 0)) >>> 0, 7);

/** Of every fault one mutant in each generation that it occurs in, decided by the fault's name; a costly subject's only where no other has it. */
export function sampleOf(all: readonly Mutant[]): readonly Mutant[] {
  const groups = new Map<string, Mutant[]>();
  for (const m of all) {
    const key = `${m.fault}/${m.subject.generation}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [m]);
    else group.push(m);
  }
  const chosen = new Set(
    [...groups].flatMap(([key, group]) => {
      const cheap = group.filter((m) => m.subject.costly !== true);
      const from = cheap.length > 0 ? cheap : group;
      return from[hash(key) % from.length] ?? [];
    }),
  );
  return all.filter((m) => chosen.has(m));
}

/** What one mutant came to. `by` is null for a survivor; `seen` is everything that was found, with the order. */
export interface Verdict {
  readonly by: Finder | null;
  readonly seen: readonly string[];
}

/** In this order: random schedules find most faults. */
const orders: readonly Order[] = ["random", "lazy", "eager"];

export const configOf = (subject: Subject, order: Order, seed: number) => ({
  order,
  seed,
  ...(subject.residentClusters === undefined ? {} : { residentClusters: subject.residentClusters }),
});

/** Run a mutant in one order after another until something that should find it does. */
export function verdictOn(mutant: Mutant): Verdict {
  const run = launcher(mutant.text(), mutant.launch);
  const seen: string[] = [];
  for (const order of orders) {
    const outcome: Outcome = run(configOf(mutant.subject, order, 5));
    const found = [...outcome.rules, ...(outcome.wrong ? ["numbers"] : [])];
    seen.push(...found.map((f) => `${f} ${order}`));
    const allowed: readonly string[] = mutant.finds;
    const by = mutant.finds.find((f) => f === found.find((x) => allowed.includes(x)));
    if (by !== undefined) return { by, seen };
  }
  return { by: null, seen };
}
