/**
 * Deliberate faults in kernels of all four generations: each is found, by a rule that should find it. One mutant of every fault
 * in every generation; all of them under TILEWRIGHT_SLOW=1, with which TILEWRIGHT_UPDATE_DOCS=1 writes docs/hazards/mutation.md.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { resolveMnemonic } from "@tilewright/ptx";
import { describe, expect, test } from "vitest";
import { bodyOf, parse, sitesOf } from "./mutation/edit.ts";
import { launcher } from "./mutation/launch.ts";
import { faultClasses } from "./mutation/mutator.ts";
import { pageOf } from "./mutation/page.ts";
import { type Generation, subjects } from "./mutation/subjects.ts";
import { configOf, type Mutant, mutants, sampleOf, type Verdict, verdictOn } from "./mutation/suite.ts";

const slow = process.env.TILEWRIGHT_SLOW === "1";
/** Random orders in which a kernel without fault shows nothing. */
const SEEDS = slow ? 20 : 4;
const page = fileURLToPath(new URL("../../../docs/hazards/mutation.md", import.meta.url));

/** Mutants that nothing finds, by name. */
const survivors: readonly string[] = [];

const all = mutants();
const planted = slow ? all : sampleOf(all);

describe("the kernels themselves", () => {
  test.each(subjects)(
    `$name: right numbers and no finding, eager, lazy and under ${SEEDS} seeds`,
    (subject) => {
      const run = launcher(subject.text, subject.launch);
      const clean = { rules: [], wrong: false, completed: true, first: "" };
      expect(run(configOf(subject, "eager", 0))).toEqual(clean);
      expect(run(configOf(subject, "lazy", 0))).toEqual(clean);
      for (let seed = 1; seed <= SEEDS; seed++)
        expect(run(configOf(subject, "random", seed)), `seed ${seed}`).toEqual(clean);
    },
  );
});

describe("faults", () => {
  const verdicts = new Map<Mutant, Verdict>();
  test.each(subjects)("in $name are found by what should find them", { timeout: 1_200_000 }, (subject) => {
    const here = planted.filter((m) => m.subject === subject);
    for (const mutant of here) verdicts.set(mutant, verdictOn(mutant));
    const missed = here.flatMap((m) => {
      const verdict = verdicts.get(m);
      return verdict === undefined || verdict.by !== null ? [] : [{ name: m.name, seen: verdict.seen }];
    });
    expect(missed.filter(({ name }) => !survivors.includes(name))).toEqual([]);
    // A survivor that is found after all is to be taken off the list.
    const pinned = survivors.filter((name) => here.some((m) => m.name === name));
    expect(missed.map(({ name }) => name).filter((name) => pinned.includes(name))).toEqual(pinned);
  });

  test("at least 120, 98 % of them found, in all four generations and of every class", () => {
    expect(planted.length).toBeGreaterThanOrEqual(120);
    expect(verdicts.size).toBe(planted.length);
    const found = [...verdicts].filter(([, v]) => v.by !== null);
    expect(found.length / planted.length).toBeGreaterThanOrEqual(0.98);
    const generations = Object.keys({ SIMT: 0, sm_80: 0, sm_90a: 0, sm_100a: 0 } satisfies Record<
      Generation,
      0
    >);
    expect(new Set(planted.map((m) => m.subject.generation))).toEqual(new Set(generations));
    expect(new Set(planted.map((m) => m.class))).toEqual(new Set(faultClasses));
  });

  test("every instruction of the table that synchronises, copies or multiplies here has a fault", () => {
    // Neither does anything in the emulator.
    const without = new Set(["griddepcontrol", "prefetch"]);
    const kinds = new Set(["async", "wait", "barrier", "fence", "collective", "system"]);
    const opcodes = subjects.flatMap((subject) =>
      sitesOf(bodyOf(parse(subject.text))).flatMap(({ instruction: i }) => {
        const resolution = resolveMnemonic(i.mnemonic);
        return resolution.ok && resolution.forms.some((f) => kinds.has(f.row.effect)) ? [i.opcode] : [];
      }),
    );
    const met = new Set(all.map((m) => m.opcode));
    expect(opcodes.length).toBeGreaterThan(0);
    expect([...new Set(opcodes)].filter((o) => !met.has(o) && !without.has(o))).toEqual([]);
  });

  test("docs/hazards/mutation.md says what was found", () => {
    const command = "run with TILEWRIGHT_SLOW=1 TILEWRIGHT_UPDATE_DOCS=1";
    if (slow && process.env.TILEWRIGHT_UPDATE_DOCS) writeFileSync(page, pageOf(verdicts));
    const text = readFileSync(page, "utf8");
    if (slow) expect(text, `the page is stale: ${command}`).toBe(pageOf(verdicts));
    // A sample cannot tell what found all of them, but how many there are.
    else
      for (const name of faultClasses) {
        const count = all.filter((m) => m.class === name).length;
        expect(text, `the page is stale at ${name}: ${command}`).toContain(`| ${name} | ${count} |`);
      }
  });
});
