/** All mutants of the subjects, and what finds them. */
import type { Order } from "../../src/index.ts";
import { data } from "./data.ts";
import { bodyOf, parse, type Site, sitesOf, withBody } from "./edit.ts";
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
  readonly class: FaultClass;
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
        class: mutator.class,
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
        class: mutator.class,
        subject,
        finds: mutator.finds,
        text: () => subject.text,
        launch,
      }),
    ),
  );
  return [...inText, ...inLaunch];
}

export const mutants = (): readonly Mutant[] => subjects.flatMap(mutantsOf);

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
    const by = mutant.finds.find((f) => found.includes(f));
    if (by !== undefined) return { by, seen };
  }
  return { by: null, seen };
}
