/** What polling, strong accesses and the race checker of global memory cost, coarsely: the measured ratios stand in docs/perf/emulator.md. */
import { expect, test } from "vitest";
import { globalRules } from "../src/checkers/rules.ts";
import { createEmulator } from "../src/index.ts";
import { type Kernel, kernels } from "./kernels.ts";

const named = (name: string): Kernel => {
  const found = kernels.find((k) => k.name === name);
  if (found === undefined) throw new Error(`no kernel ${name}`);
  return found;
};

const polling = kernels.filter((k) => k.beside === "try_wait");

test.each(polling)("$name executes little more than try_wait, whoever runs", ({ on }) => {
  const [polls, waits] = [on(createEmulator), named("try_wait").on(createEmulator)];
  for (const order of ["eager", "lazy", "random"] as const)
    for (const seed of order === "random" ? [1, 2, 3] : [0]) {
      const config = { checks: "all", order, seed } as const;
      expect(polls(config)).toBeLessThan(2 * waits(config));
    }
});

const threadMilliseconds = (): number => {
  // The kernel splits the two by samples; only their sum is measured.
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};

/** Milliseconds of this thread for each of the runs, medians of rounds in which they take turns: other work on the machine changes that little. */
function medians(runs: readonly (() => unknown)[]): readonly number[] {
  const ROUNDS = 7;
  const all = runs.map((): number[] => []);
  for (let round = 0; round < ROUNDS; round++)
    runs.forEach((run, k) => {
      const from = threadMilliseconds();
      for (let n = 1; ; n++) {
        run();
        const spent = threadMilliseconds() - from;
        if (spent < 25) continue;
        all[k]?.push(spent / n);
        return;
      }
    });
  return all.map((times) => times.toSorted((x, y) => x - y)[(ROUNDS - 1) / 2] ?? Number.NaN);
}

test("strong stores, and following global memory, cost a few times what plain stores do without", () => {
  const plain = named("elementwise").on(createEmulator);
  const strong = ["st.relaxed", "st.release", "fence, st.relaxed"].map((name) =>
    named(name).on(createEmulator),
  );
  const [alone, followed, ...times] = medians([
    () => plain({ checks: "all", disable: globalRules }),
    ...[plain, ...strong].map((run) => () => run({ checks: "all" })),
  ]);
  expect(followed).toBeLessThan(6 * (alone ?? 0));
  // Seen: 1.4 to 2; 38 to 57 where each lane makes clocks of its own.
  for (const time of times) expect(time).toBeLessThan(8 * (followed ?? 0));
});
