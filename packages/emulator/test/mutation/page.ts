/** docs/hazards/mutation.md from what a full run of the suite found. */

import { equivalent } from "./equivalent.ts";
import { globalSubjects } from "./global.ts";
import { launchMutators } from "./launches.ts";
import { type Finder, faultClasses } from "./mutator.ts";
import { subjects } from "./subjects.ts";
import { type Mutant, mutators, type Verdict } from "./suite.ts";

/** Mutants and found ones of each class. */
interface Tally {
  readonly class: string;
  readonly mutants: number;
  readonly found: number;
  readonly by: ReadonlyMap<Finder, number>;
}

const tallies = (verdicts: ReadonlyMap<Mutant, Verdict>): readonly Tally[] =>
  faultClasses.map((name) => {
    const of = [...verdicts].filter(([m]) => m.class === name);
    const by = new Map<Finder, number>();
    for (const [, v] of of) if (v.by !== null) by.set(v.by, (by.get(v.by) ?? 0) + 1);
    return { class: name, mutants: of.length, found: of.filter(([, v]) => v.by !== null).length, by };
  });

const finders = (by: Tally["by"]): string =>
  [...by]
    .sort(([p, x], [q, y]) => y - x || (p < q ? -1 : 1))
    .map(([name, n]) => `${name} ${n}`)
    .join(", ");

/** The page's text. */
export function pageOf(verdicts: ReadonlyMap<Mutant, Verdict>): string {
  const rows = tallies(verdicts);
  const sum = (of: (row: Tally) => number): number => rows.reduce((s, row) => s + of(row), 0);
  const all = new Map<Finder, number>();
  for (const row of rows) for (const [name, n] of row.by) all.set(name, (all.get(name) ?? 0) + n);
  const missed = [...verdicts].filter(([, v]) => v.by === null).map(([m]) => m.name);
  return `# Planted faults

How well the [checks](README.md) find mistakes is measured by planting some. ${mutators.length + launchMutators.length} kinds of fault, each an edit of the syntax tree or of the launch with its
precondition and the rules that should find it (\`packages/emulator/test/mutation/\`), go into ${subjects.length} kernels of four generations:
${subjects.map((s) => `\`${s.name}\` (${s.generation})`).join(", ")}.
A fault counts as found when a rule of its own set reports in one of three orders (random, lazy, eager). Wrong numbers count for
faults in data only (a fragment, a coordinate, a descriptor), which may be a right program of something else. The kernels as they are give no finding in eager and lazy order
and under twenty seeds each.

Tests plant one mutant of every fault in every generation; with \`TILEWRIGHT_SLOW=1\` all of them. This page is of all of them, written by
\`TILEWRIGHT_SLOW=1 TILEWRIGHT_UPDATE_DOCS=1 npx vitest run --project unit packages/emulator/test/mutation.test.ts\`.

| class | mutants | found | by |
|---|---:|---:|---|
${rows.map((r) => `| ${r.class} | ${r.mutants} | ${r.found} | ${finders(r.by)} |`).join("\n")}
| all | ${sum((r) => r.mutants)} | ${sum((r) => r.found)} | ${finders(all)} |

A mutant is credited to what reported first; most are seen by several.

## Not found

${missed.length === 0 ? "None." : missed.map((name) => `* ${name}`).join("\n")}

## Planted, but no fault

These edits leave a right kernel, and are not counted. A doubled \`cp.async.commit_group\` is not planted at all: an empty group makes
every later wait stricter. Nor is the leading byte offset of a matrix descriptor, which swizzled operands along K do not read.
\`griddepcontrol\` has no effect where no grid before is named.

${equivalent.map(({ reason, mutants }) => `* ${reason}\n${mutants.map((name) => `  * ${name}`).join("\n")}`).join("\n")}

${globalSection()}`;
}

/** The section on faults of global memory, all of which the tests find. */
export function globalSection(): string {
  const rows = globalSubjects.map(({ name, faults }) => {
    const rules = [...new Set(faults.flatMap(({ finds }) => finds))].sort().join(", ");
    return `| ${name} | ${faults.length} | ${rules} |`;
  });
  const sum = globalSubjects.reduce((n, { faults }) => n + faults.length, 0);
  return `## In global memory

Into ${globalSubjects.length} small kernels that exchange data through global memory (\`packages/emulator/test/mutation/global.ts\`) go ${sum} faults more: fences, scopes, flags, barriers,
waits and indices. Each is found by a rule that should find it under at most twenty seeds, and the kernels as they are show nothing in any order.

| kernel | faults | rules that should find them |
|---|---:|---|
${rows.join("\n")}
`;
}
